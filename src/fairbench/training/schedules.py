"""Learning-rate schedules: the factor of the rate in each step.

After the warm-up, a schedule is a function of two numbers: the share of the remaining steps that are done, in [0, 1],
and the last rate as a share of the peak.
"""

import math
from collections.abc import Callable

from fairbench.study.trial_spec import TrainingSpec

DECAY = 0.2
"""The share of the steps after the warm-up in which the schedule `wsd` decays."""


def lr_factor(step: int, training: TrainingSpec, constant: bool = False) -> float:
    """The factor of the learning rate in a step, whose number is counted from 0.

        (step + 1) / warmup_steps                                                  in the warm-up
        shape(min((step - warmup_steps) / (steps - warmup_steps), 1), min_lr)      after it

    If `constant` is true, the rate is constant after the warm-up, whatever schedule the training has.
    """
    if step < training.warmup_steps:
        return (step + 1) / training.warmup_steps
    decay_steps = max(training.steps - training.warmup_steps, 1)
    share = min((step - training.warmup_steps) / decay_steps, 1.0)
    shape = SHAPES["constant" if constant else training.schedule]
    return shape(share, training.min_lr)


def cosine(share: float, min_lr: float) -> float:
    """Half a period of the cosine: min_lr + (1 - min_lr) (1 + cos(pi share)) / 2.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017.
    """
    period = 1 + math.cos(math.pi * share)
    return min_lr + (1 - min_lr) * 0.5 * period


def linear(share: float, min_lr: float) -> float:
    """A straight line: 1 - (1 - min_lr) share."""
    return 1 - (1 - min_lr) * share


def wsd(share: float, min_lr: float) -> float:
    """Warm-up, stable, decay: 1 until the last 20% of the steps, then a straight line to `min_lr`.

    Source: Hu et al., "MiniCPM: unveiling the potential of small language models with scalable training strategies",
    2024; the linear decay and its 20%: Haegele et al., "Scaling laws and compute-optimal training beyond fixed training
    durations", NeurIPS 2024.
    """
    decayed = max(share - (1 - DECAY), 0.0) / DECAY
    return linear(decayed, min_lr)


def constant(share: float, min_lr: float) -> float:
    """The peak in every step: 1."""
    return 1.0


SHAPES: dict[str, Callable[[float, float], float]] = {
    "cosine": cosine,
    "linear": linear,
    "wsd": wsd,
    "constant": constant,
}
"""The shape of each schedule after the warm-up, see `fairbench.optimizers.treatments.SCHEDULES`."""
