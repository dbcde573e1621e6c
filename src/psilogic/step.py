"""The records of a step, and the interface of the backends that take it.

A step has five stages. For each bucket of tensors a backend is selected. It begins with sums over the gradients; sums
are completed over ranks; then it is decided how much each tensor decays; and the backend finishes with the update. The
record `BucketStep` holds what is known about a bucket so far.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from torch import Tensor
from torch.optim import Optimizer

from psilogic.tensors.buckets import Bucket
from psilogic.tensors.norms import TensorList
from psilogic.tensors.scalars import ScalarKind, State

T = TypeVar("T")
Scalar = float | Tensor
"""A hyperparameter or a product of some: a number; a tensor if it is on the device or differs between tensors."""


class DetectorState(NamedTuple):
    """The chaos detector's memory of N tensors, each of shape (N,)."""

    fast: Tensor  # the 0.90-EMA of the signal
    slow: Tensor  # the 0.99-EMA of the signal
    reference: Tensor | None  # the 0.99-EMA of gn that the relative signal is divided by; None for the raw signal


class Decision(NamedTuple):
    """The effect of one step on N tensors, each of shape (N,); `psilogic.monitor` shows these quantities."""

    gn: Tensor  # scale-normalized norm of the processed gradient
    memory: DetectorState  # the detector's new memory
    ratio: Tensor  # fast / (slow + eps)
    chaos: Tensor  # the chaos measure, in [0, 1.5)
    gate: Tensor  # s, True where the tensor spikes
    warmup: Tensor  # w, the chaos warm-up weight, 0 where gn is not finite
    cancellation: Tensor  # w c, the fraction of theta that active cancellation removes in this step
    decay: Tensor  # delta = lr weight_decay + w c
    quantum_rate: Tensor | None  # lr q_t w (1 - s); None when quantum decay is off


class Step(NamedTuple):
    """An update of N tensors: vectors over them, and hyperparameters; those in which they differ are vectors too."""

    # Step of each parameter, from 1, shape (N,); on the host if the host has both it and lr; None where kernels count.
    t: Any
    decay: Tensor  # delta, shape (N,)
    quantum_rate: Tensor | None  # lr q_t w (1 - s), shape (N,); None when quantum decay is off
    lr: Scalar  # learning rate, a number or a tensor with one element, or of shape (N,)
    weight_decay: Scalar  # lambda, with which delta is lr lambda where nothing fires; a number or of shape (N,)
    eps: Scalar  # added to the denominator, outside the root; a number or of shape (N,)
    beta1: Scalar  # Adam's decay rate of the first moment, likewise
    beta2: Scalar  # Adam's decay rate of the second moment, likewise

    def take(self, chosen: slice | Tensor | list[int] | int) -> Step:
        """The step of the chosen tensors; of one tensor with 0-dim columns, given its position."""
        columns: list[Any] = []
        for column in self:
            if isinstance(column, Tensor) and column.ndim > 0:
                columns.append(column[chosen])
            else:
                columns.append(column)
        return Step(*columns)


class Tensors(NamedTuple):
    """N tensors of one device and real dtype with their gradients and moments: this rank's parts of them.

    An update never writes the gradients.
    """

    params: TensorList
    grads: TensorList
    exp_avgs: TensorList
    exp_avg_sqs: TensorList

    def take(self, chosen: Sequence[int]) -> Tensors:
        """The columns of the chosen tensors."""
        columns = [[column[i] for i in chosen] for column in self]
        return Tensors(*columns)


class StepInputs(NamedTuple):
    """What a step is given besides its tensors and their hyperparameters."""

    max_grad_norm: float | None  # the largest norm of all gradients; None without clipping
    grad_scale: Tensor | None  # the factor of the loss, one element; None for 1
    found_inf: Tensor | None  # if it is above 0, nothing changes; None if that is known not to be so
    observed: bool  # whether something observes the decisions


@dataclass(eq=False)
class BucketStep:
    """The step of a bucket, from its gradients to its weights: g <- scale (g - mean), then decay and Adam.

    The stages fill in its parts one after the other.
    """

    bucket: Bucket  # the tensors whose gradients count
    owned: Bucket  # those of them that this process updates; the same object when it updates all
    states: list[State]  # of the owned tensors
    tensors: Tensors  # this rank's parts of the owned tensors and of their moments, as real tensors
    backend: Backend  # updates them
    addresses: Any = None  # of the tensors, column after column, for a backend that runs through their memory
    scalar_addresses: Any = None  # of the states' scalars, name after name, likewise
    sizes: Any = None  # of the owned tensors and of their units, likewise
    scalar_kinds: list[ScalarKind | None] = field(default_factory=list)  # of the states, in the order of their names
    observed: bool = False  # whether something observes the decisions
    decides_itself: bool = False  # whether the backend decides while it updates
    kept: dict[str, Any] = field(default_factory=dict)  # what the backend keeps for the next steps of a plan, by name

    # What is known before the gradients are read, where torch's operations decide.
    group: dict[str, Any] = field(init=False)  # the hyperparameters as the tensors' device takes them
    scalars_before: dict[str, Tensor] = field(init=False)  # of the states, by name, each of shape (N,)
    t_detector: Tensor = field(init=False)  # number of the detector's update, from 1, where the states' counts are
    detector: DetectorState = field(init=False)

    # What the gradients tell.
    sums: Any = None  # over the gradients; None if they are processed already
    mean: Tensor | None = None  # subtracted from the gradients, unit by unit, shape (U,); None for 0
    scale: Tensor | None = None  # multiplies the gradients after that, shape (U,); None for 1
    norms: Tensor = field(init=False)  # ||g||_2 of each whole tensor after that, shape (N,)
    numel: Tensor | None = None  # of each whole tensor, real elements, shape (N,); None if no rank holds a piece of one

    # What is decided.
    step: Step = field(init=False)  # the step of parameters and moments
    scalars: dict[str, Tensor] = field(default_factory=dict)  # the new values of the states' scalars, by name
    decision: Decision | None = None  # the detector's; None if nothing observes it and nothing fired

    def once(self, name: str, build: Callable[[], T]) -> T:
        """What `build` returns, called once for all steps of a plan: from no values, and only metadata of gradients."""
        if name not in self.kept:
            self.kept[name] = build()
        result: T = self.kept[name]
        return result


class Backend(ABC):
    """An implementation of the step."""

    name: str
    """Its name in `PsiLogic.executed`."""
    on_device: bool = False
    """Whether clocks and GradScaler's overflow stay on the device, so that nothing waits for the host to read them."""
    in_memory: bool = False
    """Whether it runs through memory by addresses: each tensor must have some, and parameters may not share it."""
    roundings: frozenset[str] = frozenset({"nearest"})
    """How it can round bfloat16 parameters."""

    @abstractmethod
    def supports(self, tensors: Tensors, by_rows: bool) -> bool:
        """Whether it can update tensors of this device, dtype and layout.

        With `by_rows` gradients are processed row by row.
        """

    @abstractmethod
    def begin(self, work: BucketStep) -> None:
        """Sum over the gradients of a bucket."""

    @abstractmethod
    def decide(self, works: list[BucketStep], inputs: StepInputs) -> None:
        """Decide for all buckets of a step, whatever their backends: their processing, step and new scalars."""

    @abstractmethod
    def finish(self, work: BucketStep, found_inf: Tensor | None) -> None:
        """Update the parameters and moments of a bucket.

        Nothing changes if `found_inf`, one element or None, is above 0; it is None for backends that read it on the
        host.
        """

    def repetition(self, works: list[BucketStep]) -> Repetition | None:
        """What repeats a step that has been taken, where later ones differ in nothing that the host reads.

        Nothing observed the step, and GradScaler left nothing to it. None if the host decides in each step.
        """
        return None


class Repetition(ABC):
    """Repeats a step: the host gives the device the same work, which reads other values."""

    @abstractmethod
    def take_numbers(self) -> None:
        """Take the numbers of the buckets, such as learning rates, which have changed."""

    @abstractmethod
    def move_gradients(self, position: int, addresses: bytes) -> None:
        """Take the addresses of the gradients of the bucket at a position, as 64-bit integers."""

    @abstractmethod
    def run(self, changed: TensorList) -> None:
        """Take the step.

        Args:
            changed: the tensors that it changes: all parameters and their moments.
        """


Observer = Callable[[list[Tensor], Decision], None]
"""Called after each step with tensors and the decision about them."""


class Observable(Optimizer):
    """An optimizer with a chaos detector whose decisions can be observed."""

    executed: Counter[str]
    """The number of tensors that each backend has updated in the last step, by its name."""
    observers: list[Observer]
    """Called in this order after each step; neither copies nor pickles of the optimizer contain them."""
