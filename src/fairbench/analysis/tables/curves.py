"""Selection of one value of each run, in a table that has a curve over steps for each run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fairbench.analysis.tables.readers.nested import STEP_IN_LIST
from fairbench.analysis.tables.readings import Reading
from fairbench.common.errors import UsageError
from fairbench.common.formatting import some

Run = tuple[str, str | None]
"""The optimizer and the seed of a run."""
Curve = dict[float, Reading]
"""The values of a run by their steps."""


def one_of_each_run(readings: Sequence[Reading], at: str, direction: str, notes: list[str]) -> Sequence[Reading]:
    """The reading of each run at one step. Without curves, all readings.

    Args:
        at: "last", "best" or a step; empty for a table without curves.
        direction: which values are better, "min" or "max".
        notes: messages for the user, to which this function adds its own.

    Raises:
        UsageError: there are curves, but no step is asked for; or the other way around; or no run has the step.
    """
    first = readings[0]
    steps = [reading.number("step") for reading in readings]
    if at and None in steps:
        without_step = readings[steps.index(None)]
        raise UsageError(f"{without_step.location}: --at {at} needs a step; give --columns step=NAME")
    # a table with one step for all rows has no curves
    curves: dict[Run, Curve] = {}
    if at or len(set(steps)) > 1:
        curves = _curves(readings)
    if not at:
        if any(len(curve) > 1 for curve in curves.values()):
            ways = "--at last, --at best, or --at STEP"
            if STEP_IN_LIST in first.entry.row.cells:
                ways += "; or --columns seed=rows, if the values of a list are runs"
            raise UsageError(f"{first.location}: begins a curve over steps; give {ways}")
        return readings
    early: dict[Run, str] = {}
    if at in ("last", "best"):
        early = _early(curves)
        place = ""
        if "arena" in first.texts:
            place = f" in {first.entry.arena}"
        notes += _note_on_last_steps(curves, place)
    last_reading = {reading.run: reading for reading in readings}
    points = []
    for run, curve in curves.items():
        point = _point(curve, at, direction)
        if point is None:
            # the run ended before the step, or has no value at all
            point = last_reading[run].without_value()
        points.append(replace(point, early=early.get(run, "")))
    if not any(point.has_text for point in points):
        raise UsageError(
            f"{first.location}: no run has a value at step {at}; --at takes last, best or one of the steps"
        )
    return points


def _early(curves: Mapping[Run, Curve]) -> dict[Run, str]:
    """Where each run ends that ends before others, such as "1400 of 2000"."""
    last_steps = {run: _last_step(curve) for run, curve in curves.items()}
    last = max(last_steps.values())
    return {run: f"{step:g} of {last:g}" for run, step in last_steps.items() if step < last}


def _note_on_last_steps(curves: Mapping[Run, Curve], place: str) -> list[str]:
    """A note that names the runs which end before others; none if all have the same last step.

    Args:
        place: the arena in words; empty in a table without arenas.
    """
    last_steps = {run: _last_step(curve) for run, curve in curves.items()}
    first = min(last_steps.values())
    last = max(last_steps.values())
    if first == last:
        return []
    names = []
    for (optimizer, seed), step in last_steps.items():
        if step < last:
            names.append(optimizer if seed is None else f"{optimizer} seed {seed}")
    span = f"from {first:g} to {last:g}"
    return [f"the last steps of the runs{place} differ, {span}; before {last:g} ends {some(names)}"]


def _curves(readings: Sequence[Reading]) -> dict[Run, Curve]:
    """The curve of each run. It has only the steps with a value, and may be empty."""
    curves: dict[Run, Curve] = {}
    for reading in readings:
        curve = curves.setdefault(reading.run, {})
        step = reading.number("step")
        if step is None:
            continue  # the row has no place on the curve
        if step in curve:
            run = reading.optimizer
            if reading.entry.seed is not None:
                run = f"seed {reading.seed} of {run}"
            raise reading.repeated_error(curve[step], f"step {step:g} of {run}")
        if reading.has_text:  # trackers log other metrics at other steps
            curve[step] = reading
    return curves


def _point(curve: Curve, at: str, direction: str) -> Reading | None:
    """The reading of a curve at "last", "best" or a step; None if the curve has no value there.

    A run diverged if its last value is not finite, whatever its best one is.
    """
    last = curve.get(_last_step(curve))
    if at == "last":
        return last
    if at == "best":
        if last is not None and last.is_diverged:
            return last
        return curve.get(_best_step(curve, direction))
    try:
        return curve.get(float(at))
    except ValueError:
        raise UsageError(f"--at must be last, best or a step, got {at!r}") from None


def _last_step(curve: Mapping[float, Reading]) -> float:
    """The last step of a curve; 0 for an empty curve."""
    return max(curve, default=0.0)


def _best_step(curve: Curve, direction: str) -> float:
    """The step of the best value; the last such step if several values are equal.

    A curve without finite values has no best one: then it is the last step.
    """
    step_of_value = {}
    for step, reading in curve.items():
        value = reading.number("value")
        if value is not None and math.isfinite(value):
            step_of_value[value] = step
    if not step_of_value:
        return _last_step(curve)
    if direction == "min":
        return step_of_value[min(step_of_value)]
    return step_of_value[max(step_of_value)]
