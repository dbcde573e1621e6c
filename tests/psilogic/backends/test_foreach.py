"""The update through foreach as on a GPU, where no number may be read from a vector; on the CPU and on meta."""

import weakref
from importlib import import_module

import pytest
import torch
from configurations import CONFIGURATIONS, STEPS, TOGETHER, assert_same, build, trace, truth
from grids import pairwise
from launches import CUDA_13, OLDER, count
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from trajectories import gradients, parameters

from psilogic import PsiLogic
from psilogic.backends import factors, foreach
from psilogic.tensors import norms
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.device_tables import DeviceTables

HALF = (torch.bfloat16, torch.float16)
SHAPES = [(40, 30), (50,)]
LAYER = [(64, 192), (192,), (64, 64), (64,), (256, 64), (256,), (64, 256), (64,), (64,), (64,), (64,), (64,)]
"""The shapes of a layer of a transformer."""


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    for module in (factors, foreach):
        monkeypatch.setattr(module, "readable", lambda vector: False)
    monkeypatch.setattr(Bucket, "on_host", False)


@pytest.mark.parametrize("options", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_configuration(options, request):
    expected = truth(options, every=15)  # as on a CPU: other tests share it
    request.getfixturevalue("as_on_a_gpu")
    params = parameters()
    optimizer = build(params, **options, fused=False)
    ours = trace(optimizer, params, gradients(STEPS, every=15))
    assert_same(ours, expected, 1e-11)


CUT = [(), (5,), (0,), (7, 3), (2, 3, 2, 2), (3, 40), (1, 5, 6), (50,), (2, 3, 9)]


@pytest.mark.parametrize(
    ("options", "dtype", "device"),
    pairwise([*TOGETHER.values(), {"bf16_update": "kahan"}], [torch.float64, torch.bfloat16], ["cpu", "gpu"]),
    ids=str,
)
def test_batches_change_no_bit(options, dtype, device, monkeypatch, request):
    """Of tensors, of rows, of parts of a row."""
    if device == "gpu":
        request.getfixturevalue("as_on_a_gpu")

    def run():
        params = parameters(CUT, dtype)
        params[4].data = params[4].data.to(memory_format=torch.channels_last)
        optimizer = build(params, **options, fused=False)
        return trace(optimizer, params, gradients(4, CUT, dtype, every=3))

    whole = run()
    monkeypatch.setattr(foreach, "SMALLEST_BATCH", 8)
    monkeypatch.setattr(foreach, "LARGEST_BATCH", 8)
    monkeypatch.setattr(norms, "ONE_CALL", 8)
    assert_same(run(), whole)


class Allocated(TorchDispatchMode):
    """The most bytes on meta that are alive at one time."""

    def __init__(self):
        super().__init__()
        self.bytes = 0
        self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if not func.is_view and not func._schema.is_mutable:
            for storage in self.new_storages(result):
                self.bytes += storage.nbytes()
                weakref.finalize(storage, self.free, storage.nbytes())
        self.most = max(self.most, self.bytes)
        return result

    def new_storages(self, result):
        """The memory of the tensors on meta that an operation returned, each once."""
        storages = {}
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor) and x.is_meta:
                storage = x.untyped_storage()
                storages[storage._cdata] = storage
        return storages.values()

    def free(self, size):
        self.bytes -= size


MEMORY = {
    "defaults": {},
    "clipping": {"max_grad_norm": 1.0},
    "capturable": {"capturable": True},
    "AGC": {"agc_clip": 0.01, "agc_norm": "tensor"},
    "compensated": {"bf16_update": "kahan", "quantum_decay": 0.1},
    "stochastic": {"bf16_update": "stochastic"},
    "both": {"agc_clip": 0.01, "grad_centralize": True, "quantum_decay": 0.1},
}
SIZES = {"matrices": [(1024, 1024)] * 16, "one vector": [(20_000_000,)], "long rows": [(2, 10_000_000), (5,)]}


@pytest.mark.parametrize(
    ("options", "sizes", "dtype"), pairwise(list(MEMORY), list(SIZES), [torch.float32, *HALF]), ids=str
)
def test_copies_take_no_more_than_the_parameters(options, sizes, dtype):
    """As AdamW(foreach=True); of a large model at most 256 MB."""
    params = tensors_on_a_device(SIZES[sizes], dtype)
    optimizer = PsiLogic(params, fused=False, **MEMORY[options])
    for _ in range(2):
        for p in params:
            p.grad = torch.empty_like(p)
        with Allocated() as allocated:
            optimizer.step()
    assert 0 < allocated.most <= sum(p.nbytes for p in params)


def test_copies_of_a_large_model_are_bounded():
    params = tensors_on_a_device([(50_257, 1600), *[(1600, 6400), (6400, 1600)] * 48], torch.bfloat16)
    optimizer = PsiLogic(params, fused=False, bf16_update="kahan", max_grad_norm=1.0)
    for p in params:
        p.grad = torch.empty_like(p)
    optimizer.step()
    with Allocated() as allocated:
        optimizer.step()
    assert allocated.most <= 256 << 20


def test_copies_of_one_tensor_after_the_other_are_those_of_the_largest():
    """As AdamW(foreach=False), whose step copies one tensor at a time; here up to four times on a device."""
    params = tensors_on_a_device([(300, 400)] * 12)
    optimizer = PsiLogic(params, foreach=False, fused=False)
    for p in params:
        p.grad = torch.empty_like(p)
    optimizer.step()
    with Allocated() as allocated:
        optimizer.step()
    assert allocated.most <= 4 * params[0].nbytes


MATRIX = torch.randn(40, 60)
DENSE = MATRIX.t()
WITH_GAPS = torch.stack([MATRIX, MATRIX], 2)[..., 0]


@pytest.mark.parametrize(("matrix", "strides"), [(DENSE, DENSE.stride()), (WITH_GAPS, (60, 1))], ids=["dense", "gaps"])
def test_factors_lie_as_the_tensors_do(matrix, strides):
    xs = [matrix, torch.randn(()), torch.randn(0, 3), torch.randn(2, 3)]
    vector = torch.tensor([2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    tables = DeviceTables()
    for several in (xs, xs[:1], xs[1:]):
        expanded = factors.expanded(vector[: len(several)], several, tables)
        for x, factor, value in zip(several, expanded, vector, strict=False):
            assert factor.shape == x.shape
            assert factor.dtype == x.dtype
            assert (factor == value).all()
    assert factors.expanded(vector, xs, tables)[0].stride() == strides


def test_factors_of_rows_lie_as_the_tensors_do():
    image = torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)
    xs = [torch.randn(3, 5), torch.randn(7), torch.randn(6, 2).t(), image, torch.randn(()), torch.randn(0, 5)]
    units = [3, 1, 2, 4, 1, 0]
    by_unit = torch.arange(11, dtype=torch.float64)
    rows = factors.expanded_rows(by_unit, units, xs, DeviceTables())
    for x, factor, part in zip(xs, rows, by_unit.split(units), strict=True):
        shape = (-1, *[1] * (x.ndim - 1)) if x.ndim else ()
        expected = part.float().view(shape).expand_as(x)
        assert torch.equal(factor, expected)
    assert rows[3].stride() == image.stride()


class RoundsAsCuda(TorchDispatchMode):
    """Rounds a 0-dim operand to half precision if the other operand has that, as CUDA's kernels do."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if len(args) > 1:
            x, y, *rest = args
            if isinstance(x, list) and isinstance(y, list):
                y = [self.rounded(a, b) for a, b in zip(x, y, strict=True)]
            else:
                y = self.rounded(x, y)
            args = (x, y, *rest)
        return func(*args, **(kwargs or {}))

    def rounded(self, x, y):
        """The second operand as a kernel takes it."""
        if not (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)):
            return y
        if x.dtype in HALF and x.ndim > 0 and y.ndim == 0 and y.is_floating_point():
            return y.to(x.dtype)
        return y


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_factors_are_not_rounded_to_half_precision(dtype, as_on_a_gpu):
    xs = [torch.randn(40, 30).to(dtype), torch.randn(50).to(dtype)]
    vector = torch.tensor([0.997, 1e-9]).double()
    expected = []
    for x, factor in zip(xs, vector, strict=True):
        product = x.float() * factor.float()
        expected.append(product.to(dtype))
    with torch.no_grad(), RoundsAsCuda():
        products = norms.copied(factors.scaled(xs, vector, DeviceTables()), dtype)
        rounded = torch._foreach_mul(xs, list(vector.unbind()))
        assert not torch.equal(rounded[0], expected[0])
        factors.scale_(xs, vector, DeviceTables())
    assert all(map(torch.equal, products, expected))
    assert all(map(torch.equal, xs, expected))


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("options", [{"max_grad_norm": 0.777}, {"agc_clip": 0.0123, "agc_norm": "tensor"}], ids=str)
def test_gradients_in_half_precision_are_clipped_as_on_a_cpu(dtype, options, request):
    def moments():
        params = parameters(SHAPES, dtype)
        optimizer = PsiLogic(params, eps=1e-3, fused=False, **options)
        trace(optimizer, params, gradients(4, SHAPES, dtype))
        return [optimizer.state[p]["exp_avg"] for p in params]

    expected = moments()
    request.getfixturevalue("as_on_a_gpu")
    with RoundsAsCuda():
        assert all(map(torch.equal, moments(), expected))


def tensors_on_a_device(shapes, dtype=torch.float32):
    return [nn.Parameter(torch.empty(shape, device="meta", dtype=dtype)) for shape in shapes]


HALF_PRECISION = {"dtype": torch.bfloat16}
LAUNCHED = {
    "defaults": {},
    "clipping": {"max_grad_norm": 1.0},
    "absolute gate": {"adaptive_tau": False},
    "quantum decay": {"quantum_decay": 0.1},
    "relative": {"chaos_signal": "relative"},
    "capturable": {"capturable": True},
    "AGC": {"agc_clip": 0.01},
    "GC": {"grad_centralize": True},
    "both": {"agc_clip": 0.01, "grad_centralize": True},
    "half precision": HALF_PRECISION,
    "half precision, capturable": {**HALF_PRECISION, "capturable": True},
    "half precision, quantum decay": {**HALF_PRECISION, "quantum_decay": 0.1},
    "stochastic": {**HALF_PRECISION, "bf16_update": "stochastic"},
    "compensated": {**HALF_PRECISION, "bf16_update": "kahan"},
    "compensated, capturable": {**HALF_PRECISION, "bf16_update": "kahan", "capturable": True},
}


def launches(layers, dtype=torch.float32, **options):
    params = tensors_on_a_device(LAYER * layers, dtype)
    return count(PsiLogic(params, **options), params)


@pytest.mark.parametrize("options", LAUNCHED.values(), ids=LAUNCHED)
def test_launches_do_not_grow_with_the_number_of_tensors(options):
    """Up to the number that one launch takes."""
    assert launches(2, **options) == launches(4, **options)


def gpt2(width, layers):
    """The shapes of GPT-2's parameters."""
    matrices = [(width, 3 * width), (3 * width,), (width, width), (width, 4 * width), (4 * width,), (4 * width, width)]
    layer = [*matrices, *[(width,)] * 6]
    return [(50257, width), (1024, width), *layer * layers, (width,), (width,)]


GPT2 = gpt2(width=768, layers=12)
GPT2_XL = gpt2(width=1600, layers=48)


def test_small_tensors_share_launches_without_foreach():
    """They need little memory together, and a launch for each would take most of the time."""
    counts = []
    for number in (2, 50):
        params = tensors_on_a_device([(8, 8)] * number)
        counts.append(count(PsiLogic(params, foreach=False, fused=False), params))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("shapes", "capacity"),
    [
        (GPT2, CUDA_13),
        pytest.param(GPT2_XL, CUDA_13, marks=pytest.mark.soak),
        (GPT2, OLDER),
        pytest.param(GPT2_XL, OLDER, marks=pytest.mark.soak),
    ],
    ids=["GPT-2, CUDA 13", "GPT-2 XL, CUDA 13", "GPT-2, older", "GPT-2 XL, older"],
)
def test_launches_of_whole_models(shapes, capacity):
    """Some 16 for each batch of 16.8M elements, over which the copies are bounded, where AdamW has one."""
    params = tensors_on_a_device(shapes)
    adamw = count(torch.optim.AdamW(params, foreach=True), params, capacity)
    assert count(PsiLogic(params), params, capacity) <= 20 * adamw


def test_adamw_in_a_graph_takes_more_launches(monkeypatch):
    """With `capturable` torch divides by a list of 0-dim tensors, which is a launch for each."""
    adam = import_module("torch.optim.adam")
    monkeypatch.setattr(adam, "_get_capturable_supported_devices", lambda *_, **__: ["meta"])
    params = tensors_on_a_device(GPT2)
    adamw = torch.optim.AdamW(params, foreach=True, capturable=True)
    assert count(PsiLogic(params, capturable=True), params) < count(adamw, params)


def test_stochastic_rounding_takes_no_launch_for_each_small_tensor():
    """It takes eight launches for a tensor by itself: the small ones are rounded together."""
    params = tensors_on_a_device(GPT2, torch.bfloat16)
    nearest = count(PsiLogic(params), params)
    stochastic = count(PsiLogic(params, bf16_update="stochastic"), params)
    assert stochastic - nearest < 3 * len(params)
