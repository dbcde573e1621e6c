"""Whether prepared arrays still agree with their manifest."""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.data.preparation.staging import content_sha256
from fairbench.data.prepared import Prepared, read_folder


def differences(folder: Path) -> list[str]:
    """Hash every file of a prepared folder again.

    Returns:
        A message for each file that differs from the manifest.
    """
    try:
        prepared = read_folder(folder)
    except UsageError as error:
        return [str(error)]
    hashes = {f"{name}.npy": stated["sha256"] for name, stated in prepared.manifest["arrays"].items()}
    if "sha256" in (tokenizer := prepared.manifest.get("tokenizer", {})):
        hashes["tokenizer.json"] = tokenizer["sha256"]
    return [text for name, expected in hashes.items() if (text := _difference(prepared, name, expected))]


def _difference(prepared: Prepared, name: str, expected: str) -> str:
    path = prepared.folder / name
    try:
        if path.suffix == ".npy":
            prepared.array(path.stem)
        actual = content_sha256(path)
    except (UsageError, OSError) as error:
        return str(error)
    return "" if actual == expected else f"{name} has sha256 {actual}, expected {expected}"
