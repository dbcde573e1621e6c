"""The update through torch's fused kernel, block by block, against foreach tensor by tensor."""

from itertools import product

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, PROCESSING, STEPS, TOGETHER, assert_same, build, trace, truth
from torch import nn
from trajectories import SHAPES, changed, gradients, parameters, set_gradients, train

from psilogic import PsiLogic
from psilogic.backends import torch_fused

pytestmark = pytest.mark.slow  # all together

SMALL = [*SHAPES, (3, 7), (1, 9), (9, 1)]
MEDIUM = [*SHAPES, (8, 40), (3, 100), (150,), (5, 4, 3, 3), (1, 60), (60, 1)]
LARGER = [*SHAPES, (40, 170), (3, 400), (700,), (5, 4, 3, 3), (1, 300), (300, 1)]

FLAGS = [{"fused": True}, {"capturable": True}, {"lr": torch.tensor(2.0**-6)}]


@pytest.mark.parametrize(
    ("name", "flags"), [*product(CONFIGURATIONS, [{}]), *product(["everything", "global"], FLAGS)], ids=str
)
def test_double_precision(execution, name, flags):
    options = {**CONFIGURATIONS[name], "lr": 2.0**-6}
    params = parameters()
    optimizer = build(params, **{**options, **flags})
    actual = trace(optimizer, params, gradients(STEPS, every=15))
    assert_same(actual, truth(options, every=15), 1e-12)
    assert set(optimizer.executed) == {execution}


def needs_blocks(name):
    """Whether a configuration needs more than AdamW's part, and therefore blocks."""
    return any(option in CONFIGURATIONS[name] for option in (*PROCESSING, "quantum_decay"))


BLOCKS = [(1, "everything"), (256, "everything")]
for name in filter(needs_blocks, CONFIGURATIONS):
    marks = () if name in TOGETHER else pytest.mark.soak
    BLOCKS.append(pytest.param(17, name, marks=marks))


@pytest.mark.parametrize(("block", "name"), BLOCKS)
def test_wherever_blocks_end(monkeypatch, torch_kernels, name, block):
    """Blocks end within tensors, between rows, within rows, and hold several tensors."""
    shapes = {1: SMALL, 17: MEDIUM, 256: LARGER}[block]
    monkeypatch.setattr(torch_fused, "BLOCK", block)
    batches = torch_fused.batches
    calls = []

    def noted(*arguments):
        calls.append(arguments)
        return batches(*arguments)

    monkeypatch.setattr(torch_fused, "batches", noted)
    options = CONFIGURATIONS[name]
    params = parameters(shapes)
    actual = trace(build(params, **options), params, gradients(20, shapes, every=15))
    assert_same(actual, truth(options, 20, shapes, every=15), 1e-12)
    assert calls, "no blocks were made"


@pytest.mark.parametrize("name", ["GC", "AGC", "max_grad_norm"])
def test_rows_that_do_not_lie_together(execution, monkeypatch, name):
    """A block of rows of a transposed tensor is no block of memory."""
    monkeypatch.setattr(torch_fused, "BLOCK", 30)
    shapes = [(9, 8), (5,)]
    options = CONFIGURATIONS[name]
    script = changed(gradients(18, shapes, every=15), transposed)
    params = [nn.Parameter(transposed(p.detach())) for p in parameters(shapes)]
    expected = truth(options, 18, shapes, every=15)
    assert_same(trace(build(params, **options), params, script), expected, 1e-12)


def transposed(x):
    """The same matrix, with its columns in memory one after the other."""
    if x.ndim < 2:
        return x
    return x.t().contiguous().t()


ROUNDED = ["defaults", "quantum decay", *TOGETHER]
DECIDED = [name for name in CONFIGURATIONS if name not in ROUNDED]
"""These only change the decision."""


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *product(ROUNDED, [torch.bfloat16]),
        *[pytest.param(name, torch.bfloat16, marks=pytest.mark.soak) for name in DECIDED],
        *product(TOGETHER, [torch.float32]),
        ("everything", torch.float16),
        *[pytest.param(name, torch.float16, marks=pytest.mark.soak) for name in TOGETHER if name != "everything"],
    ],
    ids=str,
)
def test_lower_precision(execution, name, dtype):
    """About as far from the update in float64 as foreach is, though parameters are rounded less often."""
    options = {**CONFIGURATIONS[name], "eps": 1e-3}  # not 0 in float16
    script = changed(gradients(20, dtype=dtype, every=15), lambda g: g * 0.1)

    def ends(run_in, **flags):
        """The parameters after the training in a dtype, in float64."""
        params = [nn.Parameter(p.detach().to(run_in)) for p in parameters(dtype=dtype)]
        steps = changed(script, lambda g: g.to(run_in))
        return [p.double() for p in train(build(params, **options, **flags), params, steps)]

    exact = ends(torch.float64)
    ours = ends(dtype)
    by_foreach = ends(dtype, fused=False)
    for p, mine, other in zip(exact, ours, by_foreach, strict=True):
        my_error = (mine - p).norm()
        other_error = (other - p).norm()
        assert my_error <= 1.5 * other_error + 4 * torch.finfo(dtype).eps * p.norm()


def test_quantum_decay_of_bfloat16_rounds_the_parameter_only(execution):
    """The factor in bfloat16 would be off by as much as the parameter. Adam's part is too small to be seen here."""
    options = {"lr": 1e-6, "weight_decay": 0.0, "quantum_decay": 3e4, "chaos_warmup": 0, "tau_scale": 1e9}
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(4000, generator=generator).bfloat16()
    grad = torch.randn(4000, generator=generator).bfloat16()

    def after_a_step(dtype):
        p = nn.Parameter(values.to(dtype))
        train(PsiLogic([p], **options), [p], [[grad.to(dtype)]])
        return p.detach().double()

    exact = after_a_step(torch.float64)
    ours = after_a_step(torch.bfloat16)
    exponent = torch.floor(torch.log2(exact.abs()))
    ulp = 2.0 ** (exponent - 7)
    assert ((ours - exact).abs() <= 0.51 * ulp + 2e-6).all()


def test_the_same_run_twice_is_the_same(torch_kernels):
    """With two threads; all other tests use one."""
    options = CONFIGURATIONS["everything"]
    shapes = [(90_000,), (40, 170), (5,)]  # the first is large enough for two threads
    script = gradients(7, shapes, torch.float32, every=6)
    runs = []
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
    options = {**ACTIVE, "lr": lr, "chaos_warmup": 0, "quantum_decay": 1.0}
    params = parameters()
    before = [p.detach().clone() for p in params]
    after = train(PsiLogic(params, **options), params, gradients(20))
    torch.testing.assert_close(after, before, rtol=0, atol=0)


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
    script = gradients(4, LARGER)
    runs = []
    for device in ("cpu", "meta"):
        params = parameters(LARGER)
        optimizer = build(params, **options)
        for grads in script:
            set_gradients(params, grads)
            with torch.device(device):
                optimizer.step()
        runs.append([p.detach() for p in params])
    torch.testing.assert_close(*runs, rtol=0, atol=0)
