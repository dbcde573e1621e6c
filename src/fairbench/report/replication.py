"""A study compared with a publication."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.cost import Cost, costs
from fairbench.analysis.published.publication import Entry, Publication
from fairbench.analysis.published.replication import ValueRow, VerdictRow, gaps, value_rows, verdict_rows
from fairbench.analysis.results import Results
from fairbench.common.checks import Flag
from fairbench.common.formatting import NONE, p_value, rate, some
from fairbench.common.grouping import grouped
from fairbench.report.document import Document, Output, Section
from fairbench.report.view import ARM, Column, aligned, answers, differences, means, numbers, words
from fairbench.study.history import changes
from fairbench.suites.loader import load_suite
from fairbench.suites.schema import Suite


@dataclass(frozen=True)
class CostRow:
    """The published cost of an arm and ours; None where a side has no value.

    Attributes:
        published_wall_s: the printed wall time in seconds; the paper does not define it.
        our_trial_s: median seconds of our final trials, all phases included.
        published_peak_mb, our_peak_mb: peak memory, ours in 10^6 bytes.
        baseline: the optimizer that the ratio refers to, empty where none is printed.
        published_ratio: wall time over the baseline's, as it is printed.
        our_ratio: our time of a training step over the baseline's.
    """

    place: str
    arena: str
    optimizer: str
    published_wall_s: Decimal
    our_trial_s: float | None
    published_peak_mb: Decimal | None
    our_peak_mb: float | None
    baseline: str
    published_ratio: Decimal | None
    our_ratio: float | None


@dataclass(frozen=True)
class Replication:
    """What was published, and what a study has of it."""

    publication: Publication
    analyses: Analyses
    values: list[ValueRow]
    verdicts: list[VerdictRow]
    costs: list[CostRow]

    @property
    def summary(self) -> str:
        """How many verdicts the study can be compared in."""
        both = sum(row.agree is not None for row in self.verdicts)
        return f"{both} of {len(self.verdicts)} published verdicts can be compared"


def replicated(publication: Publication, analyses: Analyses) -> Document[Replication]:
    """Compare the last plan of a study with a publication; incomplete if the study is."""
    results, known = analyses.results, {(cost.arena, cost.optimizer): cost for cost in analyses.of(costs)}
    found = Replication(
        publication,
        analyses,
        value_rows(publication, results),
        verdict_rows(publication, results, analyses.comparisons),
        [_cost_row(publication, entry, known) for entry in publication.all("wall_s")],
    )
    flags = [*other_settings(publication, results), *analyses.of(audit)]
    alarming = [flag for flag in flags if flag.severity == "fail"]
    return Document(found, _sections(publication.name), publication.name, _basis(found), alarming)


def _cost_row(publication: Publication, entry: Entry, costs: dict[tuple[str, str], Cost]) -> CostRow:
    """The published cost of an arm with ours."""
    about = {"arena": entry.arena, "optimizer": entry.optimizer}
    ratios = (x for x in publication.all("ratio") if (x.arena, x.optimizer) == (entry.arena, entry.optimizer))
    ratio = next(ratios, None)
    baseline = ratio.baseline if ratio else ""
    ours, theirs = costs.get((entry.arena, entry.optimizer)), costs.get((entry.arena, baseline))
    return CostRow(
        place=entry.place,
        **about,
        published_wall_s=entry.number,
        our_trial_s=ours.trial_s if ours else None,
        published_peak_mb=publication.number("peak_mb", **about),
        our_peak_mb=ours.peak_memory_mb if ours else None,
        baseline=baseline,
        published_ratio=ratio.number if ratio else None,
        our_ratio=ours.train_ms / theirs.train_ms if ours and theirs else None,
    )


def other_settings(publication: Publication, results: Results) -> list[Flag]:
    """The flag of a study whose settings are not those of the suite with the publication's name; none otherwise."""
    ours, theirs = results.study.suite, load_suite(publication.name)
    differing = [str(change) for change in changes(_settings(theirs, ours), _settings(ours, theirs))]
    if not differing:
        return []
    evidence = (
        f"suite {ours.name!r} differs from the published settings, the suite {publication.name!r}: "
        f"{some(differing, '; ')}. No difference here refutes a published value, no agreement replicates one."
    )
    return [Flag("other settings", "fail", evidence, f"Run the suite {publication.name!r}.")]


def _settings(suite: Suite, other: Suite) -> dict[str, Any]:
    """What determines the numbers of a suite, for the arenas and optimizers that the other suite has too."""
    content = suite.to_json()
    settings = {key: content[key] for key in ("sweep", "final", "training", "breaks")}
    for key in ("arenas", "optimizers"):
        settings[key] = {name: table for name, table in content[key].items() if name in getattr(other, key)}
    return settings


def _basis(found: Replication) -> str:
    selected = found.analyses.suite.selection == "test"
    selection = "on which the suite selects its settings" if selected else "which no selection has read"
    return (
        f"The published values are of a validation split, ours of the test split, {selection}. Our perplexity is "
        "exp(loss) of each seed, then mean and standard deviation; it restates the loss and is no second result. Times "
        "of different machines are compared only by ratios: of published wall times, and of our training steps."
    )


def _values(found: Replication) -> str:
    """The number of our means inside the published spread, and of our rates that are the published ones.

    With three seeds a third of exact repetitions lies outside: the difference of two means, over the first one's
    s sqrt(2/3), has Student's t with 2 degrees of freedom.
    """
    values = found.values
    spread = [row for row in values if row.published_std is not None]
    judged = [row for row in spread if row.inside is not None]
    inside = sum(row.inside is True for row in judged)
    rates = [row.same_lr for row in {(row.arena, row.optimizer): row for row in values}.values()]
    return (
        f"Of {len(spread)} published means with a spread, {len(judged)} can be compared with ours; ours lies inside "
        f"mean ± std for {inside} of these. With three seeds a third of exact repetitions lies outside by chance. "
        f"The selected learning rate is the published one for {rates.count(True)} of {len(rates) - rates.count(None)} "
        "arms."
    )


def _verdicts(found: Replication) -> str:
    verdicts = found.verdicts
    judged = [row for row in verdicts if row.agree is not None]
    differing = [
        f"{row.arena} {row.metric} against {row.baseline} "
        f"(published {in_words(row.published_direction, row.published_significant)}; "
        f"ours {in_words(row.our_direction, row.our_significant)})"
        for row in judged
        if not row.agree
    ]
    return (
        f"Of {len(verdicts)} published comparisons, {len(judged)} can be made here; {len(judged) - len(differing)} of "
        "these agree: both significant at 0.05 in the same direction, or neither, without any correction. Two that "
        "are not significant agree without showing that there is no difference."
        + (f" Differing: {', '.join(differing)}." if differing else "")
    )


def in_words(direction: str | None, significant: bool | None) -> str:
    """A judgement in words; a dash where there is none."""
    return "–" if direction is None else direction if significant else f"{direction}, n.s."


def _not_compared(found: Replication) -> str:
    """The names that only one side has, and the comparisons that the study cannot test yet."""
    results, missing = found.analyses.results, [row for row in found.verdicts if row.agree is None]
    both = [x for x in missing if {(x.arena, x.optimizer), (x.arena, x.baseline)} <= results.by_name.keys()]
    untested = grouped((x.note, f"{x.arena} {x.metric} against {x.baseline}") for x in both)
    parts = [f"not tested, since {note}: {', '.join(where)}" for note, where in untested.items()]
    parts = gaps(found.publication, results) + parts
    return f"{'; '.join(parts)}." if parts else ""


def _divergence(found: Replication) -> str:
    lost = [arm for arm in found.analyses.results.arms if arm.diverged or arm.count("diverged")]
    if not lost:
        return ""
    names = ", ".join(f"{arm.arena} {arm.optimizer}" for arm in lost)
    return f"Trials diverged in {names}; our means there are of the seeds that finished, if any, and may be too good."


def _values_of_arms(found: Replication) -> list[ValueRow]:
    """The rows of arenas that both sides have; values of single seeds are only in the file."""
    arenas = {row.arena for row in found.values if row.our_mean is not None and not row.seed}
    return [row for row in found.values if row.arena in arenas and not row.seed]


def _sections(publication: str) -> list[Section[Replication]]:
    """The tables, written for a publication, and the tables in sentences."""
    file = f"comparison_{publication}"
    outputs = (
        Output(
            "values",
            rows=lambda found: found.values,
            shown=_values_of_arms,
            columns=(
                *ARM,
                words("Metric", "metric"),
                Column(
                    "Published",
                    lambda row: " ± ".join(str(x) for x in (row.published_mean, row.published_std) if x is not None),
                    lambda row: float(row.published_mean),
                ),
                means("Ours", "our_mean", "our_std"),
                numbers("n", "n", str),
                differences("Difference", "difference"),
                answers("Inside", "inside"),
                Column("Published rate", lambda row: str(row.published_lr or NONE), lambda row: row.published_lr),
                numbers("Our rate", "our_lr", rate),
            ),
            kind=ValueRow,
            file=file,
            finding=("What is compared", _basis),
        ),
        Output("inside", finding=("Values", _values)),
        Output(
            "verdicts",
            rows=lambda found: found.verdicts,
            shown=lambda found: [row for row in found.verdicts if row.our_p is not None],
            columns=(
                words("Arena", "arena"),
                words("Metric", "metric"),
                words("Optimizer", "optimizer"),
                words("Baseline", "baseline"),
                Column("Published", lambda row: in_words(row.published_direction, row.published_significant)),
                Column("Ours", lambda row: in_words(row.our_direction, row.our_significant)),
                numbers("Welch p", "our_p", p_value),
                Column("Holm", lambda row: row.holm or NONE),
                answers("Agree", "agree"),
            ),
            kind=VerdictRow,
            file=f"{file}_verdicts",
            finding=("Verdicts", _verdicts),
        ),
        Output("gaps", finding=("Not compared", _not_compared)),
        Output(
            "costs",
            rows=lambda found: found.costs,
            shown=lambda found: [row for row in found.costs if row.our_ratio is not None],
            columns=(
                *ARM,
                words("Baseline", "baseline"),
                Column("Published time ratio", lambda row: str(row.published_ratio), lambda row: row.published_ratio),
                aligned("Ours", "our_ratio"),
            ),
            kind=CostRow,
            file=f"{file}_cost",
            finding=("Divergence", _divergence),
        ),
    )
    return [Section("comparison", publication, [replace(x, always=True, in_terminal=True) for x in outputs])]
