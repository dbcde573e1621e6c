"""The package needs torch alone."""

import subprocess
import sys

CODE = """
import sys
import torch
before = set(sys.modules)
import psilogic
foreign = {name.partition(".")[0] for name in set(sys.modules) - before} - {"psilogic"} - sys.stdlib_module_names
print(sorted(foreign))
"""


def test_nothing_but_torch_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
