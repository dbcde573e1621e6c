"""Each scalar of the state has its own memory: whichever of them is replaced or moves is followed, bit by bit."""

import pytest
import torch
from configurations import ACTIVE, assert_same, snapshot
from torch import nn
from trajectories import gradients, ones_for, set_gradients, train

from psilogic import PsiLogic
from psilogic.tensors import memory

SHAPES = [(3,), (2, 3), (), (4,)]
NAMES = ["step", "chaos_start", "chaos_fast", "chaos_slow", "chaos_ref"]


def trajectory(disturb, dtype=torch.float32, **flags):
    """Snapshots of a run in which `disturb` gets the state of each parameter before each step."""
    torch.manual_seed(0)
    params = [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in SHAPES]
    optimizer = PsiLogic(params, **ACTIVE, chaos_signal="relative", **flags)
    snapshots = []
    for t, grads in enumerate(gradients(8, SHAPES, dtype, every=3)):
        set_gradients(params, grads)
        for p in params:
            if p.grad is None:
                p.grad = torch.ones_like(p)
        if t:
            disturb(t, [optimizer.state[p] for p in params])
        optimizer.step()
        snapshots.append(snapshot(optimizer, params))
    return snapshots


@pytest.mark.parametrize("in_one_call", [True, False])
@pytest.mark.parametrize("flags", [{}, {"fused": False}, {"capturable": True}], ids=str)
@pytest.mark.parametrize("which", range(len(SHAPES)))
def test_a_scalar_that_moved_or_was_replaced_is_followed(which, flags, in_one_call, monkeypatch):
    if not in_one_call:
        monkeypatch.setattr(memory, "COMPILED", None)

    def nothing(t, states):
        pass

    def move(t, states):
        """As offloading moves a tensor."""
        scalar = states[which][NAMES[t % len(NAMES)]]
        scalar.data = scalar.data.clone()

    def replace(t, states):
        name = NAMES[t % len(NAMES)]
        states[which][name] = states[which][name].clone()

    undisturbed = trajectory(nothing, **flags)
    assert_same(trajectory(move, **flags), undisturbed)
    assert_same(trajectory(replace, **flags), undisturbed)


def test_scalars_that_were_swapped_or_changed_in_place_are_read():
    def swap(t, states):
        fast = states[1]["chaos_fast"]
        states[1]["chaos_fast"] = states[2]["chaos_fast"]
        states[2]["chaos_fast"] = fast
        states[3]["chaos_slow"].mul_(2)

    def by_hand(t, states):
        fast = states[1]["chaos_fast"].clone()
        states[1]["chaos_fast"] = states[2]["chaos_fast"].clone()
        states[2]["chaos_fast"] = fast
        states[3]["chaos_slow"] = states[3]["chaos_slow"] * 2

    assert_same(trajectory(swap), trajectory(by_hand))


@pytest.mark.parametrize("flags", [{}, {"fused": False}, {"max_grad_norm": 1.0}], ids=str)
def test_each_tensor_of_the_state_may_be_released_alone(flags):
    """As libraries do that keep the state elsewhere between the steps: storage by storage, from its first element."""

    def release_and_restore(t, states):
        tensors = [x for state in states for x in state.values()]
        copies = [x.clone() for x in tensors]
        for x in tensors:
            x.untyped_storage().resize_(0)
        for x, copy in zip(tensors, copies, strict=True):
            x.untyped_storage().resize_(copy.numel() * copy.element_size())
            whole = torch.tensor([], dtype=x.dtype).set_(x.untyped_storage(), 0, x.shape, x.stride())
            whole.copy_(copy)

    def nothing(t, states):
        pass

    assert_same(trajectory(release_and_restore, **flags), trajectory(nothing, **flags))


def test_a_step_replaces_no_tensor_of_the_state():
    """Whichever tensors have gradients: a CUDA graph, or a caller, may hold the state."""
    params = [nn.Parameter(torch.ones(3)) for _ in range(4)]
    optimizer = PsiLogic(params, chaos_signal="relative")
    kept = [{}, {}, {}, {}]  # the state of each parameter, as it was first
    steps = [0, 0, 0, 0]
    for having in ([0, 1, 3], [0, 1, 2, 3], [1], [0, 3], [0, 1, 2, 3]):
        set_gradients(params, [torch.ones(3) if i in having else None for i in range(4)])
        optimizer.step()
        for i in having:
            steps[i] += 1
        for i, p in enumerate(params):
            for name, value in optimizer.state[p].items():
                assert kept[i].setdefault(name, value) is value
            if steps[i]:
                assert int(kept[i]["step"]) == steps[i]


def step_three_times(optimizer, params):
    train(optimizer, params, [ones_for(params)] * 3)


def test_processes_share_the_clocks_and_the_detector():
    """As in Hogwild: each continues where the last one stopped."""
    params = [nn.Parameter(torch.ones(n)).share_memory_() for n in (4, 2)]
    optimizer = PsiLogic(params, 1e-2)
    train(optimizer, params, [ones_for(params)])
    for state in optimizer.state.values():
        for x in state.values():
            x.share_memory_()
    for _ in range(2):
        process = torch.multiprocessing.get_context("fork").Process(target=step_three_times, args=(optimizer, params))
        process.start()
        process.join()
    assert [int(optimizer.state[p]["step"]) for p in params] == [7, 7]
    alone = [nn.Parameter(torch.ones(n)) for n in (4, 2)]
    reference = PsiLogic(alone, 1e-2)
    train(reference, alone, [ones_for(alone)] * 7)
    assert_same([snapshot(optimizer, params)], [snapshot(reference, alone)])


def test_a_borrowed_state_is_written():
    """As `torch.optim._stateless` lends one: its step count increases."""
    p = nn.Parameter(torch.ones(3))
    optimizer = PsiLogic([p])
    p.grad = torch.ones(3)
    optimizer.step()
    own = optimizer.state[p]
    lent = {name: value.clone() for name, value in own.items()}
    optimizer.state[p] = lent
    averages = set()
    for step in (2, 3, 4):
        optimizer.step()
        assert lent["step"].item() == step
        averages.add(lent["chaos_fast"].item())
    assert len(averages) == 3
    assert own["step"].item() == 1
