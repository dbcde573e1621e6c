"""The options of the groups in the last step, by which the next one finds what has been set since."""

from itertools import chain
from typing import Any

from psilogic.options import NUMBERS, OPTIONS, has_plain, is_plain, numbers_of, others_of, values_of
from psilogic.tensors.buckets import Group
from psilogic.tensors.lookups import have_same

OTHERS = tuple(name for name in OPTIONS if name not in NUMBERS)


class KnownOptions:
    """Values of options, which are Python's: the same object has the same value in each step."""

    def __init__(self) -> None:
        self.others: list[tuple[Any, ...]] = []  # the options of each group that are not in NUMBERS
        self._numbers: list[tuple[Any, ...]] = []  # those that are
        # The same objects, group after group.
        self._every_other: list[Any] = []
        self._every_number: list[Any] = []

    def has_others_of(self, groups: list[Group]) -> bool:
        """Whether the groups have the same objects as before for all options that are not in NUMBERS."""
        return have_same(groups, OTHERS, self._every_other)

    def take(self, groups: list[Group], has_others: bool) -> bool | None:
        """Take the options of the groups.

        Args:
            groups: the groups.
            has_others: what `has_others_of` has returned for them.

        Returns:
            Whether a number has another value than before; None, and nothing is taken, if a value is not Python's.
        """
        numbers_are_known = have_same(groups, NUMBERS, self._every_number)
        if has_others and numbers_are_known:
            return False
        numbers = list(map(numbers_of, groups))
        if not has_others:
            if not all(map(has_plain, map(values_of, groups))):
                return None
            self.others = list(map(others_of, groups))
            self._every_other = list(chain.from_iterable(self.others))
        elif not all(map(is_plain, numbers)):
            return None
        changed = numbers != self._numbers
        self._numbers = numbers
        self._every_number = list(chain.from_iterable(numbers))
        return changed
