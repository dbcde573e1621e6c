"""The options of the groups in the last step, by which the next one finds what has been set since."""

from itertools import chain
from operator import itemgetter
from typing import Any

from psilogic.options import (
    NUMBERS_ON_HOST,
    OTHERS,
    has_plain,
    is_plain,
    is_readable,
    numbers_of,
    numbers_of_device_of,
    others_of,
)
from psilogic.tensors.buckets import Group
from psilogic.tensors.lookups import have_same


class KnownOptions:
    """Values of options. The same object has the same value in each step, but for tensors, whose values may change."""

    def __init__(self) -> None:
        self.others: list[tuple[Any, ...]] = []  # the options of each group in OTHERS
        self.numbers_of_device: list[tuple[Any, ...]] = []  # those in NUMBERS_OF_DEVICE
        self.has_tensors = False  # whether a number is a tensor in host memory
        self.reading = 0  # counts how often a number had another value, or was a tensor
        self._numbers: list[tuple[Any, ...]] = []  # those in NUMBERS
        # The same objects, group after group.
        self._every_other: list[Any] = []
        self._every_number: list[Any] = []

    def has_others_of(self, groups: list[Group]) -> bool:
        """Whether the groups have the same objects as before for all options in OTHERS."""
        return have_same(groups, OTHERS, self._every_other)

    def take(self, groups: list[Group], has_others: bool) -> bool:
        """Take the options of the groups.

        Args:
            groups: the groups.
            has_others: what `has_others_of` has returned for them.

        Returns:
            False, and nothing is taken, if a value is neither Python's nor a number that a tensor in host memory has.
        """
        if has_others and have_same(groups, NUMBERS_ON_HOST, self._every_number):
            if self.has_tensors:
                self.reading += 1
            return True
        numbers = list(map(numbers_of, groups))
        numbers_of_device = list(map(numbers_of_device_of, groups))
        every_number = list(chain.from_iterable(numbers))
        if not all(map(is_readable, every_number)) or not all(map(has_plain, numbers_of_device)):
            return False
        if not has_others:
            others = list(map(others_of, groups))
            if not all(map(is_plain, others)):
                return False
            self.others = others
            self._every_other = list(chain.from_iterable(others))
        had_tensors = self.has_tensors
        self.has_tensors = not all(map(is_plain, numbers))
        has_changed = numbers != self._numbers or numbers_of_device != self.numbers_of_device
        if self.has_tensors or had_tensors or has_changed:
            self.reading += 1
        self._numbers = numbers
        self.numbers_of_device = numbers_of_device
        self._every_number = list(chain.from_iterable(map(_numbers_on_host_of, groups)))
        return True


_numbers_on_host_of = itemgetter(*NUMBERS_ON_HOST)
