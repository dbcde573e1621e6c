"""The update as one Triton kernel for all tensors of a device and dtype; one or two more for their sums.

Needs triton, which psilogic imports only for it. It has run on one GPU (H200) and been compiled for three generations.
"""

from psilogic.backends.triton.backend import backend, decide_by_kernels
from psilogic.backends.triton.launch import can_launch

__all__ = ["backend", "can_launch", "decide_by_kernels"]
