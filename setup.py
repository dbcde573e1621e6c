"""The one part of the package that is compiled: the kernels of the update on a CPU.

Where that fails, the package is installed without them, and torch's own kernels do the work.
"""

import platform
import sys

from setuptools import Extension, setup

FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
if platform.machine() == "x86_64":
    FLAGS += ["-mavx2", "-mfma"]  # psilogic.updates.native asks the processor before it loads them

kernels = Extension(
    "psilogic.updates.native_kernels",
    ["src/psilogic/updates/native_kernels.cpp"],
    extra_compile_args=FLAGS,
    py_limited_api=True,
    optional=True,
)
setup(
    ext_modules=[kernels] if sys.platform == "linux" else [],
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if sys.platform == "linux" else {},
)
