"""An extension that an older version of the package has built is still there after an update."""

import subprocess
import sys

OLDER = """
import sys
from array import array
from types import SimpleNamespace

def addresses(address_of, tensors, names):
    return array("q", [x.data_ptr() for x in tensors]).tobytes()

sys.modules["psilogic.tensors._addresses"] = SimpleNamespace(addresses=addresses)
import torch
import psilogic
p = torch.nn.Parameter(torch.ones(3))
optimizer = psilogic.PsiLogic([p])
for _ in range(3):
    p.grad = torch.ones(3)
    optimizer.step()
print("stepped")
"""


def test_an_extension_that_an_older_version_has_built_is_not_used():
    done = subprocess.run([sys.executable, "-c", OLDER], capture_output=True, text=True, timeout=100)
    assert done.stdout == "stepped\n", done.stderr
