"""A folder that `fairbench data` has prepared: arrays, and the manifest that describes them."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from fairbench.common.coercion import build
from fairbench.common.errors import UsageError, one_line
from fairbench.common.files import stamp, write_atomically
from fairbench.common.hashing import digest
from fairbench.common.reading import read_json, read_text

FORMAT = 1
"""The version of the folder's format."""
MANIFEST = "manifest.json"
HASHED = ".hashed.json"
"""The file that records the sizes and times of the files when their content was last compared with the manifest."""
CHUNK = 1 << 20


class _Array(TypedDict):
    sha256: str
    dtype: str
    shape: list[int]


class _Manifest(TypedDict):
    dataset: str
    options: dict[str, Any]
    files: list[dict[str, Any]]
    verified: bool
    counts: dict[str, dict[str, Any]]
    arrays: dict[str, _Array]


@dataclass(frozen=True)
class Prepared:
    """A prepared dataset.

    Attributes:
        folder: the folder of the arrays.
        manifest: the facts of the dataset: `arrays`, `counts`, `bytes` of text, `classes`, `verified` and more.
    """

    folder: Path
    manifest: Mapping[str, Any]

    def array(self, name: str) -> NDArray[Any]:
        """An array, memory-mapped and read-only.

        Args:
            name: "train", "val" or "test", or one of these with "_labels".

        Returns:
            Images are uint8, shape (N, 3, H, W); tokens are uint16 and labels int64, shape (N,).

        Raises:
            UsageError: the file is missing, or differs from its description in the manifest.
        """
        path = self.folder / f"{name}.npy"
        facts = self.manifest["arrays"][name]
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
            end = path.stat().st_size
        except Exception as error:  # numpy reads the header as Python code, which raises errors of many kinds
            raise UsageError(f"{path} is damaged ({one_line(error)})") from error
        dtype = array.dtype.str
        shape = list(array.shape)
        is_stated = dtype == facts["dtype"] and shape == facts["shape"]
        is_complete = array.offset + array.nbytes == end  # type: ignore[attr-defined]
        if not (is_stated and array.flags.c_contiguous and is_complete):
            order = "" if array.flags.c_contiguous else " in Fortran order"
            raise UsageError(f"{path} is damaged: it contains {dtype} {shape}{order}, expected {facts}")
        return array

    @property
    def files(self) -> dict[str, str]:
        """The sha256 of every file by its name. For a .npy file, the sha256 of its values alone."""
        hashes = {f"{name}.npy": stated["sha256"] for name, stated in self.manifest["arrays"].items()}
        tokenizer = self.manifest.get("tokenizer", {})
        if "sha256" in tokenizer:
            hashes["tokenizer.json"] = tokenizer["sha256"]
        return hashes

    def differences(self) -> Iterator[str]:
        """Hash every file again, and describe each difference from the manifest."""
        for name, expected in self.files.items():
            path = self.folder / name
            try:
                if name.endswith(".npy"):
                    # The hash does not cover the header, which is checked here.
                    self.array(name.removesuffix(".npy"))
                actual = content_sha256(path)
            except (UsageError, OSError) as error:
                yield str(error)
            else:
                if actual != expected:
                    yield f"{path} has sha256 {actual}, expected {expected}"

    def check_content(self) -> None:
        """Raise `UsageError` if a file was changed since the preparation.

        Files are only hashed if their sizes or times differ from those of the last successful check.
        """
        stamps = {}
        for name in self.files:
            path = self.folder / name
            if path.exists():
                stamps[name] = stamp(path.stat())
        state = json.dumps({"files": self.files, "stamps": stamps})
        hashed = self.folder / HASHED
        if read_text(hashed) == state:
            return  # nothing was changed since the last check
        differences = list(self.differences())
        if differences:
            raise UsageError("; ".join(differences))
        with suppress(UsageError):  # the folder may be read-only
            write_atomically(hashed, state)

    @property
    def fingerprint(self) -> str:
        """A hash of all arrays."""
        return digest(self.manifest["arrays"])


def read_folder(folder: Path, options: Mapping[str, Any] | None = None, check_content: bool = False) -> Prepared:
    """The prepared dataset in a folder.

    Args:
        folder: the folder of the arrays and the manifest.
        options: the expected options of the preparation. If they are given, the headers of the arrays are checked, too.
        check_content: also check that no file was changed since the preparation.

    Raises:
        UsageError: the manifest is missing or damaged, or a check fails.
    """

    def interpret(value: Any) -> Prepared:
        """The prepared dataset, from the content of its manifest."""
        manifest = dict(build(dict[str, Any], value, ()))
        version = manifest.get("format")
        if version != FORMAT:
            raise ValueError(f"it has format {version}, and this fairbench reads format {FORMAT}")
        checksum = manifest.pop("sha256", None)
        if checksum != digest(manifest):
            raise ValueError("its checksum does not match")
        return Prepared(folder, build(_Manifest, manifest, ()))

    path = folder / MANIFEST
    prepared = read_json(path, interpret)
    if prepared is None:
        raise UsageError(f"there is no {path}")
    if not isinstance(prepared, Prepared):
        fault = "cannot be read" if prepared.locked else "is damaged"
        raise UsageError(f"{path} {fault} ({prepared.reason})")
    if options is not None:
        if prepared.manifest["options"] != options:
            raise UsageError(f"{folder} was prepared with {prepared.manifest['options']}")
        for name in prepared.manifest["arrays"]:
            prepared.array(name)
    if check_content:
        prepared.check_content()
    return prepared


def content_sha256(path: Path) -> str:
    """The sha256 of a file. For a .npy file, the sha256 of its values alone."""
    sha = hashlib.sha256()
    with path.open("rb") as file:
        if path.suffix == ".npy":
            # Skip the header.
            np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file)
        while chunk := file.read(CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


def sealed(manifest: Mapping[str, Any]) -> str:
    """The text of a manifest, with a checksum of its content."""
    return json.dumps({**manifest, "sha256": digest(manifest)}, indent=1) + "\n"
