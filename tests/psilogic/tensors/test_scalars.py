"""Scalars of the state are views of one vector: whichever of them is replaced or moves is followed, bit by bit."""

import pytest
import torch
from configurations import ACTIVE, assert_same, snapshot
from torch import nn
from trajectories import gradients, set_gradients

from psilogic import PsiLogic
from psilogic.tensors import memory

SHAPES = [(3,), (2, 3), (), (4,)]
NAMES = ["step", "chaos_start", "chaos_fast", "chaos_slow", "chaos_ref"]


def moved(x):
    """As offloading moves it."""
    x.data = x.data.clone()


def trajectory(disturb, dtype=torch.float32, **flags):
    """Snapshots of a run in which `disturb` gets the state of each parameter before each step."""
    torch.manual_seed(0)
    params = [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in SHAPES]
    optimizer = PsiLogic(params, **ACTIVE, chaos_signal="relative", **flags)
    snapshots = []
    for t, grads in enumerate(gradients(8, SHAPES, dtype, every=3)):
        set_gradients(params, [torch.ones_like(p) if g is None else g for g, p in zip(grads, params, strict=True)])
        if t:
            disturb(t, [optimizer.state[p] for p in params])
        optimizer.step()
        snapshots.append(snapshot(optimizer, params))
    return snapshots


@pytest.mark.parametrize("in_one_call", [True, False])
@pytest.mark.parametrize("flags", [{}, {"foreach": True}, {"capturable": True}], ids=str)
@pytest.mark.parametrize("which", range(len(SHAPES)))
def test_a_scalar_that_moved_or_was_replaced_is_followed(which, flags, in_one_call, monkeypatch):
    if not in_one_call:
        monkeypatch.setattr(memory, "ALL_AT_ONCE", None)

    def move(t, states):
        moved(states[which][NAMES[t % len(NAMES)]])

    def replace(t, states):
        name = NAMES[t % len(NAMES)]
        states[which][name] = states[which][name].clone()

    undisturbed = trajectory(lambda t, states: None, **flags)
    assert_same(trajectory(move, **flags), undisturbed)
    assert_same(trajectory(replace, **flags), undisturbed)


def test_scalars_that_were_swapped_or_changed_in_place_are_read():
    def swap(t, states):
        a, b = states[1], states[2]
        a["chaos_fast"], b["chaos_fast"] = b["chaos_fast"], a["chaos_fast"]
        states[3]["chaos_slow"].mul_(2)

    def by_hand(t, states):
        a, b = states[1], states[2]
        a["chaos_fast"], b["chaos_fast"] = b["chaos_fast"].clone(), a["chaos_fast"].clone()
        states[3]["chaos_slow"] = states[3]["chaos_slow"] * 2

    assert_same(trajectory(swap), trajectory(by_hand))


def test_nothing_is_collected_again_while_nothing_moves():
    params = [nn.Parameter(torch.ones(3)) for _ in range(4)]
    optimizer = PsiLogic(params)
    for p in params:
        p.grad = torch.ones(3)
    optimizer.step()
    views = [optimizer.state[p]["step"] for p in params]
    optimizer.step()
    assert all(optimizer.state[p]["step"] is view for p, view in zip(params, views, strict=True))
    assert len({view.untyped_storage().data_ptr() for view in views}) == 1
