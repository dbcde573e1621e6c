"""The update on a CPU through compiled kernels: a pass for the sums and one for the update, or a single one."""

from psilogic.backends.cpu.one_pass import speculate
from psilogic.backends.cpu.two_passes import backend

__all__ = ["backend", "speculate"]
