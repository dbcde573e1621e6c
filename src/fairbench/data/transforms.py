"""From stored images and tokens to inputs of a model, on their device and without synchronization."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairbench.data.splits import Split


@dataclass(frozen=True)
class ImageTransform:
    """From images of integers to floating-point images in [-1, 1].

    Attributes:
        half: half of the largest stored value.
        image_size: height and width after bilinear resizing; 0 for no resizing.
        crop_padding: in training, black pixels around an image before a random crop to its size.
        flip: in training, mirror half of the images at random.
    """

    half: float
    image_size: int = 0
    crop_padding: int = 0
    flip: bool = False

    def __call__(self, batch: Split, generator: torch.Generator | None) -> Split:
        """The inputs, float32, shape (N, C, H, W); augmented if a generator is given."""
        images = batch.inputs
        if generator is not None and self.crop_padding:
            images = shifted(images, self.crop_padding, generator)
        if generator is not None and self.flip:
            images = mirrored(images, generator)
        inputs = images.float() / self.half - 1
        if self.image_size:
            inputs = F.interpolate(inputs, size=self.image_size, mode="bilinear", align_corners=False)
        return Split(inputs, batch.targets)

    def shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of an input of the model, for stored images of shape (C, H, W)."""
        if not self.image_size:
            return stored
        return (stored[0], self.image_size, self.image_size)


def shifted(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Each image of shape (C, H, W) shifted by up to `most` pixels in both directions, filled with 0."""
    count, _, height, width = images.shape
    device = images.device
    top, left = torch.randint(2 * most + 1, (2, count, 1), generator=generator, device=device)
    rows = top + torch.arange(height, device=device)
    columns = left + torch.arange(width, device=device)
    padded = F.pad(images, (most, most, most, most))
    image = torch.arange(count, device=device)[:, None, None]
    return padded[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def mirrored(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image unchanged or mirrored, with probability 1/2."""
    heads = torch.randint(2, (len(images), 1, 1, 1), generator=generator, device=images.device, dtype=torch.bool)
    return torch.where(heads, images.flip(-1), images)


def read_tokens(batch: Split, generator: torch.Generator | None) -> Split:
    """Tokens as int64; they are stored as uint8, or as the bits of uint16 in int16, which every device can index."""
    tokens = batch.inputs.long()
    if batch.inputs.dtype == torch.int16:
        tokens &= 0xFFFF
    return Split(tokens, batch.targets)
