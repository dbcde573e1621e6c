"""Types that the parts of a step pass to each other: its tensors, its start and its plan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from psilogic.decision import Chaos, Decision
from psilogic.equations import Scalar
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import Foreach
from psilogic.tensors.state import State


class Tensors(NamedTuple):
    """N tensors of one device and real dtype with their gradients and moments: this rank's parts of them.

    An update never writes the gradients.
    """

    params: Foreach
    grads: Foreach
    exp_avgs: Foreach
    exp_avg_sqs: Foreach

    def of(self, chosen: Sequence[int]) -> "Tensors":
        """The columns of the chosen tensors."""
        return Tensors(*([xs[i] for i in chosen] for xs in self))


class Step(NamedTuple):
    """An update of N tensors: vectors over them, and hyperparameters; those in which they differ are vectors too.

    Attributes:
        t: step of each parameter, from 1, shape (N,); on the host if the host has both it and lr.
        decay: delta, shape (N,).
        quantum_rate: lr q_t w (1 - s), shape (N,); None when quantum decay is off.
        lr: learning rate, a number or a tensor with one element, or of shape (N,).
        weight_decay: lambda, with which delta is lr lambda where nothing fires; a number or of shape (N,).
        betas: Adam's decay rates of the moments.
        eps: added to the denominator, outside the root.
    """

    t: Tensor
    decay: Tensor
    quantum_rate: Tensor | None
    lr: Scalar
    weight_decay: Scalar
    betas: tuple[float, float]
    eps: float

    def of(self, chosen: slice | Tensor | list[int]) -> "Step":
        """The step of the chosen tensors."""

        def part(x: Any) -> Any:
            return x[chosen] if isinstance(x, Tensor) and x.ndim else x

        names = ("t", "decay", "quantum_rate", "lr", "weight_decay")
        return self._replace(**{name: part(getattr(self, name)) for name in names})


class PreStep(NamedTuple):
    """What is known about a step of N tensors before their gradients are read.

    Attributes:
        group: the hyperparameters as the tensors' device takes them.
        scalars: those of the states before the step, by name, each of shape (N,).
        steps: the new step counts, on the device of the states' counts, shape (N,).
        t_detector: the number of the detector's update, from 1, on the same device, shape (N,).
        memory: the detector's memory.
        quiet: the step of tensors that do not fire, without quantum decay.
    """

    group: dict[str, Any]
    scalars: dict[str, Tensor]
    steps: Tensor
    t_detector: Tensor
    memory: Chaos
    quiet: Step


@dataclass(frozen=True)
class Work:
    """The part of a bucket that this process updates, and how.

    Attributes:
        bucket: the tensors whose gradients count.
        owned: those of them that this process updates; the same object when it updates all.
        states: the states of the owned tensors.
        tensors: this rank's parts of the owned tensors and of their moments, as real tensors.
        execution: updates them.
    """

    bucket: Bucket
    owned: Bucket
    states: list[State]
    tensors: Tensors
    execution: "Execution"


class UpdatePlan(NamedTuple):
    """The update of the tensors of a bucket: g <- scale (g - mean), then a step.

    Attributes:
        mean: subtracted from the gradients, unit by unit, shape (U,); None for 0.
        scale: multiplies the gradients after that, shape (U,); None for 1.
        step: the step of parameters and moments.
        scalars: the new values of the states' scalars, by name, each of shape (N,).
        decision: the detector's decision; None if nothing observes it and nothing fired.
    """

    mean: Tensor | None
    scale: Tensor | None
    step: Step
    scalars: dict[str, Tensor]
    decision: Decision | None


@dataclass(frozen=True)
class Execution:
    """An implementation of the update: one function before the decision, one after it.

    Attributes:
        name: its name in `PsiLogic.executed`.
        supports: whether it can update some tensors; the flag says whether rows of dimension 0 are units.
        begin: sums over the gradients, and may already apply a part of the update that no decision can change. Its
            second argument is the result of the decider's `pre_step`. Its result has `to_processing`, with clipping
            `total`.
        finish: applies the plan, or the rest of it; gets the result of `begin`. If the last argument is above 0 it
            changes nothing.
        early: `begin` changes tensors. It runs after all that only read, and `finish` before the others'.
        skips: `finish` checks for GradScaler's overflow on the device; otherwise the host must check before.
        at_once: `finish` changes all tensors at the same time, so that no two of them may share memory.
    """

    name: str
    supports: Callable[[Tensors, bool], bool]
    begin: Callable[[Work, Any], Any]
    finish: Callable[[Work, Any, UpdatePlan, Tensor | None], None]
    early: bool = False
    skips: bool = False
    at_once: bool = False
