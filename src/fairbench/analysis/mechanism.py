"""The mechanisms of optimizers: when they acted, in which tensors, and how strongly against decay and update."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults
from fairbench.common.formatting import percent, plain
from fairbench.common.grouping import grouped
from fairbench.study.record import MechanismReport, Result


@dataclass(frozen=True)
class Quantity:
    """One quantity that a mechanism reports; means over the final seeds.

    Attributes:
        quantity: name of the quantity, as the optimizer reports it.
        unit: unit of the quantity, in words.
        value: total of the quantity over tensors and steps.
        per_tensor_step: the total divided by the number of pairs of tensor and step; None if not counted.
        of_path_length: the distance that the quantity moved the weights as a share of the path length of all steps;
            only of decays.
        most_in: the tensor that has most of the quantity; empty where the total is 0.
        most_share: the share of that tensor; None where the total is 0.
        half_by: the share of the training after which half of the total was reached; None where the total is 0.
    """

    arena: str
    optimizer: str
    quantity: str
    unit: str
    value: float
    per_tensor_step: float | None
    of_path_length: float | None
    most_in: str
    most_share: float | None
    half_by: float | None


@dataclass(frozen=True)
class Mechanism:
    """The mechanism of an arm.

    Attributes:
        n: final seeds that did not fail.
        acted: share of the pairs of tensor and step in which it changed something; None where they are not counted.
        state: its effect in words.
    """

    arena: str
    optimizer: str
    n: int
    quantities: Sequence[Quantity]
    acted: float | None
    state: str


class Seed(NamedTuple):
    """The result of a final trial, and the report of its mechanism."""

    result: Result
    report: MechanismReport


def mechanisms(analyses: Analyses) -> list[Mechanism]:
    """The mechanism of every arm with records whose optimizer has a mechanism, in the order of the suite."""
    arm_mechanisms = []
    for arm in analyses.results.arms:
        ended = [run for run in arm.final if run.result]
        seeds = []
        for run in ended:
            if run.result and run.mechanism:
                seeds.append(Seed(run.result, run.mechanism))
        # each seed must have a report
        if seeds and len(seeds) == len(ended):
            arm_mechanisms.append(_mechanism(arm, seeds))
    return arm_mechanisms


def quantities(analyses: Analyses) -> list[Quantity]:
    """All quantities of all mechanisms, in the order of the suite."""
    all_quantities: list[Quantity] = []
    for mechanism in analyses.of(mechanisms):
        all_quantities += mechanism.quantities
    return all_quantities


def quantity_curve(arm: ArmResults, quantity: str) -> list[tuple[int, float]]:
    """The increase of a quantity between each logged step and the one before, a mean over the final seeds.

    Each point is the later step with the increase.
    """
    points: list[tuple[int, float]] = []
    for run in arm.final:
        if run.mechanism:
            points += run.mechanism.course.points(quantity)
    increases_by_step = grouped(points)
    return [(step, fmean(increases)) for step, increases in sorted(increases_by_step.items())]


def _mechanism(arm: ArmResults, seeds: Sequence[Seed]) -> Mechanism:
    """The mechanism of an arm, from the reports of its final seeds."""
    units = seeds[0].report.units
    rows = [_quantity(arm, seeds, name, unit) for name, unit in units.items()]
    by_name = {row.quantity: row for row in rows}
    acted = by_name.get("acted")
    return Mechanism(
        arena=arm.arena,
        optimizer=arm.optimizer,
        n=len(seeds),
        quantities=rows,
        acted=acted.per_tensor_step if acted else None,
        state=_state(by_name),
    )


def _quantity(arm: ArmResults, seeds: Sequence[Seed], name: str, unit: str) -> Quantity:
    """A quantity of the mechanism of an arm, from the reports of its final seeds."""
    value = _mean_total(seeds, name)
    tensor_steps = _mean_total(seeds, "tensor_steps")
    path_shares = _shares_of_path(seeds, name)
    per_tensor_step = None
    if tensor_steps:
        per_tensor_step = value / tensor_steps
    most_in = ""
    most_share = None
    total_of_tensor = _mean_by_tensor(seeds, name)
    if value and total_of_tensor:
        most_in = max(total_of_tensor, key=lambda tensor: total_of_tensor[tensor])
        most_share = total_of_tensor[most_in] / value
    return Quantity(
        arena=arm.arena,
        optimizer=arm.optimizer,
        quantity=name,
        unit=unit,
        value=value,
        per_tensor_step=per_tensor_step,
        of_path_length=fmean(path_shares) if path_shares else None,
        most_in=most_in,
        most_share=most_share,
        half_by=_half_by(quantity_curve(arm, name), value),
    )


def _mean_total(seeds: Sequence[Seed], quantity: str) -> float:
    """The total of a quantity, a mean over the seeds."""
    return fmean(seed.report.totals.get(quantity, 0.0) for seed in seeds)


def _shares_of_path(seeds: Sequence[Seed], quantity: str) -> list[float]:
    """For each seed, the distance that a quantity moved the weights, as a share of the path length of all steps.

    Seeds in which one of the two is not known are left out.
    """
    shares = []
    for result, report in seeds:
        # diverged seeds have no path length
        if result.path_length and quantity in report.path_length:
            shares.append(report.path_length[quantity] / result.path_length)
    return shares


def _mean_by_tensor(seeds: Sequence[Seed], quantity: str) -> dict[str, float]:
    """The total of a quantity in each tensor, a mean over the seeds."""
    totals_of_seeds = [seed.report.tensors.get(quantity, {}) for seed in seeds]
    means = {}
    for tensor in totals_of_seeds[0]:
        means[tensor] = fmean(totals.get(tensor, 0.0) for totals in totals_of_seeds)
    return means


def _half_by(increases: Sequence[tuple[int, float]], total: float) -> float | None:
    """The share of the steps after which half of a total was reached; None for a total of 0.

    Each increase has the step at its end.
    """
    if not total:
        return None
    so_far = 0.0
    for step, increase in increases:
        so_far += increase
        if so_far >= total / 2:
            last_step, _ = increases[-1]
            return step / last_step
    return None


def _state(rows: Mapping[str, Quantity]) -> str:
    """The effect of a mechanism in words, from its quantities by their names."""
    acted = rows.get("acted")
    if acted is None:
        # the mechanism does not count its steps, so there is nothing to judge
        return ", ".join(f"{row.quantity}: {plain(row.value, '.3g')} {row.unit}" for row in rows.values())
    if acted.value == 0:
        fired = rows.get("fired")
        if fired is not None and fired.value > 0:
            return "its gate opened only while its term was off; it changed nothing"
        return "never fired"
    words = ["acted"]
    if acted.per_tensor_step is not None:
        words = [f"acted in {percent(acted.per_tensor_step)} of tensor steps"]
    decay = rows.get("weight_decay")
    for row in rows.values():
        if row.of_path_length is None or row is decay:
            continue
        effect = f"{percent(row.of_path_length)} of the path length of the weights"
        if decay and decay.value:
            effect = f"{percent(row.value / decay.value)} of what weight decay did and {effect}"
        words.append(f"{row.quantity} did {effect}")
    return "; ".join(words)
