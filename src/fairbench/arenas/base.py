"""The base class of every arena, of those of fairbench and of user-defined ones."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairbench.common.errors import UsageError
from fairbench.common.formatting import short_hash

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from fairbench.data.splits import Data, Split


class Arena:
    """A task: model, loss and metrics. Its data come from the source that a suite names, or from the arena itself.

    A subclass must define `build_model`, `loss` and `scores`, and `load_data` if no suite names a source for it. It is
    created without arguments in every trial. The options of its data and its model are named arguments of `load_data`
    and `build_model`. A user-defined arena must also set `facts`.

    Attributes:
        facts: the facts that planning and reports need.
        defaults: values for keys that the arena's table in a suite omits.
    """

    facts: ClassVar[ArenaFacts]
    defaults: ClassVar[Mapping[str, Any]] = {}

    def build_model(self, data: Data, *args: Any, **options: Any) -> torch.nn.Module:
        """A model with new weights, drawn from torch's global generator, which every trial seeds.

        Args:
            data: the data; `data.shape` is the shape of an input, `data.classes` the number of labels or tokens.
            options: the suite's table `model`.
        """
        raise NotImplementedError

    def sized(self, model: Mapping[str, Any], size: int) -> tuple[dict[str, Any], int]:
        """The options of `build_model` for another size of the model, for a ladder.

        Args:
            model: the suite's table `model`.
            size: one of the ladder's sizes.

        Returns:
            The options, and the number of parameters.
        """
        raise UsageError(f"arena {type(self).__name__} has no method sized, which a ladder needs; define it")

    def load_data(self, *args: Any, **options: Any) -> Data:
        """The arena's own data, for a table `data` without a `source`; the same data in every call.

        Args:
            options: the suite's table `data`.
        """
        raise NotImplementedError

    def open_data(self, options: Mapping[str, Any], data_root: Path, fingerprint: str = "") -> Data:
        """The data of a trial: those of the table's `source`, or `load_data`. Subclasses do not override this.

        Args:
            options: the suite's table `data`.
            data_root: the folder of prepared data.
            fingerprint: the sha256 that the data must have; empty before a study is planned.

        Raises:
            UsageError: the data are missing or damaged, or have a different sha256.
        """
        from fairbench.data.loading import load_source

        data = load_source(options, data_root) if "source" in options else self.load_data(**options)
        if fingerprint and data.fingerprint != fingerprint:
            raise UsageError(
                f"the data of {type(self).__name__} {dict(options)} have changed since the study was planned: sha256 "
                f"{short_hash(data.fingerprint)} and not {short_hash(fingerprint)}; run it again"
            )
        return data

    def examples(self, batch: Split, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """The arguments of `loss` and `scores` for a batch, each a tensor with one row per example.

        Args:
            batch: the batch, on the device of the training.
            generator: the source of all randomness, on the same device.
        """
        return batch.inputs, batch.targets

    def loss(self, model: torch.nn.Module, *args: Any, **examples: Any) -> torch.Tensor:
        """The training loss of a batch, a scalar; the arguments are those that `examples` returns.

        If it has a keyword-only argument `step`, that is the number of the step, from 1.
        """
        raise NotImplementedError

    def loss_in_step(self, step: int, model: torch.nn.Module, examples: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The `loss` of a batch in a step, from 1. Subclasses do not override this."""
        if self._loss_takes_step:
            return self.loss(model, *examples, step=step)
        return self.loss(model, *examples)

    @cached_property
    def _loss_takes_step(self) -> bool:
        """Whether `loss` has a keyword-only argument `step`."""
        argument = inspect.signature(self.loss).parameters.get("step")
        return argument is not None and argument.kind is argument.KEYWORD_ONLY

    def scores(self, model: torch.nn.Module, *args: Any, **examples: Any) -> dict[str, torch.Tensor]:
        """Each metric of each example, shape (N,); the metric of a split is the mean. Arguments as for `loss`.

        Scores that only help `derived` are no metrics: the arena's facts do not name them.
        """
        raise NotImplementedError

    def derived(self, means: dict[str, float], data: Data, split: str) -> dict[str, float]:
        """Further metrics of a split, computed from the means of its scores; none by default.

        Args:
            means: the mean of each score over the split.
            data: all splits, on the CPU or on the device of the training.
            split: the name of the split, "val" or "test".
        """
        return {}


@dataclass(frozen=True)
class ArenaFacts:
    """What is known of an arena without loading it.

    Attributes:
        title: model and task in a few words.
        metrics: every metric, on any scale, and whether its minimum or its maximum is best.
        kind: the kind of data that it takes from a source; "own" if it takes only its own data, "program" if a
            program trains.
        labelled: whether the data must have labels.
        model_options: the arguments of `build_model`: a type for one that must be given, otherwise the default. None
            if they are read from the method itself.
        factory: `module:Class` of an arena with a registered name.
    """

    title: str
    metrics: dict[str, Literal["min", "max"]]
    kind: Literal["images", "text", "own", "program"] = "own"
    labelled: bool = False
    model_options: dict[str, Any] | None = None
    factory: str = ""
