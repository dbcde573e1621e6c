"""What launches of Triton's kernels have in common.

Triton binds and examines every argument of a call, which takes the host several times as long as the launch. What it
compiles depends on little: the device, the compile-time arguments, the dtypes of the pointers, and which of them are
None. It is asked once for each combination, and later launches go straight to what it has compiled.
"""

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor
from triton import knobs
from triton.runtime import driver

from psilogic.backends.triton.update_kernels import trial_kernel

DTYPES = {torch.float64: tl.float64, torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}
OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}
COMPILED: dict[tuple[Any, ...], Any] = {}
"""What Triton has compiled of each variant of a kernel, by device and dtypes of pointers."""


class Variant(NamedTuple):
    """A kernel with its compile-time arguments; it takes pointers first, and numbers after them."""

    kernel: Any
    constants: tuple[Any, ...]


class Launch:
    """A launch that may be repeated: its arguments stay, and what Triton has compiled for them.

    Args:
        variant: the kernel.
        grid: the number of programs.
        pointers: the tensors of the kernel in its order, the first on the device of the launch.
        numbers: the numbers that follow.
    """

    def __init__(
        self, variant: Variant, grid: tuple[int, int, int], pointers: dict[str, Tensor | None], numbers: Sequence[Any]
    ) -> None:
        self._variant = variant
        self._grid = grid
        self._pointers = pointers
        self._numbers = numbers
        first = next(iter(pointers.values()))
        assert first is not None
        self._device = first.device
        self._index = first.device.index or 0
        self._compiled: Any = None  # None until it is known for the dtypes of these pointers
        self._bound: list[Any] = []  # the arguments of the launcher after grid and stream; none until it is called

    def take(self, numbers: Sequence[Any]) -> None:
        """Take other numbers."""
        self._numbers = numbers
        self._bound = []

    def point(self, **pointers: Tensor | None) -> None:
        """Take other pointers, by name."""
        for name, pointer in pointers.items():
            before = self._pointers[name]
            if pointer is not before:
                self._pointers[name] = pointer
                self._bound = []
                if _dtype(pointer) != _dtype(before):
                    self._compiled = None

    def __call__(self) -> None:
        """Launch it, on the current stream of its device."""
        if is_current(self._device):
            self._launch()
        else:
            with torch.cuda.device(self._device):
                self._launch()

    def again(self, stream: int | None) -> None:
        """Launch it where it was launched before: on a stream of the current device, where no hooks wait for it.

        It is launched with all checks if the stream is None.
        """
        if stream is None or self._compiled is None:
            self()
            return
        if not self._bound:
            compiled = self._compiled
            self._bound = [compiled.function, compiled.packed_metadata, None, None, None, *self._arguments()]
        self._compiled.run(*self._grid, stream, *self._bound)

    def _arguments(self) -> list[Any]:
        """The arguments of the kernel."""
        return [*self._pointers.values(), *self._numbers, *self._variant.constants]

    def _launch(self) -> None:
        """Launch it on the current device; nothing if the grid has no programs."""
        if self._grid[0] == 0:
            return
        if self._compiled is None:
            self._compile_and_launch()
        elif are_observed():
            self._compiled[self._grid](*self._arguments())
        else:  # the same without the description of the launch that hooks get
            self.again(driver.active.get_current_stream(self._index))

    def _compile_and_launch(self) -> None:
        """The first launch with pointers of these dtypes."""
        key = (*self._variant, self._device, *map(_dtype, self._pointers.values()))
        self._compiled = COMPILED.get(key)
        if self._compiled is not None:
            self._compiled[self._grid](*self._arguments())  # loads the kernel
            return
        self._compiled = self._variant.kernel[self._grid](*self._arguments(), **OPTIONS)
        if self._compiled is not None:  # the interpreter compiles nothing
            COMPILED[key] = self._compiled


def _dtype(pointer: Tensor | None) -> torch.dtype | None:
    return None if pointer is None else pointer.dtype


def is_current(device: torch.device) -> bool:
    """Whether launches on a device need no change of the current one."""
    return device.type == "cpu" or driver.active.get_current_device() == (device.index or 0)


def are_observed() -> bool:
    """Whether hooks of Triton wait for launches."""
    return has_hooks(knobs.runtime.launch_enter_hook) or has_hooks(knobs.runtime.launch_exit_hook)


def has_hooks(chain: Any) -> bool:
    """Whether a chain of hooks has any; before Triton 3.5 it is a hook or None."""
    return bool(getattr(chain, "calls", chain))


def compiled_for(dtype: torch.dtype, wide: bool = False) -> tuple[Any, Any, int]:
    """Compile-time arguments: the tensors' dtype, that of the arithmetic, and the bytes of an element."""
    accumulator = tl.float64 if wide or dtype == torch.float64 else tl.float32
    return DTYPES[dtype], accumulator, dtype.itemsize


TRIAL = Variant(trial_kernel, ())


@cache
def can_launch(device: torch.device) -> bool:
    """Whether a kernel runs on a device: before the first launch Triton compiles, with the machine's C compiler.

    Tried once, with a warning that has the reason if it does not. The second launch takes the direct way.
    """
    out = torch.zeros(1, dtype=torch.int32, device=device)
    try:
        trial = Launch(TRIAL, (1, 1, 1), {"out": out}, [])
        trial()
        trial()
    except Exception as error:  # no compiler, no Python.h, too old a GPU: each raises a different type
        reason = str(error).strip().partition("\n")[0]
        warnings.warn(
            f"Triton cannot launch kernels on {device}, so PsiLogic uses torch's foreach operations there, which are "
            f"slower; Triton needs a C compiler and Python's headers ({type(error).__name__}: {reason})",
            stacklevel=2,
        )
        return False
    return True
