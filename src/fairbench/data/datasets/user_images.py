"""A user's images: a folder with a folder per class, or a folder of images without labels."""

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from fairbench.common.errors import UsageError
from fairbench.data.formats.image_decoding import PHOTOGRAPH, decode_image, decoding_steps
from fairbench.data.formats.raw import Images, ImageSplit, RawImage
from fairbench.data.formats.source_files import SourceFiles, files_in


def read(source: SourceFiles, options: Mapping[str, Any]) -> Images:
    """The images, cropped to squares and resized, labelled by their folders if there are any; each only once.

    The splits val and test get a tenth of each class each.

    Raises:
        UsageError: there is no image, no image in a class folder, or only one class folder.
    """
    folder, size = source.files[0].path, options["size"]
    if not folder.is_dir():
        raise UsageError(
            f"option path of images must be a folder of images or of class folders, but {folder} is a file"
        )
    classes = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    known = Image.registered_extensions()
    labelled, others = [], 0
    for label, within in enumerate([folder / name for name in classes] or [folder]):
        for path in files_in(within):
            if path.suffix.lower() in known:
                labelled.append((path, label))
            else:
                others += 1
    if not labelled:
        raise UsageError(f"{folder} contains no images, and no class folders with images")
    if len(classes) == 1:
        raise UsageError(
            f"{folder} has one class folder, {classes[0]!r}; add those of other classes, or for images without labels "
            f"give path = {str(folder / classes[0])!r}"
        )
    if empty := [name for i, name in enumerate(classes) if i not in {label for _, label in labelled}]:
        raise UsageError(f"the class folder {folder / empty[0]} contains no images; add images to it, or remove it")
    outside = sum(path.is_file() for path in folder.iterdir()) if classes else 0
    return Images(
        (3, size, size),
        {"train": ImageSplit(len(labelled), partial(_decoded, labelled, size))},
        tuple(classes),
        carved=("val", "test"),
        processing=f"{decoding_steps(0, size)}; of equal images only the first",
        dropped={"files that are no images": others, "files in no class folder": outside},
    )


def _decoded(labelled: list[tuple[Path, int]], size: int) -> Iterator[RawImage]:
    """Pixels and label of each image, of equal ones only the first: copies would be in two splits."""
    seen: set[bytes] = set()
    for path, label in labelled:
        pixels = decode_image(path.read_bytes(), str(path), size=size, most=PHOTOGRAPH)
        if (content := hashlib.sha256(pixels.tobytes()).digest()) not in seen:
            seen.add(content)
            yield RawImage(pixels, label, str(path))
