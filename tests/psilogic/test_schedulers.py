"""Every learning-rate scheduler of torch drives PsiLogic as it drives AdamW."""

import warnings
from typing import NamedTuple

import pytest
import torch
from configurations import TensorSnapshot, assert_same, trace
from torch import nn
from torch.optim import lr_scheduler as lrs
from trajectories import gradients, parameters

from psilogic import PsiLogic

STEPS = 20
LR = 2.0**-5

SCHEDULERS = {}
"""Each scheduler of torch: a function that makes one for an optimizer with two groups."""


def scheduler(make):
    """Add a function, which has the name of the scheduler that it makes, to the tested ones."""
    SCHEDULERS[make.__name__] = make
    return make


@scheduler
def LambdaLR(optimizer):
    return lrs.LambdaLR(optimizer, [lambda t: 1 / (t + 1), lambda t: 0.9**t])


@scheduler
def MultiplicativeLR(optimizer):
    return lrs.MultiplicativeLR(optimizer, lambda t: 0.8)


@scheduler
def StepLR(optimizer):
    return lrs.StepLR(optimizer, 7, gamma=0.5)


@scheduler
def MultiStepLR(optimizer):
    return lrs.MultiStepLR(optimizer, [4, 9, 20], gamma=0.3)


@scheduler
def ConstantLR(optimizer):
    return lrs.ConstantLR(optimizer, factor=0.25, total_iters=8)


@scheduler
def LinearLR(optimizer):
    return lrs.LinearLR(optimizer, start_factor=0.1, total_iters=12)


@scheduler
def ExponentialLR(optimizer):
    return lrs.ExponentialLR(optimizer, 0.9)


@scheduler
def SequentialLR(optimizer):
    constant = lrs.ConstantLR(optimizer, 0.1, 5)
    exponential = lrs.ExponentialLR(optimizer, 0.9)
    return lrs.SequentialLR(optimizer, [constant, exponential], [5])


@scheduler
def PolynomialLR(optimizer):
    return lrs.PolynomialLR(optimizer, total_iters=25, power=2.0)


@scheduler
def CosineAnnealingLR(optimizer):
    return lrs.CosineAnnealingLR(optimizer, T_max=10, eta_min=1e-4)


@scheduler
def ChainedScheduler(optimizer):
    return lrs.ChainedScheduler([lrs.ExponentialLR(optimizer, 0.95), lrs.StepLR(optimizer, 10)])


@scheduler
def ReduceLROnPlateau(optimizer):
    return lrs.ReduceLROnPlateau(optimizer, factor=0.5, patience=2)


@scheduler
def CyclicLR(optimizer):
    return lrs.CyclicLR(optimizer, base_lr=1e-3, max_lr=0.05, step_size_up=6, cycle_momentum=True)


@scheduler
def CosineAnnealingWarmRestarts(optimizer):
    return lrs.CosineAnnealingWarmRestarts(optimizer, T_0=4, T_mult=2)


@scheduler
def OneCycleLR(optimizer):
    return lrs.OneCycleLR(optimizer, max_lr=0.1, total_steps=STEPS + 1)


EVERY_SCHEDULER = pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)
LR_KINDS = pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])


def test_no_scheduler_is_forgotten():
    defined = set()
    for name, value in vars(lrs).items():
        is_scheduler = isinstance(value, type) and issubclass(value, lrs.LRScheduler)
        if is_scheduler and not name.startswith("_"):
            defined.add(name)
    assert defined == {"LRScheduler", *SCHEDULERS}


class Run(NamedTuple):
    """A run under a scheduler."""

    snapshots: list
    course: list  # after each step: lr and beta1 of both groups


def scheduled(kind, make, tensor, script, **options):
    """A run of an optimizer of a kind under the scheduler that `make` makes; `tensor` is whether lr is one."""
    params = parameters()
    groups = []
    for members in (params[:3], params[3:]):
        lr = torch.tensor(LR, dtype=torch.float64) if tensor else LR
        groups.append({"params": members, "lr": lr})
    optimizer = kind(groups, weight_decay=0.1, **options)
    schedule = make(optimizer)
    snapshots = []
    course = []
    for grads in script:
        snapshots += trace(optimizer, params, [grads])
        course.append([(float(group["lr"]), group["betas"][0]) for group in optimizer.param_groups])
        if isinstance(schedule, lrs.ReduceLROnPlateau):
            schedule.step(1.0)  # a loss that does not move
        else:
            schedule.step()
    for group in optimizer.param_groups:
        assert isinstance(group["lr"], torch.Tensor) == tensor
    return Run(snapshots, course)


def without_detector(snapshot):
    """A snapshot of a tensor without the state that AdamW does not have."""
    state = {name: value for name, value in snapshot.state.items() if "chaos" not in name}
    return TensorSnapshot(snapshot.param, state)


@EVERY_SCHEDULER
@LR_KINDS
def test_the_same_as_adamw(make, tensor):
    script = gradients(STEPS)
    theirs = scheduled(torch.optim.AdamW, make, tensor, script, foreach=False)
    ours = scheduled(PsiLogic, make, tensor, script, gamma=0.0)
    assert ours.course == theirs.course
    assert len({str(lr) for lr in ours.course}) > 1, "the schedule must do something"
    comparable = [[without_detector(snapshot) for snapshot in snapshots] for snapshots in ours.snapshots]
    assert_same(comparable, theirs.snapshots, 1e-12)


class Overridden(PsiLogic):
    """A user's subclass, whose step a scheduler wraps as it does torch's own."""

    def step(self, closure=None):
        return super().step(closure)


ORDERS = ("made optimizer scheduler", "made scheduler optimizer", "optimizer made scheduler", "made loaded scheduler")
"""The order of what happens: a scheduler is made, optimizer and scheduler step, a state dict is loaded."""


def warnings_of(kind, order, *, with_gradient):
    """The warnings of a course, in one of the ORDERS."""
    model = nn.Linear(3, 1)
    if with_gradient:
        model(torch.ones(3)).backward()
    optimizer = kind(model.parameters(), lr=0.1)
    trained = kind(model.parameters(), lr=0.1)
    trained.step()
    schedule = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for act in order.split():
            if act == "made":
                schedule = lrs.StepLR(optimizer, 1)
            elif act == "optimizer":
                optimizer.step()
            elif act == "scheduler":
                schedule.step()
            else:
                assert act == "loaded"
                optimizer.load_state_dict(trained.state_dict())
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("kind", [PsiLogic, Overridden])
@pytest.mark.parametrize("with_gradient", [True, False])
def test_a_scheduler_warns_exactly_where_it_warns_with_adamw(kind, with_gradient):
    numbers = []
    for order in ORDERS:
        ours = warnings_of(kind, order, with_gradient=with_gradient)
        theirs = warnings_of(torch.optim.AdamW, order, with_gradient=with_gradient)
        assert ours == theirs, order
        numbers.append(len(theirs))
    assert numbers == [0, 1, 1, 1]
