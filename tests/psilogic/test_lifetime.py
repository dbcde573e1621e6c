"""Nothing keeps a finished training: its memory is free when the last reference to it goes."""

import gc
import weakref

import pytest
import torch
import torch.distributed.optim  # PsiLogic asks whether its ZeRO-1 makes the optimizer
from torch import nn

from psilogic import PsiLogic, monitor

TRAININGS = 60


def plain(model):
    """An optimizer with the defaults."""
    return PsiLogic(model.parameters())


def loaded(model):
    """An optimizer that has loaded a state."""
    optimizer = plain(model)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    return optimizer


def with_all(model):
    """An optimizer whose steps are decided by torch's operations."""
    return PsiLogic(model.parameters(), fused=False, agc_clip=0.1, grad_centralize=True, quantum_decay=0.1)


def firing(model):
    """An optimizer with an open gate."""
    return PsiLogic(model.parameters(), adaptive_tau=False, chaos_tau=0.0, chaos_warmup=0, max_grad_norm=1.0)


def watched(model):
    """An optimizer whose monitor has been read."""
    optimizer = plain(model)
    watching = monitor(optimizer, model.named_parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    assert len(watching.read()) == 2
    return optimizer


def training(make):
    """A reference to a parameter of a training that has ended."""
    model = nn.Linear(4, 4)
    optimizer = make(model)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    return weakref.ref(model.weight)


@pytest.mark.parametrize("make", [plain, loaded, with_all, firing, watched])
def test_of_many_trainings_no_model_stays(make):
    gc.disable()
    try:
        models = [training(make) for _ in range(TRAININGS)]
        alive = sum(model() is not None for model in models)
    finally:
        gc.enable()
    assert alive <= 1
