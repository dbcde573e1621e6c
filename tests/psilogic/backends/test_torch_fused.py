"""The update through torch's fused kernel, block by block, against foreach tensor by tensor."""

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, PROCESSING, STEPS, TOGETHER, assert_same, build, trace, truth
from torch import nn
from trajectories import SHAPES, gradients, parameters, set_gradients, train

from psilogic import PsiLogic
from psilogic.backends import torch_fused

pytestmark = pytest.mark.slow  # all together

SMALL = [*SHAPES, (3, 7), (1, 9), (9, 1)]
MEDIUM = [*SHAPES, (8, 40), (3, 100), (150,), (5, 4, 3, 3), (1, 60), (60, 1)]
LARGER = [*SHAPES, (40, 170), (3, 400), (700,), (5, 4, 3, 3), (1, 300), (300, 1)]

EVERY_FLAG = [(name, {}) for name in CONFIGURATIONS] + [
    (name, flags)
    for name in ("everything", "global")
    for flags in ({"fused": True}, {"capturable": True}, {"lr": torch.tensor(2.0**-6)})
]


@pytest.mark.parametrize(("name", "flags"), EVERY_FLAG, ids=str)
def test_double_precision(execution, name, flags):
    script, params = gradients(STEPS, every=15), parameters()
    options = {**CONFIGURATIONS[name], "lr": 2.0**-6}
    optimizer = build(params, **{**options, **flags})
    assert_same(trace(optimizer, params, script), truth(options, every=15), 1e-12)
    assert set(optimizer.executed) == {execution}


PROCESSED = [  # configurations that need more than AdamW's part, and therefore blocks
    name for name, options in CONFIGURATIONS.items() if {*PROCESSING, "quantum_decay"} & options.keys()
]
BLOCKS = [(17, name) for name in PROCESSED]
BLOCKS += [(size, name) for size in (1, 256) for name in TOGETHER if name in PROCESSED]


@pytest.mark.parametrize(("block", "name"), BLOCKS)
def test_wherever_blocks_end(monkeypatch, torch_kernels, name, block):
    """Blocks end within tensors, between rows, within rows, and hold several tensors."""
    shapes = {1: SMALL, 17: MEDIUM, 256: LARGER}[block]
    monkeypatch.setattr(torch_fused, "BLOCK", block)
    blocks, made = torch_fused.batches, []
    monkeypatch.setattr(torch_fused, "batches", lambda *given: made.append(given) or blocks(*given))
    options, params = CONFIGURATIONS[name], parameters(shapes)
    actual = trace(build(params, **options), params, gradients(20, shapes, every=15))
    assert_same(actual, truth(options, 20, shapes, every=15), 1e-12)
    assert made


@pytest.mark.parametrize("name", ["GC", "AGC", "max_grad_norm"])
def test_rows_that_do_not_lie_together(execution, monkeypatch, name):
    """A block of rows of a transposed tensor is no block of memory."""
    monkeypatch.setattr(torch_fused, "BLOCK", 30)
    shapes = [(9, 8), (5,)]
    script = [[g.t().contiguous().t() if g.ndim > 1 else g for g in gs] for gs in gradients(18, shapes, every=15)]
    params = [nn.Parameter(p.detach().t().contiguous().t()) if p.ndim > 1 else p for p in parameters(shapes)]
    expected = truth(CONFIGURATIONS[name], 18, shapes, every=15)
    assert_same(trace(build(params, **CONFIGURATIONS[name]), params, script), expected, 1e-12)


ROUNDED = ["defaults", "quantum decay", *TOGETHER]  # the others only change the decision


@pytest.mark.parametrize(
    ("name", "dtype"),
    [pytest.param(name, torch.bfloat16, marks=() if name in ROUNDED else pytest.mark.soak) for name in CONFIGURATIONS]
    + [(name, dtype) for name in TOGETHER for dtype in (torch.float32, torch.float16)],
    ids=str,
)
def test_lower_precision(execution, name, dtype):
    """About as far from the update in float64 as foreach is, though parameters are rounded less often."""
    options = {**CONFIGURATIONS[name], "eps": 1e-3}  # not 0 in float16
    script = [[g if g is None else g * 0.1 for g in grads] for grads in gradients(20, dtype=dtype, every=15)]
    start = [p.detach() for p in parameters(dtype=dtype)]

    def ends(run_in, **flags):
        params = [nn.Parameter(p.to(run_in)) for p in start]
        steps = [[g if g is None else g.to(run_in) for g in grads] for grads in script]
        return [p.double() for p in train(build(params, **options, **flags), params, steps)]

    exact, ours, theirs = ends(torch.float64), ends(dtype), ends(dtype, foreach=True)
    for x, y, z in zip(exact, ours, theirs, strict=True):
        assert (y - x).norm() <= 1.5 * (z - x).norm() + 4 * torch.finfo(dtype).eps * x.norm()


def test_quantum_decay_of_bfloat16_rounds_the_parameter_only(execution):
    """The factor in bfloat16 would be off by as much as the parameter. Adam's part is too small to be seen here."""
    options = {"lr": 1e-6, "weight_decay": 0.0, "quantum_decay": 3e4, "chaos_warmup": 0, "tau_scale": 1e9}
    generator = torch.Generator().manual_seed(0)
    values, grads = (torch.randn(4000, generator=generator).bfloat16() for _ in range(2))
    ends = []
    for dtype in (torch.float64, torch.bfloat16):
        p = nn.Parameter(values.to(dtype))
        train(PsiLogic([p], **options), [p], [[grads.to(dtype)]])
        ends.append(p.detach().double())
    exact, ours = ends
    ulp = 2.0 ** (torch.floor(torch.log2(exact.abs())) - 7)
    assert ((ours - exact).abs() <= 0.51 * ulp + 2e-6).all()


@pytest.mark.parametrize("options", TOGETHER.values(), ids=TOGETHER)
def test_the_same_run_twice_is_the_same(torch_kernels, options):
    """With two threads; all other tests use one."""
    shapes = [(90_000,), (40, 170), (5,)]  # the first is large enough for two threads
    script, runs = gradients(7, shapes, torch.float32, every=6), []
    torch.set_num_threads(2)
    try:
        for _ in range(2):
            params = parameters(shapes, torch.float32)
            runs.append(trace(build(params, **options), params, script))
    finally:
        torch.set_num_threads(1)
    assert_same(*runs)


@pytest.mark.parametrize("lr", [0.0, torch.tensor(0.0)])
def test_a_learning_rate_of_zero_moves_nothing(execution, lr):
    params = parameters()
    before = [p.detach().clone() for p in params]
    train(PsiLogic(params, **{**ACTIVE, "lr": lr, "chaos_warmup": 0, "quantum_decay": 1.0}), params, gradients(20))
    torch.testing.assert_close([p.detach() for p in params], before, rtol=0, atol=0)


@pytest.mark.parametrize("quantum_decay", [0.1, 0.37, 3.0, 17.0, 70.0, 123.0, 300.0])
def test_quantum_decay_leaves_what_has_no_gradient(execution, quantum_decay):
    p = nn.Parameter(torch.randn(1000))
    optimizer = PsiLogic([p], quantum_decay=quantum_decay, chaos_warmup=0, weight_decay=0.0, adaptive_tau=False)
    before = p.detach().clone()
    for _ in range(20):
        p.grad = torch.zeros_like(p)
        p.grad[::10] = 1.0
        optimizer.step()
    kept = torch.arange(1000) % 10 != 0
    assert torch.equal(p.detach()[kept], before[kept])
    assert not torch.equal(p.detach(), before)


@pytest.mark.parametrize("options", [{}, {**ACTIVE, **PROCESSING, "quantum_decay": 1.0}], ids=["plain", "everything"])
def test_the_default_device_does_not_matter(options):
    script, runs = gradients(4, LARGER), []
    for device in ("cpu", "meta"):
        params = parameters(LARGER)
        optimizer = build(params, **options)
        for grads in script:
            set_gradients(params, grads)
            with torch.device(device):
                optimizer.step()
        runs.append([p.detach() for p in params])
    torch.testing.assert_close(*runs, rtol=0, atol=0)
