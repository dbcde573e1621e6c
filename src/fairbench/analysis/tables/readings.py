"""The entries of a table, read as numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fairbench.analysis.statistics.significance import Summary
from fairbench.analysis.tables.cell_numbers import (
    decimal_sign,
    is_lost,
    is_number,
    pair_of,
    says_something,
    seed_of,
    value_of,
    why_no_deviation,
)
from fairbench.analysis.tables.column_names import is_setting
from fairbench.analysis.tables.entries import Entry
from fairbench.analysis.tables.metric_names import is_metric
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some

NUMBERS = ("value", "std", "sem", "n", "step", "margin")
"""The roles that have numbers."""
STATISTICS = ("mean", "std", "sem")
"""The roles that only a summary of several runs has."""


@dataclass(frozen=True)
class Reading:
    """An entry whose texts are read as numbers.

    Attributes:
        sign: the decimal sign, "." or ",".
        early: where the curve of its run ends, if others are longer, such as "1400 of 2000"; otherwise empty.
    """

    entry: Entry
    sign: str
    early: str = ""

    @property
    def texts(self) -> Mapping[str, str]:
        """The texts of the roles."""
        return self.entry.texts

    @property
    def location(self) -> str:
        """The location of the row in its source."""
        return self.entry.row.location

    @property
    def optimizer(self) -> str:
        """The optimizer."""
        return self.entry.optimizer

    @property
    def run(self) -> tuple[str, str | None]:
        """The optimizer and the seed."""
        return self.entry.optimizer, self.entry.seed

    @property
    def seed(self) -> str:
        """The seed in one spelling. In a table without seeds, a text that no other row has."""
        if self.entry.seed is None:
            return f"{self.entry.optimizer}, {self.location}"
        return seed_of(self.entry.seed)

    @property
    def has_text(self) -> bool:
        """Whether the cell of the value has any text."""
        return bool(self.texts["value"])

    @property
    def is_summary(self) -> bool:
        """Whether the row has a mean of several runs instead of the value of one run."""
        if any(role in self.texts for role in STATISTICS):
            return True
        if self.entry.seed is None and "n" in self.texts:
            return True
        return self.pair is not None

    @property
    def pair(self) -> tuple[str, str] | None:
        """The mean and the standard deviation as texts, if the cell of the value has both; otherwise None."""
        return pair_of(self.texts["value"])

    @property
    def result(self) -> str:
        """The text of the value. For a run with a value that did not finish, its state instead, so that it is lost."""
        text = self.texts["value"]
        state = self.texts.get("state", "")
        if says_something(state) and is_lost(state) and not is_lost(text):
            return state
        return text

    @property
    def is_lost(self) -> bool:
        """Whether the run has no result."""
        return is_lost(self.result)

    @property
    def is_diverged(self) -> bool:
        """Whether the run has a value that is not finite."""
        value = self.value()
        return value is not None and math.isnan(value)

    def number(self, role: str) -> float | None:
        """The number of a role. NaN if the text says that the run diverged, None if there is no number."""
        return value_of(self.texts.get(role, ""), self.sign)

    def value(self) -> float | None:
        """The result of a run; NaN if it diverged, None if it has none for another reason."""
        return value_of(self.result, self.sign)

    def without_value(self) -> "Reading":
        """The same run with an empty cell in place of its value."""
        texts = {**self.texts, "value": ""}
        return replace(self, entry=replace(self.entry, texts=texts))

    def summary(self) -> Summary:
        """The summary of a row with a mean, its deviation or error, and the number of runs.

        Raises:
            UsageError: one of them is missing or impossible.
        """
        if "n" not in self.texts:
            raise UsageError(
                f"{self.location}: a mean of how many seeds? Give --columns n=NAME, or their number, such as n=5"
            )
        mean, std = self._mean_and_std()
        n = self.number("n")
        if n is None and std is None:
            n = 1.0  # an empty n without a spread is one run
        if n is None or n != n // 1:
            raise UsageError(f"{self.location}: n must be a whole number, got {self.texts['n']!r}")
        if std is None and n >= 1:
            std = self._std_of_standard_error(n)
        if mean is None or std is None or n < 1 or not (std >= 0 and math.isfinite(mean)):
            need = "n must be at least 1, mean finite, and std finite and not negative"
            raise UsageError(f"{self.location}: {need}; got n {n:g}, mean {mean}, std {std}")
        return Summary(int(n), mean, std)

    def _mean_and_std(self) -> tuple[float | None, float | None]:
        """The mean and the standard deviation, which one cell or two may have."""
        if self.pair is None:
            return self.value(), self.number("std")
        mean, std = self.pair
        return value_of(mean, self.sign), value_of(std, self.sign)

    def _std_of_standard_error(self, n: float) -> float | None:
        """The standard deviation of n runs, from the standard error of their mean.

        Without a standard error it is 0 for one run, and None for more.
        """
        standard_error = self.number("sem")
        if standard_error is not None:
            return standard_error * math.sqrt(n)
        if n == 1:
            return 0.0
        return None

    def repeated_error(self, earlier: "Reading", repeated: str) -> UsageError:
        """The error for a second value of something that must have only one.

        The error names the columns in which the two rows differ, as one of them may tell the values apart. A result
        cannot: it differs between all runs.

        Args:
            earlier: the reading with the first value.
            repeated: what has two values, in words.
        """
        texts_with_roles = {*self.texts.values(), *earlier.texts.values()}
        cells = self.entry.row.cells
        earlier_cells = earlier.entry.row.cells
        differing = []
        for column, text in cells.items():
            earlier_text = earlier_cells[column]
            has_role = text in texts_with_roles and earlier_text in texts_with_roles
            is_result = is_metric(column) or (_is_decimal(text) and _is_decimal(earlier_text))
            if not (text and earlier_text):
                continue  # a remark on one of the two
            if text != earlier_text and not has_role and (is_setting(column) or not is_result):
                differing.append(column)
        likely = [column for column in differing if not is_setting(column)]
        columns = likely or differing
        ways = ""
        if columns:
            ways = f", or give --columns arena, seed or optimizer with what differs: {some(columns)}"
        place = ""
        if "arena" in self.texts:
            place = f" in {self.entry.arena}"
        return UsageError(
            f"{self.location}: {repeated}{place} has a value already, at {earlier.location}; keep one{ways}"
        )


def _is_decimal(text: str) -> bool:
    """Whether a text is a number with decimals, which is no name of a run."""
    return is_number(text) and not is_lost(text) and not text.isdigit()


def readings_of(entries: Sequence[Entry]) -> list[Reading]:
    """Read all entries as numbers with the same decimal sign.

    Raises:
        UsageError: a cell is not a number, or may be two numbers.
    """
    cells = []
    for entry in entries:
        _check_deviation(entry)
        for role in NUMBERS:
            if role in entry.texts:
                cells.append((entry.texts[role], entry.row.location))
    sign = decimal_sign(cells)
    return [Reading(entry, sign) for entry in entries]


def _check_deviation(entry: Entry) -> None:
    """Refuse the cell of a value if what it has in parentheses does not look like a standard deviation."""
    text = entry.texts["value"]
    reason = why_no_deviation(text)
    if reason:
        raise UsageError(
            f"{entry.row.location}: {text!r}: {reason}; write a mean with its standard deviation as 0.91 ± 0.01"
        )
