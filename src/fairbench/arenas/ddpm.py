"""DDPM: image generation by a denoising diffusion model."""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.arenas.models.unet import UNet
from fairbench.data.splits import Data, Split

STEPS, FIRST_BETA, LAST_BETA = 1000, 1e-4, 0.02
"""The diffusion of Ho et al. 2020: the variance of the noise that a step adds grows linearly from first to last."""


class DDPM(Arena):
    """A denoising diffusion model; the model maps noisy images and time steps to the noise."""

    def build_model(
        self, data: Data, *, channels: list[int], norm_groups: int, attention_levels: list[int]
    ) -> nn.Module:
        """A U-Net with one residual block per level, and attention in the middle and at `attention_levels`."""
        attends = [level in attention_levels for level in range(len(channels))]
        return UNet(data.shape[0], channels, norm_groups, attends)

    def examples(self, batch: Split, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Noisy images, the time step of each, and the noise."""
        clean = batch.inputs
        noise = torch.randn(clean.shape, generator=generator, device=clean.device)
        steps = torch.randint(STEPS, (len(clean),), generator=generator, device=clean.device)
        left = remaining(clean.device)[steps].view(-1, 1, 1, 1)
        return left**0.5 * clean + (1 - left) ** 0.5 * noise, steps, noise

    def loss(self, model: nn.Module, noisy: Tensor, steps: Tensor, noise: Tensor) -> Tensor:
        """Mean squared error of the predicted noise."""
        return F.mse_loss(model(noisy, steps), noise)

    def scores(self, model: nn.Module, noisy: Tensor, steps: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """The squared error of each image, a mean over its values."""
        return {"mse": F.mse_loss(model(noisy, steps), noise, reduction="none").mean(dim=(1, 2, 3))}


@cache
def remaining(device: torch.device) -> Tensor:
    """The share of the image's variance that is left after each step; computed on the CPU, so that it is the same."""
    return (1 - torch.linspace(FIRST_BETA, LAST_BETA, STEPS)).cumprod(dim=0).to(device)
