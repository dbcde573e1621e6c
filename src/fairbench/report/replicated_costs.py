"""The published costs of arms next to those of a study."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.cost import Cost, costs
from fairbench.analysis.published.publication import Entry, Publication


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """The published cost of an arm and ours; None where a side has no value.

    Attributes:
        published_wall_s: the printed wall time in seconds; the paper does not define it.
        our_trial_s: seconds of all training steps of a final trial of ours, at the time of a step in timing trials.
        published_peak_mb, our_peak_mb: peak memory, ours in 10^6 bytes.
        baseline: the optimizer that the ratio refers to, empty where none is printed.
        published_ratio: wall time over the baseline's, as it is printed.
        our_ratio: our time of a training step over the baseline's, in timing trials.
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


def cost_rows(publication: Publication, analyses: Analyses) -> list[CostRow]:
    """A row for each arm with a published time."""
    by_arm = {(cost.arena, cost.optimizer): cost for cost in analyses.of(costs)}
    return [_cost_row(publication, entry, analyses, by_arm) for entry in publication.all("wall_s")]


def _cost_row(
    publication: Publication, entry: Entry, analyses: Analyses, by_arm: Mapping[tuple[str, str], Cost]
) -> CostRow:
    """The row of the arm of a published time. `by_arm` has our costs by arena and optimizer."""
    ratio = _published_ratio(publication, entry)
    baseline = ratio.baseline if ratio else ""
    ours = by_arm.get((entry.arena, entry.optimizer))
    our_baseline = by_arm.get((entry.arena, baseline))
    our_trial_s = None
    our_ratio = None
    if ours and ours.train_ms:
        our_trial_s = analyses.suite.arenas[entry.arena].steps * ours.train_ms / 1000
        if our_baseline and our_baseline.train_ms:
            our_ratio = ours.train_ms / our_baseline.train_ms
    return CostRow(
        place=entry.place,
        arena=entry.arena,
        optimizer=entry.optimizer,
        published_wall_s=entry.number,
        our_trial_s=our_trial_s,
        published_peak_mb=publication.number("peak_mb", arena=entry.arena, optimizer=entry.optimizer),
        our_peak_mb=ours.peak_memory_mb if ours else None,
        baseline=baseline,
        published_ratio=ratio.number if ratio else None,
        our_ratio=our_ratio,
    )


def _published_ratio(publication: Publication, entry: Entry) -> Entry | None:
    """The ratio that is printed for the arm of an entry; None without one."""
    for ratio in publication.all("ratio"):
        if (ratio.arena, ratio.optimizer) == (entry.arena, entry.optimizer):
            return ratio
    return None
