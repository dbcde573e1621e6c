"""Files of every format: what they decode to, and one clear error for those that are damaged or too large."""

import io
import struct
import zlib

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
"""Pixels of test images, which are 6 wide and 4 high."""


# Images


def saved(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, color):
    """A PNG with 16 bits, which Pillow does not write; color 0: grey, 2: RGB, 4: grey and alpha."""
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", 6, 4, 16, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(Image.fromarray(COLORS), "PNG", exif=exif)


OPAQUE = np.dstack([COLORS, np.full((4, 6), 255, np.uint8)])
SEE_THROUGH = np.dstack([COLORS, np.full((4, 6), 254, np.uint8)])
PALETTE = Image.fromarray(COLORS).quantize(16)
IMAGES = {
    "palette": (saved(PALETTE), np.asarray(PALETTE.convert("RGB"))),
    "palette with transparency": (saved(PALETTE, transparency=0), "transparent pixels"),
    "opaque": (saved(Image.fromarray(OPAQUE)), COLORS),
    "transparent": (saved(Image.fromarray(SEE_THROUGH)), "transparent pixels"),
    "grey": (saved(Image.fromarray(GREY)), np.dstack([GREY] * 3)),
    "black and white": (saved(Image.fromarray(GREY > 100)), np.dstack([(GREY > 100).astype(np.uint8) * 255] * 3)),
    "CMYK": (saved(Image.fromarray(255 - OPAQUE, "CMYK"), "TIFF"), COLORS),
    "grey with 16 bits": (png(GREY.astype(">u2") * 257, 0), "more than 8 bits per pixel value (Pillow's mode I"),
    "RGB with 16 bits": (png(COLORS.astype(">u2") * 257, 2), COLORS),
    "grey, alpha, 16 bits": (png(np.dstack([GREY.astype(">u2") * 257, np.full((4, 6), 65535)]).astype(">u2"), 4),
                             np.dstack([GREY] * 3)),
    "floats": (saved(Image.fromarray(GREY / np.float32(240)), "TIFF"), "more than 8 bits per pixel value"),
    "on its side": (turned(6), np.rot90(COLORS, -1)),
    "mirrored": (turned(2), COLORS[:, ::-1]),
    "damaged EXIF": (saved(Image.fromarray(COLORS), "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\xff"), COLORS),
    "truncated": (saved(Image.fromarray(COLORS))[:-30], "is no image, or damaged (OSError: "),
    "text": (b"no image", "is no image, or damaged (UnidentifiedImageError: "),
    "large": (saved(Image.new("1", (2049, 2048))), "is too large: 2049 x 2048 pixels; make it smaller"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), IMAGES.values(), ids=IMAGES)
def test_images_are_right_or_refused(data, expected):
    if isinstance(expected, str):
        with pytest.raises(UsageError) as raised:
            decode_image(data, "shard.parquet, index 5")
        assert str(raised.value).startswith("shard.parquet, index 5 ")
        assert expected in str(raised.value)
    else:
        np.testing.assert_array_equal(decode_image(data, "").transpose(1, 2, 0), expected)


# Labels, columns and lists

NOISE = [archives.encoded(pixels, "PNG") for pixels, _ in archives.noise(33, 3, (32, 32), 0)]
LABELS = [i % 3 for i in range(33)]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"fine_label": [*LABELS[:32], -1]}, "index 32 has the label -1, expected a whole number from 0 to 2"),
        ({"fine_label": [*LABELS[:32], 3]}, "index 32 has the label 3, "),
        ({"fine_label": [None, *LABELS[1:]]}, "index 0 has the label None, "),
        ({"fine_label": [0.5, *LABELS[1:]]}, "index 0 has the label 0.5, "),
        ({"fine_label": ["a"] * 33}, "index 0 has the label 'a', "),
        ({"label": LABELS}, " has no column 'fine_label', but img, label"),
        ({"img": [*NOISE[:7], None, *NOISE[8:]], "fine_label": LABELS}, "index 7: 'img' is no image, but NoneType"),
        ({"img": [*NOISE[:7], b"?", *NOISE[8:]], "fine_label": LABELS}, "index 7 is no image, or damaged"),
        ({"img": [*NOISE[:7], archives.encoded(GREY, "PNG"), *NOISE[8:]], "fine_label": LABELS},
         "index 7 has shape (3, 4, 6), expected (3, 32, 32): a different dataset?"),
    ],
)  # fmt: skip
def test_wrong_rows_are_named_with_file_and_index(tmp_path, columns, complaint):
    archives.write_cifar_hub(tmp_path, archives.noise(33, 3, (32, 32), 0), archives.noise(6, 3, (32, 32), 1))
    path = archives.hub_folder(tmp_path, "cifar100") / "cifar100/test-00000-of-00001.parquet"
    archives.write_parquet(path, {"img": NOISE, **columns})
    with pytest.raises(UsageError) as raised:
        prepare(dataset_config("cifar100"), PrepareOptions(tmp_path, tmp_path, unverified=True))
    assert f"{path}{complaint if complaint.startswith(' ') else f', {complaint}'}" in str(raised.value)


def test_labels_of_an_archive_are_named_with_file_and_index(tmp_path):
    train, test = archives.noise(33, 3, (32, 32), 0), archives.noise(6, 3, (32, 32), 1)
    test[4] = test[4][0], -1
    members = archives.cifar_members(train, test, archives.CLASSES)
    path = archives.write_tar(tmp_path / "cifar-100-python.tar.gz", members)
    with pytest.raises(UsageError) as raised:
        prepare(dataset_config("cifar100"), PrepareOptions(tmp_path, unverified=True))
    assert f"{path}: test, index 4 has the label -1" in str(raised.value)


def test_texts_that_are_not_utf8_are_named(tmp_path):
    path = tmp_path / "mine.txt"
    for data, complaint in (
        ("Once upon a time".encode("utf-16"), f"{path}: text 1 is UTF-16, expected UTF-8; save it as UTF-8"),
        (b"one<|endoftext|>two\nthr\xe9e", f"{path}: text 2, line 2: b'\\xe9e' is not UTF-8"),
    ):
        path.write_bytes(data)
        with pytest.raises(UsageError) as raised:
            list(split_texts(path, 100))
        assert complaint in str(raised.value)
