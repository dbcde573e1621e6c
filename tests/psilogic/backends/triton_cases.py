"""Cases that run in Triton's interpreter: this file is the program, started with TRITON_INTERPRET=1.

It prints name and traceback of each failed case, and returns their number. With the argument "soak" it also runs the
sizes and configurations that the others represent, which takes minutes.
"""

import math
import sys
import traceback
from array import array
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from unittest.mock import patch

import torch
import triton
import triton.language as tl
from configurations import CONFIGURATIONS, assert_same, build, snapshot, trace
from torch import nn
from torch.profiler import ProfilerActivity, profile
from trajectories import gradients, ones_for, parameters, set_gradients, watch
from triton.runtime import interpreter
from triton_calls import unit_sums, update_

from psilogic import PsiLogic
from psilogic import decision as truth
from psilogic.backends import foreach
from psilogic.backends.cpu import kernels as cpu_kernels
from psilogic.backends.factors import factors_of
from psilogic.backends.triton import decide, decision_kernels, sum_kernels, units
from psilogic.backends.triton import tables as triton_tables
from psilogic.backends.triton import update as updates
from psilogic.backends.triton import update_kernels as kernels
from psilogic.backends.triton.launch import compiled_for
from psilogic.gradients import common_factor, measure, pooled_norms, process, total_squares
from psilogic.step import BucketStep, DetectorState, Step, Tensors
from psilogic.tensors.buckets import Bucket, BucketCache
from psilogic.tensors.device_tables import DeviceTables
from psilogic.tensors.scalars import ScalarKind, scalar_names

CASES = []
SOAK = sys.argv[1:] == ["soak"]
HALF = (torch.bfloat16, torch.float16)
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}
CHUNK = updates.CHUNK_BYTES // 4  # in float32
SHAPES = [(), (1,), (5,), (0,), (0, 4), (3, 0), (4, 3), (2, 3, 2, 2), (40, 70), (1, 9), (9, 1), (33, 64), (17, 33)]
FEW = [(), (0,), (9, 1), (2, 3, 2, 2), (17, 33)]
AROUND = []
for size in (CHUNK // 4, CHUNK // 2, CHUNK, 2 * CHUNK):
    AROUND += [(size - 1,), (size,), (size + 1,), (size + 16,)]
LONG = [(3, CHUNK + 5), (2, CHUNK), (3, 700), (5, 2 * CHUNK + 16), (2, 3, 1100)]
BETAS = (0.9, 0.999)


for function in (kernels.update_kernel, tl.standard.sum):  # of this package, and of Triton
    interpreter._patch_lang(function.fn)
# Once: the interpreter does so in each function that a kernel calls, and undoes it, which takes a third of its time.
interpreter._patch_lang = lambda function: SimpleNamespace(restore=lambda: None)
# It computes whether integers overflow, and drops the answer unless it debugs, which takes a quarter of its time.
builder = interpreter.interpreter_builder
builder.options = replace(builder.options, sanitize_overflow=False)


def case(function):
    CASES.append(function)
    return function


def ulp(x):
    """The distance of a half-precision number to the next one: the interpreter cuts bfloat16 off, it does not round."""
    info = torch.finfo(x.dtype)
    size = x.abs().float().clamp(min=info.tiny)
    exponent = torch.floor(torch.log2(size))
    return info.eps * torch.exp2(exponent)


def same(actual, expected, message, tolerance=None):
    if expected.dtype in HALF:
        equal = (actual == expected) | (actual.isnan() & expected.isnan())
        distance = (actual.float() - expected.float()).abs()
        assert (equal | (distance <= ulp(expected) + 1e-6)).all(), f"{message}: {distance[~equal].max()}"
    else:
        if tolerance is None:
            tolerance = TOLERANCE[expected.dtype]
        torch.testing.assert_close(
            actual,
            expected,
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
            msg=lambda text: f"{message}: {text}",
        )


def as_drawn(x):
    return x


class Problem:
    """Tensors with state, and the vectors of a step, drawn at random."""

    def __init__(self, shapes, dtype, *, by_rows=True, scale=True, mean=True, quantum=True, seed=0, make=as_drawn):
        generator = torch.Generator().manual_seed(seed)

        def draw():
            return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]

        self.params = [make(x) for x in draw()]
        self.grads = [make(x) for x in draw()]
        self.exp_avgs = [make(x) for x in draw()]
        self.exp_avg_sqs = [make(x.square()) for x in draw()]
        self.units = [len(p) if by_rows and p.ndim > 1 else 1 for p in self.params]
        count = sum(self.units)
        size = len(shapes)
        self.t = torch.randint(1, 50, (size,), generator=generator).double()
        self.decay = torch.rand(size, generator=generator).double() * 0.1
        self.quantum_rate = torch.rand(size, generator=generator).double() if quantum else None
        self.scale = torch.rand(count, generator=generator).double() * 2 if scale else None
        self.mean = torch.randn(count, generator=generator).double() if mean else None

    @property
    def lists(self):
        return Tensors(self.params, self.grads, self.exp_avgs, self.exp_avg_sqs)

    @property
    def by_rows(self):
        return any(n != 1 for n in self.units)

    def spread(self, vector, dtype):
        """A value for each unit, as tensors that broadcast with the gradients."""
        spread = []
        for part, g in zip(vector.to(dtype).split(self.units), self.grads, strict=True):
            shape = (-1, *[1] * (g.ndim - 1)) if g.ndim else ()
            spread.append(part.view(shape))
        return spread

    def expected(self, lr=0.1, betas=BETAS, eps=1e-8):
        """The result of foreach; half precision is computed in float32 and rounded at the end."""
        dtype = self.params[0].dtype
        exact = torch.float32 if dtype in HALF else dtype
        copies = []
        for xs in self.lists:
            copies.append([x.detach().to(exact, copy=True) for x in xs])
        params, grads, exp_avgs, exp_avg_sqs = copies
        if self.mean is not None:
            grads = [g - m for g, m in zip(grads, self.spread(self.mean, exact), strict=True)]
        if self.scale is not None:
            grads = [g * s for g, s in zip(grads, self.spread(self.scale, exact), strict=True)]
        tensors = Tensors(params, grads, exp_avgs, exp_avg_sqs)
        foreach.adam_(tensors, factors_of(self.step(float(lr), betas, eps)), DeviceTables())
        return [[x.to(dtype) for x in xs] for xs in (params, exp_avgs, exp_avg_sqs)]

    def update(self, tables=None, lr=0.1, betas=BETAS, eps=1e-8):
        known = DeviceTables() if tables is None else tables
        update_(self.lists, self.step(lr, betas, eps), self.mean, self.scale, self.units, known)

    def step(self, lr, betas, eps):
        return Step(self.t, self.decay, self.quantum_rate, lr, 0.0, eps, *betas)

    def check(self, tables=None, tolerance=None, **options):
        """One step, against foreach."""
        assert updates.supports(self.lists, self.by_rows)
        grads_before = [g.clone() for g in self.grads]
        grad_versions = versions_of(self.grads)
        changed = {"parameter": self.params, "exp_avg": self.exp_avgs, "exp_avg_sq": self.exp_avg_sqs}
        versions = {name: versions_of(xs) for name, xs in changed.items()}
        expected = self.expected(**options)
        self.update(tables, **options)
        assert versions_of(self.grads) == grad_versions
        for (name, xs), ys in zip(changed.items(), expected, strict=True):
            for x, y, version in zip(xs, ys, versions[name], strict=True):
                assert x._version > version or x.numel() == 0, "autograd must see the change"
                same(x, y, f"{name} of shape {tuple(x.shape)}, {x.dtype}", tolerance)
        for g, before in zip(self.grads, grads_before, strict=True):
            assert torch.equal(g.nan_to_num(7.0), before.nan_to_num(7.0))


def versions_of(tensors):
    """Autograd's count of changes of each tensor."""
    return [x._version for x in tensors]


@case
def every_option_in_every_dtype():
    every_option = list(product([False, True], repeat=4))
    for dtype in updates.DTYPES:
        if SOAK:
            chosen = range(16)
        elif dtype == torch.float32:
            chosen = (0, 3, 5, 6, 8, 15)
        else:
            chosen = (15,)
        for seed in chosen:
            quantum, mean, scale, by_rows = every_option[seed]
            Problem(FEW, dtype, by_rows=by_rows, scale=scale, mean=mean, quantum=quantum, seed=seed).check()


@case
def all_kinds_of_shapes():
    for dtype in updates.DTYPES:
        Problem(SHAPES, dtype).check()
    Problem([(0,), (3, 0)], torch.float32).check()


@case
def sizes_around_those_of_chunks():
    Problem(AROUND + LONG, torch.float32).check()
    if SOAK:
        Problem(AROUND, torch.float32, scale=False, mean=False, quantum=False).check()
    Problem([(2 * CHUNK + 16,), (2 * CHUNK - 1,), (3, CHUNK + 1)], torch.bfloat16).check()
    Problem([(CHUNK // 2 + 16,), (CHUNK // 2 - 1,), (3, CHUNK // 2 + 1)], torch.float64).check()


@case
def hyperparameters():
    for dtype in (torch.float32, torch.float64):
        for options in (
            {"lr": torch.tensor(0.1, dtype=torch.float64)},
            {"lr": torch.tensor(0.1, dtype=torch.float64).float()},
            {"lr": 0.0},
            {"betas": (0.0, 0.0)},
            {"betas": (0.3, 0.99999)},
            {"betas": (0.99, 0.5), "eps": 0.1},
        ):
            Problem(FEW, dtype).check(**options)


@case
def memory_formats():
    def channels_last(x):
        return x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x

    shapes = [(6, 5, 3, 3), (4, 1, 3, 3), (1, 4, 2, 2), (7, 3)]
    Problem(shapes, torch.float32, make=channels_last).check()
    transposed = Problem([(7, 9)], torch.float32, by_rows=False, make=torch.t)
    transposed.check()
    assert not updates.supports(transposed.lists, by_rows=True)


@case
def what_is_not_finite_stays_in_its_element():
    problem = Problem([(50, 40), (300,)], torch.float32, mean=False)
    for i, value in enumerate((math.nan, math.inf, -math.inf, 1e30, 0.0, -0.0)):
        for xs in (problem.grads, problem.params):
            xs[0][i, 3 * i] = value
            xs[1][17 * i] = value
    problem.check()
    damaged = [int((~p.isfinite()).sum()) for p in problem.params]
    assert sum(damaged) <= 2 * 3


@case
def zero_and_tiny_second_moments():
    problem = Problem([(64,), (64,)], torch.float32, scale=False, mean=False)
    problem.grads[0].zero_()
    problem.grads[1].mul_(1e-18)
    for moment in (*problem.exp_avgs, *problem.exp_avg_sqs):
        moment.zero_()
    problem.check()
    assert all(p.isfinite().all() for p in problem.params)
    problem.grads[0].fill_(1e-18)
    problem.exp_avg_sqs[1].fill_(1e-40)
    problem.check(tolerance=1e-4, eps=0.0)  # numbers below 1e-38 have few digits


@case
def tensors_at_any_address():
    """Every combination of aligned and misaligned tensors; memory around them does not change."""
    guards = []

    def shifted(x, by):
        storage = torch.full((x.numel() + 32,), 7.0, dtype=x.dtype)
        storage[by : by + x.numel()] = x
        guards.append((storage, by, x.numel()))
        return storage[by : by + x.numel()]

    for dtype, sizes in ((torch.float32, (16, 3000)), (torch.bfloat16, (1000,))):
        shapes = []
        for size in sizes:
            shapes += [(size,)] * 16
        problem = Problem(shapes, dtype, quantum=False)
        shifts = list(product((0, 1), repeat=4))  # of parameter, gradient and moments
        for k, xs in enumerate(problem.lists):
            for i, x in enumerate(xs):
                xs[i] = shifted(x, shifts[i % 16][k])
        problem.check()
    for storage, by, size in guards:
        assert (storage[:by] == 7).all()
        assert (storage[by + size :] == 7).all()


@case
def offsets_beyond_32_bits():
    """The last chunk of a tensor of more than 2^31 elements, of which only that chunk exists."""
    for dtype in (torch.float32, torch.bfloat16):
        chunk = updates.CHUNK_BYTES // dtype.itemsize
        check_last_chunk(dtype, chunk, by_rows=False)
        check_last_chunk(dtype, chunk, by_rows=True)


def check_last_chunk(dtype, chunk, by_rows):
    """The update of the last 100 elements of a tensor or of its second row, against foreach."""
    chunks_before = 3 * 2**31 // chunk
    first = chunks_before * chunk
    last = first + 100
    row_length = 3 * 2**31 + 10 if by_rows else last
    scale = torch.tensor([3.0, 2.0])
    mean = torch.tensor([0.125, 0.25])
    problem = Problem([(100,)], dtype, quantum=False)
    reference = Problem([(100,)], dtype, quantum=False, scale=False, mean=False)
    reference.t = problem.t
    reference.decay = problem.decay
    rows = torch.arange(first, last) // row_length
    processed = (problem.grads[0].float() - mean[rows]) * scale[rows]
    reference.grads = [processed.to(dtype)]
    expected = reference.expected()
    addresses = [xs[0].data_ptr() - first * dtype.itemsize for xs in problem.lists]
    kernels.update_kernel[(1,)](
        torch.tensor(addresses),
        torch.tensor([last, -chunks_before, 0, row_length]),
        torch.tensor([0]),
        problem.t,
        problem.decay,
        None,
        mean.double(),
        scale.double(),
        None,
        None,
        1,
        0,
        0.1,
        *BETAS,
        *map(math.log, BETAS),
        1e-8,
        *compiled_for(dtype),
        BY_ROWS=by_rows,
        CHUNK=chunk,
        ALIGNED_PART=1024,
        PART=512,
    )
    tolerance = 0.05 if dtype in HALF else 1e-6
    for xs, ys in zip((problem.params, problem.exp_avgs, problem.exp_avg_sqs), expected, strict=True):
        torch.testing.assert_close(xs[0], ys[0], rtol=tolerance, atol=tolerance)


@triton.jit
def _evaluate(out_tanh, out_correction, x, log_beta, t, DTYPE: tl.constexpr, SIZE: tl.constexpr):
    lane = tl.arange(0, SIZE)
    tl.store(out_tanh + lane, kernels.tanh(tl.load(x + lane)))
    correction = kernels.bias_correction(tl.load(log_beta + lane), tl.load(t + lane), DTYPE)
    tl.store(out_correction + lane, correction)


@case
def tanh_and_bias_correction_to_the_last_digits():
    for dtype, tolerance in ((torch.float32, 4e-7), (torch.float64, 1e-15)):
        smallest = -37 if dtype == torch.float32 else -300
        small_and_large = torch.logspace(smallest, 30, 400)
        around_a_half = torch.linspace(0.4, 0.6, 110)
        x = torch.cat([torch.zeros(1), small_and_large, around_a_half, torch.tensor([math.inf])]).to(dtype)
        betas = torch.tensor([0.0, 1e-9, 0.1, 0.5, 0.9, 0.99, 0.999, 0.999999], dtype=torch.float64)
        log_beta = betas.repeat(64).log()
        t = torch.logspace(0, 7, 64).round().double().repeat_interleave(8)
        tanh = torch.empty(512, dtype=dtype)
        correction = torch.empty(512, dtype=dtype)
        constants = {"DTYPE": updates.DTYPES[dtype], "SIZE": 512}
        _evaluate[(1,)](tanh, correction, x.contiguous(), log_beta, t, **constants)
        torch.testing.assert_close(tanh.double(), x.double().tanh(), rtol=tolerance, atol=0.0)
        torch.testing.assert_close(correction.double(), -torch.expm1(t * log_beta), rtol=tolerance, atol=0.0)
        _evaluate[(1,)](tanh, correction, x.fill_(math.nan), log_beta, t, **constants)
        assert tanh.isnan().all()


class RecordedTables(DeviceTables):
    """Tables on a device that remember which ones they gave last."""

    def __init__(self):
        super().__init__()
        self.last = {}

    def get(self, name, *arguments, **options):
        self.last[name] = super().get(name, *arguments, **options)
        return self.last[name]


@case
def tables_follow_addresses_and_sizes():
    problem = Problem([(3,), (40, 7)], torch.float32)
    known = RecordedTables()

    def step():
        problem.check(known)

    def squares():
        unit_sums(problem.grads, None, [1, 1], False, known).by_unit()

    def uploaded(act):
        """The names of the tables that are uploaded again."""
        before = dict(known.last)
        act()
        return {name for name, tables in known.last.items() if tables is not before.get(name)}

    assert uploaded(step) >= {"addresses", "chunks"}
    assert uploaded(step) == set()
    problem.grads[1] = torch.randn_like(problem.grads[1])
    assert uploaded(step) == {"addresses"}
    problem.exp_avgs[1] = problem.exp_avgs[1].clone()
    assert uploaded(step) == {"addresses"}
    for xs in problem.lists:
        xs[1] = xs[1][:20]
    problem.units[1] = 20
    count = sum(problem.units)
    problem.scale = problem.scale[:count]
    problem.mean = problem.mean[:count]
    assert "chunks" in uploaded(step)
    assert uploaded(squares)
    assert uploaded(squares) == set()


SMALLER = {"LONG": 1024, "SEGMENT": 4096, "FEW": 4, "MANY_ROWS": 8, "PARTS": 8}


@contextmanager
def smaller_parts():
    """Numbers of rows, of parts, and of elements in a part that fewer elements exceed: the interpreter is slow."""
    if SOAK:
        yield
        return
    with ExitStack() as patches:
        for module in (sum_kernels, triton_tables, decision_kernels, units):
            for name, value in SMALLER.items():
                if hasattr(module, name):
                    patches.enter_context(patch.object(module, name, tl.constexpr(value)))
        yield


def summed_shapes():
    """Rows of every length for which the kernel has a path of its own, and around the limits."""
    segment = sum_kernels.SEGMENT.value
    short = [(), (5,), (0,), (0, 4), (3, 0), (2, 3, 2, 2), (40, 7), (9, 1), (33, 64), (3, 65), (9, 512), (2, 513)]
    long = [(16, 528), (1, segment), (2, segment + 1), (1, 2 * segment + 48), (700,), (3 * segment,)]
    return short + long


@case
@smaller_parts()
def statistics_of_units():
    for dtype in updates.DTYPES:
        is_whole = SOAK or dtype == torch.float32
        shapes = summed_shapes() if is_whole else summed_shapes()[1::3]
        problem = Problem(shapes, dtype)
        check_statistics(problem, with_sums=True, params=problem.params)
        if dtype == torch.float32:
            check_statistics(problem, with_sums=True, params=None)
            check_statistics(problem, with_sums=False, params=problem.params)


def check_statistics(problem, with_sums, params):
    """The sums over units; in float32 twice, with the same tables."""
    tables = DeviceTables()
    result = unit_sums(problem.grads, params, problem.units, with_sums, tables).by_unit()
    squares, sums, param_squares = result
    assert squares is not None
    assert (sums is not None) == with_sums
    assert (param_squares is not None) == (params is not None)
    _compare_statistics(problem, squares, sums, param_squares)
    if problem.params[0].dtype != torch.float32:
        return
    again = unit_sums(problem.grads, params, problem.units, with_sums, tables).by_unit()
    for first, second in zip(result, again, strict=True):
        if first is None:
            assert second is None
        else:
            assert torch.equal(first, second)


SEGMENT = sum_kernels.SEGMENT.value


@case
def rows_of_equal_elements_lose_everything_with_their_mean():
    lengths = [7, 300, 3 * SEGMENT + 5]
    numel = torch.tensor(lengths, dtype=torch.float64).repeat_interleave(3)
    for dtype in updates.DTYPES:
        grads = [torch.full((3, length), 0.3, dtype=dtype) for length in lengths]
        squares, sums, _ = unit_sums(grads, None, [3] * 3, True, DeviceTables()).by_unit()
        left = squares - sums.square() / numel
        assert (left.abs() < 1000 * torch.finfo(torch.float64).eps * squares).all()


def rows_of(tensors, units):
    """Each tensor as a matrix with a row for each of its units, in float64."""
    matrices = []
    for x, count in zip(tensors, units, strict=True):
        columns = x.numel() // count if count else 1
        matrices.append(x.double().reshape(count, columns))
    return matrices


def _compare_statistics(problem, squares, sums, param_squares):
    is_precise = problem.grads[0].dtype == torch.float64 or sums is not None
    tolerance = 1e-14 if is_precise else 1e-6
    rows = rows_of(problem.grads, problem.units)
    expected = torch.cat([x.square().sum(1) for x in rows])
    assert squares.dtype == torch.float64
    torch.testing.assert_close(squares, expected, rtol=tolerance, atol=0.0)
    if sums is not None:
        expected = []
        for x, g in zip(rows, problem.grads, strict=True):
            sums_of_rows = x.sum(1)
            expected.append(sums_of_rows if g.ndim > 1 else torch.zeros_like(sums_of_rows))
        error = (sums - torch.cat(expected)).abs()
        size = torch.cat([x.abs().sum(1) for x in rows])
        assert (error <= tolerance * size).all()
    if param_squares is not None:
        param_rows = rows_of(problem.params, problem.units)
        expected = torch.cat([x.square().sum(1) for x in param_rows])
        torch.testing.assert_close(param_squares, expected, rtol=tolerance, atol=0.0)


@case
def statistics_at_any_address_and_not_finite():
    storage = torch.randn(3 * SEGMENT)
    grads = [storage[1 : 1 + SEGMENT + 100], storage[SEGMENT + 3 : 2 * SEGMENT].view(1, -1), storage[5:50].view(9, 5)]
    squares, sums, _ = unit_sums(grads, None, [1, 1, 9], True, DeviceTables()).by_unit()
    rows = rows_of(grads, [1, 1, 9])
    torch.testing.assert_close(squares, torch.cat([x.square().sum(1) for x in rows]), rtol=1e-6, atol=0.0)
    torch.testing.assert_close(sums[1:], torch.cat([x.sum(1) for x in rows[1:]]), rtol=1e-14, atol=1e-11)
    assert sums[0] == 0.0
    storage[7] = math.nan
    squares, sums, _ = unit_sums(grads, None, [1, 1, 9], True, DeviceTables()).by_unit()
    assert squares.isnan().tolist() == [True, False, True] + [False] * 8
    assert sums.isnan().tolist() == [False, False, True] + [False] * 8


@case
def what_is_not_supported():
    def supported(param, grad, exp_avg, exp_avg_sq, by_rows=False):
        return updates.supports(Tensors([param], [grad], [exp_avg], [exp_avg_sq]), by_rows)

    p = torch.zeros(4, 6)
    assert supported(p, p.clone(), p.clone(), p.clone(), by_rows=False)
    assert supported(p, p.clone(), p.clone(), p.clone(), by_rows=True)
    assert not updates.supports(Tensors([], [], [], []), by_rows=False)
    gaps = [torch.zeros(4, 12)[:, ::2], torch.zeros(4, 1).expand(4, 6)]
    for other in (p.half(), p.t().contiguous().t(), torch.zeros(4, 7), p.to_sparse(), *gaps):
        assert not supported(p, other, p, p)
        assert not supported(p, p, p, other)
    for other in (p.to(torch.complex64), p.int(), *gaps):
        assert not supported(other, other, other, other)


@contextmanager
def noted(kernel):
    """The launches of a kernel."""
    launches = []
    run = kernel.run

    def note(*args, **kwargs):
        launches.append(kwargs["grid"])
        return run(*args, **kwargs)

    kernel.run = note
    try:
        yield launches
    finally:
        del kernel.run


READING = {"aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal"}
"""Operations that wait for a device."""


@contextmanager
def nothing_is_read():
    """No number reaches the host. What an operation on host tensors reads on its way does not count."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        yield
    for event in profiler.events():
        parent = event.cpu_parent
        is_part = parent is not None and parent.name.startswith("aten::")
        assert is_part or event.name not in READING


def drawn(generator, *choices):
    return choices[torch.randint(len(choices), (), generator=generator).item()]


def random_group(generator):
    """Hyperparameters drawn at random."""
    choices = {
        "lr": (0.1, 0.0, 1, torch.tensor(0.3)),
        "weight_decay": (0.0, 0.1),
        "eps": (1e-8, 0.0),
        "gamma": (0.0, 3.0),
        "p_ext": (1.0, 0.5),
        "max_cancel": (0.05, 0.5),
        "adaptive_tau": (True, True, False),
        "tau_scale": (2.0, 0.7),
        "chaos_tau": (0.1, 0.5, 0.0),
        "chaos_warmup": (0, 10, -1),
        "total_steps": (0, 100),
        "gamma_T_max": (0, 7, 50),
        "quantum_decay": (0.0, 1.0),
        "agc_clip": (0.0, 0.0, 0.01, 0.5),
        "agc_norm": ("unit", "tensor"),
        "grad_centralize": (False, True),
        "chaos_signal": ("raw", "relative"),
        "chaos_scope": ("tensor",),
        "max_grad_norm": (None, 1.0, 1e6),
        "maximize": (False, True),
        "differentiable": (False,),
    }
    group = {name: drawn(generator, *values) for name, values in choices.items()}
    group["betas"] = BETAS
    if group["grad_centralize"] and group["agc_clip"] > 0:
        group["agc_norm"] = "unit"
    return group


def decided_shapes():
    """Tensors of few rows and of many, of more tiles than a program reads at once; rows in few parts and in many."""
    tile = decision_kernels.MANY_ROWS.value
    few = decision_kernels.FEW.value
    parts = decision_kernels.PARTS.value
    segment = sum_kernels.SEGMENT.value
    small = [(), (5,), (0,), (0, 4), (3, 0), (40, 7)]
    many_rows = [(5 * tile + 7, 3), (tile * parts + tile + 3, 2)]
    long_rows = [(2, segment + 1), ((parts + 1) * segment + 5,), (3, (few + 1) * segment)]
    return small + many_rows + long_rows


def by_torch(bucket, memory, steps, start, grad_scale):
    """The processing and the decision of tensors by torch's operations."""
    group = bucket.group
    work = BucketStep(bucket, bucket, [], None, None)
    work.sums = measure(bucket)
    work.detector = memory
    process(work, common_factor([work], group["max_grad_norm"], grad_scale))
    (gn,) = pooled_norms([work])
    lr = group["lr"].double() if isinstance(group["lr"], torch.Tensor) else group["lr"]
    course = truth.by_clocks(group, steps + 1, steps + 1 - start)
    return work, truth.equations({**group, "lr": lr}, gn, memory, *course)


@case
def decisions_are_those_of_torch():
    """Every option, numbers that are not finite, rows in parts; and the state after an overflow."""
    with smaller_parts():
        check_decisions(decided_shapes())


def check_decisions(every_shape):
    generator = torch.Generator().manual_seed(0)
    trials = 32 if SOAK else 8
    period = 15 if SOAK else 6
    for trial in range(trials):
        is_large = trial % period == 1
        group = random_group(generator)
        if is_large:
            group["max_grad_norm"] = 1.0 if trial % 2 else None
            group["agc_norm"] = "unit"  # regardless of the draw, rows are processed
            if trial == 1:
                group["grad_centralize"] = True
            else:
                group["agc_clip"] = 0.5
        shapes = every_shape if is_large else every_shape[:7]
        params = normal(shapes, generator)
        grads = normal(shapes, generator)
        if trial % 3 == 0:
            grads[5][3, 1] = math.nan
            grads[1][2] = math.inf
            params[6][7, 0] = math.inf
            params[5][4, 4] = math.nan
        elif trial % 3 == 1:
            grads[6] = grads[6][:, :1].expand(-1, 3).contiguous()  # nothing is left without the rows' means
        check_decision(group, params, grads, generator, trial)


def normal(shapes, generator):
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def random_scalars(count, generator):
    """The state of the detectors and the clocks of some tensors."""
    fast, slow, reference = torch.rand(3, count, generator=generator, dtype=torch.float64)
    for vector in (fast, slow, reference):
        vector[0] = 0.0
    reference[5] = 0.0
    fast[3] = 0.0  # the fourth has no elements: gn is 0
    slow[3] = 0.0
    slow[4] = 0.5
    fast[4] = (2 * 0.99 * 0.5 + 5e-9) / 0.9  # a spike, but for the margin of a relative signal
    steps = torch.randint(0, 60, (count,), generator=generator).double()
    return {
        "step": steps,
        "chaos_start": torch.minimum(steps, torch.tensor(5.0)),
        "chaos_fast": fast,
        "chaos_slow": slow,
        "chaos_ref": reference,
    }


def check_decision(group, params, grads, generator, trial):
    """The kernels decide about these tensors as torch's operations do."""
    count = len(params)
    bucket = Bucket(
        [group] * count,
        torch.device("cpu"),
        torch.float64,
        None,
        BucketCache(),
        params,
        params,
        grads,
        [None] * count,
        list(range(count)),
    )
    before = random_scalars(count, generator)
    grad_scale = drawn(generator, None, torch.tensor([64.0]))
    reference = before["chaos_ref"] if group["chaos_signal"] == "relative" else None
    memory = DetectorState(before["chaos_fast"], before["chaos_slow"], reference)
    expected, wanted = by_torch(bucket, memory, before["step"], before["chaos_start"], grad_scale)

    is_overflow = trial % 5 == 4
    found_inf = None
    if trial % 2 == 0 or is_overflow:
        found_inf = torch.tensor([2.0 if is_overflow else 0.0])
    scalars = {name: value.clone() for name, value in before.items()}
    work = by_kernels(bucket, scalars, grad_scale, found_inf)

    def close(actual, expected, name):
        assert_same_vector(actual, expected, f"{name} of {group}")

    close(work.step.t, before["step"] + 1, "t")
    close(work.mean, expected.mean, "mean")
    close(work.scale, expected.scale, "scale")
    for name in wanted._fields:
        if name != "memory":
            close(getattr(work.decision, name), getattr(wanted, name), name)
    for name in memory._fields:
        close(getattr(work.decision.memory, name), getattr(wanted.memory, name), name)
    after = dict(before)
    if not is_overflow:
        after["step"] = before["step"] + 1
        after["chaos_fast"] = wanted.memory.fast
        after["chaos_slow"] = wanted.memory.slow
        if wanted.memory.reference is not None:
            after["chaos_ref"] = wanted.memory.reference
    for name, value in after.items():
        close(scalars[name], value, name)


def by_kernels(bucket, scalars, grad_scale, found_inf):
    """The processing and the decision of tensors by Triton's kernels; what they do not write is NaN."""
    group = bucket.group
    params = bucket.params if group["agc_clip"] > 0 else None

    def unwritten(*size, **options):
        return torch.full(size, math.nan, **options)

    with patch.object(torch, "empty", unwritten):
        sums = unit_sums(bucket.grads, params, bucket.units, group["grad_centralize"], DeviceTables())
    total = None
    if group["max_grad_norm"] is not None:
        total = total_squares([sums])
    work = BucketStep(bucket, bucket, [], None, None)
    work.sums = sums
    work.scalar_addresses = array("q")
    work.scalar_kinds = []
    for name in scalar_names(group):
        work.scalar_addresses.extend(x.data_ptr() for x in scalars[name].unbind())
        work.scalar_kinds.append(ScalarKind(torch.float64, scalars[name].device))
    decide.decide_bucket(work, units.Factors(total, grad_scale), found_inf, observed=True)
    return work


def assert_same_vector(actual, expected, what):
    if expected is None:
        assert actual is None, what
        return
    torch.testing.assert_close(
        actual,
        expected,
        rtol=1e-11,
        atol=1e-14,
        equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )


POOLED = ("group", "global")


def assert_same_runs(options, snapshots_of, make=parameters, tolerance=1e-11):
    """Triton's kernels and foreach: `snapshots_of` takes optimizer, parameters, and whether it is Triton's run."""
    params = make()
    by_triton = snapshots_of(build(params, **options, fused=True), params, True)
    params = make()
    by_foreach = snapshots_of(build(params, **options, fused=False), params, False)
    assert_same(by_triton, by_foreach, tolerance)


@case
def the_optimizer_takes_the_kernels():
    """With spikes and tensors that come late; the first step too."""
    in_double = CONFIGURATIONS if SOAK else ("everything",)
    in_single = ("no warm-up", "global") if SOAK else ("global",)
    for name in in_double:
        check_optimizer(name, torch.float64, 1e-11)
    for name in in_single:
        check_optimizer(name, torch.float32, 1e-5)


def check_optimizer(name, dtype, tolerance):
    """The steps of a configuration in a dtype, which Triton's kernels take."""

    def traced(optimizer, params, by_triton):
        with noted(decision_kernels.decide_kernel) as launches:
            snapshots = trace(optimizer, params, gradients(7, dtype=dtype, every=6))
        executed = "triton" if by_triton else "foreach"
        assert set(optimizer.executed) == {executed}, name
        assert bool(launches) == (by_triton and name not in POOLED), name
        return snapshots

    assert_same_runs(CONFIGURATIONS[name], traced, partial(parameters, dtype=dtype), tolerance)


@case
def groups_that_differ_in_numbers_share_the_launches():
    def make():
        return parameters(FEW * 2, torch.float64)

    def traced(optimizer, params, by_triton):
        optimizer = grouped(params, optimizer.defaults)
        with noted(kernels.update_kernel) as launches:
            snapshots = trace(optimizer, params, gradients(2, FEW * 2))
            optimizer.param_groups[1]["lr"] = 0.5  # as by a schedule
            snapshots += trace(optimizer, params, gradients(2, FEW * 2))
        assert len(launches) == (4 if by_triton else 0)
        return snapshots

    for options in ({}, {"adaptive_tau": False}):
        assert_same_runs(options, traced, make)


def grouped(params, defaults):
    """An optimizer with a group for each tensor, all different in the numbers that may differ."""
    groups = []
    for i, p in enumerate(params):
        groups.append(
            {
                "params": [p],
                "lr": 0.1 / (i + 1),
                "weight_decay": 0.1 * i,
                "gamma": 1.0 + i,
                "p_ext": 1.0 - 0.1 * i,
                "max_cancel": 0.05 * (i + 1),
                "tau_scale": 1.0 + 0.1 * i,
                "chaos_tau": 0.01 * i,
            }
        )
    return PsiLogic(groups, **{**defaults, "chaos_warmup": 0, "quantum_decay": 0.1})


@case
def an_overflow_changes_nothing_and_nothing_is_read():
    """As GradScaler leaves unscaling and skipping to the step: like foreach, which is spared the overflows."""

    def spared(optimizer, params, by_triton):
        snapshots = []
        for t, grads in enumerate(gradients(5, every=15)):
            overflow = t in (0, 3)
            if not by_triton:
                if not overflow:
                    snapshots += trace(optimizer, params, [grads])
                continue
            optimizer.grad_scale = torch.tensor([64.0])
            optimizer.found_inf = torch.tensor([2.0 if overflow else 0.0])
            before = snapshot(optimizer, params)
            factor = math.inf if overflow else 64.0
            set_gradients(params, [None if g is None else g * factor for g in grads])
            with nothing_is_read(), patch.object(Bucket, "on_host", False):  # as on another device
                optimizer.step()
            if not overflow:
                snapshots.append(snapshot(optimizer, params))
            elif t > 0:
                assert_same([snapshot(optimizer, params)], [before])
        return snapshots

    for name in ("everything", "global"):
        assert_same_runs(CONFIGURATIONS[name], spared)


@case
def a_captured_step_writes_the_state():
    """While a CUDA graph is captured no tensor of the state may be replaced by a view of another."""

    def captured(optimizer, params, by_triton):
        def held():
            """The identities of the tensors of the state."""
            identities = []
            for state in optimizer.state.values():
                identities += [id(value) for value in state.values()]
            return identities

        def yes():
            return True

        snapshots = trace(optimizer, params, gradients(2))
        before = held()
        with patch("torch.cuda.is_initialized", yes), patch("torch.cuda.is_current_stream_capturing", yes):
            snapshots += trace(optimizer, params, gradients(3))
        assert held() == before
        return snapshots

    assert_same_runs(CONFIGURATIONS["everything"], captured)


@case
def the_monitor_sees_no_step_that_was_skipped():
    params = parameters()
    optimizer = build(params, fused=True)
    seen = watch(optimizer)
    for found in (0.0, 1.0, 0.0, None):
        set_gradients(params, ones_for(params))
        optimizer.grad_scale = torch.tensor([2.0])
        optimizer.found_inf = None if found is None else torch.tensor([found])
        with noted(decision_kernels.decide_kernel) as launches:
            optimizer.step()
        assert bool(launches) == (found != 1.0)
    assert len(seen) == 3  # steps


@case
def other_executions_update_what_the_kernels_do_not_support():
    """A gradient with gaps, without the compiled kernels for a CPU; AGC of tensors with centralization of rows."""

    def make():
        return [*parameters([(3,), (4, 3), (6,)]), nn.Parameter(torch.ones(5, 2))]

    def traced(optimizer, params, by_triton, last_grad, expected):
        grads = [*ones_for(params[:3]), last_grad]
        with noted(decision_kernels.decide_kernel) as launches:
            snapshots = trace(optimizer, params, [grads] * 3)
        assert not launches
        if by_triton:
            assert set(optimizer.executed) == expected
        return snapshots

    with_gaps = torch.ones(5, 4)[:, ::2]
    with_a_gap = partial(traced, last_grad=with_gaps, expected={"triton", "foreach"})
    with patch.object(cpu_kernels, "kernels", None):
        assert_same_runs(CONFIGURATIONS["max_grad_norm"], with_a_gap, make)
    without_gaps = partial(traced, last_grad=torch.ones(5, 2), expected={"triton"})
    assert_same_runs({**CONFIGURATIONS["AGC of tensors"], "grad_centralize": True}, without_gaps, make)


def main():
    failures = 0
    for function in CASES:
        torch.manual_seed(0)
        try:
            function()
        except Exception:
            failures += 1
            print(f"--- {function.__name__}\n{traceback.format_exc()}", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(main())
