"""The steps in which the chaos term waits, and warnings for trainings that end before it acts."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from psilogic.tensors.norms import has_value


def t_warm(group: dict[str, Any]) -> float:
    """The steps without chaos term: `chaos_warmup` itself, or max(500, T/20) when it is -1 (section 3.5).

    A value between 0 and 1 is a share of T.
    """
    given = group["chaos_warmup"]
    T = group["total_steps"] or group["gamma_T_max"]
    if given == -1:
        return float(max(500, T / 20))
    if 0 < given < 1:
        return float(given * T)
    return float(given)


def steps_of_start(group: Mapping[str, Any]) -> int:
    """The first steps in which a steady gradient fires, since both averages of its norm start at zero.

        1 - 0.90^t > tau_scale (1 - 0.99^t)

    There are none if the averages start at 1, or if nothing is compared with the slow one. A `tau_scale` up to 1 lets a
    steady gradient fire in every step, which is no start.
    """
    tau_scale = float(group["tau_scale"])
    if not group["adaptive_tau"] or group["chaos_signal"] == "relative" or tau_scale <= 1:
        return 0
    t = 0
    while 1 - 0.90 ** (t + 1) > tau_scale * (1 - 0.99 ** (t + 1)):
        t += 1
    return t


def warn_of_a_short_training(groups: Iterable[dict[str, Any]]) -> None:
    """Warn once if the chaos term of a group waits for as many steps as the training has."""
    for group in groups:
        steps = group["total_steps"]
        if steps == 0:  # it is not known
            continue
        warmup = t_warm(group)
        if _is_used(group) and steps <= warmup:
            warnings.warn(
                f"the chaos term does nothing in this training: it waits for {warmup:g} steps (chaos_warmup), and "
                f"total_steps is {steps}; chaos_warmup=0.05 waits for a twentieth of the training",
                stacklevel=4,
            )
            return


def warn_of_a_short_rest(groups: Iterable[dict[str, Any]], states: Mapping[Tensor, dict[str, Any]]) -> None:
    """Warn once if the chaos term of a group waits until the training ends, since its detector starts late."""
    for group in groups:
        steps = group["total_steps"]
        if steps == 0 or not _is_used(group):
            continue
        warmup = t_warm(group)
        start = _start(group["params"], states)
        if start > 0 and start + warmup >= steps:
            warnings.warn(
                f"the chaos term does nothing in the rest of this training: its detector starts at step {start} and "
                f"waits for {warmup:g} steps (chaos_warmup), and total_steps is {steps}; give chaos_warmup a number of "
                "steps, such as 100",
                stacklevel=4,
            )
            return


def warn_of_a_longer_training(group: Mapping[str, Any], taken: int) -> None:
    """Warn when the first step beyond twice `total_steps` is taken, as if it were a number of epochs.

    A training may end some steps later than planned. A group whose warm-up does not depend on the number is not told.
    """
    total_steps = group["total_steps"]
    if taken != 2 * total_steps + 1:
        return
    is_derived = group["chaos_warmup"] < 1 and group["chaos_warmup"] != 0
    if is_derived and _is_used(group):
        warnings.warn(
            f"step {taken} is taken, and total_steps is {total_steps}: it is the number of all steps, not of epochs; "
            "the warm-up of the chaos term is derived from it (chaos_warmup)",
            stacklevel=4,
        )


def _is_used(group: Mapping[str, Any]) -> bool:
    """Whether anything in a group waits for the warm-up."""
    return bool(group["gamma"] > 0 or group["quantum_decay"] > 0)


def _start(params: Iterable[Tensor], states: Mapping[Tensor, dict[str, Any]]) -> int:
    """The step at which the detector of the first tensor with a state started, or will start; 0 if it is not known."""
    for param in params:
        if param not in states:
            continue
        state = states[param]
        start = state.get("chaos_start", state.get("step"))
        if start is not None and has_value(start):
            return int(start)
    return 0
