"""The transforms of stored images and tokens into inputs of a model, on their device and without synchronization."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairbench.data.splits import Split


@dataclass(frozen=True)
class ImageTransform:
    """The transform of images of integers into floating-point images in [-1, 1].

    Attributes:
        half: half of the largest stored value.
        image_size: the height and width after bilinear resizing; 0 for no resizing.
        crop_padding: the width of the black border around a training image, before a random crop to its old size.
        flip: whether to mirror half of the training images at random.
    """

    half: float
    image_size: int = 0
    crop_padding: int = 0
    flip: bool = False

    def __call__(self, batch: Split, generator: torch.Generator | None) -> Split:
        """The inputs of a model, float32, shape (N, C, H, W). They are augmented if a generator is given."""
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
        """The shape of an input of a model, for stored images of shape (C, H, W)."""
        if not self.image_size:
            return stored
        return (stored[0], self.image_size, self.image_size)


def shifted(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Shift each image by up to `most` pixels in both directions, and fill with 0. The shape is (N, C, H, W)."""
    count, _, height, width = images.shape
    device = images.device
    top, left = torch.randint(2 * most + 1, (2, count, 1), generator=generator, device=device)
    rows = top + torch.arange(height, device=device)
    columns = left + torch.arange(width, device=device)
    padded = F.pad(images, (most, most, most, most))
    image = torch.arange(count, device=device)[:, None, None]
    # Indexing moves the channels to the end.
    return padded[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def mirrored(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror each image with probability 1/2."""
    is_mirrored = torch.randint(2, (len(images), 1, 1, 1), generator=generator, device=images.device, dtype=torch.bool)
    return torch.where(is_mirrored, images.flip(-1), images)


def read_tokens(batch: Split, generator: torch.Generator | None) -> Split:
    """Convert tokens to int64. They are stored as uint8, or as the bits of uint16 in int16."""
    tokens = batch.inputs.long()
    if batch.inputs.dtype == torch.int16:
        tokens &= 0xFFFF  # a large uint16 was read as a negative int16
    return Split(tokens, batch.targets)
