"""The compiled extensions: the kernels of the update on a CPU, once for each kind of processor, and a helper.

If they cannot be compiled, the package is installed without them and uses torch's kernels.
"""

import platform
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

SOURCES = Path("src/psilogic/backends/cpu/cpp")
FLAGS = ["-std=c++17", "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
FLAGS += ["-Wno-psabi"]  # no vector is an argument of a function that another compiler has compiled
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mprefer-vector-width=512"]
# The names are those of torch.backends.cpu.get_cpu_capability(), by which psilogic.backends.cpu.kernels loads one.
CAPABILITIES = {
    "x86_64": {"default": [], "avx2": AVX2, "avx512": AVX512},
    "aarch64": {"default": []},
}
LINK = ["-Wl,--strip-all", "-Wl,--no-as-needed"]  # auditwheel asks for the C library, also where nothing of it is used
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")  # Python's stable interface needs its lock


def kernels(capability: str, flags: list[str]) -> Extension:
    """The kernels for one kind of processor, as a separate module."""
    name = f"kernels_{capability}"
    return Extension(
        f"psilogic.backends.cpu.{name}",
        [str(SOURCES / "module.cpp")],
        depends=[str(header) for header in sorted(SOURCES.glob("*.h"))],
        define_macros=[("INIT", f"PyInit_{name}")],
        extra_compile_args=FLAGS + flags,
        extra_link_args=LINK,
        py_limited_api=STABLE,
        optional=True,
    )


ADDRESSES = Extension(
    "psilogic.tensors._addresses",
    ["src/psilogic/tensors/addresses.cpp"],
    extra_compile_args=["-std=c++17", "-O2"],
    extra_link_args=LINK,
    py_limited_api=STABLE,
    optional=True,
)


class Wheel(bdist_wheel):
    """A wheel for every system if nothing could be compiled."""

    def get_tag(self) -> tuple[str, str, str]:
        """The tags of Python, its interface, and the system."""
        was_compiled = any(Path(self.bdist_dir).rglob("*.so"))
        if not was_compiled:
            return "py3", "none", "any"
        return super().get_tag()


def extensions() -> list[Extension]:
    """The extensions for this machine; none where no kernels are known."""
    if sys.platform != "linux" or platform.machine() not in CAPABILITIES:
        return []
    found = [ADDRESSES]
    for capability, flags in CAPABILITIES[platform.machine()].items():
        found.append(kernels(capability, flags))
    return found


modules = extensions()
options = {}
if STABLE and modules:
    options["bdist_wheel"] = {"py_limited_api": "cp310"}
setup(ext_modules=modules, cmdclass={"bdist_wheel": Wheel}, options=options)
