"""The update through foreach as on a GPU, where no number of a vector may be read: on the CPU and on meta."""

import pytest
import torch
from configurations import CONFIGURATIONS, assert_same, build, trace, truth
from launches import count
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from trajectories import gradients, parameters

from psilogic import PsiLogic
from psilogic.tensors import factors
from psilogic.tensors.buckets import Bucket
from psilogic.updates import foreach

HALF = (torch.bfloat16, torch.float16)
SHAPES = [(40, 30), (50,)]
LAYER = [(64, 192), (192,), (64, 64), (64,), (256, 64), (256,), (64, 256), (64,), (64,), (64,), (64,), (64,)]


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    for module in (factors, foreach):
        monkeypatch.setattr(module, "readable", lambda vector: False)
    monkeypatch.setattr(Bucket, "on_host", False)


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_configuration(options, as_on_a_gpu):
    params = parameters()
    ours = trace(build(params, **options, foreach=True), params, gradients(20, every=15))
    assert_same(ours, truth(options, 20, every=15), 1e-11)


@pytest.mark.parametrize("layout", [torch.Tensor.t, lambda x: torch.stack([x, x], 2)[..., 0]], ids=["dense", "gaps"])
def test_factors_lie_as_the_tensors_do(layout):
    xs = [layout(torch.randn(4, 6)), torch.randn(()), torch.randn(0, 3), torch.randn(2, 3)]
    vector = torch.tensor([2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    for x, factor, value in zip(xs, factors.expanded(vector, xs), vector, strict=True):
        assert factor.shape == x.shape
        assert factor.dtype == x.dtype
        assert (factor == value).all()
    assert factors.expanded(vector, xs)[0].stride() == (xs[0].stride() if layout is torch.Tensor.t else (6, 1))


class RoundsAsCuda(TorchDispatchMode):
    """A 0-dim operand beside half precision is rounded to it before the operation, as CUDA's kernels do."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        def rounded(x, y):
            meets = all(isinstance(z, torch.Tensor) for z in (x, y)) and x.dtype in HALF and x.ndim > y.ndim == 0
            return y.to(x.dtype) if meets and y.is_floating_point() else y

        if len(args) > 1:
            x, y, *rest = args
            both = isinstance(x, list) and isinstance(y, list)
            args = (x, [rounded(*z) for z in zip(x, y, strict=True)] if both else rounded(x, y), *rest)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_factors_are_not_rounded_to_half_precision(dtype, as_on_a_gpu):
    xs, vector = [torch.randn(40, 30).to(dtype), torch.randn(50).to(dtype)], torch.tensor([0.997, 1e-9]).double()
    expected = [(x.float() * factor.float()).to(dtype) for x, factor in zip(xs, vector, strict=True)]
    with torch.no_grad(), RoundsAsCuda():
        products = factors.copied(factors.scaled(xs, vector), dtype)
        assert not torch.equal(torch._foreach_mul(xs, list(vector.unbind()))[0], expected[0])  # what else happens
        factors.scale_(xs, vector)
    assert all(map(torch.equal, products, expected))
    assert all(map(torch.equal, xs, expected))


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("options", [{"max_grad_norm": 0.777}, {"agc_clip": 0.0123, "agc_norm": "tensor"}], ids=str)
def test_gradients_in_half_precision_are_clipped_as_on_a_cpu(dtype, options, request):
    def moments():
        params, script = parameters(SHAPES, dtype), gradients(4, SHAPES, dtype)
        trace(optimizer := PsiLogic(params, eps=1e-3, foreach=True, **options), params, script)
        return [optimizer.state[p]["exp_avg"] for p in params]

    expected = moments()
    request.getfixturevalue("as_on_a_gpu")
    with RoundsAsCuda():
        assert all(map(torch.equal, moments(), expected))


def tensors_on_a_device(layers, dtype=torch.float32):
    return [nn.Parameter(torch.empty(size, device="meta", dtype=dtype)) for size in LAYER * layers]


def launches(layers, **options):
    params = tensors_on_a_device(layers, options.pop("dtype", torch.float32))
    return count(PsiLogic(params, **options), params).counts


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 12),
        ({"dtype": torch.bfloat16}, 15),
        ({"max_grad_norm": 1.0}, 15),
        ({"quantum_decay": 0.1}, 18),
        ({"capturable": True}, 16),
    ],
    ids=str,
)
def test_launches_do_not_grow_with_the_number_of_tensors(options, most):
    """Up to the number that one launch takes; those of the decision never do."""
    few, more = launches(1, **options), launches(5, **options)
    assert few == more
    assert more["lists"] <= most
    assert launches(10, **options)["vectors"] == more["vectors"]


def test_one_and_a_half_times_the_launches_of_adamw():
    """Over the tensors themselves; the decision takes some sixty more, over vectors of one number for each tensor."""
    params = tensors_on_a_device(5)
    adamw = count(torch.optim.AdamW(params, foreach=True), params).counts
    assert launches(5)["lists"] <= 1.5 * adamw["lists"]
    assert launches(5)["vectors"] <= 60
