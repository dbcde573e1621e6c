"""Types that the parts of a step pass to each other: the tensors of an update, its course, and how it is executed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from psilogic.decision import Chaos, Decision, Step
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


@dataclass(eq=False)
class Work:
    """The update of a bucket, from its gradients to its weights: g <- scale (g - mean), then a step.

    A step fills in its parts one after the other: what is known before the gradients are read (not where the
    execution decides), what the gradients tell, what is decided.
    """

    bucket: Bucket  # the tensors whose gradients count
    owned: Bucket  # those of them that this process updates; the same object when it updates all
    states: list[State]  # of the owned tensors
    tensors: Tensors  # this rank's parts of the owned tensors and of their moments, as real tensors
    execution: "Execution"  # updates them
    early: bool = False  # whether the sums and the step of tensors that do not fire are one pass, before the decision
    decided: bool = False  # whether the execution decides too, so that nothing else does

    group: dict[str, Any] = field(init=False)  # the hyperparameters as the tensors' device takes them
    before: dict[str, Tensor] = field(init=False)  # the scalars of the states, by name, each of shape (N,)
    t_detector: Tensor = field(init=False)  # number of the detector's update, from 1, where the states' counts are
    memory: Chaos = field(init=False)  # the detector's
    quiet: Step = field(init=False)  # the step of tensors that do not fire

    sums: Any = None  # of the gradients; None if an early update has processed them
    waits: Any = None  # of each tensor in an early update: 1 if it was left out, otherwise 2 if it may fire, an array
    mean: Tensor | None = None  # subtracted from the gradients, unit by unit, shape (U,); None for 0
    scale: Tensor | None = None  # multiplies the gradients after that, shape (U,); None for 1
    norms: Tensor = field(init=False)  # ||g||_2 of each whole tensor after that, shape (N,)
    numel: Tensor | None = None  # of each whole tensor, real elements, shape (N,); None if no rank holds a piece of one

    step: Step = field(init=False)  # the step of parameters and moments
    scalars: dict[str, Tensor] = field(default_factory=dict)  # the new values of the states' scalars, by name
    decision: Decision | None = None  # the detector's; None if nothing observes it and nothing fired


@dataclass(frozen=True)
class Execution:
    """An implementation of the update: one function before the decision, one after it."""

    name: str  # its name in `PsiLogic.executed`
    supports: Callable[[Tensors, bool], bool]  # whether it can update some tensors, also if their rows are units
    begin: Callable[[Work], Any]  # the sums over the gradients; None after an early update
    finish: Callable[[Work, Tensor | None], None]  # the update; nothing if the last argument is above 0
    skips: bool = False  # `finish` checks for GradScaler's overflow on the device; otherwise the host must check before
    at_once: bool = False  # `finish` changes all tensors at the same time, so that no two of them may share memory
