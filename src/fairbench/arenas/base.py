"""What every arena is: the base of those that come with fairbench and of anyone's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fairbench.common.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from fairbench.data.splits import Data, Split


class Arena:
    """Model, loss and metrics of one kind of work; where its data come from is the suite's choice.

    An own arena says in `facts` what is known of it, and in `defaults` what its table in a suite may leave out.
    """

    facts: ClassVar[ArenaFacts]
    defaults: ClassVar[Mapping[str, Any]] = {}

    def build_model(self, data: Data, *args: Any, **options: Any) -> torch.nn.Module:
        """The model with fresh weights, drawn from torch's global generator.

        Args:
            data: the data, of which it needs the shape of an input and how many classes there are.
            args: nothing; an arena names its options.
            options: what the table `model` of the suite says.
        """
        raise NotImplementedError

    def load_data(self, *args: Any, **options: Any) -> Data:
        """The arena's own data, where its table `data` names no source; the same ones each time.

        Args:
            args: nothing; an arena names its options.
            options: what the table `data` of the suite says.
        """
        raise NotImplementedError

    def open_data(self, options: Mapping[str, Any], data_root: Path, fingerprint: str = "") -> Data:
        """The data of the suite's table `data`: those of its source, or the arena's own. No arena overrides this.

        Args:
            options: the table `data`.
            data_root: the folder of prepared data.
            fingerprint: the sha256 that the data must have; empty before a study is planned.

        Raises:
            UsageError: the data are missing or damaged, or have a different sha256.
        """
        from fairbench.data.loading import load_source

        data = self.load_data(**options) if "source" not in options else load_source(options, data_root)
        if fingerprint and data.fingerprint != fingerprint:
            raise UsageError(
                f"the data of {type(self).__name__} {dict(options)} have changed since the study was planned: sha256 "
                f"{data.fingerprint[:12]} and not {fingerprint[:12]}; run it again"
            )
        return data

    def examples(self, batch: Split, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """What the model is shown of a batch; whatever is random in it comes from the generator."""
        return batch.inputs, batch.targets

    def loss(self, model: torch.nn.Module, *args: Any, **examples: Any) -> torch.Tensor:
        """The training loss of a batch, a scalar."""
        raise NotImplementedError

    def scores(self, model: torch.nn.Module, *args: Any, **examples: Any) -> dict[str, torch.Tensor]:
        """The metrics of each example, shape (N,); a split's are their means."""
        raise NotImplementedError

    def derived(self, means: dict[str, float], data: Data) -> dict[str, float]:
        """Metrics that follow from the means over a split: none, if the means say it all."""
        return {}


@dataclass(frozen=True)
class ArenaFacts:
    """What is known of an arena without loading it.

    Attributes:
        title: model and task in a few words.
        metrics: each metric and which direction is better.
        kind: the kind of data that it needs; "own" where it brings its own.
        labelled: whether the data must have labels.
        model_options: the arguments of `build_model`: a type where the option must be given, else the default. None
            where they are read from the method itself.
        factory: `module:Class` of an arena that is known by a name.
    """

    title: str
    metrics: dict[str, Literal["min", "max"]]
    kind: Literal["images", "text", "own"] = "own"
    labelled: bool = False
    model_options: dict[str, Any] | None = None
    factory: str = ""
