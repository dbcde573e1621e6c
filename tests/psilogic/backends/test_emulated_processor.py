"""The CPU kernels on an emulated ARM processor, called by the optimizer itself, and their compilation for macOS."""

import ast
import ctypes
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
from array import array
from functools import partial
from pathlib import Path

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, assert_same, build, trace
from trajectories import gradients, parameters

from psilogic.backends.cpu import kernels
from psilogic.tensors import memory

SOURCES = Path(kernels.__file__).parent / "cpp"
COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64"
SETUP = (Path(__file__).parents[3] / "setup.py").read_text()
FLAGS = ast.literal_eval(re.search(r"^FLAGS = (\[.*\])$", SETUP, re.MULTILINE)[1])
SHAPES = [(1, 20_000), (700, 9), (), (5, 7, 3, 3), (0,), (2, 0)]
KERNELS = ("row_sums", "update_", "step_")
SUMS = "Tiiuu"
UPDATE = "TTTTTrii" + 8 * "d" + "iduudd" + "S" + 9 * "d" + "iD"
"""The entries of tables: T addresses of tensors, S of scalars; i and d numbers of each tensor, u of each unit, D 11 of
each tensor, r two for all."""

FIRES = {**ACTIVE, "chaos_warmup": 0, "gamma": 30.0}
STEPS = 11
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 2.0**-7}

pytestmark = pytest.mark.arm


class Emulated:
    """The module of kernels, each call of which is a process on the emulated processor."""

    def __init__(self, program):
        self.called = set()
        for name in KERNELS:
            setattr(self, name, partial(self.call, program, name))

    def call(self, program, name, dtype, threads, n, entries):
        """As a kernel of module.cpp: the table has the address of each array, and that of tensors their addresses."""
        self.called.add(name)
        itemsize = getattr(torch, kernels.DTYPES[dtype]).itemsize
        kinds = SUMS if name == "row_sums" else UPDATE
        repeated = []  # they must live as long as their addresses
        pointers = []
        for entry in entries:
            if isinstance(entry, float):
                repeated.append(array("d", [entry]) * n)
                pointers.append(repeated[-1].buffer_info()[0])
            else:
                pointers.append(entry or 0)

        def integers(kind):
            return struct.unpack(f"{n}q", ctypes.string_at(pointers[kind], 8 * n))

        first_integers = kinds.index("i")
        numels = integers(first_integers)
        units = integers(first_integers + 1)
        sizes = {"i": 8 * n, "d": 8 * n, "u": 8 * sum(units), "D": 88 * n, "r": 16}
        blocks = []  # address and size of all memory that the kernel may change
        message = struct.pack("4q", KERNELS.index(name), dtype, n, len(kinds))
        for entry, (kind, pointer) in enumerate(zip(kinds, pointers, strict=True)):
            if kind == "T" and pointer:
                mine = [(at, itemsize * numel) for at, numel in zip(integers(entry), numels, strict=True)]
            elif kind == "S" and pointer:
                count = 5 if entries[entry + 1] else 4
                of_all = struct.unpack(f"{count * n}q", ctypes.string_at(pointer, 8 * count * n))
                clocks = [(at, 4) for at in of_all[: 2 * n]]
                detectors = [(at, max(4, itemsize)) for at in of_all[2 * n :]]
                mine = clocks + detectors
            elif pointer:
                mine = [(pointer, sizes[kind])]
            else:
                mine = []
            has_addresses = kind in "TS" and len(mine) > 0
            message += struct.pack("2q", has_addresses, len(mine))
            for at, size in mine:
                message += struct.pack("q", size)
                message += ctypes.string_at(at, size)
            blocks += mine
        answer = subprocess.run([EMULATOR, program], input=message, capture_output=True, check=True).stdout
        for at, size in blocks:
            ctypes.memmove(at, answer[:size], size)
            answer = answer[size:]
        assert not answer


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """The program for ARM."""
    if not (shutil.which(COMPILER) and shutil.which(EMULATOR)):
        pytest.skip("no compiler for ARM or no emulator; on Debian: apt install g++-aarch64-linux-gnu qemu-user")
    program = tmp_path_factory.mktemp("arm") / "emulated"
    source = Path(__file__).with_name("emulated.cpp")
    subprocess.run([COMPILER, *FLAGS, "-static", f"-I{SOURCES}", source, "-o", program], check=True)
    return program


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("options", "called"),
    [
        (CONFIGURATIONS["everything"], {"step_"}),
        ({**FIRES, "agc_clip": 0.3, "agc_norm": "tensor", "grad_centralize": True}, {"row_sums", "update_"}),
        (FIRES, {"step_"}),
        ({**FIRES, "agc_clip": 0.3, "grad_centralize": True, "quantum_decay": 1.0}, {"step_"}),
        ({**FIRES, "max_grad_norm": 0.1, "chaos_scope": "group"}, {"step_"}),
    ],
    ids=["everything", "decided by torch", "as they are", "rows", "after norms"],
)
def test_the_optimizer_on_an_emulated_processor(monkeypatch, arm, options, called, dtype):
    """Against one tensor at a time; bfloat16 against this processor's kernels, which round at the same places."""
    script = gradients(STEPS, SHAPES, dtype, every=6)
    execution = {"fused": True} if dtype == torch.bfloat16 else {"fused": False}
    twins = parameters(SHAPES, dtype)
    expected = trace(build(twins, **options, **execution), twins, script)
    emulated = Emulated(arm)
    monkeypatch.setattr(kernels, "kernels", emulated)
    params = parameters(SHAPES, dtype)
    actual = trace(build(params, **options), params, script)
    assert_same(actual, expected, TOLERANCES[dtype])
    assert emulated.called >= called


@pytest.mark.parametrize("target", ["aarch64-macos", "x86_64-macos"])
@pytest.mark.parametrize("source", [SOURCES / "module.cpp", Path(memory.__file__).with_name("addresses.cpp")], ids=str)
def test_the_compilation_for_macos(tmp_path, source, target):
    pytest.importorskip("ziglang", reason="no compiler for macOS; pip install ziglang")
    flags = [*FLAGS, "-DINIT=PyInit_kernels", f"-I{sysconfig.get_path('include')}"]
    command = [sys.executable, "-m", "ziglang", "c++", "-target", target, *flags, "-c", source, "-o", tmp_path / "out"]
    subprocess.run(command, check=True)
