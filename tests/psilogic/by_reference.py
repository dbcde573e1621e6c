"""An optimizer's steps by `psilogic.reference`, in float64: what joins several tensors is here, in its definition."""

import math

import torch

from psilogic.reference import process, step_


class Twin:
    """The tensors of an optimizer, with its state so far; `step` takes one gradient, or None, for each in its order.

    Attributes:
        members: parameter, state and hyperparameters of each tensor.
        decisions: those of all steps, in the order of the tensors.
    """

    def __init__(self, optimizer):
        self.members = [
            (p.detach().double().clone(), copied(optimizer.state.get(p, {})), {**group, "lr": float(group["lr"])})
            for group in optimizer.param_groups
            for p in group["params"]
        ]
        self.groups = [i for i, group in enumerate(optimizer.param_groups) for _ in group["params"]]
        self.decisions = []

    def step(self, grads):
        live = [i for i, g in enumerate(grads) if g is not None]
        factor = clip_coefficient([grads[i] for i in live], self.members[0][2]["max_grad_norm"])
        processed = {}
        for i in live:
            theta, _, h = self.members[i]
            processed[i] = process(grads[i].double() * factor, theta, h)
        for i in live:
            theta, state, h = self.members[i]
            gn = scaled_norm([processed[j] for j in live if self.pooled(i, j)])
            self.decisions.append(step_(theta, processed[i], gn, state, h))

    def pooled(self, i, j):
        """Whether the detector of tensor i sees the gradient of tensor j."""
        scopes = self.members[i][2]["chaos_scope"], self.members[j][2]["chaos_scope"]
        if scopes[0] == "group":
            return self.groups[i] == self.groups[j]
        return i == j if scopes[0] == "tensor" else scopes == ("global", "global")


def copied(state):
    """A state whose scalars are numbers."""
    return {name: x.double().clone() if x.ndim or name.startswith("exp_avg") else float(x) for name, x in state.items()}


def norm(tensors):
    return math.sqrt(math.fsum(float(x.double().square().sum()) for x in tensors))


def clip_coefficient(grads, max_norm):
    """The factor of torch.nn.utils.clip_grad_norm_ over all gradients together."""
    coefficient = 1.0 if max_norm is None else max_norm / (norm(grads) + 1e-6)
    return 1.0 if coefficient > 1.0 else coefficient


def scaled_norm(grads):
    """gn = ||g||_2 / sqrt(numel), over one tensor or over several pooled."""
    return norm(grads) / math.sqrt(max(1, sum(map(torch.Tensor.numel, grads))))
