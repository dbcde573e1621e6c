"""How stored images and tokens become inputs of a model: on their device, without waiting, for all optimizers alike."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fairbench.data.splits import Split


@dataclass(frozen=True)
class ImageTransform:
    """Images of whole numbers become floating-point ones in [-1, 1].

    Attributes:
        half: half of the largest value that is stored.
        image_size: height and width that a model gets, resized bilinearly; 0 leaves them as they are.
        crop_padding: in training, pixels of black around an image, of which a window of its own size is taken.
        flip: in training, mirror every second image.
    """

    half: float
    image_size: int = 0
    crop_padding: int = 0
    flip: bool = False

    def __call__(self, batch: Split, generator: torch.Generator | None) -> Split:
        """The inputs, float32, shape (N, C, H, W); augmented if there is a generator."""
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
        """Shape of an input, from that of a stored image."""
        channels, *size = stored
        return (channels, *([self.image_size] * 2 if self.image_size else size))


def shifted(images: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """Each image moved by up to `most` pixels in both directions; what comes in is 0.

    Args:
        images: shape (N, C, H, W).
        most: pixels.
        generator: of the images' device.
    """
    count, _, height, width = images.shape
    device = images.device
    top, left = torch.randint(2 * most + 1, (2, count, 1), generator=generator, device=device)
    rows, columns = top + torch.arange(height, device=device), left + torch.arange(width, device=device)
    padded = F.pad(images, (most,) * 4)
    which = torch.arange(count, device=device)[:, None, None]
    return padded[which, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def mirrored(images: Tensor, generator: torch.Generator) -> Tensor:
    """Each image as it is or mirrored, by the throw of a coin."""
    heads = torch.randint(2, (len(images), 1, 1, 1), generator=generator, device=images.device, dtype=torch.bool)
    return torch.where(heads, images.flip(-1), images)


def read_tokens(batch: Split, generator: torch.Generator | None) -> Split:
    """Tokens as int64; they are stored as uint8, or as the bits of uint16 in int16, which every device can index."""
    tokens = batch.inputs.long()
    return Split(tokens & 0xFFFF if batch.inputs.dtype == torch.int16 else tokens, batch.targets)
