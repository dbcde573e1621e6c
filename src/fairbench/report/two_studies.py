"""Two studies, A and B, side by side."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.two_studies import TwoArms, TwoVerdicts, plan_changes, two_arms, two_verdicts
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, rate, some
from fairbench.report.document import Document, Output, Section
from fairbench.report.sections.verdicts import ORDER, grid_column
from fairbench.report.table import Table
from fairbench.report.view import ARM, Column, aligned, intervals, means, numbers, words
from fairbench.study.history import Change

OF_EACH = ("verdict", "note", "gain", "ci_low", "ci_high", "p_holm")
"""What compare_verdicts.csv has of each comparison."""


@dataclass(frozen=True)
class TwoStudies:
    """What both studies are, what differs between them, and what both have."""

    about: str
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


def _differences(found: TwoStudies) -> str:
    return f"The studies differ in: {some([*map(str, found.changes)], '; ') or 'nothing'}."


def two_studies(a: Analyses, b: Analyses, names: Sequence[str]) -> Document[TwoStudies]:
    """Compare two studies; the names are those of their directories.

    Raises:
        UsageError: no optimizer is in the same arena of both.
    """
    sides, arms = list(zip("AB", names, (a, b), strict=True)), two_arms(a, b)
    if not arms:
        have = (f"{name} has {', '.join(x.suite.optimizers)} in {', '.join(x.suite.arenas)}" for _, name, x in sides)
        raise UsageError(f"the studies have no optimizer in the same arena: {'; '.join(have)}")
    about = " ".join(
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
    found = TwoStudies(about, plan_changes(a, b), two_verdicts(a, b), arms)
    return Document(found, TWO_STUDIES, " and ".join(names), about, failures, page_name="compare.html")


def _verdict_data(found: TwoStudies) -> Table[dict[str, Any]]:
    columns = ("arena", "optimizer", "baseline", "changed", *(f"{of}_{side}" for side in "ab" for of in OF_EACH))
    rows = (
        (v.a.arena, v.a.optimizer, v.a.baseline, v.changed, *(getattr(c, of) for c in v for of in OF_EACH))
        for v in found.verdicts
    )
    return Table([dict(zip(columns, row, strict=True)) for row in rows], columns)


def _verdict_column(side: str) -> Column:
    of = attrgetter(side.lower())
    return grid_column(side, lambda both: (of(both), ORDER.index(of(both).verdict), "changed" * both.changed))


TWO_STUDIES = (
    Section[TwoStudies](
        "verdicts",
        "Verdicts",
        (
            Output("about", finding=("What is compared", lambda found: found.about)),
            Output("differences", finding=("Plans", _differences)),
            Output(
                "verdicts",
                "Verdicts",
                lambda found: found.verdicts,
                (
                    Column("Comparison", lambda both: f"{both.title}{' (changed)' if both.changed else ''}"),
                    *map(_verdict_column, "AB"),
                ),
                "The verdicts of both studies, each by its own plan, with the gain and its 95% confidence "
                "interval, positive where the optimizer is better than the baseline. A frame marks those that changed.",
                data=_verdict_data,
                file="compare_verdicts",
                always=True,
                finding=("Verdicts", lambda found: found.summary),
            ),
        ),
        always=True,
    ),
    Section[TwoStudies](
        "values",
        "Values",
        (
            Output(
                "values",
                "Every arm of both",
                lambda found: found.arms,
                (
                    *ARM,
                    words("Metric", "metric"),
                    means("A", "mean_a", "std_a"),
                    means("B", "mean_b", "std_b"),
                    intervals("Gain of B", "gain"),
                    Column("Compared", lambda x: x.method or "not compared"),
                    words("Note", "note"),
                ),
                "Final value of the primary metric on the test split, mean ± standard deviation over the finished "
                "seeds. Gain of B: positive where B is better. Paired: in every seed initial weights, batch order "
                "and noise of both studies have the same sha256; otherwise Welch. The intervals are not corrected for "
                "the number of arms; they are no verdicts, and contain the luck of both selections. Not compared: the "
                "arenas measure something else, or a seed has no value.",
                kind=TwoArms,
                file="compare_arms",
                always=True,
                open_up_to=100,
                in_terminal=True,
            ),
        ),
    ),
    Section[TwoStudies](
        "costs",
        "Rates and cost",
        (
            Output(
                "costs",
                "Selected rates and step times",
                lambda found: found.arms,
                (
                    *ARM,
                    *(numbers(f"Rate in {side.upper()}", f"lr_{side}", rate) for side in "ab"),
                    *(aligned(f"Step time in {side.upper()}", f"step_ratio_{side}") for side in "ab"),
                ),
                "Selected learning rates, and the time of a training step as a multiple of that of A’s reference in "
                "the same study, since milliseconds of two studies need not be of the same machine.",
                open_up_to=100,
            ),
        ),
    ),
    Section[TwoStudies](
        "plans",
        "Plans",
        (
            Output(
                "plans",
                "What differs",
                lambda found: found.changes,
                (words("Setting", "path"), words("A", "before"), words("B", "after")),
                "Settings of what both plans have, and machine, versions and revision of the records, where they "
                "differ.",
                data=lambda found: Table(
                    [{"setting": x.path, "a": str(x.before), "b": str(x.after)} for x in found.changes],
                    ("setting", "a", "b"),
                ),
                file="compare_plans",
                always=True,
                texts=lambda found: (
                    [] if found.changes else ["The plans do not differ in what both have, nor do machine and versions."]
                ),
                open_up_to=100,
            ),
        ),
    ),
)
