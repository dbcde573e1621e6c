"""The update in Triton: in its interpreter, against foreach; and compiled for GPUs that need not be there."""

import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

triton = pytest.importorskip("triton", reason="the package triton is not installed")

from grids import pairwise  # noqa: E402
from launches import FREE  # noqa: E402
from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from triton_calls import unit_sums, update_  # noqa: E402
from triton_driver import install, resources  # noqa: E402

from psilogic import PsiLogic  # noqa: E402
from psilogic.backends import foreach  # noqa: E402
from psilogic.backends import select as selection  # noqa: E402
from psilogic.backends import triton as package  # noqa: E402
from psilogic.backends.admitted import admitted_backends  # noqa: E402
from psilogic.backends.triton import update as updates  # noqa: E402
from psilogic.backends.triton import update_kernels as kernels  # noqa: E402
from psilogic.step import Step, Tensors  # noqa: E402
from psilogic.tensors import device_tables  # noqa: E402
from psilogic.tensors.collect import collect  # noqa: E402
from psilogic.tensors.sharding import Sharding  # noqa: E402
from psilogic.tensors.state import move_clocks_, states_of  # noqa: E402

pytestmark = pytest.mark.xdist_group("triton")  # a large group starts early, with its longest test

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
PLAIN = {}
CLIPPED = {"scale": True, "quantum": True}
BY_ROWS = {"scale": True, "mean": True, "quantum": True, "by_rows": True, "tensor_lr": True}
SOAK = pytest.mark.soak
EACH_ARCHITECTURE = pytest.mark.parametrize("arch", [pytest.param(80, marks=SOAK), 90, pytest.param(100, marks=SOAK)])


def zeros(sizes, dtype=torch.float32):
    return [torch.zeros(size, dtype=dtype) for size in sizes]


def step(
    dtype,
    *,
    sizes=((64, 32), (100,)),
    scale=False,
    mean=False,
    quantum=False,
    by_rows=False,
    tensor_lr=False,
    lr=0.1,
    betas=(0.9, 0.999),
    t=1.0,
):
    """An update of tensors of zeros; its results are not checked."""
    tensors = Tensors(zeros(sizes, dtype), zeros(sizes, dtype), zeros(sizes, dtype), zeros(sizes, dtype))
    units = [size[0] if by_rows and len(size) > 1 else 1 for size in sizes]
    by_tensor = torch.full((len(sizes),), t, dtype=torch.float64)
    by_unit = torch.ones(sum(units), dtype=torch.float64)
    of_each = Step(
        t=by_tensor,
        decay=by_tensor,
        quantum_rate=by_tensor if quantum else None,
        lr=torch.tensor(lr) if tensor_lr else lr,
        weight_decay=0.0,
        eps=1e-8,
        beta1=betas[0],
        beta2=betas[1],
    )
    mean_of_each = by_unit if mean else None
    scale_of_each = by_unit if scale else None
    update_(tensors, of_each, mean_of_each, scale_of_each, units, device_tables.DeviceTables())


def accesses(compiled):
    """How often each kind of access to global memory occurs, as ("ld", 16) for loads of 16 bytes."""
    found = re.findall(r"\b(ld|st)\.global(?:\.v(\d))?\.b(\d+)", compiled.asm["ptx"])
    counts = Counter()
    for kind, elements, bits in found:
        width = int(elements or 1) * int(bits) // 8
        counts[kind, width] += 1
    return counts


def version(module):
    """Major and minor version of a module."""
    return tuple(int(part) for part in module.__version__.split(".")[:2])


@pytest.mark.parametrize("extent", [[], pytest.param(["soak"], marks=SOAK)], ids=["", "soak"])
def test_in_the_interpreter(extent):
    numpy = pytest.importorskip("numpy", reason="Triton's interpreter needs numpy")
    if version(triton) < (3, 7) and version(numpy) >= (2, 4):
        pytest.skip(f"the interpreter of triton {triton.__version__} does not work with numpy {numpy.__version__}")
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-W", "ignore::RuntimeWarning", Path(__file__).with_name("triton_cases.py"), *extent],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("arch", "dtype", "options"), pairwise((80, 90, 100), DTYPES, (PLAIN, CLIPPED, BY_ROWS)))
def test_the_update_moves_words_of_16_bytes_and_spills_nothing(monkeypatch, arch, dtype, options):
    driver = install(monkeypatch, arch)
    step(dtype, **options)
    (kernel,) = driver.compiled()
    size = dtype.itemsize
    used = resources(kernel)
    assert used["LOCAL"] == 0
    assert used["STACK"] == 0
    assert used["SHARED"] == 0
    assert used["REG"] <= 128
    found = accesses(kernel)
    words = 1 if size == 2 else 2  # of each array, for each thread
    assert found["ld", 16] == 4 * words
    assert found["st", 16] == 3 * words
    # The path without alignment promises nothing: a hint that reached it would make it crash.
    assert {width for kind, width in found if kind == "st"} == {16, size}
    assert found["st", size] >= 3 * 2
    if size == 2:  # rounded to nearest, which the interpreter does not do
        ptx = kernel.asm["ptx"]
        assert re.search(r"cvt\.rn\.(bf16|f16)(x2)?\.f32", ptx)
        assert not re.search(r"cvt\.rz\.(bf16|f16)", ptx)


@EACH_ARCHITECTURE
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_statistics_spill_nothing(monkeypatch, arch, dtype):
    driver = install(monkeypatch, arch)
    xs = [torch.zeros(3, 40000, dtype=dtype)]
    for with_sums in (False, True):
        unit_sums(xs, xs, [3], with_sums, device_tables.DeviceTables()).by_unit()
        kernel = driver.compiled()[-2]
        assert kernel.metadata.name == "statistics_kernel"
        assert accesses(kernel)["ld", 16] == (2048 + 8 * 128) // 128 * dtype.itemsize // 16
    for kernel in driver.compiled():
        used = resources(kernel)
        assert used["LOCAL"] == 0
        assert used["STACK"] == 0
        assert used["REG"] <= 128


def test_one_launch_for_an_update_and_two_at_most_for_its_statistics(monkeypatch):
    """That the number of tensors does not matter is what these kernels promise."""
    driver = install(monkeypatch)
    many = [(7,)] * 1000
    step(torch.float32, sizes=many)
    assert driver.launches == [("update_kernel", (1000, 1))]
    driver.launches.clear()
    xs = zeros(many)
    tables = device_tables.DeviceTables()
    unit_sums(xs, None, [1] * 1000, False, tables).by_unit()
    unit_sums(xs, xs, [1] * 1000, True, tables).by_unit()
    assert driver.launches == [("statistics_kernel", (1000, 1)), ("statistics_kernel", (1000, 2))]
    driver.launches.clear()
    unit_sums(zeros([(3, 40000), (5,)]), None, [3, 1], True, tables).by_unit()
    assert driver.launches == [("statistics_kernel", (10, 1)), ("complete_kernel", (3, 2))]
    driver.launches.clear()
    unit_sums(zeros([(100, 768), (100, 5000)]), None, [100, 100], True, tables).by_unit()
    assert driver.launches == [("statistics_kernel", (13 + 100, 1))]  # eight rows of 768 for each program
    driver.launches.clear()
    step(torch.float32, sizes=[(0,), (0, 3)])
    assert driver.launches == []


VIEWS = {"select", "unbind", "to", "reshape", "as_strided", "slice"}
"""Operations without a launch: views, and conversions, unless they copy."""
COPIES = {"_to_copy", "copy_", "clone"}
"""Operations that are launches as parts of others, too."""


@contextmanager
def operations():
    """The operations of torch that would be launches on a device: all but those that only make tensors or views.

    Torch's profiler sees them; under a mode, which would see them too, the kernels do not run.
    """
    names = []
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        yield names
    for event in profiler.events():
        name = event.name.removeprefix("aten::")
        parent = event.cpu_parent
        is_part = parent is not None and parent.name.startswith("aten::")
        is_launch = name != event.name and name not in FREE | VIEWS and not is_part
        if is_launch or name in COPIES:
            names.append(name)


def optimizer_on_the_device(monkeypatch, sizes, **options):
    """A PsiLogic that treats the CPU as a device whose launches are recorded."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(updates, "INTERPRETED", True)
    params = [nn.Parameter(x) for x in zeros(sizes)]
    optimizer = PsiLogic(params, fused=True, **options)
    for p in params:
        p.grad = torch.zeros_like(p)
    return optimizer


PRESET = {"agc_clip": 0.01, "grad_centralize": True, "quantum_decay": 0.1, "chaos_signal": "relative"}


@pytest.mark.parametrize(
    ("options", "clipping", "scaled"),
    pairwise([{}, PRESET, {"lr": torch.tensor([0.1])}], [{}, {"max_grad_norm": 1.0}], [False, True]),
    ids=str,
)
def test_a_step_is_three_launches_and_one_more_for_clipping_and_for_rows(monkeypatch, options, clipping, scaled):
    driver = install(monkeypatch)
    optimizer = optimizer_on_the_device(monkeypatch, [(7,)] * 50 + [(3, 40000)], **options, **clipping)
    if scaled:
        optimizer.grad_scale = torch.tensor([64.0])
        optimizer.found_inf = torch.tensor([0.0])
    optimizer.step()
    expected = ["statistics_kernel", "decide_kernel", "update_kernel"]
    if "grad_centralize" in options:
        expected.insert(1, "processing_kernel")
    capture = {"now": False}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capture["now"])

    def assert_launches():
        driver.launches.clear()
        with operations() as names:
            optimizer.step()
        assert [name for name, _ in driver.launches] == expected
        assert names == ["sum"] * len(clipping)

    assert_launches()
    if "lr" in options:  # a number would be frozen
        capture["now"] = True
        assert_launches()


@EACH_ARCHITECTURE
def test_the_decision_spills_nothing(monkeypatch, arch):
    driver = install(monkeypatch, arch)
    for options in ({}, PRESET, {"agc_clip": 0.01, "agc_norm": "tensor", "adaptive_tau": False, "max_grad_norm": 1.0}):
        optimizer_on_the_device(monkeypatch, [(3, 40)], **options).step()
    decisions = [x for x in driver.compiled() if x.metadata.name in ("processing_kernel", "decide_kernel")]
    assert len(decisions) == 4
    for kernel in decisions:
        used = resources(kernel)
        assert used["LOCAL"] == 0
        assert used["STACK"] <= 64  # the cosine of a large number; a spill takes far more
        assert used["REG"] <= 128


def test_a_schedule_compiles_no_decision(monkeypatch):
    driver = install(monkeypatch)
    for numbers in ({}, {"lr": 1}, {"lr": 0.0}, {"gamma": 1}, {"eps": 0.0}, {"gamma_T_max": 1}, {"chaos_warmup": 16}):
        for sizes in ([(1,)], [(16,)] * 16, [(3, 50000)]):
            optimizer_on_the_device(monkeypatch, sizes, **numbers).step()
    assert [kernel.metadata.name for kernel in driver.compiled()].count("decide_kernel") == 1


def test_changing_numbers_compiles_nothing(monkeypatch):
    driver = install(monkeypatch)
    changes = [
        {},
        {"lr": 0.0},
        {"lr": 1},
        {"betas": (0.0, 0.5)},
        {"t": 2.0**24},
        {"sizes": [(1,)]},
        {"sizes": [(16,)] * 16},
    ]
    for numbers in changes:
        step(torch.float32, **numbers)
        assert len(driver.compiled()) == 1
    assert len(driver.launches) == len(changes)
    tensors = Tensors(zeros([8]), zeros([8]), zeros([8]), zeros([8]))
    vector = torch.ones(8, dtype=torch.float64)
    for i in range(3):  # vectors at any address, with arguments that are compiled once more
        t = vector[i : i + 1]
        decay = vector[i + 1 : i + 2]
        of_each = Step(t, decay, None, vector[i], 0.0, 1e-8, 0.9, 0.999)
        update_(tensors, of_each, None, t, [1], device_tables.DeviceTables())
        assert len(driver.compiled()) == 2
    signature = driver.compiled()[0].src.signature
    for name in ("lr", "beta1", "beta2", "log_beta1", "log_beta2", "eps"):
        assert signature[name] == "fp64"
    for sizes in ([(1,)], [(16,)] * 16, [(3, 50000)], [(2, 3)] * 5):
        xs = zeros(sizes)
        unit_sums(xs, None, [len(x) for x in xs], False, device_tables.DeviceTables()).by_unit()
    names = Counter(kernel.metadata.name for kernel in driver.compiled())
    assert names == {"update_kernel": 2, "statistics_kernel": 1, "complete_kernel": 1}


def test_the_interpreter_leaves_tensors_on_a_gpu_alone(monkeypatch):
    on_gpu = SimpleNamespace(dtype=torch.float32, is_cuda=True)
    monkeypatch.setattr(updates, "INTERPRETED", True)
    assert not updates.supports(Tensors([on_gpu], [on_gpu], [on_gpu], [on_gpu]), by_rows=False)
    on_host = SimpleNamespace(dtype=torch.float32, is_cuda=False)
    monkeypatch.setattr(updates, "INTERPRETED", False)
    assert not updates.supports(Tensors([on_host], [on_host], [on_host], [on_host]), by_rows=False)


def test_parameters_that_share_memory_have_launches_of_their_own(monkeypatch):
    install(monkeypatch)
    optimizer = optimizer_on_the_device(monkeypatch, [(7,), (7,)])
    optimizer.step()
    assert set(optimizer.executed) == {"triton"}
    first, second = optimizer.param_groups[0]["params"]
    second.data = first.data
    optimizer.step()
    assert optimizer.executed == {"triton": 2}


@pytest.fixture
def bucket():
    """The attributes of a bucket that the selection reads, with default flags."""
    flags = {"foreach": None, "fused": None, "differentiable": False, "weight_decay": 0.0}
    kind = {"by_rows": False, "rounding": "nearest", "ranks": None, "dtype": torch.float32}
    return SimpleNamespace(group=flags, groups=[flags], device=torch.device("cuda"), **kind)


def test_what_takes_triton_on_cuda(monkeypatch, bucket):
    monkeypatch.setattr(package, "can_launch", lambda device: True)
    assert admitted_backends(bucket) == [package.backend]
    bucket.group["fused"] = False
    assert admitted_backends(bucket) == []
    bucket.group["fused"] = None
    monkeypatch.setattr(torch.version, "hip", "6.4")  # an AMD GPU, where nobody has tried the kernels
    assert admitted_backends(bucket) == []
    bucket.group["fused"] = True
    assert admitted_backends(bucket) == [package.backend]
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert admitted_backends(bucket) == []


def test_clocks_that_were_loaded_from_elsewhere_come_along():
    states = [{"step": torch.tensor(3.0), "chaos_start": torch.tensor(1.0)} for _ in range(2)]
    move_clocks_(states, torch.device("cpu"))
    assert [state["step"].item() for state in states] == [3.0, 3.0]
    move_clocks_(states, torch.device("meta"))
    for state in states:
        assert state["step"].is_meta
        assert state["chaos_start"].is_meta
    p = nn.Parameter(torch.zeros(3, device="meta"))
    p.grad = torch.zeros_like(p)
    optimizer = PsiLogic([p])
    buckets = collect(optimizer, Sharding(), caches={})
    (new,) = selection.select(buckets, optimizer.state, False, False)
    assert new.states[0]["step"].device.type == "cpu"
    (state,) = states_of({p: {}}, new.bucket, on_device=True)
    assert state["step"].is_meta


def test_a_machine_without_a_compiler_gets_foreach_and_one_warning(monkeypatch, bucket):
    bucket.group["fused"] = True
    package.can_launch.cache_clear()
    monkeypatch.setattr(torch, "zeros", lambda *size, dtype, device: torch.ones(*size, dtype=dtype))  # no GPU is there
    driver = install(monkeypatch)
    assert admitted_backends(bucket) == [package.backend]
    assert driver.launches == [("trial_kernel", (1, 1))] * 2

    def fails(source, metadata):
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nAnd more.")

    package.can_launch.cache_clear()
    monkeypatch.setattr(install(monkeypatch), "launcher_cls", fails)
    message = r"Triton cannot launch kernels on cuda.*\(RuntimeError: Failed to find C"
    with pytest.warns(UserWarning, match=message) as found:
        chosen = [admitted_backends(bucket) for _ in range(3)]
    assert chosen == [[foreach.backend]] * 3
    assert len(found) == 1
    package.can_launch.cache_clear()


def test_an_old_triton_is_refused(monkeypatch):
    monkeypatch.setattr(triton, "__version__", "3.3.1")
    with pytest.raises(ImportError, match=r"psilogic needs triton 3\.4 or newer, not 3\.3\.1"):
        runpy.run_path(kernels.__file__)
