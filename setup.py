"""The compiled extensions: the kernels of the update on a CPU, once for each kind of processor, and a helper.

If they cannot be compiled, the package is installed without them and uses torch's kernels.
"""

import platform
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("src/psilogic/updates/native/cpp")
FLAGS = ["-std=c++17", "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
AVX2 = ["-mavx2", "-mfma"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mprefer-vector-width=512"]
# The names are those of torch.backends.cpu.get_cpu_capability(), by which psilogic.updates.native.kernels loads one.
CAPABILITIES = {"avx2": AVX2, "avx512": AVX512}
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")  # Python's stable interface needs its lock


def kernels(capability: str, flags: list[str]) -> Extension:
    """The kernels for one kind of processor, as a separate module."""
    name = f"kernels_{capability}"
    return Extension(
        f"psilogic.updates.native.{name}",
        [str(SOURCES / "module.cpp")],
        depends=[str(header) for header in sorted(SOURCES.glob("*.h"))],
        define_macros=[("INIT", f"PyInit_{name}")],
        extra_compile_args=FLAGS + flags,
        py_limited_api=STABLE,
        optional=True,
    )


ADDRESSES = Extension(
    "psilogic.tensors._addresses",
    ["src/psilogic/tensors/addresses.cpp"],
    extra_compile_args=["-std=c++17", "-O2"],
    py_limited_api=STABLE,
    optional=True,
)

if sys.platform == "linux" and platform.machine() == "x86_64":
    setup(
        ext_modules=[ADDRESSES, *(kernels(*item) for item in CAPABILITIES.items())],
        options={"bdist_wheel": {"py_limited_api": "cp310"}} if STABLE else {},
    )
else:
    setup()
