"""DDPM: image generation by a denoising diffusion model."""

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.data.splits import Data, Split


class DDPM(Arena):
    """A denoising diffusion model; the model maps noisy images and time steps to the noise."""

    def __init__(self) -> None:
        self.diffusion = DDPMScheduler(num_train_timesteps=1000)

    def build_model(
        self, data: Data, *, channels: list[int], norm_groups: int, attention_levels: list[int]
    ) -> nn.Module:
        """A U-Net with one residual block per level, and attention in the middle and at `attention_levels`."""
        levels = range(len(channels))
        model: nn.Module = UNet2DModel(
            sample_size=data.shape[-1],
            in_channels=data.shape[0],
            out_channels=data.shape[0],
            layers_per_block=1,
            block_out_channels=tuple(channels),
            down_block_types=tuple("AttnDownBlock2D" if i in attention_levels else "DownBlock2D" for i in levels),
            up_block_types=tuple("AttnUpBlock2D" if i in attention_levels else "UpBlock2D" for i in reversed(levels)),
            norm_num_groups=norm_groups,
            attention_head_dim=norm_groups,
        )
        return model

    def examples(self, batch: Split, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Noisy images, the time step of each, and the noise."""
        clean = batch.inputs
        noise = torch.randn(clean.shape, generator=generator, device=clean.device)
        steps = torch.randint(len(self.diffusion.betas), (len(clean),), generator=generator, device=clean.device)
        return self.diffusion.add_noise(clean, noise, steps), steps, noise

    def loss(self, model: nn.Module, noisy: Tensor, steps: Tensor, noise: Tensor) -> Tensor:
        """Mean squared error of the predicted noise."""
        return F.mse_loss(self.predicted(model, noisy, steps), noise)

    def scores(self, model: nn.Module, noisy: Tensor, steps: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """The squared error of each image, a mean over its values."""
        return {"mse": F.mse_loss(self.predicted(model, noisy, steps), noise, reduction="none").mean(dim=(1, 2, 3))}

    def predicted(self, model: nn.Module, noisy: Tensor, steps: Tensor) -> Tensor:
        """The predicted noise; models of diffusers return it as an attribute."""
        output = model(noisy, steps)
        return output if isinstance(output, torch.Tensor) else output.sample
