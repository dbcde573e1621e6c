"""The effects of the shocks in `fairbench.arenas.shocks.registry`, each in its phase of a training step."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fairbench.arenas.shocks.registry import SHOCKS, disturbed_steps

Examples = tuple[Tensor, ...]


class Shock:
    """A shock without effect. Each subclass overrides one of the three methods.

    Args:
        generator: the source of the shock's random numbers, on the device of the training.
        options: the options of the kind of shock.
    """

    spoils_loss = False
    """Whether the loss in a disturbed step is unrelated to the quality of the model."""

    def __init__(self, generator: torch.Generator, **options: float) -> None:
        self.generator = generator
        self.options = options

    def examples(self, examples: Examples) -> Examples:
        """The examples that the model gets."""
        return examples

    def loss(self, loss: Tensor) -> Tensor:
        """The loss that is differentiated."""
        return loss

    def gradients(self, params: Iterable[Tensor]) -> None:
        """Change the gradients in place, before they are clipped."""


class LossFactor(Shock):
    """loss -> factor * loss."""

    def loss(self, loss: Tensor) -> Tensor:
        return self.options["factor"] * loss


class HeavyTail(Shock):
    """loss -> u^(-1/tail) loss, u uniform in (0, 1]: a Pareto variable, with infinite mean for tail <= 1."""

    def loss(self, loss: Tensor) -> Tensor:
        u = 1 - torch.rand((), generator=self.generator, device=loss.device)
        factor = u ** (-1 / self.options["tail"])
        return factor * loss


class InputFactor(Shock):
    """inputs -> factor * inputs."""

    spoils_loss = True

    def examples(self, examples: Examples) -> Examples:
        inputs, *targets = examples
        return (self.options["factor"] * inputs, *targets)


class ShuffledLabels(Shock):
    """The last tensor of the examples (labels, or the noise to predict) is shuffled over the batch.

    If there is only one tensor, as for texts, the tokens at each position are shuffled over the batch.
    """

    spoils_loss = True

    def examples(self, examples: Examples) -> Examples:
        *inputs, labels = examples
        if not inputs:  # the only tensor holds tokens
            order = self._random_order(labels.shape, labels.device)
            return (labels.gather(0, order),)
        order = self._random_order((len(labels),), labels.device)
        return (*inputs, labels[order])

    def _random_order(self, size: tuple[int, ...], device: torch.device) -> Tensor:
        """A random permutation along the first axis, drawn for each position of the other axes."""
        return torch.rand(size, generator=self.generator, device=device).argsort(dim=0)


class NoiseGradient(Shock):
    """g -> factor ||g|| z / ||z||, z normal: a random direction with a multiple of the norm."""

    @torch.no_grad()  # second derivatives remain those of the original gradient
    def gradients(self, params: Iterable[Tensor]) -> None:
        for p in params:
            if p.grad is None:
                continue
            noise = torch.randn(p.grad.shape, generator=self.generator, device=p.device, dtype=p.dtype)
            length = self.options["factor"] * p.grad.norm() / noise.norm()
            p.grad.copy_(length * noise)


KINDS: Mapping[str, Callable[..., Shock]] = {
    "loss": LossFactor,
    "heavy-tail": HeavyTail,
    "inputs": InputFactor,
    "labels": ShuffledLabels,
    "gradient": NoiseGradient,
    "nan": partial(LossFactor, factor=torch.nan),
}


class Shocks:
    """The shocks of a training.

    Args:
        spec: the shock in the trial's spec; empty for a training without shocks.
        steps: the number of steps of the training.
        seed: the seed of the shocks' random numbers.
        device: where the model is trained.
    """

    def __init__(self, spec: Mapping[str, Any], steps: int, seed: int, device: torch.device) -> None:
        generator = torch.Generator(device).manual_seed(seed)
        self._calm = Shock(generator)
        self._shock = self._calm
        if spec:
            kind = spec["kind"]
            defaults = SHOCKS[kind].options
            options = {name: spec.get(name, default) for name, default in defaults.items()}
            self._shock = KINDS[kind](generator, **options)
        self.steps = disturbed_steps(spec, steps)

    def state_dict(self) -> dict[str, Tensor]:
        return {"generator": self._shock.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._shock.generator.set_state(state["generator"].cpu())

    def of(self, step: int) -> Shock:
        """The shock of a step, counted from 1. A step that is not disturbed has a shock without effect."""
        if step in self.steps:
            return self._shock
        return self._calm
