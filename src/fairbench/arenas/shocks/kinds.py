"""What the shocks of `fairbench.arenas.shocks.registry` do, each at its moment of a training step."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from fairbench.arenas.shocks.registry import SHOCKS, disturbed_steps

Examples = tuple[Tensor, ...]


class Shock:
    """A training that is not disturbed; each kind of shock changes one of its moments.

    Args:
        generator: where randomness comes from, of the device of the training.
        options: the options of the kind.
    """

    spoils_loss = False
    """Whether the loss in a disturbed step says nothing of the model."""

    def __init__(self, generator: torch.Generator, **options: float) -> None:
        self.generator, self.options = generator, options

    def examples(self, examples: Examples) -> Examples:
        """What the model is shown."""
        return examples

    def loss(self, loss: Tensor) -> Tensor:
        """What is differentiated."""
        return loss

    def gradients(self, params: Iterable[Tensor]) -> None:
        """Change the gradients, before any clipping."""


class LossFactor(Shock):
    """loss -> factor * loss."""

    def loss(self, loss: Tensor) -> Tensor:
        return self.options["factor"] * loss


class HeavyTail(Shock):
    """loss -> u^(-1/tail) loss with u uniform in (0, 1]: a Pareto number, whose mean is infinite for tail <= 1."""

    def loss(self, loss: Tensor) -> Tensor:
        u = 1 - torch.rand((), generator=self.generator, device=loss.device)
        return u ** (-1 / self.options["tail"]) * loss


class InputFactor(Shock):
    """inputs -> factor * inputs."""

    spoils_loss = True

    def examples(self, examples: Examples) -> Examples:
        inputs, *others = examples
        return (self.options["factor"] * inputs, *others)


class ShuffledLabels(Shock):
    """The last part of the examples (labels; the noise that is predicted) changes places in the batch.

    Examples of one part, as texts, are torn apart themselves: what stands at each position is shuffled.
    """

    spoils_loss = True

    def examples(self, examples: Examples) -> Examples:
        *others, labels = examples
        size = (len(labels), *labels.shape[1:] * (not others))
        order = torch.rand(size, generator=self.generator, device=labels.device).argsort(dim=0)
        return (*others, labels[order] if others else labels.gather(0, order))


class NoiseGradient(Shock):
    """g -> factor ||g|| z / ||z||, z normal: the direction is lost, the length is known."""

    @torch.no_grad()  # what an optimizer differentiates once more is the gradient that there was
    def gradients(self, params: Iterable[Tensor]) -> None:
        for p in params:
            if p.grad is not None:
                noise = torch.randn(p.grad.shape, generator=self.generator, device=p.device, dtype=p.dtype)
                length = self.options["factor"] * p.grad.norm() / noise.norm()
                p.grad.copy_(length * noise)


class NanLoss(Shock):
    """loss -> NaN."""

    def loss(self, loss: Tensor) -> Tensor:
        return torch.nan * loss


KINDS = {
    "loss": LossFactor,
    "heavy-tail": HeavyTail,
    "inputs": InputFactor,
    "labels": ShuffledLabels,
    "gradient": NoiseGradient,
    "nan": NanLoss,
}


class Shocks:
    """When a training is disturbed, and by what.

    Args:
        spec: the shock of the training's spec, empty for none.
        steps: steps of the training.
        seed: seed of its randomness.
        device: device of the training.
    """

    def __init__(self, spec: Mapping[str, Any], steps: int, seed: int, device: torch.device) -> None:
        generator = torch.Generator(device).manual_seed(seed)
        self._calm = self._shock = Shock(generator)
        if spec:
            own = {key: spec.get(key, default) for key, default in SHOCKS[spec["kind"]].options.items()}
            self._shock = KINDS[spec["kind"]](generator, **own)
        self.steps = disturbed_steps(spec, steps)

    def state_dict(self) -> dict[str, Tensor]:
        """What is drawn next."""
        return {"generator": self._shock.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Draw on from there."""
        self._shock.generator.set_state(state["generator"].cpu())

    def of(self, step: int) -> Shock:
        """What happens in a step, which are counted from 1."""
        return self._shock if step in self.steps else self._calm
