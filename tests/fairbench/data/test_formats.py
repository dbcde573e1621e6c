"""Files of every format: what they decode to, and one clear error for those that are damaged, hostile or too large."""

import gzip
import io
import os
import struct
import tarfile
import tracemalloc
import zipfile
import zlib

import archives
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from fairbench.common.errors import UsageError
from fairbench.data.dataset_config import dataset_config
from fairbench.data.formats import archive, parquet
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


def png(pixels, depth, color):
    """A PNG of rows of bytes, for the kinds that Pillow does not write; color 0: grey, 2: RGB, 4: grey and alpha."""
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", 6, 4, depth, color, 0, 0, 0)
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
    "grey with 16 bits": (png(GREY.astype(">u2") * 257, 16, 0), "more than 8 bits per pixel value (Pillow's mode I"),
    "RGB with 16 bits": (png(COLORS.astype(">u2") * 257, 16, 2), COLORS),
    "grey, alpha, 16 bits": (png(np.dstack([GREY.astype(">u2") * 257, np.full((4, 6), 65535)]).astype(">u2"), 16, 4),
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
    path = archives.write_tar(
        tmp_path / "cifar-100-python.tar.gz", archives.cifar_members(train, test, archives.CLASSES)
    )
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


# Files that decompress to more than memory holds


def peak(read, complaint):
    """Bytes at most that a reader took before it refused a file."""
    tracemalloc.start()
    with pytest.raises(UsageError) as raised:
        read()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert complaint in str(raised.value)
    return most


@pytest.mark.parametrize(
    ("compression", "states", "complaint"),
    [
        (zipfile.ZIP_DEFLATED, 4_000_000, "zeros is damaged (BadZipFile: it states 4 MB; no member has more than 1.05"),
        (zipfile.ZIP_DEFLATED, 1000, "zeros is damaged (BadZipFile: Bad CRC-32"),
        (zipfile.ZIP_BZIP2, 1000, "zeros is damaged (BadZipFile: its compression, which is not deflate"),
    ],
)
def test_a_zip_bomb_takes_no_memory(tmp_path, monkeypatch, compression, states, complaint):
    monkeypatch.setattr(archive, "MEMBER", 1 << 20)
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("zeros", bytes(4_000_000))
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\1\2")
    data[entry + 24 : entry + 28] = struct.pack("<I", states)
    path.write_bytes(data)

    def read():
        with archive.open_zip(path) as members:
            members.read("zeros")

    assert peak(read, complaint) < 1_000_000


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (tarfile.XHDTYPE, "it states more than 1.05 MB of content"),
        (tarfile.REGTYPE, "it states more than 1.05 MB of content"),
        (tarfile.GNUTYPE_SPARSE, "'cifar-100-python/train' is a link, a device or sparse"),
    ],
)
def test_a_tar_bomb_takes_no_memory(tmp_path, monkeypatch, kind, complaint):
    monkeypatch.setattr(archive, "CONTENT", 1 << 20)
    info = tarfile.TarInfo("cifar-100-python/train")
    info.type, info.size = kind, 0 if kind == tarfile.GNUTYPE_SPARSE else 4_000_000
    with gzip.open(tmp_path / "bomb.tar.gz", "wb", compresslevel=1) as file:
        file.write(info.tobuf())
        file.write(bytes(4_000_000))

    def read():
        with archive.open_tar(tmp_path / "bomb.tar.gz") as members:
            members.read(info.name)

    assert peak(read, complaint) < 1_500_000


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x80\x02]r" + struct.pack("<I", 20_000_000) + b"X",  # an index of the memo
        b"\x80\x05\x96" + struct.pack("<Q", 50_000_000) + b".",  # the size of a bytearray
        archives.python2_pickle(np.zeros(3)).replace(b"K\x00\x85", b"J\x80\xf0\xfa\x02\x85")[:-1],  # a shape
    ],
)
def test_a_pickle_takes_only_what_its_data_take(hostile):
    assert peak(lambda: archive.unpickled(hostile, "train"), "train is refused (") < 1_000_000


def test_rows_of_parquet_that_fit_into_memory_are_read_at_once(tmp_path, monkeypatch):
    """A value that a file contains once, for all its rows, has the memory of all of them."""
    value = os.urandom(100_000)
    table = pyarrow.table(
        {"image": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 64), pyarrow.array([value]))}
    )
    pyarrow.parquet.write_table(table, tmp_path / "bomb.parquet", store_schema=False)
    monkeypatch.setattr(parquet, "MEMORY", 400_000)

    def most():
        seen = []
        for row in parquet.rows(tmp_path / "bomb.parquet", ["image"]):
            assert row == (value,)
            seen.append(pyarrow.total_allocated_bytes())
        return max(seen)

    assert most() < 2_000_000
    monkeypatch.setattr(parquet, "GROUP", 90_000)
    with pytest.raises(
        UsageError, match=r"bomb.parquet: a row group of 100 kB is too large; write it in groups of 90 kB"
    ):
        most()
