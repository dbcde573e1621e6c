"""The columns that the Parquet file has for every study: plain values of a trial and of its record."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A plain value of a trial.

    Attributes:
        name: the name of the column.
        type: the type of the column, as a `Field` has it.
        path: the attributes of a `Run` that lead to the value, with dots. The cell is empty if the first one is None.
        meaning: the meaning of the column.
        empty_is_missing: whether an empty text means that the trial has no value.
    """

    name: str
    type: str
    path: str
    meaning: str
    empty_is_missing: bool = False


IDENTITY = (
    Fact(name="arena", type="string", path="arena", meaning="name of the arena"),
    Fact(name="optimizer", type="string", path="optimizer", meaning="name of the optimizer"),
    Fact(name="lr", type="number", path="lr", meaning="learning rate"),
    Fact(
        name="weight_decay",
        type="number",
        path="weight_decay",
        meaning="weight decay; empty without one",
    ),
    Fact(
        name="id",
        type="string",
        path="record.id",
        meaning="identity of the trial, the name of its record",
    ),
    Fact(
        name="stage",
        type="string",
        path="stage",
        meaning='"sweep", "final" or "timing"',
    ),
    Fact(
        name="selected",
        type="boolean",
        path="selected",
        meaning="whether its setting is the one that is reported",
    ),
    Fact(
        name="seed",
        type="integer",
        path="seed",
        meaning="seed of the initial weights and of the order of the data",
    ),
    Fact(
        name="selection",
        type="string",
        path="spec.training.selection",
        meaning="the split that the evaluations read",
    ),
)

OUTCOME = (
    Fact(
        name="status",
        type="string",
        path="status",
        meaning='"finished", "diverged" or "failed"',
    ),
    Fact(
        name="error_type",
        type="string",
        path="error.type",
        meaning="class of the error with which the trial failed",
    ),
    Fact(name="error_message", type="string", path="error.message", meaning="text of that error"),
)

TRAINING = (
    Fact(
        name="batch_size",
        type="integer",
        path="spec.arena.batch_size",
        meaning="examples in a training batch",
    ),
    Fact(
        name="planned_steps",
        type="integer",
        path="spec.training.steps",
        meaning="steps of training that were planned",
    ),
    Fact(name="steps", type="integer", path="result.steps", meaning="steps of training done"),
    Fact(
        name="parameters",
        type="integer",
        path="result.parameters",
        meaning="trainable parameters of the model",
    ),
    Fact(
        name="clip_rate",
        type="number",
        path="result.clip_rate",
        meaning="share of the steps with clipped gradients",
    ),
    Fact(
        name="gradients_per_step",
        type="number",
        path="result.gradients_per_step",
        meaning="mean over all steps",
    ),
    Fact(
        name="path_length",
        type="number",
        path="result.path_length",
        meaning="length of the weights’ path, in final trials",
    ),
)

HASHES = (
    Fact(
        name="hash_initial_weights",
        type="string",
        path="result.hashes.initial_weights",
        meaning="sha256 of the weights before training",
        empty_is_missing=True,
    ),
    Fact(
        name="hash_batches",
        type="string",
        path="result.hashes.batches",
        meaning="sha256 of the order of the examples in all batches",
        empty_is_missing=True,
    ),
    Fact(
        name="hash_noise",
        type="string",
        path="result.hashes.noise",
        meaning="sha256 of the random state after the last step",
        empty_is_missing=True,
    ),
    Fact(
        name="hash_final_weights",
        type="string",
        path="result.hashes.final_weights",
        meaning="sha256 of the weights after the last step",
        empty_is_missing=True,
    ),
)

COST = (
    Fact(
        name="timed_steps",
        type="integer",
        path="cost.steps",
        meaning="steps of training that were timed",
    ),
    Fact(
        name="peak_memory_bytes",
        type="integer",
        path="cost.peak_memory_bytes",
        meaning="peak memory of the trial",
    ),
    Fact(
        name="alone",
        type="boolean",
        path="cost.alone",
        meaning="whether the trial had its device to itself",
    ),
    Fact(
        name="data_on",
        type="string",
        path="cost.data_on",
        meaning="kind of the device that held the data",
    ),
    Fact(
        name="other_load",
        type="number",
        path="cost.other_load",
        meaning="cores that other processes used, of a training program",
    ),
    Fact(
        name="throttled",
        type="integer",
        path="cost.throttled",
        meaning="how often the processors were throttled, of a training program",
    ),
)

ORIGIN = (
    Fact(
        name="plan",
        type="string",
        path="record.plan",
        meaning="digest of the plan by which the trial ran",
        empty_is_missing=True,
    ),
    Fact(
        name="written",
        type="string",
        path="record.written",
        meaning="time at which the record was written",
        empty_is_missing=True,
    ),
)

FACTS = (*IDENTITY, *OUTCOME, *TRAINING, *HASHES, *COST, *ORIGIN)
"""The first columns of the file, in their order."""
