"""A study compared with a publication."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.published.publication import Publication
from fairbench.analysis.published.replicated_values import ValueRow, gaps, value_rows
from fairbench.analysis.published.replicated_verdicts import VerdictRow, verdict_rows
from fairbench.analysis.results import Results
from fairbench.common.checks import Flag
from fairbench.common.formatting import NONE, p_value, rate, some
from fairbench.common.grouping import grouped
from fairbench.report.columns import ARM, aligned, answers, differences, means, numbers, words
from fairbench.report.document import Document, Output, Section
from fairbench.report.replicated_costs import CostRow, cost_rows
from fairbench.report.view import TextColumn
from fairbench.study.history import changes
from fairbench.suites.loader import load_suite
from fairbench.suites.schema import Suite


@dataclass(frozen=True)
class Replication:
    """A publication and a study: the values, verdicts and costs that are compared."""

    publication: Publication
    analyses: Analyses
    values: list[ValueRow]
    verdicts: list[VerdictRow]
    costs: list[CostRow]

    @property
    def summary(self) -> str:
        """The number of published verdicts that can be compared with the study, in words."""
        both = sum(row.agree is not None for row in self.verdicts)
        return f"{both} of {len(self.verdicts)} published verdicts can be compared"


def replicated(publication: Publication, analyses: Analyses) -> Document[Replication]:
    """Compare the last plan of a study with a publication. With an incomplete study the comparison is incomplete."""
    results = analyses.results
    replication = Replication(
        publication=publication,
        analyses=analyses,
        values=value_rows(publication, results),
        verdicts=verdict_rows(publication, results, analyses.comparisons),
        costs=cost_rows(publication, analyses),
    )
    flags = [*other_settings(publication, results), *analyses.of(audit)]
    return Document(
        source=replication,
        sections=[_section(publication.name)],
        title=publication.name,
        lead=_basis(replication),
        flags=[flag for flag in flags if flag.severity == "fail"],
    )


def other_settings(publication: Publication, results: Results) -> list[Flag]:
    """A flag if the settings of a study differ from those of the suite that is named as the publication."""
    ours = results.study.suite
    published = load_suite(publication.name)
    differing = changes(_settings(published, ours), _settings(ours, published))
    if not differing:
        return []
    listed = some([str(change) for change in differing], "; ")
    evidence = (
        f"suite {ours.name!r} differs from the published settings, the suite {publication.name!r}: "
        f"{listed}. No difference here refutes a published value, no agreement replicates one."
    )
    return [Flag("other settings", "fail", evidence, f"Run the suite {publication.name!r}.")]


def _settings(suite: Suite, other: Suite) -> dict[str, Any]:
    """The settings of a suite that determine its numbers, for arenas and optimizers that another suite has too."""
    content = suite.to_json()
    settings = {key: content[key] for key in ("sweep", "final", "training", "breaks")}
    settings["arenas"] = {name: plan for name, plan in content["arenas"].items() if name in other.arenas}
    settings["optimizers"] = {name: plan for name, plan in content["optimizers"].items() if name in other.optimizers}
    return settings


def _basis(replication: Replication) -> str:
    """Sentences on what the published values and ours are."""
    selection = "which no selection has read"
    if replication.analyses.suite.selection == "test":
        selection = "on which the suite selects its settings"
    return (
        f"The published values are of a validation split, ours of the test split, {selection}. Our perplexity is "
        "exp(loss) of each seed, then mean and standard deviation; it restates the loss and is no second result. Times "
        "of different machines are compared only by ratios: of published wall times, and of our training steps."
    )


def _values(replication: Replication) -> str:
    """Sentences on how many of our means lie inside the published spread, and how many rates are the published ones.

    With three seeds a third of exact repetitions lies outside: the difference of two means, over the first one's
    s sqrt(2/3), has Student's t with 2 degrees of freedom.
    """
    with_spread = [row for row in replication.values if row.published_std is not None]
    judged = [row for row in with_spread if row.inside is not None]
    inside = sum(row.inside is True for row in judged)
    same_rates = _same_rates(replication.values)
    number_known = len(same_rates) - same_rates.count(None)
    return (
        f"Of {len(with_spread)} published means with a spread, {len(judged)} can be compared with ours; ours lies "
        f"inside mean ± std for {inside} of these. With three seeds a third of exact repetitions lies outside by "
        f"chance. The selected learning rate is the published one for {same_rates.count(True)} of {number_known} arms."
    )


def _same_rates(rows: list[ValueRow]) -> list[bool | None]:
    """Whether the selected rate of each arm is the published one; None where that is not known."""
    by_arm = {(row.arena, row.optimizer): row.same_lr for row in rows}
    return [*by_arm.values()]


def _verdicts(replication: Replication) -> str:
    """Sentences on how many verdicts agree, and which verdicts differ."""
    judged = [row for row in replication.verdicts if row.agree is not None]
    differing = [_both_verdicts(row) for row in judged if not row.agree]
    statement = (
        f"Of {len(replication.verdicts)} published comparisons, {len(judged)} can be made here; "
        f"{len(judged) - len(differing)} of these agree: both significant at 0.05 in the same direction, or neither, "
        "without any correction. Two that are not significant agree without showing that there is no difference."
    )
    if differing:
        statement += f" Differing: {', '.join(differing)}."
    return statement


def _both_verdicts(row: VerdictRow) -> str:
    """A comparison with the published verdict and ours, in words."""
    verdicts = f"published {_published_verdict(row)}; ours {_our_verdict(row)}"
    return f"{row.arena} {row.metric} against {row.baseline} ({verdicts})"


def _published_verdict(row: VerdictRow) -> str:
    """The published verdict in words."""
    return in_words(row.published_direction, row.published_significant)


def _our_verdict(row: VerdictRow) -> str:
    """Our verdict in words."""
    return in_words(row.our_direction, row.our_significant)


def in_words(direction: str | None, significant: bool | None) -> str:
    """A verdict in words; a dash without a verdict."""
    if direction is None:
        return "–"
    if significant:
        return direction
    return f"{direction}, n.s."


def _not_compared(replication: Replication) -> str:
    """A sentence on names that only one side has, and on comparisons that the study cannot test yet."""
    parts = [*gaps(replication.publication, replication.analyses.results), *_untested(replication)]
    if not parts:
        return ""
    return f"{'; '.join(parts)}."


def _untested(replication: Replication) -> Iterator[str]:
    """For each reason, the comparisons that the study cannot test although it has both arms."""
    arms = replication.analyses.results.by_name
    missing = []
    for row in replication.verdicts:
        has_both = (row.arena, row.optimizer) in arms and (row.arena, row.baseline) in arms
        if row.agree is None and has_both:
            missing.append((row.note, f"{row.arena} {row.metric} against {row.baseline}"))
    for note, comparisons in grouped(missing).items():
        yield f"not tested, since {note}: {', '.join(comparisons)}"


def _divergence(replication: Replication) -> str:
    """A sentence on the arms in which trials diverged; empty without any."""
    lost = [arm for arm in replication.analyses.results.arms if arm.diverged or arm.count("diverged")]
    if not lost:
        return ""
    names = ", ".join(f"{arm.arena} {arm.optimizer}" for arm in lost)
    return f"Trials diverged in {names}; our means there are of the seeds that finished, if any, and may be too good."


def _values_of_arms(replication: Replication) -> list[ValueRow]:
    """The rows of arenas that both sides have, without single seeds, which only the data file has."""
    arenas = {row.arena for row in replication.values if row.our_mean is not None and not row.seed}
    return [row for row in replication.values if row.arena in arenas and not row.seed]


def _tested_verdicts(replication: Replication) -> list[VerdictRow]:
    """The rows of comparisons that the study can test."""
    return [row for row in replication.verdicts if row.our_p is not None]


def _comparable_costs(replication: Replication) -> list[CostRow]:
    """The rows of arms whose step time has a ratio in the study."""
    return [row for row in replication.costs if row.our_ratio is not None]


def _published_mean(row: ValueRow) -> float:
    """The published mean as a number."""
    return float(row.published_mean)


def _published_mean_text(row: ValueRow) -> str:
    """The published mean as it is printed, with its standard deviation, if it has one."""
    if row.published_std is None:
        return str(row.published_mean)
    return f"{row.published_mean} ± {row.published_std}"


VALUE_COLUMNS = (
    *ARM,
    words("Metric", "metric"),
    TextColumn("Published", _published_mean_text, value=_published_mean),
    means("Ours", "our_mean", "our_std"),
    numbers("n", "n", form=str),
    differences("Difference", "difference"),
    answers("Inside", "inside"),
    TextColumn(
        title="Published rate",
        show=lambda row: str(row.published_lr or NONE),
        value=lambda row: row.published_lr,
    ),
    numbers("Our rate", "our_lr", form=rate),
)

VERDICT_COLUMNS = (
    words("Arena", "arena"),
    words("Metric", "metric"),
    words("Optimizer", "optimizer"),
    words("Baseline", "baseline"),
    TextColumn("Published", _published_verdict),
    TextColumn("Ours", _our_verdict),
    numbers("Welch p", "our_p", form=p_value),
    TextColumn("Holm", lambda row: row.holm or NONE),
    answers("Agree", "agree"),
)

COST_COLUMNS = (
    *ARM,
    words("Baseline", "baseline"),
    numbers("Published time ratio", "published_ratio", form=str),
    aligned("Ours", "our_ratio"),
)


def _section(publication: str) -> Section[Replication]:
    """The section of the comparison with a publication: its tables, and statements on them."""
    file = f"comparison_{publication}"
    values = Output[Replication](
        name="values",
        rows=lambda replication: replication.values,
        shown=_values_of_arms,
        columns=VALUE_COLUMNS,
        kind=ValueRow,
        file=file,
        finding=("What is compared", _basis),
    )
    verdicts = Output[Replication](
        name="verdicts",
        rows=lambda replication: replication.verdicts,
        shown=_tested_verdicts,
        columns=VERDICT_COLUMNS,
        kind=VerdictRow,
        file=f"{file}_verdicts",
        finding=("Verdicts", _verdicts),
    )
    costs = Output[Replication](
        name="costs",
        rows=lambda replication: replication.costs,
        shown=_comparable_costs,
        columns=COST_COLUMNS,
        kind=CostRow,
        file=f"{file}_cost",
        finding=("Divergence", _divergence),
    )
    inside = Output[Replication](name="inside", finding=("Values", _values))
    not_compared = Output[Replication](name="gaps", finding=("Not compared", _not_compared))
    outputs = [
        replace(output, always=True, in_terminal=True) for output in (values, inside, verdicts, not_compared, costs)
    ]
    return Section(name="comparison", title=publication, outputs=outputs)
