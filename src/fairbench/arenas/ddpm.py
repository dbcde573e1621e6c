"""A denoising diffusion model that draws digits."""

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from torch import Tensor, nn

from fairbench.data.sources import Data, Split, digits

load_data = digits

DIFFUSION = DDPMScheduler(num_train_timesteps=1000)
EVALUATION_SEED = 0


def build_model(data: Data, *, channels: list[int], norm_groups: int) -> nn.Module:
    """A U-Net with one residual block a level and attention at its middle."""
    model: nn.Module = UNet2DModel(
        sample_size=data.train.inputs.shape[-1],
        in_channels=data.train.inputs.shape[1],
        out_channels=data.train.inputs.shape[1],
        layers_per_block=1,
        block_out_channels=tuple(channels),
        down_block_types=("DownBlock2D",) * len(channels),
        up_block_types=("UpBlock2D",) * len(channels),
        norm_num_groups=norm_groups,
        attention_head_dim=norm_groups,
    )
    return model


def loss(model: nn.Module, batch: Split, generator: torch.Generator) -> Tensor:
    """Mean squared error of the predicted noise, at a random time step for each image."""
    clean = batch.inputs
    noise = torch.randn(clean.shape, generator=generator).to(clean.device)
    steps = len(DIFFUSION.betas)
    t = torch.randint(steps, (len(clean),), generator=generator).to(clean.device)
    return F.mse_loss(model(DIFFUSION.add_noise(clean, noise, t), t).sample, noise)


def evaluate(model: nn.Module, split: Split) -> dict[str, float]:
    """The training loss with noise and time steps that are the same in every evaluation."""
    return {"mse": loss(model, split, torch.Generator().manual_seed(EVALUATION_SEED)).item()}
