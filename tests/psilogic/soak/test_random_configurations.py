"""Random configurations against `psilogic.reference`: usual trainings, methods of a class, and inside torch.func."""

from itertools import count, islice

import pytest
import torch
from fuzz import compare_with_reference, fresh, setting, shares_memory, start, trained_by_reference
from torch import nn
from trials import draw

SCALES = torch.tensor([1.0, 30.0], dtype=torch.float64)
"""The factors of the gradients of the two members of an ensemble."""


class OfItsOwn(nn.Parameter):
    """A parameter that is updated by its own methods only."""

    def addcdiv_(self, *arguments, **options):
        return super().addcdiv_(*arguments, **options)


def trials():
    """Trainings of small tensors in float64, whose numbers are finite."""
    for seed in count():
        trial = draw(seed, small=True, dtypes=[torch.float64])
        if trial.finite and not shares_memory(trial):
            yield trial


def usual(trial):
    """The last snapshot of a training, for one member."""
    return [start(trial, fresh(trial)).go(trial, watched=False).snapshots[-1]]


def by_methods(trial):
    """The same, of parameters with methods of their own."""
    params = [OfItsOwn(p.detach()) for p in fresh(trial)]
    run = start(trial, params).go(trial, watched=False)
    assert set(run.executed) <= {"methods"}
    return [run.snapshots[-1]]


def inside_grad(trial):
    """The same, while torch.func differentiates something else."""
    last = []

    def loss(x):
        last.append(usual(trial)[0])
        return x.square()

    torch.func.grad(loss)(torch.ones(()))
    return last


def inside_vmap(trial):
    """The last snapshots of the two members of an ensemble."""
    present = []  # the positions of gradients that are not None: step and tensor
    stacked = []
    for t, grads in enumerate(trial.script):
        for i, g in enumerate(grads):
            if g is not None:
                present.append((t, i))
                stacked.append(torch.stack([scale * g for scale in SCALES]))

    def train(params, grads):
        script = [[None] * len(params) for _ in trial.script]
        for (t, i), g in zip(present, grads, strict=True):
            script[t][i] = g
        return start(trial, params).go(trial, watched=False, script=script).snapshots[-1]

    params = [torch.stack([p.detach(), p.detach()]) for p in fresh(trial)]
    together = torch.vmap(train)(params, stacked)
    members = []
    for member in range(len(SCALES)):
        members.append([{name: value[member] for name, value in entry.items()} for entry in together])
    return members


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", [6, pytest.param(250, marks=pytest.mark.soak)])
@pytest.mark.parametrize("train", [usual, by_methods, inside_grad, inside_vmap])
def test_random_configurations_are_those_of_the_reference(train, number):
    for trial in islice(trials(), number):
        with setting(trial):
            snapshots = train(trial)
        for snapshot, scale in zip(snapshots, SCALES, strict=False):
            for i, member in trained_by_reference(trial, scale).items():
                what = f"tensor {i} with gradients times {scale:g}, seed {trial.seed}: {trial}"
                compare_with_reference(snapshot[i], member, what)
