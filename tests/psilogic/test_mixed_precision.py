"""Loss scaling and bfloat16: small changes are not lost, and an overflow changes nothing."""

import copy

import pytest
import torch
from torch import nn

from psilogic import PsiLogic
from psilogic.backends import rounding

OPTIONS = {"chaos_warmup": 0, "gamma": 5.0, "quantum_decay": 0.1, "max_grad_norm": 1.0}


def model_and_optimizer(dtype: torch.dtype = torch.float32, **options: object) -> tuple[torch.nn.Module, PsiLogic]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)).to(dtype)
    optimizer = PsiLogic(model.parameters(), lr=1e-2, **{**OPTIONS, **options})
    return model, optimizer


def loss_of(model: torch.nn.Module, t: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(t)
    return model(torch.randn(16, 6, generator=generator)).square().mean()


@pytest.mark.parametrize("kind", [{"device": "meta"}, {"dtype": torch.float16}], ids=str)
def test_fused_announces_to_unscale_by_itself(kind) -> None:
    """Where GradScaler would wait for a GPU, and of gradients that it refuses to unscale."""
    params = [nn.Parameter(torch.zeros(2, **kind))]
    for fused in (None, False, True):
        assert_announces(PsiLogic(params, fused=fused), fused is True)
    assert_announces(PsiLogic([{"params": params, "fused": True}]), True)
    assert torch.optim.AdamW(params, fused=True)._step_supports_amp_scaling


def test_in_host_memory_gradscaler_unscales() -> None:
    """Then the step can update while it sums. What a user sets remains."""
    optimizer = PsiLogic([nn.Parameter(torch.zeros(2))], fused=True)
    assert_announces(optimizer, False)
    optimizer._step_supports_amp_scaling = True
    assert optimizer._step_supports_amp_scaling
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2, dtype=torch.float16))]})
    optimizer._step_supports_amp_scaling = False
    assert not optimizer._step_supports_amp_scaling


def test_float16_trains_with_gradscaler() -> None:
    """It refuses to unscale float16 by itself."""
    trained = []
    for kind in (torch.optim.AdamW, PsiLogic):
        p = nn.Parameter(torch.ones(4, dtype=torch.float16))
        optimizer = kind([p], lr=0.1, weight_decay=0.1, eps=1e-3, fused=True)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**6)
        for _ in range(5):
            optimizer.zero_grad()
            scaler.scale(p.float().square().sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        trained.append(p.detach())
    torch.testing.assert_close(*trained, rtol=2e-3, atol=0)


def assert_announces(optimizer: PsiLogic, expected: bool) -> None:
    """Also after a copy."""
    for same in (optimizer, copy.deepcopy(optimizer)):
        assert getattr(same, "_step_supports_amp_scaling", False) is expected


# If the optimizer announces it, GradScaler leaves unscaling and skipping to the step; otherwise it does both.
BY_THE_STEP = pytest.mark.parametrize("by_the_step", [False, True])


@BY_THE_STEP
@pytest.mark.parametrize("unscale_first", [False, True])
def test_a_scaled_loss_gives_the_same_training_and_an_overflow_changes_nothing(unscale_first, by_the_step) -> None:
    plain, plain_optimizer = model_and_optimizer()
    scaled, scaled_optimizer = model_and_optimizer()
    scaled_optimizer._step_supports_amp_scaling = by_the_step
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for t in range(20):
        scaled_optimizer.zero_grad()
        scaler.scale(loss_of(scaled, t)).backward()
        if t == 5:
            next(scaled.parameters()).grad[0, 0] = float("inf")
        else:
            plain_optimizer.zero_grad()
            loss_of(plain, t).backward()
            plain_optimizer.step()
        gradients = [p.grad.clone() for p in scaled.parameters()]
        if unscale_first:
            scaler.unscale_(scaled_optimizer)
        scaler.step(scaled_optimizer)
        scaler.update()
        halvings = 0 if t < 5 else 1
        assert scaler.get_scale() == 2.0 ** (12 - halvings)
        if by_the_step and not unscale_first:
            assert_same([p.grad for p in scaled.parameters()], gradients, equal_nan=True)
        for a, b in zip(plain.parameters(), scaled.parameters(), strict=True):
            assert torch.equal(a, b)  # a power of two scales without rounding
            assert_same(plain_optimizer.state[a], scaled_optimizer.state[b])
    assert not hasattr(scaled_optimizer, "found_inf")


def assert_same(mine: object, theirs: object, equal_nan: bool = False) -> None:
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=equal_nan)


@pytest.mark.parametrize("value", [1.0, -1.0, 3.14159, -1e-30, 1e30, 1.00390625])
def test_stochastic_rounding_is_unbiased(value: float) -> None:
    torch.manual_seed(0)
    x = torch.full((100_000,), value)
    rounded = rounding.stochastically_rounded(x)
    assert torch.equal(rounded, rounded.bfloat16().float())
    neighbors = rounded.unique()
    assert len(neighbors) <= 2
    ulp = (neighbors[-1] - neighbors[0]).item()
    error = abs(rounded.double().mean().item() - x[0].double().item())
    assert error <= 5 * ulp / 2 / 100_000**0.5  # five standard errors of the worst case, a fair coin
    torch.manual_seed(0)
    assert torch.equal(rounding.stochastically_rounded(x), rounded)


def test_tensors_that_are_rounded_together_are_rounded_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "TOGETHER", 100)
    shapes = [(9, 7), (), (0, 3), (30,), (40, 20), (5, 4), (3, 2, 2, 2)]
    tensors = [torch.randn(shape) for shape in shapes]
    tensors += [torch.randn(6, 8).t(), torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last)]
    torch.manual_seed(0)
    expected = [rounding.stochastically_rounded(x) for x in tensors]
    torch.manual_seed(0)
    for x, mine, theirs in zip(tensors, rounding.rounded_together(tensors), expected, strict=True):
        assert_same(mine, theirs)
        assert mine.stride() == x.stride()


def test_what_is_not_finite_stays() -> None:
    x = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -0.0])
    torch.testing.assert_close(rounding.stochastically_rounded(x), x, rtol=0, atol=0, equal_nan=True)


def shrunk(mode: str, steps: int, dtype: torch.dtype = torch.bfloat16, grad: float = 0.0, **options: float) -> float:
    """Ones after steps that hardly do more than to decay: their mean."""
    torch.manual_seed(0)
    p = nn.Parameter(torch.ones(4096, dtype=dtype))
    optimizer = PsiLogic([p], bf16_update=mode, **options)
    p.grad = torch.full_like(p, grad)
    for _ in range(steps):
        optimizer.step()
    return p.detach().double().mean().item()


def test_a_decay_below_half_an_ulp_does_not_vanish() -> None:
    """Each step takes a twentieth of half an ulp."""
    options = {"lr": 1e-2, "weight_decay": 1e-2}
    expected = (1 - 1e-4) ** 400
    assert shrunk("nearest", 400, **options) == 1
    assert abs(shrunk("stochastic", 400, **options) - expected) < 2e-3
    assert abs(shrunk("kahan", 400, **options) - expected) < 2**-8


def test_a_quantum_decay_below_half_an_ulp_does_not_vanish() -> None:
    """Each step takes 1.2e-3 tanh|g|, and Adam hardly moves anything."""
    options = {
        "lr": 1.2e-6,
        "gamma": 0.0,
        "weight_decay": 0.0,
        "quantum_decay": 1e3,
        "chaos_warmup": 0,
        "adaptive_tau": False,
        "chaos_tau": 1e3,
        "grad": 2.0,
    }
    expected = shrunk("nearest", 500, torch.float32, **options)
    assert 0.5 < expected < 0.6
    assert abs(shrunk("stochastic", 500, **options) - expected) < 4e-3
    assert abs(shrunk("kahan", 500, **options) - expected) < 2**-8


@pytest.mark.parametrize("mode", ["stochastic", "kahan"])
def test_bfloat16_follows_float32(mode: str) -> None:
    exact, optimizer = model_and_optimizer(torch.float32)
    coarse, coarse_optimizer = model_and_optimizer(torch.bfloat16, bf16_update=mode)
    with torch.no_grad():
        for a, b in zip(exact.parameters(), coarse.parameters(), strict=True):
            a.copy_(b)
    for t in range(100):
        generator = torch.Generator().manual_seed(t)
        for a, b in zip(exact.parameters(), coarse.parameters(), strict=True):
            b.grad = torch.randn(a.shape, generator=generator).bfloat16()
            a.grad = b.grad.float()
        optimizer.step()
        coarse_optimizer.step()
    for a, b in zip(exact.parameters(), coarse.parameters(), strict=True):
        torch.testing.assert_close(b.float(), a, rtol=0.03, atol=0.03)
        expected = set(optimizer.state[a])
        if mode == "kahan":
            expected.add("compensation")
        assert set(coarse_optimizer.state[b]) == expected
