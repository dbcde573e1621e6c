"""The state and the time of a step, relative to torch's AdamW."""

import time
from dataclasses import replace
from statistics import median

from fairbench.common.checks import Severity, check
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.training.check.case import Case, ShortTraining, around_step, case_of, tensors
from fairbench.training.determinism import one_thread
from fairbench.training.trainer import Trainer

BASELINE = "AdamW"
COMPARED_STEPS = 15
"""Timed steps of each optimizer, after as many untimed ones."""


def baseline() -> Case:
    """The task with torch's AdamW."""
    return replace(case_of(BASELINE, OptimizerPlan()), trainings=[ShortTraining(1e-3, 0.0, 0.0)])


def state_bytes(trainer: Trainer) -> float:
    """Bytes of an optimizer's state for each weight."""
    params = {id(p) for p in trainer.params}
    state = {id(x): x for x in tensors([dict(trainer.optimizer.state), vars(trainer.optimizer)]) if id(x) not in params}
    return sum(x.numel() * x.element_size() for x in state.values()) / sum(p.numel() for p in trainer.params)


@check("state", "note", "")
def state(case: Case) -> tuple[Severity, str]:
    """The memory of the optimizer's state."""
    own, other = (state_bytes(each.training(3)) for each in (case, baseline()))
    return "note", f"{own:.1f} bytes for each weight; {BASELINE} {other:.1f}"


def timed(trainer: Trainer) -> tuple[float, float]:
    """Seconds of the optimizer's own step, and of the whole training step."""
    with one_thread():
        began = time.perf_counter()
        before, after = around_step(trainer, time.perf_counter)
        return after - before, time.perf_counter() - began


@check("step time", "note", "")
def step_time(case: Case) -> tuple[Severity, str]:
    """The median duration of steps, which alternate with AdamW's."""
    own, other = case.training(COMPARED_STEPS), baseline().training(COMPARED_STEPS)
    turns = [(timed(own), timed(other)) for _ in range(COMPARED_STEPS)]
    (step, whole), (others_step, others_whole) = (
        [median(column) for column in zip(*seconds, strict=True)] for seconds in zip(*turns, strict=True)
    )
    ratios = f"{step / others_step:.1f} times {BASELINE}'s, with forward and backward {whole / others_whole:.1f} times"
    return "note", f"{1000 * step:.2f} ms in {len(own.params)} small tensors, {ratios}"
