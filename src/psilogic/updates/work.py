"""What passes between the parts of a step: the tensors that change, what they start from, what is done to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from psilogic.decision import Chaos, Decision
from psilogic.equations import Scalar
from psilogic.gradients import Rescaling
from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import Foreach
from psilogic.tensors.scalars import State


class Tensors(NamedTuple):
    """N tensors of one device and real dtype and what belongs to each: what this rank holds of them.

    Attributes:
        params: the parameters.
        grads: the gradients; an update never writes them.
        exp_avgs: Adam's first moments.
        exp_avg_sqs: Adam's second moments.
    """

    params: Foreach
    grads: Foreach
    exp_avgs: Foreach
    exp_avg_sqs: Foreach

    def of(self, chosen: Sequence[int]) -> "Tensors":
        """Some of the tensors."""
        return Tensors(*([xs[i] for i in chosen] for xs in self))


class Step(NamedTuple):
    """What an update does to N tensors: vectors over them, and what they share.

    Attributes:
        t: step of each parameter, from 1, shape (N,); on the host, if both it and lr are known there.
        decay: delta, shape (N,).
        quantum_rate: lr q_t w (1 - s), shape (N,); None when quantum decay is off.
        lr: learning rate, a number or a tensor with one element.
        weight_decay: lambda, for which delta is lr lambda where nothing fires.
        betas: Adam's decay rates of the moments.
        eps: added to the denominator, outside the root.
    """

    t: Tensor
    decay: Tensor
    quantum_rate: Tensor | None
    lr: Scalar
    weight_decay: float
    betas: tuple[float, float]
    eps: float

    def of(self, chosen: slice | Tensor | list[int]) -> "Step":
        """The same for some of the tensors."""
        rate = None if self.quantum_rate is None else self.quantum_rate[chosen]
        return self._replace(t=self.t[chosen], decay=self.decay[chosen], quantum_rate=rate)


class Before(NamedTuple):
    """What a step of N tensors starts from, but for gradients.

    Attributes:
        steps: the new step counts, where the states keep theirs, shape (N,).
        t_detector: the detector's own updates, from 1, where the states keep their steps, shape (N,).
        memory: the detector's memory.
        quiet: what is done to tensors that do not fire, but for quantum decay.
    """

    steps: Tensor
    t_detector: Tensor
    memory: Chaos
    quiet: Step


@dataclass(frozen=True)
class Work:
    """What this process updates of a bucket, and how.

    Attributes:
        bucket: the tensors whose gradients count.
        mine: those of them that are updated; the same object when all are.
        states: theirs.
        tensors: what this rank holds of them and of their moments, as real tensors.
        execution: what measures and changes them.
    """

    bucket: Bucket
    mine: Bucket
    states: list[State]
    tensors: Tensors
    execution: "Execution"


class Settled(NamedTuple):
    """What is done to the tensors of a bucket.

    Attributes:
        mean: what their gradients lose, unit by unit, shape (U,); None for 0.
        scale: what they are multiplied by after that, shape (U,); None for 1.
        step: what becomes of parameters and moments.
        scalars: what becomes of the states' scalars, by name, each of shape (N,).
        decision: the decision behind that; None where nobody watches and it has no news.
    """

    mean: Tensor | None
    scale: Tensor | None
    step: Step
    scalars: dict[str, Tensor]
    decision: Decision | None


@dataclass(frozen=True)
class Execution:
    """A way to execute the update: two moments around the decision. Each lies in a file or folder of its own.

    Attributes:
        name: what `PsiLogic.executed` calls it.
        supports: whether it can treat some tensors; the flag says whether rows of dimension 0 are units.
        measure: reads the gradients, and may already do what no decision can change. It gets what the decider knows of
            the tensors before, and returns what it makes its `plan` of; with global clipping that has a `total`.
        update_: makes parameters and moments what was decided; it gets back what `measure` returned, and leaves
            everything as it is where the last argument, which may be None, is above 0.
        early: `measure` changes tensors: it comes after all that only reads, and `update_` before the others'.
        skips: `update_` asks on the device whether GradScaler found an overflow; else the host must know before.
        at_once: `update_` changes all tensors at the same time, so that none of them may lie where another does.
    """

    name: str
    supports: Callable[[Tensors, bool], bool]
    measure: Callable[[Work, Any], Any]
    update_: Callable[[Work, Any, Settled, Tensor | None], None]
    early: bool = False
    skips: bool = False
    at_once: bool = False


class Decider(NamedTuple):
    """A way to compute the decisions of a step: torch's operations on vectors, or kernels on the device.

    Attributes:
        before: what a step of a bucket's tensors starts from.
        decide: what is done to the tensors of all buckets, from what `before` and the executions' `measure` returned;
            everything stays as it is where the argument before the last, which may be None, is above 0. The last one
            says whether somebody watches.
    """

    before: Callable[[Work], Any]
    decide: Callable[[list[Work], list[Any], list[Any], Rescaling, Tensor | None, bool], list[Settled]]
