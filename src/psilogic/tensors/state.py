"""The state of each parameter: Adam's state and the detector's scalars, and these as vectors over many tensors."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, MutableMapping
from itertools import product
from operator import is_
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from psilogic.tensors.device_tables import capturing, host, upload
from psilogic.tensors.memory import addresses
from psilogic.tensors.norms import Foreach, traced
from psilogic.tensors.sharding import local

if TYPE_CHECKING:
    from psilogic.tensors.buckets import Bucket

State = dict[str, Any]
CLOCKS = ("step", "chaos_start")
"""Per-parameter counts of steps: of the parameter, and at the start of the detector."""


class Scalars:
    """Reads and writes scalars of many states at once, and never replaces one.

    Each state has 0-dim tensors, as in torch's optimizers: a CUDA graph, another process or a caller may hold them.
    Those that started or were loaded together are views of one vector, and are read and written in it. Others (given
    by a caller, moved by `x.data = ...`) are copied one by one.
    """

    def __init__(self) -> None:
        self._found: tuple[Any, ...] = (), (), {}  # names, addresses and, by name, what is found
        self._in_step: dict[str, tuple[Tensor, Tensor | None] | None] = {}  # what `read` found, for `write`
        self._captured: list[Any] = []  # graphs read it at each replay
        self._copies: list[Tensor] = []  # kernels read them

    def read(self, states: list[State], names: tuple[str, ...]) -> dict[str, Tensor]:
        """The named scalars of each state, each of shape (N,)."""
        if traced() or not states:  # a compiler and autograd do not see memory that tensors share
            return {name: torch.stack([x[name] for x in states]) if states else torch.empty(0) for name in names}
        read = {}
        for name, found in self._find(states, names).items():
            if found is None:
                read[name] = torch.stack([state[name] for state in states])
            else:
                vector, positions = found
                read[name] = vector if positions is None else vector.index_select(0, positions)
        return read

    def places(self, states: list[State], bucket: Bucket) -> tuple[bool, array[int]]:
        """The addresses of each of the detector's scalars, name after name, in the dtypes of new states.

        The first result is False if they are those of copies, since some do not share memory or have other dtypes.
        """
        names, dtype = (*CLOCKS, *memory_names(bucket.group)), detector_dtype(bucket.params[0])
        dtypes = [torch.float32] * len(CLOCKS) + [dtype] * (len(names) - len(CLOCKS))
        if [x and x[0].dtype for x in self._find(states, names).values()] == dtypes:
            return True, self._found[1]
        self._copies = [x.to(dtype) for x, dtype in zip(self.read(states, names).values(), dtypes, strict=True)]
        return False, addresses([x for copy in self._copies for x in copy.unbind()])

    def write(self, states: list[State], scalars: dict[str, Tensor]) -> None:
        """Set scalars that were read in this step; they may be vectors of `read` that were changed in place."""
        apart = traced()
        copies: dict[tuple[torch.device, torch.dtype], list[tuple[Tensor, Tensor]]] = {}  # each kind is one launch
        for name, values in scalars.items():
            of_kind = copies.setdefault((values.device, values.dtype), [])
            if apart or (found := self._in_step[name]) is None:
                of_kind += zip([state[name] for state in states], values.unbind(), strict=True)
            elif found[1] is not None:
                found[0].index_copy_(0, found[1], values.to(found[0]))
            elif values is not found[0]:
                of_kind.append((found[0], values))
        for pairs in filter(None, copies.values()):
            if torch.is_grad_enabled():  # `_foreach_copy_` has no derivative
                for target, source in pairs:
                    target.copy_(source)
            else:
                torch._foreach_copy_([target for target, _ in pairs], [source for _, source in pairs])

    def _find(self, states: list[State], names: tuple[str, ...]) -> dict[str, tuple[Tensor, Tensor | None] | None]:
        """By name the vector that the scalars are elements of and their positions in it, None for all; or None."""
        places = addresses(states, names)
        in_graph = capturing() and any(states[0][name].is_cuda for name in names)
        known = self._found[0] == names and self._found[1] == places
        if not (known or in_graph):  # in a graph positions would have to be copied to the device
            self._found = names, places, {name: _shared([state[name] for state in states]) for name in names}
        self._in_step = self._found[2] if known or not in_graph else dict.fromkeys(names)
        if in_graph:
            self._captured.append(self._in_step)
        return self._in_step


def _shared(scalars: list[Tensor]) -> tuple[Tensor, Tensor | None] | None:
    """The memory that 0-dim tensors share, as a vector, and their positions in it, None for all; or None."""
    first, storage = scalars[0], scalars[0].untyped_storage()
    positions = [int(x.storage_offset()) for x in scalars]
    together = all(x.untyped_storage()._cdata == storage._cdata and x.dtype == first.dtype for x in scalars)
    if not (together and storage.nbytes()) or len(set(positions)) < len(positions):  # without memory torch raises
        return None
    begin, end = positions[0], positions[0] + len(positions)
    if positions == list(range(begin, end)):
        return first.as_strided((len(positions),), (1,), begin), None
    whole = first.as_strided((storage.nbytes() // first.itemsize,), (1,), 0)
    return whole, upload("positions", host(positions), first.device)


def join(states: Iterable[State], names: Iterable[str]) -> None:
    """Make the scalars of each name views of one vector; those on another device, or of another dtype, of another."""
    kinds: dict[Any, list[State]] = {}
    for state, name in product(states, names):
        if isinstance(x := state.get(name), Tensor):
            kinds.setdefault((name, x.device, x.dtype), []).append(state)
    for (name, *_), members in kinds.items():
        for state, view in zip(members, torch.stack([state[name] for state in members]).unbind(), strict=True):
            state[name] = view


def detector_dtype(param: Tensor) -> torch.dtype:
    """The dtype of the detector's scalars: float64 for float64 parameters, otherwise float32."""
    return torch.float64 if param.dtype in (torch.float64, torch.complex128) else torch.float32


def memory_names(group: dict[str, Any]) -> list[str]:
    """The names of the detector's memory in the states of a group's parameters."""
    return ["chaos_fast", "chaos_slow", *["chaos_ref"] * (group["chaos_signal"] == "relative")]


def states_of(every: MutableMapping[Tensor, Any], bucket: Bucket, on_device: bool = False) -> list[State]:
    """The states of a bucket's parameters; entries that its hyperparameters need and that are missing are started.

    With `on_device` clocks start on the device, also if the group is not capturable.
    """
    moments = ["exp_avg", "exp_avg_sq", *["compensation"] * (bucket.rounding == "kahan")]
    detector, states = memory_names(bucket.group), [every[p] for p in bucket.params]
    if all(map({*moments, *detector}.issubset, states)):
        return states
    on_device = bucket.group["capturable"] or bucket.group["fused"] or on_device
    for p, state in zip(bucket.params, states, strict=True):
        if "exp_avg" not in state:  # with `fused=True` loading moves the step to the device, as in torch
            clock = p.device if on_device else torch.device("cpu")
            state["step"] = _zero("step", p, bucket, _get_scalar_dtype(), clock)
        for name in moments:
            if name not in state:
                state[name] = torch.zeros_like(p, memory_format=torch.preserve_format)
        if not all(map(state.__contains__, detector)):  # its clock starts now
            step = state["step"]
            state["chaos_start"] = _zero("chaos_start", p, bucket, step.dtype, step.device).copy_(step)
            state |= {name: _zero(name, p, bucket, detector_dtype(p), p.device) for name in detector}
    return states


def move_clocks_(states: list[State], device: torch.device) -> None:
    """Move clocks that are elsewhere, where they were loaded, to a device."""
    if any(state["step"].device != device for state in states):
        for state in states:
            state |= {name: state[name].to(device) for name in CLOCKS}
        join(states, CLOCKS)


def local_states(bucket: Bucket, states: list[State], name: str) -> Foreach:
    """The parts on this rank of the states' tensors of a name."""
    tensors = [state[name] for state in states]
    return tensors if all(map(is_, bucket.values, bucket.params)) else [local(x) for x in tensors]


def _zero(name: str, p: Tensor, bucket: Bucket, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A scalar of a new state: an element of one vector over all parameters, also those whose state starts later."""
    if traced():
        return torch.zeros((), dtype=dtype, device=device)
    free = bucket.cache.free.setdefault((name, dtype, device), {})
    if id(p) not in free:
        every = {id(q): q for group in bucket.groups for q in group["params"]} | {id(p): p}
        alike = [i for i, q in every.items() if q is p or (q.requires_grad and q.dtype == p.dtype)]
        free.update(zip(alike, torch.zeros(len(alike), dtype=dtype, device=device).unbind(), strict=True))
    return free.pop(id(p))
