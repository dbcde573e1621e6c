"""Whether prepared arrays are still what their manifest says."""

from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.data.preparation.staging import content_sha256
from fairbench.data.prepared import Prepared, read_folder


def differences(folder: Path) -> list[str]:
    """Read everything in a prepared folder again.

    Returns:
        What is not as the manifest says, in words; empty when all is.
    """
    try:
        prepared = read_folder(folder)
    except UsageError as error:
        return [str(error)]
    hashes = {f"{name}.npy": facts["sha256"] for name, facts in prepared.manifest["arrays"].items()}
    if "sha256" in (tokenizer := prepared.manifest.get("tokenizer", {})):
        hashes["tokenizer.json"] = tokenizer["sha256"]
    return [text for name, expected in hashes.items() if (text := _difference(prepared, name, expected))]


def _difference(prepared: Prepared, name: str, expected: str) -> str:
    path = prepared.folder / name
    try:
        if path.suffix == ".npy":
            prepared.array(path.stem)
        found = content_sha256(path)
    except (UsageError, OSError) as error:
        return str(error)
    return "" if found == expected else f"{name} has sha256 {found}, expected {expected}"
