"""The update on a CPU through compiled kernels: a pass for the sums and one for the update, or a whole step."""

from psilogic.backends.cpu.two_passes import backend
from psilogic.backends.cpu.whole_step import select_whole_steps

__all__ = ["backend", "select_whole_steps"]
