"""The update through compiled kernels: against torch's kernels and foreach, speculation, installation."""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from itertools import product
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, STEPS, TOGETHER, assert_same, build, snapshot, trace, truth
from grids import pairwise
from torch import nn
from torch.optim import AdamW
from trajectories import SHAPES, changed, gradients, parameters, set_gradients, train, watch

from psilogic import PsiLogic
from psilogic.backends.cpu import kernels
from psilogic.backends.cpu.sums import unit_statistics

ROOT = Path(__file__).parents[3]
LARGE = [
    (1, 70_000),  # more than a piece, and less
    (90_000,),
    (3, 30_000),
    (700, 9),
    (5, 7, 3, 3),
    (),
    (0,),
    (2, 0),
    (2500, 9),  # pieces of several rows
]

CAPABILITY = torch.backends.cpu.get_cpu_capability().lower()
IS_SUPPORTED = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
HAS_HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()
CAN_BE_BUILT = IS_SUPPORTED and HAS_HEADERS and shutil.which("c++") is not None
pytestmark = pytest.mark.skipif(kernels.kernels is None and not CAN_BE_BUILT, reason="nothing here builds the kernels")


@pytest.mark.parametrize("dtype", kernels.POSITIONS, ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"betas": (0.0, 0.9)}, {"betas": (0.5, 0.5)}, {"lr": 0.3, "weight_decay": 0.7, "eps": 1e-2}],
    ids=str,
)
def test_whole_vectors_are_those_of_adamw(options, dtype):
    """Bit by bit, up to the last elements of a tensor, which torch's kernel rounds otherwise."""
    shapes = [(64,), (16, 48), (128 * 300,)]
    script = gradients(STEPS, shapes, dtype)
    options = {"weight_decay": 1e-2, **options}
    params = parameters(shapes, dtype)
    ours = PsiLogic(params, gamma=0.0, **options)
    twins = parameters(shapes, dtype)
    theirs = AdamW(twins, fused=True, **options)
    torch.testing.assert_close(train(ours, params, script), train(theirs, twins, script), rtol=0, atol=0)
    for p, twin in zip(params, twins, strict=True):
        assert torch.equal(ours.state[p]["exp_avg"], theirs.state[twin]["exp_avg"])
        assert torch.equal(ours.state[p]["exp_avg_sq"], theirs.state[twin]["exp_avg_sq"])


@pytest.mark.parametrize("flushed", [False, True])
def test_every_number_of_float16_is_read_and_rounded_as_by_torch(flushed):
    """Also where the processor takes denormal numbers of float32 for zero."""
    numbers = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16)
    runs = []
    torch.set_flush_denormal(flushed)
    try:
        for build_ in (partial(PsiLogic, gamma=0.0), partial(AdamW, fused=True)):
            p = nn.Parameter(numbers.clone())
            optimizer = build_([p], lr=1e-2, weight_decay=0.3)
            for grad in (numbers.flip(0), numbers.roll(1 << 15)):
                p.grad = grad
                optimizer.step()
            runs.append([p.detach(), optimizer.state[p]["exp_avg"], optimizer.state[p]["exp_avg_sq"]])
    finally:
        torch.set_flush_denormal(False)
    torch.testing.assert_close(*runs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["defaults", *TOGETHER])
def test_threads_change_no_bit(threads, name):
    script = gradients(14, LARGE, torch.float32, every=6)
    runs = []
    for count in (1, 3):
        threads(count)
        params = parameters(LARGE, torch.float32)
        optimizer = build(params, **CONFIGURATIONS[name])
        train(optimizer, params, script)
        runs.append([snapshot(optimizer, params)])
    assert_same(*runs)


@pytest.mark.parametrize("name", TOGETHER)
def test_wherever_pieces_end(name):
    options = CONFIGURATIONS[name]
    params = parameters(LARGE)
    actual = trace(build(params, **options), params, gradients(14, LARGE, every=6))
    assert_same(actual, truth(options, 14, LARGE, every=6), 1e-12)


def test_the_kernels_are_those_of_this_processor():
    variant = CAPABILITY if CAPABILITY in ("avx2", "avx512") else "default"
    assert Path(kernels.kernels.__file__).name.startswith(f"kernels_{variant}.")


@pytest.mark.usefixtures("compiled_kernels")
def test_kernels_of_other_sources_are_refused(monkeypatch):
    """Their tables would have other entries, or the same in another order."""
    compiled = kernels.kernels
    monkeypatch.setattr(compiled, "UPDATE_ENTRIES", compiled.UPDATE_ENTRIES.replace("mean scale", "scale mean"))
    with pytest.raises(RuntimeError, match="was compiled from other sources than those here; install again"):
        kernels.load_kernels()


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["default", pytest.param("avx2", marks=pytest.mark.soak)])
def test_the_kernels_of_older_processors(capability):
    """Some of the tests above, in a process in which torch uses only the instructions of such a processor."""
    if capability == CAPABILITY or (capability == "avx2" and CAPABILITY != "avx512"):
        pytest.skip(f"the other tests run the kernels for {CAPABILITY}")
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}
    chosen = "this_processor or (whole_vectors and float32) or (pieces_end and clipping)"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-k", chosen, __file__]
    result = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


# Sums


@pytest.mark.parametrize("dtype", kernels.POSITIONS, ids=str)
@pytest.mark.parametrize("by_rows", [False, True])
def test_sums(threads, dtype, by_rows):
    threads(2)
    grads = [x.detach() for x in parameters(LARGE, dtype)]
    params = [x.detach() for x in parameters(LARGE, dtype, seed=2)]
    units = [len(x) if by_rows and x.ndim > 1 else 1 for x in grads]

    def exact_squares(tensors):
        rows = rows_of(tensors, units)
        return torch.cat([x.square().sum(1) for x in rows])

    squares, sums, param_squares = unit_statistics(grads, params, units, with_sums=True)
    torch.testing.assert_close(squares, exact_squares(grads), rtol=1e-13, atol=0)
    exact_sums = []
    for x, rows in zip(grads, rows_of(grads, units), strict=True):
        sums_of_rows = rows.sum(1)
        exact_sums.append(sums_of_rows if x.ndim > 1 else torch.zeros_like(sums_of_rows))
    torch.testing.assert_close(sums, torch.cat(exact_sums), rtol=1e-13, atol=1e-11)
    squares_alone, none, _ = unit_statistics(grads, None, units, with_sums=False)
    assert none is None
    rtol = 1e-13 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(squares_alone, squares, rtol=rtol, atol=0)
    torch.testing.assert_close(param_squares, exact_squares(params), rtol=rtol, atol=0)


def rows_of(tensors, units):
    """Each tensor as a matrix with a row for each of its units, in float64."""
    matrices = []
    for x, count in zip(tensors, units, strict=True):
        columns = x.numel() // count if count else 1
        matrices.append(x.double().reshape(count, columns))
    return matrices


def test_equal_elements_add_up():
    """In float32 a sum of 20 million equal numbers stops growing."""
    p = nn.Parameter(torch.zeros(20_000_000))
    p.grad = torch.full_like(p, 0.1)
    for options in ({}, {"max_grad_norm": 1e9}):  # in the pass of the update, and before it
        optimizer = PsiLogic([p], **options)
        optimizer.step()
        torch.testing.assert_close(optimizer.state[p]["chaos_fast"].item(), 0.01, rtol=4e-6, atol=0)


# Speculation


UNITS = {
    "as they are": {},
    "rows": {"agc_clip": 0.3, "grad_centralize": True},
    "rows without AGC": {"grad_centralize": True},
    "rows without centralization": {"agc_clip": 0.3},
    "tensors": {"agc_clip": 0.3, "agc_norm": "tensor"},
    "tensors and rows": {"agc_clip": 0.3, "agc_norm": "tensor", "grad_centralize": True},
}
SIZES = {"small": SHAPES, "large": LARGE}


DECAYS = [(0.1, 0.0), (31.0, 0.0), (33.0, 0.0), (64.0, 0.0), (0.1, 31.0), (31.0, 64.0)]
"""Weight decay and quantum decay."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size", "decays"),
    [
        *product(["as they are", "tensors and rows"], ["small"], DECAYS),
        *product(UNITS, ["small"], [(31.0, 64.0)]),
        *product(["as they are", "rows", "tensors and rows"], ["large"], [(31.0, 64.0)]),
        *[pytest.param(*case, marks=pytest.mark.soak) for case in product(UNITS, SIZES, DECAYS)],
    ],
    ids=str,
)
def test_what_fires_after_speculation(kind, size, decays):
    """Decay and cancellation together, also from half of the parameter on, where decay leaves little to cancel."""
    units = UNITS[kind]
    weight_decay, quantum_decay = decays
    options = {**ACTIVE, "chaos_warmup": 0, "gamma": 30.0, **units}
    options["weight_decay"] = weight_decay
    options["quantum_decay"] = quantum_decay
    shapes = SIZES[size]
    steps = 11 if size == "small" else 6
    params = parameters(shapes)
    optimizer = build(params, **options)
    seen = watch(optimizer)
    actual = trace(optimizer, params, gradients(steps, shapes, every=9))
    least = 1e-4 if "agc_clip" in units else 0.01  # AGC leaves the detector little to see in a parameter that shrinks
    assert any((decision.cancellation > least).any() for _, decision in seen)
    assert_same(actual, truth(options, steps, shapes, every=9), 1e-12)


@pytest.mark.parametrize("quantum_decay", [0.0, 3.0])
@pytest.mark.parametrize("units", [{}, {"agc_clip": 30.0, "grad_centralize": True}], ids=["as they are", "rows"])
def test_few_fire_among_many(units, quantum_decay):
    shapes = [(8, 5)] * 6
    options = {**ACTIVE, **units, "quantum_decay": quantum_decay}
    script = gradients(84, shapes, every=1000)  # the gate closes after 68 steps
    script[81][4] *= 1000
    params = parameters(shapes)
    optimizer = PsiLogic(params, **options)
    seen = watch(optimizer)
    actual = trace(optimizer, params, script)
    fired = seen[81].decision.gate.tolist()
    assert fired == [False, False, True, True, True, False]  # two have seen fewer gradients
    twins = parameters(shapes)
    reference = PsiLogic(twins, foreach=False, fused=False, **options)
    assert_same(actual, trace(reference, twins, script), 1e-12)


def test_what_fires_for_long_is_deferred(monkeypatch):
    """Otherwise its memory would be read and written once more in each of these steps."""
    step_ = kernels.step_
    corrected = []  # the number of tensors in each step

    def noted(*arguments):
        corrected.append(step_(*arguments))

    monkeypatch.setattr(kernels, "step_", noted)
    script = gradients(100, [(40,)] * 4, every=1000)
    for grads in script:
        grads[2] = torch.ones(40, dtype=torch.float64)
    script[80][1] *= 1000
    params = parameters([(40,)] * 4)
    optimizer = PsiLogic(params, **ACTIVE)
    seen = watch(optimizer)
    train(optimizer, params, script)
    firings = 0
    for _, decision in seen:
        fires = decision.gate & (decision.warmup > 0)
        firings += int(fires.sum())
    assert firings > 4 * 58
    assert list(filter(None, corrected)) == [1]  # at the spike, not in the steps that follow, nor when the warm-up ends


@pytest.mark.parametrize("flags", [{}, {"max_grad_norm": 1e9}, {"fused": False}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_equal_elements_have_no_norm_without_their_mean(dtype, flags):
    """The rounding error is not a norm: a relative signal would see spikes in it."""
    p = nn.Parameter(torch.zeros(3, 700, dtype=dtype))
    p.grad = torch.full_like(p, 0.1) * torch.tensor([[1.0], [3.0], [7.0]], dtype=dtype)
    optimizer = PsiLogic([p], grad_centralize=True, **flags)
    optimizer.step()
    assert optimizer.state[p]["chaos_fast"] == 0


@pytest.mark.parametrize("grad_scale", [None, torch.tensor(1024.0)], ids=["unscaled", "scaled"])
def test_no_speculation_before_an_overflow_is_known(grad_scale):
    """The step may not change tensors before it has read `GradScaler`'s `found_inf`."""
    shapes = [(40,), (8, 5)]
    script = gradients(8, shapes)
    params = parameters(shapes)
    optimizer = build(params, **ACTIVE)
    train(optimizer, params, script[:5])
    before = snapshot(optimizer, params)
    optimizer.found_inf = torch.ones(())
    optimizer.grad_scale = grad_scale
    train(optimizer, params, script[5:])
    assert_same([snapshot(optimizer, params)], [before])


def two_in(memory):
    return [nn.Parameter(memory), nn.Parameter(memory)]


def assert_one_after_the_other(groups, params_in=two_in, **options):
    """Two groups in one memory, one parameter each, change it as foreach does one by one."""
    runs = []
    for flags in ({}, {"foreach": False, "fused": False}):
        memory = torch.linspace(-1, 1, 1200, dtype=torch.float64).view(30, 40)
        params = params_in(memory)
        param_groups = []
        for p, group in zip(params, groups, strict=True):
            param_groups.append({"params": [p], **group, **flags})
        optimizer = PsiLogic(param_groups, **{**ACTIVE, **options})
        snapshots = []
        for grads in gradients(6, [(30, 40)] * 2):
            set_gradients(params, grads)
            if params[0].data_ptr() != memory.data_ptr():
                params[0].grad = memory
            optimizer.step()
            snapshots.append(snapshot(optimizer, params))
        runs.append(snapshots)
    assert_same(*runs, 1e-11)


@pytest.mark.parametrize("quantum_decay", [0.0, 3.0])
@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_groups_that_share_memory_change_it_one_after_the_other(units, quantum_decay):
    assert_one_after_the_other([{}, {}], chaos_warmup=0, quantum_decay=quantum_decay, **units)


class Derived(nn.Parameter):
    """A parameter of a derived class, with its values in separate memory."""


def one_of_a_class_in(memory):
    return [Derived(memory), nn.Parameter(memory)]


def a_gradient_of_the_first_in(memory):
    """The second parameter; the first one has separate memory."""
    return [nn.Parameter(memory.clone()), nn.Parameter(memory)]


@pytest.mark.parametrize("params_in", [two_in, one_of_a_class_in, a_gradient_of_the_first_in])
@pytest.mark.parametrize("first", [{"fused": False}, UNITS["tensors and rows"]], ids=["foreach", "not speculable"])
def test_speculation_does_not_overtake_an_earlier_group(first, params_in):
    """The second one may be updated before the norms are known, but not if it shares memory with the first one."""
    assert_one_after_the_other([first, {}], params_in)


@pytest.mark.parametrize("which", [0, 1])
def test_memory_shared_with_a_group_without_speculation(which):
    """In both orders: all read the memory before one changes it, and the first group changes it first."""
    groups = [{}, {}]
    groups[which] = {"maximize": True, "agc_clip": 1e-3}
    assert_one_after_the_other(groups, chaos_warmup=0, gamma=30.0)


@pytest.mark.parametrize("units", UNITS.values(), ids=UNITS)
def test_gradients_that_lie_in_their_parameters(units):
    runs = []
    for fused in (None, False):
        (p,) = parameters([(30, 40)])
        # Everything fires, so that nothing decays before gradients are read.
        options = {"gamma": 0.0, "weight_decay": 0.0, "chaos_warmup": 0, "quantum_decay": 3.0}
        optimizer = PsiLogic([p], fused=fused, lr=0.1, **options, **units)
        for _ in range(5):
            p.grad = p.detach()
            optimizer.step()
        runs.append(p.detach())
    torch.testing.assert_close(*runs, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("units", "bad", "place"),
    pairwise(list(UNITS), [float("nan"), float("inf")], ["gradient", "gradient, gates closed", "parameter"]),
    ids=str,
)
def test_what_is_not_finite_after_speculation(units, bad, place):
    """Quantum decay was applied before the norm was known not to be finite; with the gates open or closed."""
    options = {**ACTIVE, **UNITS[units], "chaos_warmup": 0, "quantum_decay": 20.0}
    options["tau_scale"] = 1e9 if place == "gradient, gates closed" else 2.0
    script = gradients(53, LARGE[2:5], every=1000)[-3:]  # the last of these tensors has none before
    runs = []
    for fused in (None, False):
        params = parameters(LARGE[2:5])
        for i, p in enumerate(params):
            damaged = p.detach() if place == "parameter" else script[i % 2][i]
            damaged.view(-1)[7] = bad
        runs.append(trace(build(params, fused=fused, **options), params, script))
    assert_same(*runs, 1e-11)


def test_an_optimizer_in_bfloat16_rounds_what_fires_twice_at_most():
    script = changed(gradients(40, [(400,)], every=15), torch.Tensor.bfloat16)
    runs = []
    for fused in (None, False):
        (p,) = parameters([(400,)], torch.bfloat16)
        optimizer = PsiLogic([p], **{**ACTIVE, "chaos_warmup": 0}, fused=fused)
        (after,) = train(optimizer, [p], script)
        runs.append(after.float())
    ours, by_foreach = runs
    difference = (ours - by_foreach).abs().max()
    assert difference <= 40 * 2**-8 * by_foreach.abs().max()


# Unusual tensors


@pytest.mark.parametrize("name", ["exp_avg", "chaos_fast"])
def test_released_memory_is_not_accessed(name):
    p = nn.Parameter(torch.zeros(5))
    optimizer = PsiLogic([p])
    train(optimizer, [p], [[torch.ones(5)]])
    before = p.detach().clone()
    optimizer.state[p][name].untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="has no memory"):
        train(optimizer, [p], [[torch.ones(5)]])
    assert torch.equal(p.detach(), before)


def test_a_lazily_negated_gradient():
    g = torch.randn(40, dtype=torch.float64)
    runs = []
    for grad in (torch._neg_view(g), -g):
        params = parameters([(40,)])
        params[0].grad = grad
        PsiLogic(params).step()
        runs.append(params[0].detach())
    torch.testing.assert_close(*runs, rtol=0, atol=1e-15)


def test_autograd_notices_that_parameters_changed():
    for options in ({}, {"max_grad_norm": 1.0}):
        p = nn.Parameter(torch.ones(3))
        loss = p.square().sum()
        set_gradients([p], [torch.ones(3)])
        PsiLogic([p], **options).step()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("size", [3, 8])
def test_parameters_resized_in_place(execution, size):
    """Moments of another size than the parameter's are an error, as in torch, and nothing is written past them."""
    memory = torch.zeros(8)
    p = nn.Parameter(memory[:5])
    optimizer = PsiLogic([p])
    train(optimizer, [p], [[torch.ones(5)]])
    p.grad = None
    p.data = memory[:size]
    beyond = memory[5:].clone()
    with pytest.raises(RuntimeError, match="size"):
        train(optimizer, [p], [[torch.ones(size)]])
    assert optimizer.state[p]["exp_avg"].shape == (5,)
    assert optimizer.state[p]["exp_avg_sq"].shape == (5,)
    assert torch.equal(memory[5:], beyond)


def test_parameters_that_share_memory_are_changed_one_after_the_other(threads):
    runs = []
    for flags in ({}, {}, {}, {"foreach": False, "fused": False}):
        threads(1 if flags else 2)
        memory = torch.linspace(-1, 1, 16_000)
        params = [nn.Parameter(torch.empty(0)) for _ in range(4)]
        for p in params:
            p.data = memory
        optimizer = PsiLogic(params, **flags, **{**ACTIVE, "chaos_warmup": 0})
        script = gradients(4, [(16_000,)] * 4, torch.float32)
        runs.append(train(optimizer, params, script)[0])
    *runs_of_kernels, by_foreach = runs
    for run in runs_of_kernels:
        torch.testing.assert_close(run, by_foreach, rtol=1e-5, atol=1e-6)


def test_a_group_that_cannot_step_leaves_the_others_as_they_are():
    real = nn.Parameter(torch.ones(5))
    pair = nn.Parameter(torch.ones(3, dtype=torch.complex64))
    optimizer = PsiLogic([{"params": [real]}, {"params": [pair]}])
    train(optimizer, [real, pair], [[torch.ones(5), torch.ones_like(pair)]])
    before = snapshot(optimizer, [real])
    real.grad = torch.ones(5)
    pair.grad = torch.ones_like(pair).detach().conj()  # which torch does not view as real
    with pytest.raises(RuntimeError, match="conjugated"):
        optimizer.step()
    assert_same([snapshot(optimizer, [real])], [before])


# Installation


@pytest.mark.slow
@pytest.mark.parametrize("compiler", [pytest.param("c++", marks=pytest.mark.soak), "false"])
def test_an_installation_with_and_without_a_compiler(tmp_path, compiler):
    """Without one the build succeeds as well, and leaves the kernels out. With one is what `make setup` has done."""
    if compiler == "c++":
        if not CAN_BE_BUILT:
            pytest.skip("nothing here builds the kernels")
        quick = tmp_path / "c++"  # the result is not run
        quick.write_text('#!/bin/sh\nexec c++ "$@" -O0\n')
        quick.chmod(0o755)
        environment = {**os.environ, "CC": str(quick), "CXX": str(quick)}
    else:
        environment = {**os.environ, "CC": compiler, "CXX": compiler}
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info"))
    command = [sys.executable, "setup.py", "--quiet", "bdist_wheel", "--dist-dir", "built"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (wheel,) = (tmp_path / "built").iterdir()
    tag = wheel.stem.split("-", 2)[2]
    compiled = [name for name in ZipFile(wheel).namelist() if name.endswith(".so")]
    if compiler == "c++":
        assert tag == f"cp310-abi3-linux_{platform.machine()}"
        assert "psilogic/tensors/_addresses.abi3.so" in compiled
        assert "psilogic/backends/cpu/kernels_default.abi3.so" in compiled
    else:
        assert tag == "py3-none-any"
        assert compiled == []
