"""Two studies, A and B, side by side."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.plan_changes import plan_changes
from fairbench.analysis.two_studies import TwoArms, TwoVerdicts, two_arms, two_verdicts
from fairbench.common.checks import Flag
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, rate, some
from fairbench.report.columns import ARM, aligned, intervals, means, numbers, words
from fairbench.report.document import Document, Output, Section
from fairbench.report.sections.verdict_grid import ORDER, GridCell, grid_column
from fairbench.report.table import Table
from fairbench.report.view import TextColumn
from fairbench.study.history import Change

OF_EACH = ("verdict", "note", "gain", "ci_low", "ci_high", "ci_level", "p_holm", "p_equivalence_holm")
"""The columns of compare_verdicts.csv for each of the two studies."""


class Side(NamedTuple):
    """One of the two studies.

    Attributes:
        letter: "A" or "B".
        name: the name of its directory.
    """

    letter: str
    name: str
    analyses: Analyses


@dataclass(frozen=True)
class TwoStudies:
    """Two studies: what they are, what differs between them, and the comparisons and arms that both have."""

    about: str
    changes: list[Change]
    verdicts: list[TwoVerdicts]
    arms: list[TwoArms]

    @property
    def summary(self) -> str:
        """The comparison in numbers."""
        changed = [pair.title for pair in self.verdicts if pair.changed]
        verdicts = "no verdict changed"
        if changed:
            verdicts = f"another verdict in {some(changed, '; ')}"
        methods = Counter(arm.method or "not compared" for arm in self.arms)
        methods_text = ", ".join(f"{count} {method}" for method, count in methods.items())
        same_arms = sum(arm.note.startswith("no seed differs") for arm in self.arms)
        same_text = f"; in {same_arms} no seed has another value" if same_arms else ""
        return (
            f"{plural(len(self.verdicts), 'comparison')} in both; {verdicts}. "
            f"{plural(len(self.arms), 'arm')} in both: {methods_text}{same_text}."
        )


def two_studies(a: Analyses, b: Analyses, names: Sequence[str]) -> Document[TwoStudies]:
    """Compare two studies. `names` are the names of their directories.

    Raises:
        UsageError: no optimizer is in the same arena of both.
    """
    sides = (Side("A", names[0], a), Side("B", names[1], b))
    arms = two_arms(a, b)
    if not arms:
        contents = "; ".join(_optimizers_and_arenas(side) for side in sides)
        raise UsageError(f"the studies have no optimizer in the same arena: {contents}")
    source = TwoStudies(
        about=" ".join(_about(side) for side in sides),
        changes=plan_changes(a, b),
        verdicts=two_verdicts(a, b),
        arms=arms,
    )
    return Document(
        source=source,
        sections=TWO_STUDIES,
        title=" and ".join(names),
        lead=source.about,
        flags=[*_failures(sides[0]), *_failures(sides[1])],
        page_name="compare.html",
    )


def _optimizers_and_arenas(side: Side) -> str:
    """The optimizers and arenas of a study, in words."""
    suite = side.analyses.suite
    return f"{side.name} has {', '.join(suite.optimizers)} in {', '.join(suite.arenas)}"


def _about(side: Side) -> str:
    """A sentence that describes one of the studies."""
    suite = side.analyses.suite
    declared = side.analyses.history.plans[-1].declared
    return (
        f"{side.letter} is {side.name}: suite {suite.name}, {plural(len(suite.arenas), 'arena')}, "
        f"{plural(len(suite.optimizers), 'optimizer')}, {suite.final.in_words}, declared {declared}."
    )


def _failures(side: Side) -> Iterator[Flag]:
    """The fails of the audit of a study, each with the letter of the study."""
    for flag in side.analyses.of(audit):
        if flag.severity == "fail":
            yield replace(flag, name=f"{side.letter}, {flag.name}")


def _differences(studies: TwoStudies) -> str:
    """A sentence with the differences between the plans, the machines and the versions."""
    differing = some([str(change) for change in studies.changes], "; ")
    return f"The studies differ in: {differing or 'nothing'}."


def _verdict_data(studies: TwoStudies) -> Table[dict[str, Any]]:
    """The data file of the comparisons, with the verdicts of both studies."""
    rows = []
    for pair in studies.verdicts:
        row = {
            "arena": pair.a.arena,
            "optimizer": pair.a.optimizer,
            "baseline": pair.a.baseline,
            "changed": pair.changed,
        }
        row |= _side_cells("a", pair.a)
        row |= _side_cells("b", pair.b)
        rows.append(row)
    columns = ["arena", "optimizer", "baseline", "changed"]
    for side in ("a", "b"):
        columns += [f"{name}_{side}" for name in OF_EACH]
    return Table(rows, tuple(columns))


def _side_cells(side: str, comparison: Comparison) -> dict[str, Any]:
    """The cells of one study in the row of a comparison, by the names of the columns."""
    return {f"{name}_{side}": getattr(comparison, name) for name in OF_EACH}


def _comparison_name(pair: TwoVerdicts) -> str:
    """The title of a comparison, with a remark if its verdict has changed."""
    if pair.changed:
        return f"{pair.title} (changed)"
    return pair.title


def _verdict_column(letter: str) -> TextColumn:
    """The column with the verdicts of one study."""
    comparison_of = attrgetter(letter.lower())

    def cell_of(pair: TwoVerdicts) -> GridCell:
        comparison = comparison_of(pair)
        mark = "changed" if pair.changed else ""
        return GridCell(comparison, ORDER.index(comparison.verdict), mark)

    return grid_column(letter, cell_of)


ABOUT = Output[TwoStudies](
    name="about",
    finding=("What is compared", lambda studies: studies.about),
)

DIFFERENCES = Output[TwoStudies](
    name="differences",
    finding=("Plans", _differences),
)

VERDICTS_TABLE = Output[TwoStudies](
    name="verdicts",
    title="Verdicts",
    rows=lambda studies: studies.verdicts,
    columns=(TextColumn("Comparison", _comparison_name), _verdict_column("A"), _verdict_column("B")),
    caption=(
        "The verdicts of both studies, each by its own plan, with the gain and the interval that decides, "
        "positive where the optimizer is better than the baseline. A frame marks those that changed."
    ),
    data=_verdict_data,
    file="compare_verdicts",
    always=True,
    finding=("Verdicts", lambda studies: studies.summary),
)


def _method(arm: TwoArms) -> str:
    """How the values of an arm are compared, in words."""
    return arm.method or "not compared"


VALUE_COLUMNS = (
    *ARM,
    words("Metric", "metric"),
    means("A", "mean_a", "std_a"),
    means("B", "mean_b", "std_b"),
    intervals("Gain of B", "gain"),
    TextColumn("Compared", _method),
    words("Note", "note"),
)

VALUES_TABLE = Output[TwoStudies](
    name="values",
    title="Every arm of both",
    rows=lambda studies: studies.arms,
    columns=VALUE_COLUMNS,
    caption=(
        "Final value of the primary metric on the test split, mean ± standard deviation over the finished "
        "seeds. Gain of B: positive where B is better. Paired: in every seed initial weights, batch order "
        "and noise of both studies have the same sha256; otherwise Welch. The intervals are not corrected for "
        "the number of arms; they are no verdicts, and contain the luck of both selections. Not compared: the "
        "arenas measure something else, or a seed has no value."
    ),
    kind=TwoArms,
    file="compare_arms",
    always=True,
    open_up_to=100,
    in_terminal=True,
)

COST_COLUMNS = (
    *ARM,
    numbers("Rate in A", "lr_a", form=rate),
    numbers("Rate in B", "lr_b", form=rate),
    aligned("Step time in A", "step_ratio_a"),
    aligned("Step time in B", "step_ratio_b"),
)

COSTS_TABLE = Output[TwoStudies](
    name="costs",
    title="Selected rates and step times",
    rows=lambda studies: studies.arms,
    columns=COST_COLUMNS,
    caption=(
        "Selected learning rates, and the time of a training step in timing trials as a multiple of that of A’s "
        "reference in the same study, since milliseconds of two studies need not be of the same machine."
    ),
    open_up_to=100,
)


def _plan_data(studies: TwoStudies) -> Table[dict[str, str]]:
    """The data file of the settings that differ."""
    rows = []
    for change in studies.changes:
        rows.append({"setting": change.path, "a": str(change.before), "b": str(change.after)})
    return Table(rows, columns=("setting", "a", "b"))


def _no_difference(studies: TwoStudies) -> list[str]:
    """A sentence that the plans do not differ; none if they differ."""
    if studies.changes:
        return []
    return ["The plans do not differ in what both have, nor do machine and versions."]


PLANS_TABLE = Output[TwoStudies](
    name="plans",
    title="What differs",
    rows=lambda studies: studies.changes,
    columns=(words("Setting", "path"), words("A", "before"), words("B", "after")),
    caption=("Settings of what both plans have, and machine, versions and revision of the records, where they differ."),
    data=_plan_data,
    file="compare_plans",
    always=True,
    texts=_no_difference,
    open_up_to=100,
)

VERDICTS_SECTION = Section[TwoStudies](
    name="verdicts",
    title="Verdicts",
    outputs=(ABOUT, DIFFERENCES, VERDICTS_TABLE),
    always=True,
)
VALUES_SECTION = Section[TwoStudies](name="values", title="Values", outputs=(VALUES_TABLE,))
COSTS_SECTION = Section[TwoStudies](name="costs", title="Rates and cost", outputs=(COSTS_TABLE,))
PLANS_SECTION = Section[TwoStudies](name="plans", title="Plans", outputs=(PLANS_TABLE,))

TWO_STUDIES = (VERDICTS_SECTION, VALUES_SECTION, COSTS_SECTION, PLANS_SECTION)
