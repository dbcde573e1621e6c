"""Small archives and parquet files in the formats of the authors and of the hub."""

import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from fairbench.data.datasets.registry import DATASETS
from fairbench.data.preparation import hub

END = "<|endoftext|>"
CLASSES = ["apple", "bee", "can"]
"""The classes of the small CIFAR-100."""


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def register(patch, dataset, folder):
    """Make the archives in a folder the known ones."""
    facts = DATASETS[dataset]
    archives = []
    for archive in facts.archives:
        path = folder / archive.name
        if path.exists():
            archive = replace(archive, size=path.stat().st_size, sha256=sha256_of(path))
        archives.append(archive)
    patch.setitem(DATASETS, dataset, replace(facts, archives=tuple(archives)))


def register_hub(patch, root):
    """Make the hub's files in a folder the known ones."""
    lines = []
    for path in root.rglob("*.*"):
        if path.suffix in (".parquet", ".txt"):
            lines.append(f"{sha256_of(path)}  {path.relative_to(root)}\n")
    (root / "SHA256SUMS").write_text("".join(lines))
    patch.setattr(hub, "HASHES", root / "SHA256SUMS")


def noise(count, classes, side, seed):
    """Images of noise, no two alike, the classes in turn."""
    generator = np.random.default_rng(seed)
    images = []
    for i in range(count):
        pixels = generator.integers(0, 256, (*side, 3), np.uint8)
        images.append((pixels, i % classes))
    return images


def encoded(pixels, kind):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def write_images(folder, count, classes, sides):
    """Images of which no two are alike, in folders in turn; returns the path of the last one."""
    for i, (pixels, label) in enumerate(noise(count, len(classes), sides, 0)):
        path = folder / classes[label] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(pixels, "PNG"))
    return path


def decoded(data):
    """The pixels of an encoded image, shape (3, H, W)."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    return np.asarray(image).transpose(2, 0, 1)


def as_png(data):
    """An encoded image as a PNG of the same pixels."""
    pixels = decoded(data).transpose(1, 2, 0)
    return encoded(pixels, "PNG")


class _Python2Pickler(pickle._Pickler):
    """Writes strings and truth values as Python 2 did."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        data = value.encode() if isinstance(value, str) else value
        self.write(pickle.BINSTRING + len(data).to_bytes(4, "little") + data)

    def save_truth(self, value):
        self.save(int(value))

    def save_global(self, value, name=None):
        if value is np.empty(0).__reduce__()[0]:
            self.write(pickle.GLOBAL + b"numpy.core.multiarray\n_reconstruct\n")
        else:
            self.write(pickle.GLOBAL + f"{value.__module__}\n{value.__name__}\n".encode())

    dispatch[str] = save_string
    dispatch[bytes] = save_string
    dispatch[bool] = save_truth
    dispatch[type] = save_global
    dispatch[type(len)] = save_global
    dispatch[type(register)] = save_global


def python2_pickle(value):
    file = io.BytesIO()
    _Python2Pickler(file, protocol=2).dump(value)
    return file.getvalue()


def cifar_pickle(images):
    rows = []
    labels = []
    filenames = []
    for i, (pixels, label) in enumerate(images):
        channels_first = pixels.transpose(2, 0, 1)
        rows.append(channels_first.reshape(-1))
        labels.append(label)
        filenames.append(f"image_{i}.png")
    content = {
        "data": np.stack(rows),
        "fine_labels": labels,
        "coarse_labels": labels,
        "filenames": filenames,
        "batch_label": "b",
    }
    return python2_pickle(content)


def write_tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def write_zip(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def cifar_members(train, test, classes):
    return {
        "cifar-100-python/train": cifar_pickle(train),
        "cifar-100-python/test": cifar_pickle(test),
        "cifar-100-python/meta": python2_pickle({"fine_label_names": list(classes)}),
    }


def tiny_imagenet_members(train, val, wnids):
    """The zip's members; labels are indices in `wnids`, which the file lists backwards."""
    root = "tiny-imagenet-200"
    members = {f"{root}/wnids.txt": "\n".join(reversed(wnids)).encode() + b"\n"}
    for i, (data, label) in enumerate(train):
        wnid = wnids[label]
        members[f"{root}/train/{wnid}/images/{wnid}_{i}.JPEG"] = data
    lines = []
    for i, (data, label) in enumerate(val):
        members[f"{root}/val/images/val_{i}.JPEG"] = data
        lines.append(f"val_{i}.JPEG\t{wnids[label]}\t0\t32\t44\t62")
    members[f"{root}/val/val_annotations.txt"] = "\n".join(lines).encode() + b"\n"
    members[f"{root}/test/images/test_0.JPEG"] = train[0][0]
    return members


def write_parquet(path, columns, names=None):
    """A file as the hub's: images as structs of bytes and path, names of classes in the metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = {}
    for column, values in columns.items():
        if isinstance(values[0], bytes):
            values = [{"bytes": value, "path": None} for value in values]
        stored[column] = values
    features = {}
    for column, classes in (names or {}).items():
        features[column] = {"names": list(classes), "_type": "ClassLabel"}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table(stored).replace_schema_metadata(metadata)
    pq.write_table(table, path)
    return path


def hub_folder(root, dataset):
    return root / DATASETS[dataset].repository


def write_cifar_hub(root, train, test):
    """CIFAR-100 as the hub has it; returns its folder."""
    folder = hub_folder(root, "cifar100")
    for split, images in (("train", train), ("test", test)):
        columns = {"img": [], "fine_label": [], "coarse_label": []}
        for pixels, label in images:
            columns["img"].append(encoded(pixels, "PNG"))
            columns["fine_label"].append(label)
            columns["coarse_label"].append(0)
        path = folder / f"cifar100/{split}-00000-of-00001.parquet"
        write_parquet(path, columns, names={"fine_label": CLASSES})
    return folder


def stories_file(path, stories):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{story}\n{END}\n" for story in stories)
    path.write_bytes(content.encode())
    return path


def jpegs(images):
    return [(encoded(pixels, "JPEG"), label) for pixels, label in images]


def write_tiny_hub(root, train, val, names):
    """Tiny ImageNet as the hub has it."""
    folder = hub_folder(root, "tiny-imagenet")
    for split, images in (("train", train), ("valid", val)):
        columns = {"image": [], "label": []}
        for data, label in images:
            columns["image"].append(data)
            columns["label"].append(label)
        path = folder / f"data/{split}-00000-of-00001-70d52db3c749a935.parquet"
        write_parquet(path, columns, names={"label": names} if names else None)


def write_faces(folder, faces, others=()):
    """CelebA's archive and list of partitions, with faces by split and others that are in no split."""
    members = {}
    lines = []

    def add(data):
        """Add an image to the archive; returns its name."""
        name = f"{len(members) + 1:06}.jpg"
        members[f"img_align_celeba/{name}"] = data
        return name

    for number, split in enumerate(("train", "val", "test")):
        for data in faces[split]:
            lines.append(f"{add(data)} {number}\r\n")
    for data in others:
        add(data)
    write_zip(folder / "img_align_celeba.zip", members)
    (folder / "list_eval_partition.txt").write_bytes("".join(lines).encode())


def write_faces_hub(root, faces):
    """CelebA as the hub has it, in two files for each split, in another order."""
    for split, images in faces.items():
        official = "valid" if split == "val" else split
        lossless = [as_png(image) for image in images]
        for i, part in enumerate((lossless[1:], lossless[:1])):
            name = f"img_align+identity+attr/{official}-{i:05}-of-00002.parquet"
            write_parquet(hub_folder(root, "celeba") / name, {"image": part})


def write_stories(folder, train, test, version="V2-GPT4"):
    stories_file(folder / f"TinyStories{version}-train.txt", train)
    stories_file(folder / f"TinyStories{version}-valid.txt", test)
