"""Records that take little memory: long lists packed until they are read, and what many records say alike only once."""

import marshal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairbench.spec import TrialSpec

Record = dict[str, Any]


class Packed:
    """A list or a dictionary of JSON values that takes a tenth of its memory, and is made anew whenever it is read."""

    __slots__ = ("_packed",)

    def __init__(self, values: list[Any] | dict[str, Any]) -> None:
        self._packed = marshal.dumps(values)

    def _values(self) -> Any:
        return marshal.loads(self._packed)

    def __len__(self) -> int:
        return len(self._values())

    def __getitem__(self, key: Any) -> Any:
        return self._values()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values())


class PackedList(Packed, Sequence[Any]):
    """A packed list."""

    __slots__ = ()


class PackedDict(Packed, Mapping[str, Any]):
    """A packed dictionary."""

    __slots__ = ()


class Compactor:
    """Makes the records of a study compact; what they say alike they share, so nobody may change them."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def __call__(self, spec: TrialSpec, record: Record) -> Record:
        """The record of a trial.

        Args:
            spec: the trial.
            record: its record as it was read, which is changed.
        """
        if result := record["result"]:
            result["loss_curve"] = PackedList(result["loss_curve"])
            result["evaluations"] = PackedList(result["evaluations"])
            if mechanism := result["mechanism"]:
                mechanism["course"] = PackedList(mechanism["course"])
                mechanism["tensors"] = PackedDict(mechanism["tensors"])
            result["hashes"] = {name: self._known.setdefault(x, x) for name, x in result["hashes"].items()}
        about, environment = record["spec"], record["environment"]
        for part in ("arena", "optimizer", "training"):
            about[part] = self._known.setdefault(getattr(spec, part).text, about[part])
        if environment:
            record["environment"] = self._known.setdefault(tuple(environment.items()), environment)
        return record
