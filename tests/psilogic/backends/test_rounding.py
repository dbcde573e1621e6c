"""The compiled kernels' rounding of bfloat16: the mean is exact, and nothing below half an ulp is lost."""

import pytest
import torch
from configurations import ACTIVE, build
from torch import nn
from trajectories import changed, gradients, parameters, train

from psilogic import PsiLogic

pytestmark = pytest.mark.usefixtures("compiled_kernels")
COUNT = 1 << 18
ULP = 2.0**-7  # of bfloat16's numbers from 1 to 2


def moved(lr, weight_decay=0.0, **options):
    """Ones in bfloat16 after one step by lr, as float32."""
    p = nn.Parameter(torch.ones(COUNT, dtype=torch.bfloat16))
    p.grad = -torch.ones_like(p)  # Adam's first step has the size of lr
    optimizer = PsiLogic([p], lr=lr, weight_decay=weight_decay, bf16_update="stochastic", **options)
    optimizer.step()
    assert optimizer.executed == {"native": 1}
    return p.detach().float()


@pytest.mark.parametrize("options", [{}, {"max_grad_norm": 1.0}, {"agc_clip": 0.5}], ids=str)
@pytest.mark.parametrize("part", [0.01, 0.3, 0.5, 0.97])
def test_the_mean_is_the_exact_value(part, options):
    torch.manual_seed(0)
    values = moved(part * ULP, **options)
    assert set(values.unique().tolist()) == {1.0, 1.0 + ULP}
    share = (values > 1).double().mean().item()
    deviation = (part * (1 - part) / COUNT) ** 0.5
    assert abs(share - part) < 5 * deviation


def test_draws_are_independent_of_their_neighbors_and_of_other_steps():
    torch.manual_seed(0)
    draws = [moved(0.5 * ULP) > 1 for _ in range(3)]
    deviation = 0.5 / COUNT**0.5
    for first, second in ((draws[0], draws[1]), (draws[1], draws[2]), (draws[0][1:], draws[0][:-1])):
        assert abs((first == second).double().mean().item() - 0.5) < 5 * deviation
    for distance in (2, 32, 2048):
        agree = draws[0][distance:] == draws[0][:-distance]
        assert abs(agree.double().mean().item() - 0.5) < 5 * deviation


def test_a_seed_gives_the_same_draws_with_any_number_of_threads(threads):
    runs = []
    for count in (1, 2):
        threads(count)
        torch.manual_seed(3)
        runs.append(moved(0.5 * ULP))
    assert torch.equal(*runs)
    assert not torch.equal(runs[0], moved(0.5 * ULP))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("rounding", ["kahan", "stochastic"])
def test_what_is_not_finite_stays_so(bad, rounding):
    p = nn.Parameter(torch.tensor([1.0, bad], dtype=torch.bfloat16))
    p.grad = torch.ones_like(p)
    PsiLogic([p], bf16_update=rounding).step()
    assert p[0].isfinite()
    assert not p[1].isfinite()


@pytest.mark.parametrize("options", [{}, {"max_grad_norm": 1.0}, {"agc_clip": 0.3, "grad_centralize": True}], ids=str)
def test_with_the_errors_kept_the_step_is_that_of_float32(options):
    """The moments are in bfloat16, as in foreach: they limit how near the two come."""
    options = {**ACTIVE, "chaos_warmup": 0, **options}
    shapes = [(30, 40), (400,), (5, 3, 3)]
    script = changed(gradients(40, shapes, every=15), torch.Tensor.bfloat16)
    exact = parameters(shapes, torch.float32)
    rounded = [nn.Parameter(p.detach().bfloat16()) for p in exact]
    for p, start in zip(exact, rounded, strict=True):
        p.data = start.detach().float()
    train(build(exact, **options), exact, changed(script, torch.Tensor.float))
    optimizer = build(rounded, bf16_update="kahan", **options)
    train(optimizer, rounded, script)
    assert optimizer.executed == {"native": 3}
    for p, q in zip(exact, rounded, strict=True):
        kept = q.detach().float() + optimizer.state[q]["compensation"].float()
        assert (kept - p).abs().max() < 0.02 * p.abs().max()
