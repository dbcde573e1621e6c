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
        where: what errors call it.
        crop: side of the square that is cut out of its centre, in pixels; 0: the largest there is, if it is resized.
        size: side of the result, in pixels; 0: nothing is cut or resized.

    Returns:
        Shape (3, H, W).

    Raises:
        UsageError: it is damaged, or smaller than the crop.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            picture = image.convert("RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"{where} is no image, or damaged ({type(error).__name__}: {error})") from error
    if size:
        picture = _resized(_centre(picture, crop or min(picture.size), where), size)
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))


def _centre(picture: Image.Image, side: int, where: str) -> Image.Image:
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    if min(left, top) < 0:
        raise UsageError(
            f"{where} has {picture.width} x {picture.height} pixels, too few for a crop of {side} x {side}"
        )
    return picture.crop((left, top, left + side, top + side))


def _resized(picture: Image.Image, side: int) -> Image.Image:
    """Pillow widens the bicubic filter where it shrinks an image: antialiased."""
    return picture.resize((side, side), Image.Resampling.BICUBIC)


def decoding_steps(crop: int, size: int) -> str:
    """What `decode_image` did, in words."""
    cut = f"centre {crop} x {crop}" if crop else "the largest centred square"
    return f"RGB; {cut}; resized to {size} x {size} by Pillow's antialiased bicubic filter"
