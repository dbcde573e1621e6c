"""A user's images: a folder of images without labels, or a folder for each class.

Class folders may be inside of split folders, or contain split folders.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image

from fairbench.common.errors import UsageError
from fairbench.data.formats.image_decoding import PHOTOGRAPH, decode_image, decoding_steps
from fairbench.data.formats.raw import SPLITS, Images, ImageSplit, RawImage, named_splits, split_of
from fairbench.data.formats.source_files import ASIDE, SourceFiles, files_in, is_hidden

Folders = tuple[str, ...]
"""The names of the folders that an image is in, from the outermost to the innermost."""
FoldersOf = dict[Path, Folders]
"""The folders of each image."""


def read(source: SourceFiles, options: Mapping[str, Any]) -> Images:
    """The images, cropped to squares and resized. Equal images are kept only once.

    The label of an image is the index of its class folder. Split folders are kept; a missing val or test split gets a
    tenth of each class of train.
    """
    folder = source.files[0].path
    if not folder.is_dir():
        raise UsageError(f"path of images must be a folder of images or of class folders, but {folder} is a file")
    files = files_in(folder)
    images = _images_in(folder, files)
    splits = _by_split(_unpacked(images), folder)
    levels = 2 if len(splits) > 1 else 1
    _refuse_empty(folder, images, levels)
    classes = _class_folders(splits["train"])
    _refuse_doubtful(folder, splits, classes)

    size = options["size"]
    read_splits = {}
    for split, folders_of in splits.items():
        rows = _labelled(folders_of, classes)
        read_splits[split] = ImageSplit(len(rows), partial(_decoded, rows, size))
    carved = [split for split in SPLITS if split not in read_splits]
    equal_images = "of equal images only the first, those of test and val before train's"
    count = sum(split.count for split in read_splits.values())
    aside = files_in(folder, only_aside=True)
    dropped = {
        "files that are no images": len(files) - len(images),
        "images in no class folder": len(images) - count,
        ASIDE: len(aside),
    }
    return Images(
        shape=(3, size, size),
        splits=read_splits,
        classes=tuple(classes),
        carved=tuple(carved),
        processing=f"{decoding_steps(0, size)}; {equal_images}",
        dropped=dropped,
        distinct=True,
    )


def _images_in(folder: Path, files: Sequence[Path]) -> FoldersOf:
    """The files with a suffix of images, each with the folders between `folder` and the image."""
    known = Image.registered_extensions()
    images = {}
    for path in files:
        if path.suffix.lower() in known:
            images[path] = path.relative_to(folder).parts[:-1]
    if not images:
        raise UsageError(f"{folder} contains no images, and no class folders with images")
    return images


def _class_folders(folders_of: FoldersOf) -> list[str]:
    """The names of the outermost folders of the images, sorted; their order is that of the labels."""
    names = {folders[0] for folders in folders_of.values() if folders}
    return sorted(names)


def _labelled(folders_of: FoldersOf, classes: Sequence[str]) -> list[tuple[Path, int]]:
    """The images in class folders with their labels. Without classes, all images with label 0."""
    if not classes:
        return [(path, 0) for path in folders_of]
    label_of = {name: label for label, name in enumerate(classes)}
    rows = []
    for path, folders in folders_of.items():
        if folders and folders[0] in label_of:
            rows.append((path, label_of[folders[0]]))
    return rows


def _unpacked(folders_of: FoldersOf) -> FoldersOf:
    """Remove the outermost folders that all images are in, which unpacked archives have. The innermost one stays."""
    while _have_common_folder(folders_of):
        folders_of = {path: folders[1:] for path, folders in folders_of.items()}
    return folders_of


def _have_common_folder(folders_of: FoldersOf) -> bool:
    """Whether all images have the same outermost folder, and each is in a further folder inside of it."""
    outermost = {folders[:1] for folders in folders_of.values()}
    return len(outermost) == 1 and all(len(folders) > 1 for folders in folders_of.values())


def _by_split(folders_of: FoldersOf, folder: Path) -> dict[str, FoldersOf]:
    """The images of each split with their class folders. Without split folders, all images are in train."""
    # Split folders may be the outermost ones, or be inside of the class folders.
    for level in (0, 1):
        names = {folders[level] for folders in folders_of.values() if len(folders) > level}
        split_of_name = named_splits(names, folder)
        if not split_of_name:
            continue
        images_of_split: dict[str, FoldersOf] = {}
        for path, folders in folders_of.items():
            if len(folders) > level:
                split = split_of_name[folders[level]]
                without_split = folders[:level] + folders[level + 1 :]
                images_of_split.setdefault(split, {})[path] = without_split
        if len(images_of_split) < len(split_of_name):
            raise UsageError(f"{folder} has two folders of one split: {', '.join(split_of_name)}; join or rename them")
        return {split: _unpacked(images) for split, images in images_of_split.items()}
    return {"train": folders_of}


def _refuse_empty(folder: Path, images: FoldersOf, levels: int) -> None:
    """Raise UsageError if a folder in the given number of upper levels contains no image."""
    with_images: set[Path] = set()
    for image in images:
        with_images.update(image.parents)
    paths = list(folder.glob("*"))
    if levels == 2:
        paths += folder.glob("*/*")
    for path in sorted(paths):
        if path.is_dir() and path not in with_images and not is_hidden(path.relative_to(folder)):
            raise UsageError(f"the folder {path} contains no images; add images to it, or remove it")


def _refuse_doubtful(folder: Path, splits: Mapping[str, FoldersOf], classes: list[str]) -> None:
    """Raise UsageError if the classes are not certain, or if a split has other classes than train."""
    if len(splits) == 1:
        _refuse_split_among_classes(folder, splits["train"], classes)
    if len(classes) == 1:
        remedy = f"give path = {str(folder / classes[0])!r}"
        if len(splits) > 1:
            remedy = "move the images out of it"
        raise UsageError(
            f"{folder} has one class folder, {classes[0]!r}; "
            f"add those of other classes, or for images without labels {remedy}"
        )
    for split, folders_of in splits.items():
        split_classes = _class_folders(folders_of)
        has_other_classes = not set(split_classes) <= set(classes)
        lacks_classes = bool(classes) and not split_classes
        if has_other_classes or lacks_classes:
            reason = f"{split} has the class folders {split_classes}, and train has {classes}"
            raise UsageError(f"{folder}: {reason}; sort the images of {split} into folders as those of train")


def _refuse_split_among_classes(folder: Path, folders_of: FoldersOf, classes: Sequence[str]) -> None:
    """Raise UsageError if a class folder is named like a split and has images only in folders of its own.

    Such a folder is probably a split folder, but the other folders are not named like splits.
    """
    with_images = set(folders_of.values())
    for name in classes:
        if split_of(name) and (name,) not in with_images:
            others = ", ".join(other for other in classes if other != name)
            raise UsageError(f"{folder / name} is a split by name, and {others} is none; give it alone, or rename one")


def _decoded(labelled: Sequence[tuple[Path, int]], size: int) -> Iterator[RawImage]:
    """Decode images to squares of a size, with their labels."""
    for path, label in labelled:
        pixels = decode_image(path.read_bytes(), str(path), size=size, most=PHOTOGRAPH)
        yield RawImage(pixels, label, str(path))
