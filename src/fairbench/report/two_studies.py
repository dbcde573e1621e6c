"""Two studies, A and B, side by side: a page, CSV files, and a summary for a terminal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from rich.console import Console
from rich.text import Text

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.two_studies import TwoArms, TwoVerdicts, plan_changes, two_arms, two_verdicts
from fairbench.common.checks import Flag
from fairbench.common.errors import UsageError
from fairbench.common.files import write_files
from fairbench.common.formatting import plural, some
from fairbench.report.console import add_numbers, plain_table, print_flags
from fairbench.report.page import filled
from fairbench.report.tables.csv_files import Table, of_dataclass
from fairbench.report.tables.model import ARM, Column, TableView, intervals, numbers, table_view, words
from fairbench.report.tables.numbers import interval, mean_and_deviation, rate, three
from fairbench.report.tables.verdict_grid import ORDER, grid_column
from fairbench.report.tables.verdict_text import GridText
from fairbench.study.history import Change

OF_EACH = ("verdict", "note", "advantage", "ci_low", "ci_high", "p_holm")
"""What compare_verdicts.csv has of each comparison."""


@dataclass(frozen=True)
class TwoStudies:
    """What both studies are, what failed in them, what differs between them, and what both have."""

    title: str
    about: str
    failures: list[Flag]
    changes: list[Change]
    verdicts: list[TwoVerdicts]
    arms: list[TwoArms]

    @property
    def summary(self) -> str:
        """The comparison in numbers."""
        changed = some([v.title for v in self.verdicts if v.changed], "; ")
        how = Counter(arm.method or "not compared" for arm in self.arms)
        same = sum(arm.note.startswith("no seed differs") for arm in self.arms)
        return (
            f"{plural(len(self.verdicts), 'comparison')} in both; "
            f"{f'another verdict in {changed}' if changed else 'no verdict changed'}. "
            f"{plural(len(self.arms), 'arm')} in both: {', '.join(f'{n} {method}' for method, n in how.items())}"
            f"{f'; in {same} no seed has another value' if same else ''}."
        )


def two_studies(a: Analyses, b: Analyses, names: Sequence[str]) -> TwoStudies:
    """Compare two studies; the names are those of their directories.

    Raises:
        UsageError: no optimizer is in the same arena of both.
    """
    sides, arms = list(zip("AB", names, (a, b), strict=True)), two_arms(a, b)
    if not arms:
        have = (f"{name} has {', '.join(x.suite.optimizers)} in {', '.join(x.suite.arenas)}" for _, name, x in sides)
        raise UsageError(f"the studies have no optimizer in the same arena: {'; '.join(have)}")
    about = (
        f"{letter} is {name}: suite {x.suite.name}, {plural(len(x.suite.arenas), 'arena')}, "
        f"{plural(len(x.suite.optimizers), 'optimizer')}, {x.suite.final.in_words}, "
        f"declared {x.history.plans[-1].declared}."
        for letter, name, x in sides
    )
    failures = [
        replace(flag, name=f"{letter}, {flag.name}")
        for letter, _, x in sides
        for flag in x.of(audit)
        if flag.severity == "fail"
    ]
    return TwoStudies(" and ".join(names), " ".join(about), failures, plan_changes(a, b), two_verdicts(a, b), arms)


def write_two_studies(found: TwoStudies, directory: Path) -> list[Path]:
    """Write the CSV files and the page, the page last.

    Raises:
        UsageError: the directory cannot be written.
    """
    files = {
        **{name: table.to_csv() for name, table in compared_tables(found).items()},
        "compare.html": filled(
            "compare.html.j2",
            views(found),
            title=found.title,
            lead=found.about,
            failures=found.failures,
            summary=found.summary,
        ),
    }
    write_files(directory, files)
    return [directory / name for name in files]


def compared_tables(found: TwoStudies) -> dict[str, Table]:
    """The CSV files by their names."""
    columns = ("arena", "optimizer", "baseline", "changed", *(f"{of}_{side}" for side in "ab" for of in OF_EACH))
    verdicts = [
        (v.a.arena, v.a.reference, v.a.baseline, v.changed, *(getattr(c, of) for c in v for of in OF_EACH))
        for v in found.verdicts
    ]
    plans = [(change.path, str(change.before), str(change.after)) for change in found.changes]
    return {
        "compare_plans.csv": Table(("setting", "a", "b"), plans),
        "compare_verdicts.csv": Table(columns, verdicts),
        "compare_arms.csv": of_dataclass(TwoArms, found.arms),
    }


def views(found: TwoStudies) -> dict[str, TableView]:
    """The tables of the page by their names: values, costs and plans."""
    values = (
        "Final value of the primary metric on the test split, mean ± standard deviation over the finished seeds. "
        "Advantage of B: positive where B is better. Paired: in every seed initial weights, batch order and "
        "noise of both studies have the same sha256; otherwise Welch. The intervals are not corrected for the number "
        "of arms; they are no verdicts, and contain the luck of both selections. Not compared: the arenas measure "
        "something else, or a seed has no value."
    )
    costs = (
        "Selected learning rates, and the time of a training step as a multiple of that of A’s reference in the same "
        "study, since milliseconds of two studies need not be of the same machine."
    )
    plans = "Settings of what both plans have, and machine, versions and revision of the records, where they differ."
    method = Column("Compared", lambda x: x.method or "not compared")
    sides = [(side.upper(), side) for side in "ab"]
    shown = (
        _verdicts(found.verdicts),
        table_view(
            "values",
            values,
            (
                *ARM,
                words("Metric", "metric"),
                _mean("A"),
                _mean("B"),
                intervals("Advantage of B", "advantage"),
                method,
                words("Note", "note"),
            ),
            found.arms,
        ),
        table_view(
            "costs",
            costs,
            (
                *ARM,
                *(numbers(f"Rate in {x}", f"lr_{side}", rate) for x, side in sides),
                *(numbers(f"Step time in {x}", f"step_ratio_{side}", three) for x, side in sides),
            ),
            found.arms,
        ),
        table_view(
            "plans", plans, (words("Setting", "path"), words("A", "before"), words("B", "after")), found.changes
        ),
    )
    return {table.name: table for table in shown if table.rows}


def _mean(side: str) -> Column:
    mean, std = (f"{of}_{side.lower()}" for of in ("mean", "std"))
    of_arm = attrgetter(mean, std)
    return Column(side, lambda x: mean_and_deviation(*of_arm(x)), attrgetter(mean), more={"std": attrgetter(std)})


def _verdicts(verdicts: Sequence[TwoVerdicts]) -> TableView:
    caption = (
        "The verdicts of both studies, each by its own plan, with the advantage and its 95% confidence interval, "
        "positive where the optimizer is better than the baseline. A frame marks those that changed."
    )

    def column(side: str) -> Column:
        of = attrgetter(side.lower())

        def text(both: TwoVerdicts) -> GridText:
            return GridText(of(both), ORDER.index(of(both).verdict), "changed" if both.changed else "")

        return grid_column(side, of, text)

    title = Column("Comparison", lambda both: f"{both.title}{' (changed)' if both.changed else ''}")
    return table_view("verdicts", caption, (title, column("A"), column("B")), verdicts)


def print_two_studies(found: TwoStudies, files: Sequence[Path], console: Console) -> None:
    """Print what failed, the first differences of the plans, a row for each arm, and the summary."""
    print_flags(found.failures, console)
    console.print(Text(found.about))
    console.print(Text(f"The studies differ in: {some([*map(str, found.changes)], '; ') or 'nothing'}."))
    table = plain_table("arena", "optimizer")
    add_numbers(table, "A", "B", "advantage of B", no_wrap=True)
    table.add_column("compared")
    for arm in found.arms:
        sides = (mean_and_deviation(*x) for x in ((arm.mean_a, arm.std_a), (arm.mean_b, arm.std_b)))
        advantage = interval(arm.advantage, arm.ci_low, arm.ci_high)
        table.add_row(arm.arena, arm.optimizer, *sides, advantage, arm.method or f"not: {arm.note}")
    console.print(table)
    console.print(Text(found.summary))
    console.print(Text(f"tables in {', '.join(map(str, files[:-1]))}, the page in {files[-1]}"), soft_wrap=True)
