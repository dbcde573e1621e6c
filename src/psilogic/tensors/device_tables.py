"""Copies from host to device about a list of tensors: without waiting, and repeated only after a change."""

import ctypes
import warnings
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from psilogic.tensors.norms import traced, without_values

GPU = "cuda"


class _Uploaded(NamedTuple):
    """The last tables of a name."""

    device: torch.device
    stream: int  # on which they were uploaded; 0 on the host
    key: Any  # what they were built from
    tables: list[Tensor]


class DeviceTables:
    """Tables on the device that belong to one list of tensors.

    An uploaded table is never written to; each stream gets separate tables. The tables of a captured CUDA graph live
    as long as this object, since the graph reads them at each replay.
    """

    def __init__(self) -> None:
        self._uploaded: dict[str, _Uploaded] = {}
        self._spare: dict[str, Tensor] = {}
        self._captured: list[Tensor] = []

    def get(
        self,
        name: str,
        key: Any,
        device: torch.device,
        build: Callable[[], list[Tensor]],
        moves: bool = False,
    ) -> list[Tensor]:
        """The last tables of a name, on the device: built on the host, all of one dtype, if the key has changed.

        With `moves` the key may first change while a graph is captured, as the addresses of gradients do.
        """
        stream = 0
        capturing = False
        if device.type == GPU:
            stream = stream_of(device)
            capturing = torch.cuda.is_current_stream_capturing()
        tables = self._known(name, key, device, stream, capturing)
        if tables is None:
            tables = self._uploaded_tables(name, build(), device, capturing, moves)
            if not capturing:  # otherwise they are filled only when the graph is replayed
                self._uploaded[name] = _Uploaded(device, stream, key, tables)
        if capturing:
            self._captured += tables
        return tables

    def _known(self, name: str, key: Any, device: torch.device, stream: int, capturing: bool) -> list[Tensor] | None:
        """The last tables of a name, if they are those of the key; during a capture those of any stream serve."""
        last = self._uploaded.get(name)
        if last is None or last.key != key or last.device != device:
            return None
        return last.tables if capturing or last.stream == stream else None

    def _uploaded_tables(
        self, name: str, on_host: list[Tensor], device: torch.device, capturing: bool, moves: bool
    ) -> list[Tensor]:
        """The tables on the device, by one copy."""
        if len(on_host) == 1:
            return [self._upload(name, on_host[0], device, capturing, moves)]
        whole = self._upload(name, torch.cat(on_host), device, capturing, moves)
        return list(whole.split(list(map(len, on_host))))

    def vector(self, name: str, numbers: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
        """One number for each tensor, shape (N,)."""
        if traced():  # tables outlive a graph
            return torch.tensor(numbers, dtype=dtype, device="cpu").to(device)

        def build() -> list[Tensor]:
            return [torch.tensor(numbers, dtype=dtype, device="cpu")]

        return self.get(name, numbers, device, build)[0]

    def _upload(self, name: str, flat: Tensor, device: torch.device, capturing: bool, moves: bool) -> Tensor:
        """A copy on the device, without waiting for it.

        A graph repeats the copy at each replay, from memory that must still exist then. Before torch 2.10 pinned memory
        cannot always be allocated during a capture: earlier steps keep some in reserve.
        """
        if device.type != GPU:
            return flat.to(device)
        spare = self._spare.get(name)
        fits = spare is not None and len(spare) == len(flat)
        pinned = self._spare.pop(name) if capturing and fits else pinned_memory(len(flat), flat.dtype)
        pinned.copy_(flat)
        if capturing:
            self._captured.append(pinned)
        elif moves and not fits:
            self._spare[name] = pinned_memory(len(flat), flat.dtype)
        return torch.empty_like(flat, device=device).copy_(pinned, non_blocking=True)


def stream_of(device: torch.device) -> int:
    """The number of a GPU's current stream, from torch's function for compiled code, which makes no object of it."""
    raw: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if raw is not None and device.index is not None:
        return raw(device.index)
    return int(torch.cuda.current_stream(device).cuda_stream)


def stream_unless_capturing(device: torch.device) -> int | None:
    """The number of the current stream, 0 on the host; None while a CUDA graph is being captured."""
    if device.type != GPU:
        return 0
    return None if torch.cuda.is_current_stream_capturing() else stream_of(device)


def upload(name: str, values: Tensor, device: torch.device) -> Tensor:
    """The named values, shape (N,), on a device; without waiting if they come from the host.

    Raises:
        RuntimeError: a CUDA graph is being captured, which would repeat the host's present values forever.
    """
    if values.device.type != "cpu" or device.type != GPU or without_values():
        return values.to(device)
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            f"a CUDA graph would keep the present value of {name}, which is on the CPU; "
            f"use capturable=True, and for a learning rate a tensor on {device}"
        )
    pinned = pinned_memory(len(values), values.dtype).copy_(values)
    return torch.empty_like(values, device=device).copy_(pinned, non_blocking=True)


def capturing() -> bool:
    """Whether a CUDA graph is being captured, which repeats only the work of the device."""
    if torch.compiler.is_compiling() or not torch.cuda.is_initialized():
        return False
    return torch.cuda.is_current_stream_capturing()


def warn_of_frozen(name: str, value: float | Tensor) -> None:
    """Warn if a CUDA graph is being captured that will keep a number, since it is an argument of its kernels."""
    if not isinstance(value, Tensor) and capturing():
        warnings.warn(
            f"the CUDA graph keeps {name}={value} in every replay, whatever is set later; "
            f"where a schedule changes {name}, make it a tensor on the GPU",
            stacklevel=2,
        )


def host(numbers: Sequence[int]) -> Tensor:
    """A vector on the host, int64, also if the default device is another."""
    if isinstance(numbers, array) and len(numbers) > 0:  # its memory is read at once
        return torch.frombuffer(numbers, dtype=torch.int64).clone()
    return torch.tensor(numbers, dtype=torch.int64, device="cpu")


class Mailbox:
    """Memory on the host from which a vector of 64-bit integers is filled again and again without the host waiting.

    No row of it is written to twice, since a copy may still read it. When all are used, other memory takes its place,
    and the allocator of pinned memory waits until the last copy has read the first.

    Args:
        target: the vector, which is filled in the order of the current stream.
    """

    ROWS = 32

    def __init__(self, target: Tensor) -> None:
        self._target = target
        self._row_bytes = target.nbytes
        self._rows: list[Tensor] = []  # those not used yet, the first last
        self._memory: Any = None  # the bytes of all rows

    def copy_(self, numbers: bytes) -> None:
        """Fill the vector with the bytes of its elements."""
        if not self._rows:
            self._take_memory()
        row = self._rows.pop()
        begin = len(self._rows) * self._row_bytes
        self._memory[begin : begin + self._row_bytes] = numbers
        self._target.copy_(row, non_blocking=True)

    def _take_memory(self) -> None:
        count = len(self._target)
        if self._target.device.type == GPU:
            block = pinned_memory(self.ROWS * count, torch.int64)
        else:
            block = torch.empty(self.ROWS * count, dtype=torch.int64, device="cpu")
        self._rows = list(block.view(self.ROWS, count).unbind())
        self._memory = memoryview((ctypes.c_char * block.nbytes).from_address(block.data_ptr())).cast("B")


def pinned_memory(size: int, dtype: torch.dtype) -> Tensor:
    """A vector on the host with any values, from which a GPU copies without the host waiting."""
    return torch.empty(size, dtype=dtype, device="cpu", pin_memory=True)
