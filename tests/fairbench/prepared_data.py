"""Datasets that a test prepares, what their arrays hold, and what they should hold."""

from collections import Counter

import numpy as np

from fairbench.data.dataset_config import dataset_config
from fairbench.data.preparation.locate import PrepareOptions
from fairbench.data.preparation.prepare import prepare

WNIDS = ["n01443537", "n01629819", "n02099601"]


def story(number):
    """A short text with a line break and characters that are not ASCII."""
    return f"Tom saw {number} cats.\nHe gave each cat {number % 7} fish; «meow», said the cats."


STORIES = [story(number) for number in range(200)]


def write_texts(folder, contents):
    """Write text files by their names."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def prepared(data_root, dataset, hub=None, unverified=False, **options):
    """Prepare a dataset with some options, from a folder of the hub's files or from archives."""
    config = dataset_config(dataset, options)
    accept = unverified or hub is not None
    prepare(config, PrepareOptions(data_root, hub_folder=hub, unverified=accept))
    return config.prepared(data_root)


def files(data):
    """The content of each array's file."""
    return {path.name: path.read_bytes() for path in data.folder.glob("*.npy")}


def examples(data, *splits):
    """How often each labelled image is in these splits."""
    found = Counter()
    for split in splits:
        labels = data.array(f"{split}_labels")
        for image, label in zip(data.array(split), labels, strict=True):
            found[image.tobytes(), int(label)] += 1
    return found


def truth(images):
    """How often each of some labelled images, of shape (H, W, 3), is there."""
    found = Counter()
    for pixels, label in images:
        channels_first = pixels.transpose(2, 0, 1)
        found[channels_first.tobytes(), label] += 1
    return found


def texts(data, split):
    """The texts of a split, from its tokens; each ends with the end token."""
    tokens = data.array(split)
    assert tokens.dtype == np.uint16
    assert tokens[-1] == 256
    characters = "".join(chr(token) for token in tokens)
    *decoded, last = characters.split(chr(256))
    assert not last
    return [text.encode("latin1").decode() for text in decoded]
