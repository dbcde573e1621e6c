"""Whether an optimizer's mechanism acted: when, in which tensors, and how strongly against decay and update."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

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


def mechanisms(analyses: Analyses) -> list[Mechanism]:
    """The mechanism of every arm whose optimizer has one and that has records, in the order of the suite."""
    ended = [(arm, [run for run in arm.final if run.result]) for arm in analyses.results.arms]
    arms = [
        (arm, [(x.result, x.mechanism) for x in runs if x.result and x.mechanism], len(runs)) for arm, runs in ended
    ]
    return [_mechanism(arm, seeds) for arm, seeds, count in arms if seeds and len(seeds) == count]


def quantities(analyses: Analyses) -> list[Quantity]:
    """Every quantity of every mechanism, in the order of the suite."""
    return [quantity for mechanism in analyses.of(mechanisms) for quantity in mechanism.quantities]


def quantity_curve(arm: ArmResults, quantity: str) -> list[tuple[int, float]]:
    """The increase of a quantity at each logged step since the one before, mean over the final seeds."""
    reports = filter(None, (run.mechanism for run in arm.final))
    by_step = grouped(point for report in reports for point in report.course.points(quantity))
    return [(step, fmean(values)) for step, values in sorted(by_step.items())]


def _mechanism(arm: ArmResults, seeds: Sequence[tuple[Result, MechanismReport]]) -> Mechanism:
    rows = [_quantity(arm, seeds, name, unit) for name, unit in seeds[0][1].units.items()]
    by_name = {row.quantity: row for row in rows}
    acted = by_name["acted"].per_tensor_step if "acted" in by_name else None
    return Mechanism(arm.arena, arm.optimizer, len(seeds), rows, acted, _state(by_name))


def _quantity(arm: ArmResults, seeds: Sequence[tuple[Result, MechanismReport]], name: str, unit: str) -> Quantity:
    reports = [report for _, report in seeds]
    value, pairs = (fmean(report.totals.get(total, 0.0) for report in reports) for total in (name, "tensor_steps"))
    moved = [
        report.path_length[name] / result.path_length
        for result, report in seeds
        if result.path_length and name in report.path_length  # diverged seeds have none
    ]
    tensors = [report.tensors.get(name, {}) for report in reports]
    totals = {tensor: fmean(each.get(tensor, 0.0) for each in tensors) for tensor in tensors[0]}
    most = max(totals, key=lambda tensor: totals[tensor], default="")
    return Quantity(
        arena=arm.arena,
        optimizer=arm.optimizer,
        quantity=name,
        unit=unit,
        value=value,
        per_tensor_step=value / pairs if pairs else None,
        of_path_length=fmean(moved) if moved else None,
        most_in=most if value else "",
        most_share=totals[most] / value if value and most else None,
        half_by=_half_by(quantity_curve(arm, name), value),
    )


def _half_by(added: Sequence[tuple[int, float]], total: float) -> float | None:
    """The share of the steps after which half of a total was reached."""
    sums = zip(added, accumulate(amount for _, amount in added), strict=True)
    return next((step / added[-1][0] for (step, _), so_far in sums if total and so_far >= total / 2), None)


def _state(rows: Mapping[str, Quantity]) -> str:
    """The effect of a mechanism in words, by the quantities that it counts."""
    if "acted" not in rows:
        return ", ".join(f"{row.quantity}: {plain(row.value, '.3g')} {row.unit}" for row in rows.values())
    if rows["acted"].value == 0:
        held = "fired" in rows and rows["fired"].value > 0
        return "gate open only while the term was off or held at 0, changed nothing" if held else "never fired"
    share = rows["acted"].per_tensor_step
    words = [f"acted in {percent(share)} of tensor steps" if share is not None else "acted"]
    decay = rows.get("weight_decay")
    for row in rows.values():
        if row.of_path_length is not None and row is not decay:
            relative = (
                f"{percent(row.value / decay.value)} of what weight decay did and " if decay and decay.value else ""
            )
            moved = f"{percent(row.of_path_length)} of the path length of the weights"
            words.append(f"{row.quantity} did {relative}{moved}")
    return "; ".join(words)
