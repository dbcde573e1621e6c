"""One value of each run of a table that has curves over steps."""

import math
from collections.abc import Mapping, Sequence

from fairbench.analysis.tables.readings import Reading
from fairbench.common.errors import UsageError

Run = tuple[str, str | None]
"""The optimizer and the seed of a run."""
Curve = dict[float, Reading]
"""The values of a run by their steps."""


def one_of_each_run(readings: Sequence[Reading], at: str, direction: str, notes: list[str]) -> Sequence[Reading]:
    """The readings at one step of each run; without curves all.

    Args:
        at: "last", "best" or a step; empty for a table without curves.
        direction: which values are better, "min" or "max".

    Raises:
        UsageError: there are curves, but no step is asked for; or the other way around; or no run has the step.
    """
    first = readings[0]
    steps = [reading.number("step") for reading in readings]
    if at and None in steps:
        without_step = readings[steps.index(None)]
        raise UsageError(f"{without_step.location}: --at {at} needs a step; give --columns step=NAME")
    curves: dict[Run, Curve] = {}
    if at or len(set(steps)) > 1:
        curves = _curves(readings)
    if not at:
        if any(len(curve) > 1 for curve in curves.values()):
            raise UsageError(f"{first.location}: begins a curve over steps; give --at last, --at best, or --at STEP")
        return readings
    ends = sorted({_last_step(curve) for curve in curves.values()})
    if at == "last" and len(ends) > 1:
        notes.append(f"the last steps of the runs differ, from {ends[0]:g} to {ends[-1]:g}")
    last_of_run = {reading.run: reading for reading in readings}
    points = []
    for run, curve in curves.items():
        point = _point(curve, at, direction)
        points.append(point or last_of_run[run].without_value())
    if not any(point.has_text for point in points):
        raise UsageError(
            f"{first.location}: no run has a value at step {at}; --at takes last, best or one of the steps"
        )
    return points


def _curves(readings: Sequence[Reading]) -> dict[Run, Curve]:
    """The curve of each run, which may be empty."""
    curves: dict[Run, Curve] = {}
    for reading in readings:
        curve = curves.setdefault(reading.run, {})
        step = reading.number("step")
        if step is None:
            continue
        if step in curve:
            raise reading.repeated(curve[step], f"step {step:g} of {reading.optimizer}")
        if reading.has_text:  # trackers log other metrics at other steps
            curve[step] = reading
    return curves


def _point(curve: Curve, at: str, direction: str) -> Reading | None:
    """The reading of a curve at a step; None without it."""
    if at == "last":
        return curve.get(_last_step(curve))
    if at == "best":
        return curve.get(_best_step(curve, direction))
    try:
        return curve.get(float(at))
    except ValueError:
        raise UsageError(f"--at must be last, best or a step, got {at!r}") from None


def _last_step(curve: Mapping[float, Reading]) -> float:
    return max(curve, default=0.0)


def _best_step(curve: Curve, direction: str) -> float:
    """The step of the best value, the last of several equal ones; without any value the last step."""
    step_of_value = {}
    for step, reading in curve.items():
        value = reading.number("value")
        if value is not None and math.isfinite(value):
            step_of_value[value] = step
    if not step_of_value:
        return _last_step(curve)
    best = min(step_of_value) if direction == "min" else max(step_of_value)
    return step_of_value[best]
