"""What a preview of an optimizer shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from rich.console import Group
from rich.text import Text

from fairbench.common.console import text_table, unwrapped
from fairbench.common.formatting import number
from fairbench.report.table import Table
from fairbench.suites import schema


@dataclass(frozen=True)
class PreviewRow:
    """A trial of a preview.

    Attributes:
        value: the primary metric on the validation split; None unless the trial finished.
        status: "finished", "diverged" or "failed".
        error: why it failed; otherwise empty.
    """

    optimizer: str
    lr: float
    metric: str
    value: float | None
    status: str
    error: str


@dataclass(frozen=True, repr=False, kw_only=True)
class Previewed(Table[PreviewRow]):
    """The trials of a preview; `ok` if none failed.

    Attributes:
        suite: the suite, with one arena.
        seconds: the seconds of a training step of each optimizer, the median over its rates; None if no trial finished.
        command: the command of the study that gives a result.
    """

    suite: schema.Suite
    seconds: Mapping[str, float | None]
    command: str = ""

    @property
    def ok(self) -> bool:
        """Whether no trial failed."""
        return not any(row.status == "failed" for row in self.rows)

    def __rich__(self) -> Group:
        """A row for each learning rate, a column for each optimizer, their step times, and the command of a study."""
        suite = self.suite
        (arena,) = suite.arenas
        plan = suite.arenas[arena]
        score = f"{plan.metric} ({suite.better(arena)}) on the {suite.selection_name} split"
        length = f"after {plan.sweep_steps} steps, one seed"
        columns = [("lr", False)]
        for optimizer in suite.optimizers:
            columns.append((optimizer, True))
        heading = Text.assemble(("A preview, not a result: ", "bold"), f"{arena}, {score} {length}")
        table = text_table(columns, [*self._lines(), self._step_times()])
        failures = [Text(f"failed: {row.error}", "bold red") for row in self.rows if row.status == "failed"]
        advice = unwrapped(f"for a result, with a search and new seeds:\n    {self.command}")
        return Group(heading, table, *failures, *self._at_edges(), *self._alike(), advice)

    def _lines(self) -> list[list[str | Text]]:
        """A line for each learning rate, with the value of each optimizer. The best value of an optimizer is bold."""
        texts = {}  # by learning rate and optimizer
        for row in self.rows:
            if row.value is None:
                texts[row.lr, row.optimizer] = Text(row.status, "red")
            else:
                style = "bold" if row.value == self._best(row.optimizer) else ""
                texts[row.lr, row.optimizer] = Text(number(row.value), style)
        lines = []
        for lr in sorted({row.lr for row in self.rows}):
            line: list[str | Text] = [f"{lr:g}"]
            for optimizer in self.suite.optimizers:
                line.append(texts.get((lr, optimizer), Text("")))
            lines.append(line)
        return lines

    def _at_edges(self) -> list[Text]:
        """A line if the lowest learning rate of optimizers is the best, and one if the highest is."""
        best_at: dict[str, list[str]] = {"lowest": [], "highest": []}
        for optimizer in self.suite.optimizers:
            values = {row.lr: row.value for row in self.rows if row.optimizer == optimizer}
            finished = [value for value in values.values() if value is not None]
            if len(values) < 2 or not finished:
                continue
            best = self._best(optimizer)
            for edge, lr in (("lowest", min(values)), ("highest", max(values))):
                if values[lr] == best:
                    best_at[edge].append(optimizer)
        lines = []
        for edge, optimizers in best_at.items():
            if optimizers:
                names = ", ".join(optimizers)
                text = f"the {edge} learning rate is the best of {names}; --lr tries others"
                lines.append(Text(text))
        return lines

    def _alike(self) -> list[Text]:
        """A line for each two optimizers whose shown values are equal at two or more common learning rates."""
        lines = []
        for first, second in combinations(self.suite.optimizers, 2):
            of_first = self._shown_values(first)
            of_second = self._shown_values(second)
            common = of_first.keys() & of_second.keys()
            if len(common) > 1 and all(of_first[lr] == of_second[lr] for lr in common):
                lines.append(Text(f"{first} and {second} have equal values: this preview cannot tell them apart"))
        return lines

    def _shown_values(self, optimizer: str) -> dict[float, str]:
        """The values of an optimizer as the table has them, by learning rate; only of finished trials."""
        shown = {}
        for row in self.rows:
            if row.optimizer == optimizer and row.value is not None:
                shown[row.lr] = number(row.value)
        return shown

    def _best(self, optimizer: str) -> float:
        """The best value of an optimizer, at least one of whose trials has finished."""
        (arena,) = self.suite.arenas
        values = [row.value for row in self.rows if row.optimizer == optimizer and row.value is not None]
        if self.suite.direction(arena) == "max":
            return max(values)
        return min(values)

    def _step_times(self) -> list[str | Text]:
        """The last line: the time of a step of each optimizer, as a multiple of that of the first optimizer."""
        first = next(iter(self.suite.optimizers))
        first_seconds = self.seconds[first]
        line: list[str | Text] = [Text("step time", "dim")]
        for seconds in self.seconds.values():
            text = ""
            if seconds and first_seconds:
                text = f"about {number(seconds / first_seconds, 2)}x"
            line.append(Text(text, "dim"))
        return line
