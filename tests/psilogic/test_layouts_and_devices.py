"""A step has the same result for all layouts of a tensor, and for all other tensors in its group."""

from types import SimpleNamespace

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, PER_TENSOR, STEPS, TOGETHER, assert_same, build, trace, truth
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from trajectories import gradients, parameters, set_gradients, watch

from psilogic import PsiLogic
from psilogic.tensors import device_tables

pytestmark = pytest.mark.slow  # all together

TENSOR_LR = {"lr": torch.tensor(0.1)}
# Those that need more vectors than all others.
MIXABLE = {
    name: PER_TENSOR[name] for name in ("defaults", "schedule", "AGC of tensors", "everything but clipping", "relative")
}


def transposed(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.ndim > 1 else x.clone()


def strided(x):
    return torch.stack([x, torch.full_like(x, 7.0)], dim=-1)[..., 0]


def channels_last(x):
    return x.to(memory_format=torch.channels_last) if x.ndim == 4 else x.clone()


@pytest.mark.parametrize(
    ("name", "of_param", "of_grad"),
    [(name, transposed, strided) for name in ("AGC", "GC", "max_grad_norm", "maximize", *TOGETHER)]
    + [
        (name, *layouts)
        for name in TOGETHER
        for layouts in ((transposed, transposed), (strided, torch.clone), (channels_last, strided))
    ]
    + [("GC", transposed, transposed), ("AGC", transposed, transposed)],
)
def test_layouts(name, of_param, of_grad):
    options, script = CONFIGURATIONS[name], gradients(STEPS, every=15)
    params = [nn.Parameter(of_param(p.detach())) for p in parameters()]
    optimizer = build(params, **options)
    script = [[None if g is None else of_grad(g) for g in grads] for grads in script]
    assert_same(trace(optimizer, params, script), truth(options, every=15), 1e-11)
    dense = (p for p in params if p.numel() and of_param is not strided)
    assert all(optimizer.state[p]["exp_avg"].stride() == p.stride() for p in dense)


MIXED = [torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.float64, torch.float16]


@pytest.mark.parametrize("options", MIXABLE.values(), ids=MIXABLE)
def test_dtypes_in_one_group_are_independent(options):
    """Each tensor as in a separate optimizer, with its dtypes in the state."""

    def cast(tensors, parts):
        return [None if x is None else x.to(d) for x, d in zip(tensors, parts, strict=True)]

    options = {**options, "eps": 1e-3}  # not 0 in float16
    script = [cast(grads, MIXED) for grads in gradients(STEPS, every=15)]
    params = [nn.Parameter(p.detach().to(d)) for p, d in zip(parameters(), MIXED, strict=True)]
    alone = [nn.Parameter(p.detach().clone()) for p in params]
    together = trace(build(params, **options), params, script)
    for i, p in enumerate(alone):
        apart = trace(PsiLogic([p], **options), [p], [[grads[i]] for grads in script])
        assert_same([snapshots[i : i + 1] for snapshots in together], apart)
        state = together[-1][i][1]
        assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == p.dtype
        assert state["chaos_fast"].dtype == (torch.float64 if p.dtype == torch.float64 else torch.float32)


@pytest.mark.parametrize("scope", ["group", "global"])
def test_dtypes_share_a_pooled_norm(scope):
    options = {**ACTIVE, "chaos_scope": scope, "max_grad_norm": 3.0}
    shapes = [(4, 3), (5,), (2, 2)]
    mixed, wide = parameters(shapes), parameters(shapes)
    mixed[1] = nn.Parameter(mixed[1].detach().float())
    ours, theirs = PsiLogic(mixed, **options), PsiLogic(wide, **options)
    seen, expected = watch(ours), watch(theirs)
    for grads in gradients(STEPS, shapes, every=15):
        set_gradients(mixed, [g if g is None else g.to(p.dtype) for p, g in zip(mixed, grads, strict=True)])
        set_gradients(wide, grads)
        ours.step(), theirs.step()
        for _, decision in seen:
            gn = expected[-1][-1].gn[:1].expand_as(decision.gn)
            torch.testing.assert_close(decision.gn, gn, rtol=1e-6, atol=0)
        seen.clear()
    torch.testing.assert_close([p.double() for p in mixed], wide, rtol=1e-5, atol=1e-6, check_dtype=False)


class Transfers(TorchDispatchMode):
    """Counts copies from the host to the meta device: those that the host waits for, and those that it does not."""

    def __init__(self):
        super().__init__()
        self.blocking, self.non_blocking = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result, name = func(*args, **(kwargs or {})), func.overloadpacket.__name__
        sources = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if name == "copy_" and args[0].is_meta and not args[1].is_meta:
            self.non_blocking += args[2]
            self.blocking += not args[2]
        elif name == "_to_copy" and result.is_meta and not sources[0].is_meta:
            self.blocking += 1
        return result


@pytest.mark.parametrize(
    ("name", "flags"),
    [(name, {}) for name in CONFIGURATIONS]
    + [(name, flags) for name in TOGETHER for flags in ({"capturable": True}, TENSOR_LR, {"foreach": False})],
    ids=str,
)
def test_no_transfer_to_a_gpu_is_waited_for(name, flags, monkeypatch):
    """Only functions of the clocks are sent, and a learning rate on the host; with `capturable` nothing is.

    Nothing reads a value: on the meta device a step can be taken before there are any.
    """
    monkeypatch.setattr(device_tables, "GPU", "meta")
    monkeypatch.setattr(device_tables, "_pinned", lambda size, dtype: torch.empty(size, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    params = [nn.Parameter(p.detach().to("meta")) for p in parameters()]
    optimizer = build(params, **{**CONFIGURATIONS[name], **flags})
    for _ in range(2):
        set_gradients(params, [torch.ones_like(p) for p in params])
        with Transfers() as transfers:
            optimizer.step()
    assert transfers.blocking == 0
    clocks = 2 if "gamma_T_max" in CONFIGURATIONS[name] else 1
    sent = {"capturable": 0, "lr": 3}.get(next(iter(flags), ""), clocks)
    assert "foreach" in flags or transfers.non_blocking == 2 * sent  # for each group
    assert all(optimizer.state[p][name].is_meta for p in params for name in ("exp_avg", "exp_avg_sq", "chaos_fast"))


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
    set_gradients(params, [torch.ones_like(p) for p in params])
    PsiLogic(params, lr=lr, capturable=True).step()
    found = [str(w.message) for w in recwarn if "the CUDA graph keeps lr=0.1 in every replay" in str(w.message)]
    assert len(found) == warnings


@pytest.mark.parametrize("options", MIXABLE.values(), ids=MIXABLE)
def test_devices_in_one_group_are_independent(options):
    """Parameters on the meta device change nothing for those on the CPU."""
    script, params = gradients(18, every=5), parameters()
    ghosts = [nn.Parameter(p.detach().to("meta")) for p in params]
    both = [x for pair in zip(ghosts, params, strict=True) for x in pair]
    doubled = [[x for g in grads for x in (None if g is None else g.to("meta"), g)] for grads in script]
    ours, alone = trace(build(both, **options), both, doubled), parameters()
    assert_same([snapshots[1::2] for snapshots in ours], trace(build(alone, **options), alone, script))


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
            state.update({k: state[k].float() for k in ("step", "chaos_start") if k in state})
    assert_same(actual, expected)
