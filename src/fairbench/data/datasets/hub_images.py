"""Images from the hub's parquet files, the same for every dataset."""

from collections.abc import Iterator

from fairbench.data.formats import parquet
from fairbench.data.formats.image_decoding import decode_image
from fairbench.data.formats.raw import ImageSplit, Pixels
from fairbench.data.formats.source_files import SourceFiles


def hub_split(
    source: SourceFiles, split: str, column: str, label: str = "", crop: int = 0, size: int = 0
) -> ImageSplit:
    """An official split.

    Args:
        source: the dataset's files.
        split: the split.
        column: the column of images.
        label: the column of labels; empty: none.
        crop: see `decode_image`.
        size: see `decode_image`.
    """
    paths = source.of_split(split)

    def read() -> Iterator[tuple[Pixels, int]]:
        for row, (data, number) in enumerate(parquet.images(paths, column, label)):
            yield decode_image(data, f"{paths[0].parent}: image {row} of the {split} split", crop, size), number

    return ImageSplit(parquet.count(paths), read)
