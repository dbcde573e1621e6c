"""From encoded images to pixels."""

import io
from contextlib import suppress

import numpy as np
from PIL import Image, ImageOps

from fairbench.common.errors import UsageError, explained, one_line
from fairbench.data.formats.raw import Pixels

MOST = 1 << 22
"""The largest number of pixels of an image in a published dataset. Real images have about a hundredth of it."""
PHOTOGRAPH = 178_956_970
"""The largest number of pixels of a user's image, which is Pillow's limit."""


def decode_image(data: bytes, where: str, crop: int = 0, size: int = 0, most: int = MOST) -> Pixels:
    """Decode an image of any format to RGB, upright by its EXIF orientation.

    Args:
        data: the encoded image.
        where: the file of the image and its position in the file, for errors.
        crop: the side of the central square that is cut out; 0 for the largest square.
        size: the height and width to which the square is resized; 0 for the image as it is.
        most: the largest allowed number of pixels; a small damaged file may state millions.

    Returns:
        The pixels, shape (3, H, W).

    Raises:
        UsageError: the image is damaged, too large or too small, has transparent pixels or more than 8 bits.
    """
    with explained(lambda error: _complaint(where, error)), Image.open(io.BytesIO(data)) as image:
        if image.width * image.height > most:
            raise UsageError(f"{where} is too large: {image.width} x {image.height} pixels; make it smaller")
        picture = _rgb(image, where)
    if size:
        side = crop or min(picture.size)
        left = (picture.width - side) // 2
        top = (picture.height - side) // 2
        if left < 0 or top < 0:
            found = f"{picture.width} x {picture.height} pixels"
            raise UsageError(f"{where} has {found}, too few for a crop of {side} x {side}")
        square = picture.crop((left, top, left + side, top + side))
        picture = square.resize((size, size), Image.Resampling.BICUBIC)  # antialiased: it widens the filter
    pixels = np.asarray(picture).transpose(2, 0, 1)
    return np.ascontiguousarray(pixels)


def _complaint(where: str, error: BaseException) -> str:
    """The message for an error of Pillow."""
    if isinstance(error, Image.DecompressionBombError):
        reason, _, _ = str(error).partition(",")
        return f"{where} is too large: {reason}; make it smaller"
    return f"{where} is no image, or damaged ({one_line(error)})"


def _rgb(image: Image.Image, where: str) -> Image.Image:
    """Convert an image to RGB and turn it upright. Raises `UsageError` if colors would be lost or made up."""
    if image.mode[0] in "IF":  # integers and floats: the conversion would cut all values at 255
        raise UsageError(
            f"{where} has more than 8 bits per pixel value (Pillow's mode {image.mode}), and its range is not "
            "known; convert it to 8 bits"
        )
    if image.has_transparency_data:
        opacity = np.asarray(image.convert("RGBA"))[..., 3]
        if opacity.min() < 255:
            raise UsageError(f"{where} has transparent pixels, whose color is not defined; put it on a background")
    image.load()
    with suppress(Exception):  # the pixels are intact even if the EXIF data are damaged
        return ImageOps.exif_transpose(image).convert("RGB")
    return image.convert("RGB")


def decoding_steps(crop: int, size: int) -> str:
    """The processing of `decode_image`, in words."""
    cut = f"centre {crop} x {crop}" if crop else "the largest centred square"
    return f"RGB, upright by EXIF; {cut}; resized to {size} x {size} by Pillow's antialiased bicubic filter"
