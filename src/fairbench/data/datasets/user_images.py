"""A user's images: a folder with a folder per class, in split folders or not, or a folder of images without labels."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from fairbench.common.errors import UsageError
from fairbench.data.formats.image_decoding import PHOTOGRAPH, decode_image, decoding_steps
from fairbench.data.formats.raw import SPLITS, Images, ImageSplit, RawImage, named_splits, split_of
from fairbench.data.formats.source_files import ASIDE, SourceFiles, files_in, is_aside

Places = dict[Path, tuple[str, ...]]
"""Images, each with the names of the folders that it is in."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Images:
    """The images, cropped to squares and resized, labelled by their folders if there are any; each only once.

    Split folders, above the class folders or in each of them, are kept; a missing val or test gets a tenth of each
    class of train.
    """
    folder, size = source.files[0].path, options["size"]
    if not folder.is_dir():
        raise UsageError(f"path of images must be a folder of images or of class folders, but {folder} is a file")
    files, known = files_in(folder), Image.registered_extensions()
    images = {path: path.relative_to(folder).parts[:-1] for path in files if path.suffix.lower() in known}
    if not images:
        raise UsageError(f"{folder} contains no images, and no class folders with images")
    splits = _by_split(_unpacked(images), folder)
    _refuse_empty(folder, images, 1 + (len(splits) > 1))
    classes = sorted({names[0] for names in splits["train"].values() if names})
    _refuse_doubtful(folder, splits, classes)
    label: dict[tuple[str, ...], int] = {(name,): i for i, name in enumerate(classes)} or {(): 0}
    labelled = {
        split: [(path, label[names[:1]]) for path, names in places.items() if names[:1] in label]
        for split, places in splits.items()
    }
    outside = len(images) - sum(map(len, labelled.values()))
    return Images(
        (3, size, size),
        {split: ImageSplit(len(rows), partial(_decoded, rows, size)) for split, rows in labelled.items()},
        tuple(classes),
        carved=tuple(split for split in SPLITS if split not in labelled),
        processing=f"{decoding_steps(0, size)}; of equal images only the first, those of test and val before train's",
        dropped={
            "files that are no images": len(files) - len(images),
            "images in no class folder": outside,
            ASIDE: len(files_in(folder, aside=True)),
        },
        distinct=True,
    )


def _unpacked(places: Places) -> Places:
    """The images without folders around all of them, as archives unpack to; the innermost stays."""
    while len({names[:1] for names in places.values()}) == 1 and all(names[1:] for names in places.values()):
        places = {path: names[1:] for path, names in places.items()}
    return places


def _by_split(places: Places, folder: Path) -> dict[str, Places]:
    """The images of each split in their class folders; all are of train if no folders are split folders."""
    for level in (0, 1):
        if splits := named_splits({names[level] for names in places.values() if names[level:]}, folder):
            found: dict[str, Places] = {}
            for path, names in places.items():
                if names[level:]:
                    found.setdefault(splits[names[level]], {})[path] = (*names[:level], *names[level + 1 :])
            if len(found) < len(splits):
                raise UsageError(f"{folder} has two folders of one split: {', '.join(splits)}; join or rename them")
            return {split: _unpacked(within) for split, within in found.items()}
    return {"train": places}


def _refuse_empty(folder: Path, images: Places, levels: int) -> None:
    """Raise UsageError for a folder in the upper levels that contains no image."""
    full = {above for image in images for above in image.parents}
    for path in sorted(x for level in range(levels) for x in folder.glob("/".join("*" * (level + 1)))):
        if path.is_dir() and path not in full and not is_aside(path.relative_to(folder)):
            raise UsageError(f"the folder {path} contains no images; add images to it, or remove it")


def _refuse_doubtful(folder: Path, splits: Mapping[str, Places], classes: list[str]) -> None:
    """Raise UsageError if the classes are not certain, or differ between splits."""
    within = {names for names in splits["train"].values() if names}
    if len(splits) == 1 and (named := [x for x in classes if split_of(x) and (x,) not in within]):
        others = ", ".join(x for x in classes if x != named[0])
        raise UsageError(f"{folder / named[0]} is a split by name, and {others} is none; give it alone, or rename one")
    if len(classes) == 1:
        other = "move the images out of it" if len(splits) > 1 else f"give path = {str(folder / classes[0])!r}"
        other = f"add those of other classes, or for images without labels {other}"
        raise UsageError(f"{folder} has one class folder, {classes[0]!r}; {other}")
    for split, places in splits.items():
        found = sorted({names[0] for names in places.values() if names})
        if set(found).difference(classes) or (classes and not found):
            reason = f"{split} has the class folders {found}, and train has {classes}"
            raise UsageError(f"{folder}: {reason}; sort the images of {split} into folders as those of train")


def _decoded(labelled: Sequence[tuple[Path, int]], size: int) -> Iterator[RawImage]:
    for path, label in labelled:
        yield RawImage(decode_image(path.read_bytes(), str(path), size=size, most=PHOTOGRAPH), label, str(path))
