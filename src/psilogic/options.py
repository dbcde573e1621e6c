"""The options of PsiLogic: which values each takes, and whether parameters that are treated at once may differ in it.

Their defaults stand in the signature of `PsiLogic`.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from inspect import signature
from numbers import Integral, Real
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple, Protocol

from torch import Tensor

WORDS_OF_TORCH = {
    "lr": "Invalid learning rate: ",
    "eps": "Invalid epsilon value: ",
    "weight_decay": "Invalid weight_decay value: ",
    "betas[0]": "Invalid beta parameter at index 0: ",
    "betas[1]": "Invalid beta parameter at index 1: ",
}
"""How the messages of AdamW begin, which scripts and tests look for."""


NUMBERS_OF_ADAMW = frozenset({"lr", "eps", "weight_decay", "betas[0]", "betas[1]"})
"""What may be a tensor with one element."""


class Check(Protocol):
    """What the values of an option must be."""

    def check(self, name: str, value: Any) -> None:
        """ValueError, naming option and value, unless the value is one of them."""


@dataclass(frozen=True)
class Number:
    """A number from `low` to below `high`, or to `high` itself; AdamW's numbers may be tensors with one element."""

    low: float = 0.0
    high: float = math.inf
    includes_high: bool = False
    or_none: bool = False

    def check(self, name: str, value: Any) -> None:
        """ValueError unless the value is in the range."""
        if value is None and self.or_none:
            return
        plain = _number(name, value)
        below_end = plain <= self.high if self.includes_high else plain < self.high
        if self.low <= plain and below_end:
            return
        end = "]" if self.includes_high else ")"
        message = f"{name} must lie in [{self.low:g}, {self.high:g}{end}, got {value!r}"
        if name in WORDS_OF_TORCH:
            message = f"{WORDS_OF_TORCH[name]}{value}; {message}"
        raise ValueError(message)


def _number(name: str, value: Any) -> float:
    """The value as a float; ValueError if it is not a single real number. Only AdamW's numbers may be tensors."""
    if type(value) is float:
        return value
    value = as_number(value)
    if isinstance(value, Tensor) and name in NUMBERS_OF_ADAMW:
        if value.numel() != 1 or value.is_complex():
            shape = tuple(value.shape)
            raise ValueError(f"Tensor {name} must be 1-element: it must have one real element, got the shape {shape}")
        return 0.0 if value.is_meta else float(value.detach())
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def as_number(value: Any) -> Any:
    """A scalar of NumPy, an array with one element or a fraction as Python's number; anything else as it is."""
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, Tensor) or not hasattr(value, "item") or getattr(value, "size", 1) != 1:
        return value
    return value.item()


def as_pair(value: Any) -> tuple[Any, Any] | None:
    """Any sequence of two elements, such as an array, as a tuple of Python's numbers; None for anything else."""
    if isinstance(value, Tensor | str) or not isinstance(value, Iterable):
        return None
    numbers = tuple(map(as_number, value))
    return numbers if len(numbers) == 2 else None


@dataclass(frozen=True)
class TwoNumbers:
    """Two numbers."""

    each: Number

    def check(self, name: str, value: Any) -> None:
        """ValueError unless both are in the range."""
        numbers = as_pair(value)
        if numbers is None:
            raise ValueError(f"{name} must be two numbers, got {value!r}")
        for i, number in enumerate(numbers):
            self.each.check(f"{name}[{i}]", number)


@dataclass(frozen=True)
class WholeNumber:
    """A whole number."""

    least: int

    def check(self, name: str, value: Any) -> None:
        """ValueError unless it is one, and large enough."""
        number = as_number(value)
        if isinstance(number, bool) or not isinstance(number, Integral) or number < self.least:
            raise ValueError(f"{name} must be a whole number of at least {self.least}, got {value!r}")


@dataclass(frozen=True)
class StepsOrShare:
    """A whole number of steps, or a share of the training between 0 and 1."""

    least: int

    def check(self, name: str, value: Any) -> None:
        """ValueError for anything else."""
        number = as_number(value)
        is_number = isinstance(number, Real) and not isinstance(number, bool | Integral)
        if is_number and 0 < number < 1:
            return
        try:
            WholeNumber(self.least).check(name, value)
        except ValueError as error:
            raise ValueError(f"{error}, or a share of the training between 0 and 1") from None


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def check(self, name: str, value: Any) -> None:
        """ValueError unless it is one of the words."""
        if value not in self.words:
            raise ValueError(f"{name} must be one of {', '.join(self.words)}, got {value!r}")


@dataclass(frozen=True)
class Switch:
    """True or False, or None where that leaves the choice to the optimizer."""

    or_none: bool = False

    def check(self, name: str, value: Any) -> None:
        """ValueError for anything else."""
        if isinstance(as_number(value), bool) or (value is None and self.or_none):
            return
        words = "None, True or False" if self.or_none else "True or False"
        raise ValueError(f"{name} must be {words}, got {value!r}")


class Sharing(Enum):
    """Which parameters that are treated at once have the same value."""

    ALL = "all"
    ALL_ON_A_DEVICE = "all on a device; in host memory it may be a vector"
    NONE = "none: it may be a vector with one value for each"


class Option(NamedTuple):
    """What the optimizer knows about an option."""

    values: Check
    sharing: Sharing = Sharing.ALL
    same_in_all_groups: bool = False


_REAL_NUMBERS = {
    "betas": Option(TwoNumbers(Number(high=1.0)), Sharing.ALL_ON_A_DEVICE),
    "lr": Option(Number(), Sharing.NONE),
    "eps": Option(Number(), Sharing.ALL_ON_A_DEVICE),
    "weight_decay": Option(Number(), Sharing.NONE),
    "gamma": Option(Number(), Sharing.NONE),
    "p_ext": Option(Number(), Sharing.NONE),
    "tau_scale": Option(Number(), Sharing.NONE),
    "chaos_tau": Option(Number(), Sharing.NONE),
    "quantum_decay": Option(Number()),
    "agc_clip": Option(Number()),
    "max_grad_norm": Option(Number(or_none=True), same_in_all_groups=True),
    "max_cancel": Option(Number(high=1.0, includes_high=True), Sharing.NONE),
}
_WHOLE_NUMBERS = {
    "chaos_warmup": Option(StepsOrShare(least=-1)),
    "total_steps": Option(WholeNumber(least=0)),
    "gamma_T_max": Option(WholeNumber(least=0)),
}
_CHOICES = {
    "agc_norm": Option(Choice(("unit", "tensor"))),
    "chaos_signal": Option(Choice(("raw", "relative"))),
    "chaos_scope": Option(Choice(("tensor", "group", "global"))),
    "bf16_update": Option(Choice(("nearest", "stochastic", "kahan"))),
}
_SWITCHES = {
    "adaptive_tau": Option(Switch()),
    "grad_centralize": Option(Switch()),
    "maximize": Option(Switch()),
    "capturable": Option(Switch()),
    "differentiable": Option(Switch(), same_in_all_groups=True),
    "foreach": Option(Switch(or_none=True)),
    "fused": Option(Switch(or_none=True)),
}
OPTIONS = {**_REAL_NUMBERS, **_WHOLE_NUMBERS, **_CHOICES, **_SWITCHES}
"""All options but `amsgrad`, in the order in which they are checked: `betas` is the first."""

NUMBERS = tuple(name for name, option in OPTIONS.items() if option.sharing is Sharing.NONE)
"""Options that may be vectors over the tensors of a bucket on every device."""
NUMBERS_OF_DEVICE = tuple(name for name, option in OPTIONS.items() if option.sharing is Sharing.ALL_ON_A_DEVICE)
"""Those that may be vectors over tensors in host memory only; `betas` is the first."""
NUMBERS_ON_HOST = (*NUMBERS, *NUMBERS_OF_DEVICE)
"""All that may be vectors over tensors in host memory."""
OTHERS = tuple(name for name in OPTIONS if name not in NUMBERS_ON_HOST)
"""Those that are vectors nowhere."""


values_of = itemgetter(*OPTIONS)
"""The values of all options in a complete group, in the order of `OPTIONS`."""
numbers_of = itemgetter(*NUMBERS)
"""Those of the options in NUMBERS."""
numbers_of_device_of = itemgetter(*NUMBERS_OF_DEVICE)
"""Those of the options in NUMBERS_OF_DEVICE."""
others_of = itemgetter(*OTHERS)
"""Those of the options in OTHERS."""
_PLAIN = frozenset({float, int, bool, str, tuple, NoneType})


def has_plain(values: tuple[Any, ...]) -> bool:
    """Whether the values of some options are Python's: no tensor, no list, no number of NumPy; `betas` is the first."""
    betas = values[0]
    return type(betas) is tuple and is_plain((*values, *betas))


def is_plain(values: tuple[Any, ...]) -> bool:
    """Whether all values are Python's."""
    return _PLAIN.issuperset(map(type, values))


def is_readable(value: Any) -> bool:
    """Whether a value is Python's, or a tensor that the host can read at no cost."""
    return type(value) in _PLAIN or (isinstance(value, Tensor) and value.is_cpu)


def as_plain(group: dict[str, Any]) -> dict[str, Any]:
    """The options of a complete group as a step takes them: the group itself, where all values are Python's.

    NumPy's numbers become Python's, and tensors of `betas` and `eps` are read; `lr` and `weight_decay` may be tensors.
    """
    if has_plain(values_of(group)):
        return group
    plain = with_pythons_numbers(group)
    beta1, beta2 = plain["betas"]
    plain["betas"] = (as_float(beta1), as_float(beta2))
    plain["eps"] = as_float(plain["eps"])
    return plain


def as_float(number: Any) -> Any:
    """A tensor with one element as Python's number; anything else as it is."""
    return float(number) if isinstance(number, Tensor) else number


def with_pythons_numbers(group: dict[str, Any]) -> dict[str, Any]:
    """A copy of a complete group with NumPy's numbers as Python's."""
    plain = dict(group)
    for name in OPTIONS:
        plain[name] = as_number(group[name])
    plain["betas"] = as_pair(group["betas"])
    return plain


def defaults_of(kind: type) -> dict[str, Any]:
    """The default of each argument of a class that has one."""
    defaults = {}
    for name, parameter in signature(kind).parameters.items():
        if parameter.default is not parameter.empty:
            defaults[name] = parameter.default
    return defaults
