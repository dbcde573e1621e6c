"""Every learning-rate scheduler of torch drives PsiLogic as it drives AdamW."""

import warnings

import pytest
import torch
from configurations import assert_same, trace
from torch import nn
from torch.optim import lr_scheduler as lrs
from trajectories import gradients, parameters

from psilogic import PsiLogic

STEPS = 30
LR = 2.0**-5

SCHEDULERS = {
    "LambdaLR": lambda o: lrs.LambdaLR(o, [lambda t: 1 / (t + 1), lambda t: 0.9**t]),
    "MultiplicativeLR": lambda o: lrs.MultiplicativeLR(o, lambda t: 0.8),
    "StepLR": lambda o: lrs.StepLR(o, 7, gamma=0.5),
    "MultiStepLR": lambda o: lrs.MultiStepLR(o, [4, 9, 20], gamma=0.3),
    "ConstantLR": lambda o: lrs.ConstantLR(o, factor=0.25, total_iters=8),
    "LinearLR": lambda o: lrs.LinearLR(o, start_factor=0.1, total_iters=12),
    "ExponentialLR": lambda o: lrs.ExponentialLR(o, 0.9),
    "SequentialLR": lambda o: lrs.SequentialLR(o, [lrs.ConstantLR(o, 0.1, 5), lrs.ExponentialLR(o, 0.9)], [5]),
    "PolynomialLR": lambda o: lrs.PolynomialLR(o, total_iters=25, power=2.0),
    "CosineAnnealingLR": lambda o: lrs.CosineAnnealingLR(o, T_max=10, eta_min=1e-4),
    "ChainedScheduler": lambda o: lrs.ChainedScheduler([lrs.ExponentialLR(o, 0.95), lrs.StepLR(o, 10)]),
    "ReduceLROnPlateau": lambda o: lrs.ReduceLROnPlateau(o, factor=0.5, patience=2),
    "CyclicLR": lambda o: lrs.CyclicLR(o, base_lr=1e-3, max_lr=0.05, step_size_up=6, cycle_momentum=True),
    "CosineAnnealingWarmRestarts": lambda o: lrs.CosineAnnealingWarmRestarts(o, T_0=4, T_mult=2),
    "OneCycleLR": lambda o: lrs.OneCycleLR(o, max_lr=0.1, total_steps=STEPS + 1),
}
EVERY_SCHEDULER = pytest.mark.parametrize("make", SCHEDULERS.values(), ids=SCHEDULERS)
LR_KINDS = pytest.mark.parametrize("tensor", [False, True], ids=["float", "tensor"])


def test_no_scheduler_is_forgotten():
    defined = {n for n, c in vars(lrs).items() if isinstance(c, type) and issubclass(c, lrs.LRScheduler)}
    assert {name for name in defined if not name.startswith("_")} - {"LRScheduler"} == set(SCHEDULERS)


def scheduled(kind, make, tensor, script, **options):
    """(snapshots, (lr, beta1) of both groups after each step) of a run under a scheduler."""
    params = parameters()
    lrs_of_groups = [torch.tensor(LR, dtype=torch.float64) if tensor else LR for _ in range(2)]
    groups = [{"params": half, "lr": lr} for half, lr in zip((params[:3], params[3:]), lrs_of_groups, strict=True)]
    optimizer = kind(groups, weight_decay=0.1, **options)
    scheduler, snapshots, course = make(optimizer), [], []
    for grads in script:
        snapshots += trace(optimizer, params, [grads])
        course.append([(float(group["lr"]), group["betas"][0]) for group in optimizer.param_groups])
        scheduler.step(*[1.0] * isinstance(scheduler, lrs.ReduceLROnPlateau))  # a loss that does not move
    assert all(isinstance(group["lr"], torch.Tensor) == tensor for group in optimizer.param_groups)
    return snapshots, course


def without_detector(snapshots):
    return [[(p, {k: v for k, v in s.items() if "chaos" not in k}) for p, s in snapshot] for snapshot in snapshots]


@EVERY_SCHEDULER
@LR_KINDS
def test_the_same_as_adamw(make, tensor):
    script = gradients(STEPS)
    theirs, their_course = scheduled(torch.optim.AdamW, make, tensor, script, foreach=False)
    ours, our_course = scheduled(PsiLogic, make, tensor, script, gamma=0.0)
    assert our_course == their_course
    assert len({str(lr) for lr in our_course}) > 1, "the schedule must do something"
    assert_same(without_detector(ours), theirs, 1e-12)


class Overridden(PsiLogic):
    """A user's subclass, whose step a scheduler wraps as it does torch's own."""

    def step(self, closure=None):
        return super().step(closure)


ORDERS = ("made optimizer scheduler", "made scheduler optimizer", "optimizer made scheduler", "made loaded scheduler")


def warnings_of(kind, order, *, with_gradient):
    """The warnings of a course: a scheduler is made, optimizer and scheduler step, a state dict is loaded."""
    model = nn.Linear(3, 1)
    if with_gradient:
        model(torch.ones(3)).backward()
    optimizer, schedulers = kind(model.parameters(), lr=0.1), []
    trained = kind(model.parameters(), lr=0.1)
    trained.step()
    acts = {
        "made": lambda: schedulers.append(lrs.StepLR(optimizer, 1)),
        "optimizer": lambda: optimizer.step(),
        "scheduler": lambda: schedulers[0].step(),
        "loaded": lambda: optimizer.load_state_dict(trained.state_dict()),
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for act in order.split():
            acts[act]()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("kind", [PsiLogic, Overridden])
@pytest.mark.parametrize("with_gradient", [True, False])
def test_a_scheduler_warns_exactly_where_it_warns_with_adamw(kind, with_gradient):
    ours, theirs = (
        {order: warnings_of(k, order, with_gradient=with_gradient) for order in ORDERS}
        for k in (kind, torch.optim.AdamW)
    )
    assert ours == theirs
    assert [len(found) for found in theirs.values()] == [0, 1, 1, 1]
