"""From encoded images to pixels."""

import io

import numpy as np
from PIL import Image

from fairbench.common.errors import UsageError
from fairbench.data.formats.raw import Pixels


def decode_image(data: bytes, where: str, crop: int = 0, size: int = 0) -> Pixels:
    """The pixels of an encoded image as RGB.

    Args:
        data: the image, in any format that Pillow reads.
        where: its name in errors.
        crop: side of the central square that is cut out, in pixels; 0: the largest possible.
        size: side of the result, in pixels; 0: no cut and no resizing.

    Returns:
        Shape (3, H, W).

    Raises:
        UsageError: it is damaged, larger than Pillow reads, smaller than the crop, or has more than 8 bits per value.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.mode[0] in "IF":  # convert would cut all values at 255
                raise UsageError(
                    f"{where} has more than 8 bits per pixel value (Pillow's mode {image.mode}), and its range is not "
                    "known; convert it to 8 bits"
                )
            picture = image.convert("RGB")
    except Image.DecompressionBombError as error:
        raise UsageError(f"{where} is too large: {str(error).partition(',')[0]}; make it smaller") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{where} is no image, or damaged ({type(error).__name__}: {error})") from error
    if size:
        square = _center(picture, crop or min(picture.size), where)
        picture = square.resize((size, size), Image.Resampling.BICUBIC)  # antialiased: it widens the filter
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))


def _center(picture: Image.Image, side: int, where: str) -> Image.Image:
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    if min(left, top) < 0:
        raise UsageError(
            f"{where} has {picture.width} x {picture.height} pixels, too few for a crop of {side} x {side}"
        )
    return picture.crop((left, top, left + side, top + side))


def decoding_steps(crop: int, size: int) -> str:
    """The processing of `decode_image` in words."""
    cut = f"centre {crop} x {crop}" if crop else "the largest centred square"
    return f"RGB; {cut}; resized to {size} x {size} by Pillow's antialiased bicubic filter"
