"""Files of every format: their content, and one clear error for a file that is damaged or too large."""

import io
import struct
import zlib
from dataclasses import dataclass

import archives
import numpy as np
import pytest
from PIL import Image

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config
from fairbench.data.formats.delimited_text import split_texts
from fairbench.data.formats.image_decoding import decode_image
from fairbench.data.preparation.prepare import PrepareOptions, prepare

pytestmark = pytest.mark.xdist_group("datasets")

COLORS = np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)
GREY = np.arange(0, 240, 10, np.uint8).reshape(4, 6)
"""The pixels of the test images, which are 6 wide and 4 high."""


# Images


def saved(image, kind="PNG", **options):
    """The bytes of an image in a format of Pillow."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def chunk(kind, data):
    """A chunk of a PNG: length, kind, data and checksum."""
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def png_with_16_bits(pixels, color_type):
    """A PNG with 16 bits for each value, which Pillow does not write.

    Args:
        pixels: big-endian values.
        color_type: 0 for grey, 2 for RGB, 4 for grey and alpha.
    """
    # Width, height, bits, color type, and the default methods of compression, filter and interlacing.
    header = struct.pack(">IIBBBBB", 6, 4, 16, color_type, 0, 0, 0)
    no_filter = b"\0"  # before each row
    rows = b"".join(no_filter + row.tobytes() for row in pixels)
    parts = [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", header),
        chunk(b"IDAT", zlib.compress(rows)),
        chunk(b"IEND", b""),
    ]
    return b"".join(parts)


ORIENTATION = 0x0112
"""The tag of EXIF for the orientation: 2 is mirrored, 6 is on its side."""


def with_orientation(orientation):
    """The colors, with an orientation by EXIF."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return saved(Image.fromarray(COLORS), exif=exif)


def with_alpha(alpha):
    """The colors with an opacity, the same for all pixels; 255 is opaque."""
    opacity = np.full((4, 6), alpha, np.uint8)
    return Image.fromarray(np.dstack([COLORS, opacity]))


def as_rgb(grey):
    """An image with three equal channels."""
    return np.dstack([grey, grey, grey])


PALETTE = Image.fromarray(COLORS).quantize(16)
BLACK_AND_WHITE = GREY > 100
INK = 255 - np.dstack([COLORS, np.full((4, 6), 255, np.uint8)])
"""The colors as cyan, magenta, yellow and no black."""
COLORS_16 = COLORS.astype(">u2") * 257
GREY_16 = GREY.astype(">u2") * 257
GREY_AND_ALPHA_16 = np.dstack([GREY_16, np.full((4, 6), 65535)]).astype(">u2")
DAMAGED_EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\xff"


@dataclass
class RightImage:
    """An image that can be decoded, and its pixels."""

    name: str
    data: bytes
    pixels: np.ndarray


GREY_IMAGES = [
    RightImage("grey", saved(Image.fromarray(GREY)), pixels=as_rgb(GREY)),
    RightImage(
        name="black and white",
        data=saved(Image.fromarray(BLACK_AND_WHITE)),
        pixels=as_rgb(BLACK_AND_WHITE.astype(np.uint8) * 255),
    ),
    RightImage(
        name="grey, alpha, 16 bits",
        data=png_with_16_bits(GREY_AND_ALPHA_16, color_type=4),
        pixels=as_rgb(GREY),
    ),
]
COLOR_IMAGES = [
    RightImage("palette", saved(PALETTE), pixels=np.asarray(PALETTE.convert("RGB"))),
    RightImage("opaque", saved(with_alpha(255)), pixels=COLORS),
    RightImage("CMYK", saved(Image.fromarray(INK, "CMYK"), "TIFF"), pixels=COLORS),
    RightImage("RGB with 16 bits", png_with_16_bits(COLORS_16, color_type=2), pixels=COLORS),
]
EXIF_IMAGES = [
    RightImage("on its side", with_orientation(6), pixels=np.rot90(COLORS, -1)),
    RightImage("mirrored", with_orientation(2), pixels=COLORS[:, ::-1]),
    RightImage("damaged EXIF", saved(Image.fromarray(COLORS), exif=DAMAGED_EXIF), pixels=COLORS),
]


@pytest.mark.parametrize("image", GREY_IMAGES + COLOR_IMAGES + EXIF_IMAGES, ids=lambda image: image.name)
def test_images_are_decoded_to_rgb(image):
    pixels = decode_image(image.data, "")
    np.testing.assert_array_equal(pixels.transpose(1, 2, 0), image.pixels)


@dataclass
class RefusedImage:
    """An image that is refused, and a part of the message."""

    name: str
    data: bytes
    complaint: str


TRANSPARENT_IMAGES = [
    RefusedImage("palette with transparency", saved(PALETTE, transparency=0), complaint="transparent pixels"),
    RefusedImage("transparent", saved(with_alpha(254)), complaint="transparent pixels"),
]
DEEP_IMAGES = [
    RefusedImage(
        name="grey with 16 bits",
        data=png_with_16_bits(GREY_16, color_type=0),
        complaint="more than 8 bits per pixel value (Pillow's mode I",
    ),
    RefusedImage(
        name="floats",
        data=saved(Image.fromarray(GREY / np.float32(240)), "TIFF"),
        complaint="more than 8 bits per pixel value",
    ),
]
DAMAGED_IMAGES = [
    RefusedImage(
        name="truncated",
        data=saved(Image.fromarray(COLORS))[:-30],
        complaint="is no image, or damaged (OSError: ",
    ),
    RefusedImage("text", b"no image", complaint="is no image, or damaged (UnidentifiedImageError: "),
]
LARGE_IMAGE = RefusedImage(
    name="large",
    data=saved(Image.new("1", (2049, 2048))),
    complaint="is too large: 2049 x 2048 pixels; make it smaller",
)
REFUSED_IMAGES = [*TRANSPARENT_IMAGES, *DEEP_IMAGES, *DAMAGED_IMAGES, LARGE_IMAGE]


@pytest.mark.parametrize("image", REFUSED_IMAGES, ids=lambda image: image.name)
def test_other_images_are_refused(image):
    with pytest.raises(UsageError) as raised:
        decode_image(image.data, "shard.parquet, index 5")
    assert str(raised.value).startswith("shard.parquet, index 5 ")
    assert image.complaint in str(raised.value)


# Labels, columns and lists

IMAGES = [archives.encoded(pixels, "PNG") for pixels, _ in archives.noise(33, 3, (32, 32), 0)]
LABELS = [i % 3 for i in range(33)]


def with_image_7(data):
    """The images, with other bytes in place of the one with index 7."""
    return [*IMAGES[:7], data, *IMAGES[8:]]


@dataclass
class WrongRows:
    """The labels and images of a file, and the complaint that follows its path."""

    name: str
    complaint: str
    labels: list | None = None
    images: list | None = None
    label_column: str = "fine_label"


WRONG_LABELS = [
    WrongRows(
        name="a negative label",
        labels=[*LABELS[:32], -1],
        complaint=", index 32 has the label -1, expected a whole number from 0 to 2",
    ),
    WrongRows("a label that is too large", labels=[*LABELS[:32], 3], complaint=", index 32 has the label 3, "),
    WrongRows("no label", labels=[None, *LABELS[1:]], complaint=", index 0 has the label None, "),
    WrongRows("half a label", labels=[0.5, *LABELS[1:]], complaint=", index 0 has the label 0.5, "),
    WrongRows("words for labels", labels=["a"] * 33, complaint=", index 0 has the label 'a', "),
    WrongRows(
        name="no column of labels",
        label_column="label",
        complaint=" has no column 'fine_label', but img, label",
    ),
]
WRONG_IMAGES = [
    WrongRows("no image", images=with_image_7(None), complaint=", index 7: 'img' is no image, but NoneType"),
    WrongRows("a damaged image", images=with_image_7(b"?"), complaint=", index 7 is no image, or damaged"),
    WrongRows(
        name="a small image",
        images=with_image_7(archives.encoded(GREY, "PNG")),
        complaint=", index 7 has shape (3, 4, 6), expected (3, 32, 32): a different dataset?",
    ),
]


@pytest.mark.parametrize("rows", WRONG_LABELS + WRONG_IMAGES, ids=lambda rows: rows.name)
def test_wrong_rows_are_named_with_file_and_index(tmp_path, rows):
    archives.write_cifar_hub(tmp_path, archives.noise(33, 3, (32, 32), 0), archives.noise(6, 3, (32, 32), 1))
    path = archives.hub_folder(tmp_path, "cifar100") / "cifar100/test-00000-of-00001.parquet"
    archives.write_parquet(path, {"img": rows.images or IMAGES, rows.label_column: rows.labels or LABELS})
    with pytest.raises(UsageError) as raised:
        prepare(dataset_config("cifar100"), PrepareOptions(tmp_path, tmp_path, unverified=True))
    assert f"{path}{rows.complaint}" in str(raised.value)


def test_labels_of_an_archive_are_named_with_file_and_index(tmp_path):
    train = archives.noise(33, 3, (32, 32), 0)
    test = archives.noise(6, 3, (32, 32), 1)
    pixels, _ = test[4]
    test[4] = (pixels, -1)
    members = archives.cifar_members(train, test, archives.CLASSES)
    path = archives.write_tar(tmp_path / "cifar-100-python.tar.gz", members)
    with pytest.raises(UsageError) as raised:
        prepare(dataset_config("cifar100"), PrepareOptions(tmp_path, unverified=True))
    assert f"{path}: test, index 4 has the label -1" in str(raised.value)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ("Once upon a time".encode("utf-16"), "text 1 is UTF-16, expected UTF-8; save it as UTF-8"),
        (b"one<|endoftext|>two\nthr\xe9e", "text 2, line 2: b'\\xe9e' is not UTF-8"),
    ],
    ids=["UTF-16", "Latin-1"],
)
def test_texts_that_are_not_utf8_are_named(tmp_path, data, complaint):
    path = tmp_path / "mine.txt"
    path.write_bytes(data)
    with pytest.raises(UsageError) as raised:
        list(split_texts(path, 100))
    assert f"{path}: {complaint}" in str(raised.value)
