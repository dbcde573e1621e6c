"""An optimizer's steps by `psilogic.reference`, in float64: what joins several tensors is here, in its definition."""

import math
from dataclasses import dataclass

import torch

from psilogic.reference import process, step_


@dataclass
class Member:
    """A tensor of an optimizer, with its state and hyperparameters as the reference takes them."""

    theta: torch.Tensor
    state: dict
    hyperparameters: dict
    group: int  # the index of its parameter group


class Twin:
    """The tensors of an optimizer, with its state so far; `step` takes one gradient, or None, for each in its order.

    Attributes:
        members: a `Member` for each tensor.
        decisions: those of all steps, in the order of the tensors.
    """

    def __init__(self, optimizer):
        self.decisions = []
        self.members = []
        for i, group in enumerate(optimizer.param_groups):
            hyperparameters = {**group, "lr": float(group["lr"])}
            for p in group["params"]:
                theta = p.detach().double().clone()
                state = copied(optimizer.state.get(p, {}))
                self.members.append(Member(theta, state, hyperparameters, group=i))

    def step(self, grads):
        live = []
        given = []
        for member, g in zip(self.members, grads, strict=True):
            if g is not None:
                live.append(member)
                given.append(g)
        max_norm = self.members[0].hyperparameters["max_grad_norm"]
        factor = clip_coefficient(given, max_norm)
        processed = []
        for member, g in zip(live, given, strict=True):
            processed.append(process(g.double() * factor, member.theta, member.hyperparameters))
        for member, g in zip(live, processed, strict=True):
            pool = [h for other, h in zip(live, processed, strict=True) if are_pooled(member, other)]
            gn = scaled_norm(pool)
            self.decisions.append(step_(member.theta, g, gn, member.state, member.hyperparameters))


def are_pooled(member, other):
    """Whether the detector of a tensor sees the gradient of another one."""
    scope = member.hyperparameters["chaos_scope"]
    if scope == "group":
        return member.group == other.group
    if scope == "global":
        return other.hyperparameters["chaos_scope"] == "global"
    return member is other


def copied(state):
    """A state whose scalars are numbers."""
    copies = {}
    for name, value in state.items():
        if value.ndim or name.startswith("exp_avg"):
            copies[name] = value.double().clone()
        else:
            copies[name] = float(value)
    return copies


def norm(tensors):
    """The norm over several tensors, in float64."""
    squares = [float(tensor.double().square().sum()) for tensor in tensors]
    return math.sqrt(math.fsum(squares))


def clip_coefficient(grads, max_norm):
    """The factor of torch.nn.utils.clip_grad_norm_ over all gradients together."""
    if max_norm is None:
        return 1.0
    coefficient = max_norm / (norm(grads) + 1e-6)
    if coefficient > 1.0:  # not min(): a NaN stays one
        return 1.0
    return coefficient


def scaled_norm(grads):
    """gn = ||g||_2 / sqrt(numel), over one tensor or over several pooled."""
    numel = sum(g.numel() for g in grads)
    return norm(grads) / math.sqrt(max(1, numel))
