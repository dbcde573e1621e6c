"""The rows of the CSV files of trials; the CSV files of analyses have the rows of `fairbench.analysis`."""

from dataclasses import dataclass
from typing import Literal

SPLIT = Literal["train", "val", "test"]


@dataclass(frozen=True)
class Trial:
    """A trial, by what tells it from the others of its stage; searched hyperparameters follow the weight decay.

    Attributes:
        lr: learning rate; empty where the sweep has not selected one yet.
        weight_decay: weight decay; empty where there is none, or none is selected yet.
        seed: seed of the initial weights and of the order of the data.
    """

    arena: str
    optimizer: str
    lr: float | None
    weight_decay: float | None
    seed: int


@dataclass(frozen=True)
class SearchedValue:
    """A metric at the end of a trial from which the setting was selected, of the sweep or of what confirms it.

    Attributes:
        stage: "sweep" or "confirm".
        split: the split that the selection reads.
        value: the metric; empty unless the trial finished.
        status: "finished", "diverged", "failed" or "missing".
        selected: whether the final trials have this setting.
        added: whether its learning rate lies beyond those that were planned first.
    """

    stage: str
    metric: str
    split: SPLIT
    value: float | None
    status: str
    selected: bool
    added: bool


@dataclass(frozen=True)
class CurveValue:
    """A point of a learning curve: the training loss of a window of steps, or a metric of an evaluation.

    Attributes:
        stage: "sweep", "confirm" or "final".
        step: steps of training done.
        split: "train" for the loss that is trained, otherwise the split that the evaluation read.
        value: the metric; of the training loss, the mean of the window that ends with this step.
    """

    stage: str
    step: int
    split: SPLIT
    metric: str
    value: float


@dataclass(frozen=True)
class FinalValue:
    """A metric at the end of a planned final trial, finished or not, with the facts of that trial.

    Attributes:
        status: "finished", "diverged", "failed" or "missing".
        val: the metric on the validation split; empty unless the trial finished, or if the suite never reads the split.
        test: the metric on the test split; empty unless the trial finished.
        steps: steps of training done; empty if the trial failed or is missing.
        parameters: number of trainable parameters of the model.
        clip_rate: share of the steps in which the gradients were clipped.
        path_length: length of the path of the weights over all steps, estimated from some of them.
        hash_initial_weights: sha256 of the weights before the first step.
        hash_batches: sha256 of the examples of all batches, in their order.
        hash_noise: sha256 of the state of the random generator after the last step.
        hash_final_weights: sha256 of the weights after the last step.
    """

    status: str
    metric: str
    val: float | None
    test: float | None
    steps: int | None
    parameters: int | None
    clip_rate: float | None
    path_length: float | None
    hash_initial_weights: str | None
    hash_batches: str | None
    hash_noise: str | None
    hash_final_weights: str | None
