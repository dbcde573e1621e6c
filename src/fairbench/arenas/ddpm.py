"""DDPM: image generation by a denoising diffusion model with a U-Net (Ho et al. 2020).

The names of its parameters and their initial values are those of `UNet2DModel` in diffusers.
"""

import math
from collections.abc import Iterable
from functools import cache
from itertools import zip_longest

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairbench.arenas.base import Arena
from fairbench.arenas.parts import multi_head_attention, named
from fairbench.data.splits import Data, Split

STEPS = 1000
"""The number of steps of the diffusion."""
FIRST_BETA = 1e-4
"""The variance of the noise that the first step adds."""
LAST_BETA = 0.02
"""The variance of the noise that the last step adds; it grows linearly from step to step."""
LONGEST_PERIOD = 10_000
"""The longest period of the sines and cosines that represent a time step, as in the transformer's positions."""
LARGE_BATCH = 64
"""The batch size from which the inputs of `Upsample` are contiguous, as they are in diffusers.

The layout of an input, like its values, decides how a convolution rounds, and results of older studies must hold.
"""


class TimeEmbedding(nn.Module):
    """An embedding of time steps: sines and cosines, then two linear layers."""

    def __init__(self, size: int, outputs: int) -> None:
        super().__init__()
        self.waves = size // 2
        self.linear_1 = nn.Linear(size, outputs)
        self.linear_2 = nn.Linear(outputs, outputs)

    def forward(self, steps: Tensor) -> Tensor:
        exponents = torch.arange(self.waves, dtype=torch.float32, device=steps.device)
        frequencies = torch.exp(-math.log(LONGEST_PERIOD) * exponents / self.waves)
        angles = steps[:, None].float() * frequencies
        waves = torch.cat([angles.cos(), angles.sin()], dim=1)
        hidden = F.silu(self.linear_1(waves))
        return self.linear_2(hidden)


class Shortcut(nn.Conv2d):
    """A convolution that makes its input contiguous in training; see `LARGE_BATCH` for the reason."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            x = x.contiguous()
        return super().forward(x)


class ResidualBlock(nn.Module):
    """Two convolutions on normalized inputs, added to the block's input. The time is added between them."""

    def __init__(self, inputs: int, outputs: int, time_size: int, groups: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time_emb_proj = nn.Linear(time_size, outputs)
        self.norm2 = nn.GroupNorm(groups, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.conv_shortcut = nn.Identity() if inputs == outputs else Shortcut(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.conv1(F.silu(self.norm1(x)))
        shift = self.time_emb_proj(F.silu(time))
        hidden = hidden + shift[:, :, None, None]
        hidden = self.conv2(F.silu(self.norm2(hidden)))
        return self.conv_shortcut(x) + hidden


class Attention(nn.Module):
    """Self-attention among the pixels, added to its input. Each head has `groups` channels."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.heads = channels // groups
        self.group_norm = nn.GroupNorm(groups, channels)
        self.to_q = nn.Linear(channels, channels)
        self.to_k = nn.Linear(channels, channels)
        self.to_v = nn.Linear(channels, channels)
        self.to_out = nn.Sequential(nn.Linear(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        pixels = self.group_norm(x.flatten(2)).transpose(1, 2)
        q = self.to_q(pixels)
        k = self.to_k(pixels)
        v = self.to_v(pixels)
        mixed = self.to_out(multi_head_attention(q, k, v, self.heads))
        return mixed.transpose(1, 2).unflatten(2, x.shape[2:]) + x


class Upsample(nn.Module):
    """Twice the resolution, then a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) >= LARGE_BATCH:
            x = x.contiguous()
        return self.conv(F.interpolate(x, scale_factor=2.0))


class Stage(nn.Module):
    """Residual blocks, some of them followed by attention.

    Args:
        inputs: the number of input channels of each block.
        outputs: the number of output channels of every block.
        attends: whether attention follows each block.
        time_size: the size of the time embedding.
        groups: the number of groups of every norm.
    """

    def __init__(self, inputs: list[int], outputs: int, attends: list[bool], time_size: int, groups: int) -> None:
        super().__init__()
        resnets = []
        attentions = []
        for channels, has_attention in zip(inputs, attends, strict=True):
            resnets.append(ResidualBlock(channels, outputs, time_size, groups))
            attentions.append(Attention(outputs, groups) if has_attention else nn.Identity())
        self.attentions = nn.ModuleList(attentions)
        self.resnets = nn.ModuleList(resnets)

    def through(self, x: Tensor, time: Tensor, skipped: Iterable[Tensor] = ()) -> Tensor:
        """The output of the last block.

        Each block reads the output of the block before it, joined with a tensor of `skipped` if there is one for it.
        """
        for resnet, attention, skip in zip_longest(self.resnets, self.attentions, skipped):
            if skip is not None:
                x = torch.cat([x, skip], dim=1)
            x = attention(resnet(x, time))
        return x


class Down(Stage):
    """A level of the way down: one residual block, then a convolution that halves the resolution.

    The last level does not halve it.
    """

    def __init__(self, inputs: int, outputs: int, attends: bool, last: bool, time_size: int, groups: int) -> None:
        super().__init__([inputs], outputs, [attends], time_size, groups)
        self.downsamplers = nn.ModuleList()
        if not last:
            halve = nn.Conv2d(outputs, outputs, 3, stride=2, padding=1)
            self.downsamplers.append(named(conv=halve))

    def forward(self, x: Tensor, time: Tensor) -> list[Tensor]:
        """The output of the block. In all but the last level, also this output at half the resolution."""
        outputs = [self.through(x, time)]
        for downsampler in self.downsamplers:
            outputs.append(downsampler(outputs[0]))
        return outputs


class Middle(Stage):
    """Blocks that keep the resolution."""

    forward = Stage.through


class Up(Stage):
    """A level of the way up: two residual blocks, then twice the resolution. The last level keeps the resolution."""

    def __init__(self, inputs: list[int], outputs: int, attends: bool, last: bool, time_size: int, groups: int) -> None:
        super().__init__(inputs, outputs, [attends, attends], time_size, groups)
        self.upsamplers = nn.Sequential()
        if not last:
            self.upsamplers.append(Upsample(outputs))

    def forward(self, x: Tensor, time: Tensor, skipped: list[Tensor]) -> Tensor:
        return self.upsamplers(self.through(x, time, skipped))


class UNet(nn.Module):
    """Predicts the noise in images (N, C, H, W) from the noisy images and their time steps (N,).

    Each residual block of the way up also reads the output of a block of the way down with the same resolution.

    Args:
        image_channels: the number of channels of an image.
        channels: the number of channels of each level, from the highest resolution to the lowest.
        groups: the number of groups of every norm.
        attends: whether each level has attention; the middle always has it.
    """

    def __init__(self, image_channels: int, channels: list[int], groups: int, attends: list[bool]) -> None:
        super().__init__()
        first = channels[0]
        time_size = 4 * first
        last = len(channels) - 1
        self.conv_in = nn.Conv2d(image_channels, first, 3, padding=1)
        self.time_embedding = TimeEmbedding(first, time_size)
        self.down_blocks = nn.ModuleList()
        self.up_blocks = nn.ModuleList()

        width = first  # the channels of the last output
        skipped = [first]  # the channels of each output of the way down, which the way up reads in reverse order
        for level, outputs in enumerate(channels):
            is_last = level == last
            self.down_blocks.append(Down(width, outputs, attends[level], is_last, time_size, groups))
            skipped.append(outputs)
            if not is_last:
                skipped.append(outputs)
            width = outputs

        self.mid_block = Middle([width, width], width, [True, False], time_size, groups)

        for level in reversed(range(len(channels))):
            outputs = channels[level]
            inputs = [width + skipped.pop(), outputs + skipped.pop()]
            self.up_blocks.append(Up(inputs, outputs, attends[level], level == 0, time_size, groups))
            width = outputs

        self.conv_norm_out = nn.GroupNorm(groups, first)
        self.conv_out = nn.Conv2d(first, image_channels, 3, padding=1)

    def forward(self, noisy: Tensor, steps: Tensor) -> Tensor:
        time = self.time_embedding(steps)
        skipped = [self.conv_in(noisy)]
        for stage in self.down_blocks:
            skipped += stage(skipped[-1], time)
        x = self.mid_block(skipped[-1], time)
        for stage in self.up_blocks:
            x = stage(x, time, [skipped.pop(), skipped.pop()])
        return self.conv_out(F.silu(self.conv_norm_out(x)))


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
        noisy = left**0.5 * clean + (1 - left) ** 0.5 * noise
        return noisy, steps, noise

    def loss(self, model: nn.Module, noisy: Tensor, steps: Tensor, noise: Tensor) -> Tensor:
        """Mean squared error of the predicted noise."""
        return F.mse_loss(model(noisy, steps), noise)

    def scores(self, model: nn.Module, noisy: Tensor, steps: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """The squared error of each image, a mean over its values."""
        errors = F.mse_loss(model(noisy, steps), noise, reduction="none")
        return {"mse": errors.mean(dim=(1, 2, 3))}


@cache
def remaining(device: torch.device) -> Tensor:
    """The share of the image's variance that is left after each step.

    It is computed on the CPU, so that it is the same for every device.
    """
    betas = torch.linspace(FIRST_BETA, LAST_BETA, STEPS)
    return (1 - betas).cumprod(dim=0).to(device)
