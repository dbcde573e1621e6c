"""A step has the same result for all layouts of a tensor, and for all other tensors in its group."""

from itertools import chain, product
from types import SimpleNamespace

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, STEPS, TOGETHER, assert_same, build, represented, some, trace, truth
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from trajectories import (
    changed,
    changed_step,
    duplicates,
    gradients,
    ones_for,
    parameters,
    set_gradients,
    train,
    watch,
)

from psilogic import PsiLogic
from psilogic.tensors import device_tables

pytestmark = pytest.mark.slow  # all together

TENSOR_LR = {"lr": torch.tensor(0.1)}
MIXABLE = some("defaults", "schedule", "AGC of tensors", "everything but clipping", "relative")
"""Those that need more vectors than all others."""


def transposed(x):
    if x.ndim < 2:
        return x.clone()
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def strided(x):
    return torch.stack([x, torch.full_like(x, 7.0)], dim=-1)[..., 0]


def channels_last(x):
    if x.ndim != 4:
        return x.clone()
    return x.to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("name", "of_param", "of_grad"),
    [
        *product(["AGC", "GC", "max_grad_norm", "maximize", *TOGETHER], [transposed], [strided]),
        *product(["AGC", "GC", *TOGETHER], [transposed], [transposed]),
        *product(TOGETHER, [strided], [torch.clone]),
        *product(TOGETHER, [channels_last], [strided]),
    ],
)
def test_layouts(name, of_param, of_grad):
    options = CONFIGURATIONS[name]
    params = [nn.Parameter(of_param(p.detach())) for p in parameters()]
    optimizer = build(params, **options)
    script = changed(gradients(STEPS, every=15), of_grad)
    assert_same(trace(optimizer, params, script), truth(options, every=15), 1e-11)
    if of_param is strided:
        return
    for p in params:
        if p.numel():
            assert optimizer.state[p]["exp_avg"].stride() == p.stride()


def cast(tensors, dtypes):
    """Each tensor, or None, in its own dtype."""
    return [None if x is None else x.detach().to(dtype) for x, dtype in zip(tensors, dtypes, strict=True)]


MIXED = [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.float64, torch.float16]


@pytest.mark.parametrize("options", MIXABLE.values(), ids=MIXABLE)
def test_dtypes_in_one_group_are_independent(options):
    """Each tensor as in a separate optimizer, with its dtypes in the state."""
    options = {**options, "eps": 1e-3}  # not 0 in float16
    params = [nn.Parameter(p) for p in cast(parameters(), MIXED)]
    script = [cast(grads, MIXED) for grads in gradients(STEPS, every=15)]
    alone = duplicates(params)
    together = trace(build(params, **options), params, script)
    for i, p in enumerate(alone):
        apart = trace(PsiLogic([p], **options), [p], [[grads[i]] for grads in script])
        assert_same([snapshots[i : i + 1] for snapshots in together], apart)
        state = together[-1][i].state
        assert state["exp_avg"].dtype == p.dtype
        assert state["exp_avg_sq"].dtype == p.dtype
        detector_dtype = torch.float64 if p.dtype == torch.float64 else torch.float32
        assert state["chaos_fast"].dtype == detector_dtype


@pytest.mark.parametrize("scope", ["group", "global"])
def test_dtypes_share_a_pooled_norm(scope):
    options = {**ACTIVE, "chaos_scope": scope, "max_grad_norm": 3.0}
    shapes = [(4, 3), (5,), (2, 2)]
    wide = parameters(shapes)
    theirs = PsiLogic(wide, **options)
    expected = watch(theirs)
    mixed = parameters(shapes)
    mixed[1] = nn.Parameter(mixed[1].detach().float())
    dtypes = [p.dtype for p in mixed]
    ours = PsiLogic(mixed, **options)
    seen = watch(ours)
    for grads in gradients(STEPS, shapes, every=15):
        train(theirs, wide, [grads])
        train(ours, mixed, [cast(grads, dtypes)])
        pooled = expected[-1].decision.gn[:1]
        for _, decision in seen:
            torch.testing.assert_close(decision.gn, pooled.expand_as(decision.gn), rtol=1e-6, atol=0)
        seen.clear()
    torch.testing.assert_close([p.double() for p in mixed], wide, rtol=1e-5, atol=1e-6, check_dtype=False)


class Transfers(TorchDispatchMode):
    """Counts copies from the host to the meta device: those that the host waits for, and those that it does not."""

    def __init__(self):
        super().__init__()
        self.blocking = 0
        self.non_blocking = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        sources = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if name == "copy_" and args[0].is_meta and not args[1].is_meta:
            if args[2]:
                self.non_blocking += 1
            else:
                self.blocking += 1
        elif name == "_to_copy" and result.is_meta and not sources[0].is_meta:
            self.blocking += 1
        return result


@pytest.mark.parametrize(
    ("name", "flags"),
    represented(
        [
            *product(CONFIGURATIONS, [{}]),
            *product(TOGETHER, [{"capturable": True}, TENSOR_LR, {"foreach": False, "fused": False}]),
        ]
    ),
    ids=str,
)
def test_no_transfer_to_a_gpu_is_waited_for(name, flags, monkeypatch):
    """Only functions of the clocks are sent, and a learning rate on the host; with `capturable` nothing is.

    Nothing reads a value: on the meta device a step can be taken before there are any.
    """
    monkeypatch.setattr(device_tables, "GPU", "meta")
    monkeypatch.setattr(device_tables, "pinned_memory", lambda size, dtype: torch.empty(size, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    params = [nn.Parameter(p.detach().to("meta")) for p in parameters()]
    optimizer = build(params, **{**CONFIGURATIONS[name], **flags})
    for _ in range(2):
        set_gradients(params, ones_for(params))
        with Transfers() as transfers:
            optimizer.step()
    assert transfers.blocking == 0
    if "foreach" not in flags:
        assert transfers.non_blocking == 2 * sent_for_a_group(CONFIGURATIONS[name], flags)
    for p in params:
        state = optimizer.state[p]
        assert state["exp_avg"].is_meta
        assert state["exp_avg_sq"].is_meta
        assert state["chaos_fast"].is_meta


def sent_for_a_group(options, flags):
    """The number of vectors that a step sends to the device for each group."""
    if "capturable" in flags:
        return 0
    if "lr" in flags:
        return 3
    return 2 if "gamma_T_max" in options else 1


def test_a_graph_that_would_freeze_the_clock_is_refused(monkeypatch):
    monkeypatch.setattr(device_tables, "GPU", "meta")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match=r"present value of step, which is on the CPU; use capturable=True"):
        device_tables.upload("step", torch.ones(3), torch.device("meta"))


@pytest.mark.parametrize(("lr", "warnings"), [(0.1, 1), (torch.tensor(0.1), 0)])
def test_a_graph_that_keeps_a_learning_rate_is_warned_of(lr, warnings, monkeypatch, recwarn):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    params = parameters()
    set_gradients(params, ones_for(params))
    PsiLogic(params, lr=lr, capturable=True).step()
    messages = [str(warning.message) for warning in recwarn]
    assert sum("the CUDA graph keeps lr=0.1 in every replay" in message for message in messages) == warnings


@pytest.mark.parametrize("options", MIXABLE.values(), ids=MIXABLE)
def test_devices_in_one_group_are_independent(options):
    """Parameters on the meta device change nothing for those on the CPU."""
    script = gradients(18, every=5)
    params = parameters()
    ghosts = [nn.Parameter(p.detach().to("meta")) for p in params]
    both = alternating(ghosts, params)
    doubled = [alternating(changed_step(grads, to_meta), grads) for grads in script]
    ours = trace(build(both, **options), both, doubled)
    alone = parameters()
    assert_same([snapshots[1::2] for snapshots in ours], trace(build(alone, **options), alone, script))


def alternating(first, second):
    """One of the first, one of the second, and so on."""
    return list(chain.from_iterable(zip(first, second, strict=True)))


def to_meta(tensor):
    return tensor.to("meta")


@pytest.mark.parametrize("options", TOGETHER.values(), ids=TOGETHER)
def test_default_dtype_float64(options):
    """Only the step counter has the default dtype, as in torch's optimizers."""
    script = gradients(STEPS, every=15, dtype=torch.float32)
    params = parameters(dtype=torch.float32)
    expected = trace(build(params, **options), params, script)
    torch.set_default_dtype(torch.float64)
    try:
        params = parameters(dtype=torch.float32)
        actual = trace(build(params, **options), params, script)
    finally:
        torch.set_default_dtype(torch.float32)
    for snapshots in actual:
        for _, state in snapshots:
            for clock in ("step", "chaos_start"):
                if clock in state:
                    state[clock] = state[clock].float()
    assert_same(actual, expected)
