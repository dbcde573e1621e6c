"""Whether prepared arrays still agree with their manifest."""

from collections.abc import Iterator
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.data.preparation.staging import content_sha256
from fairbench.data.prepared import read_folder


def differences(folder: Path) -> Iterator[str]:
    """Hash every file of a prepared folder again, and describe each difference from the manifest."""
    try:
        prepared = read_folder(folder)
    except UsageError as error:
        yield str(error)
        return
    hashes = {f"{name}.npy": stated["sha256"] for name, stated in prepared.manifest["arrays"].items()}
    if "sha256" in (tokenizer := prepared.manifest.get("tokenizer", {})):
        hashes["tokenizer.json"] = tokenizer["sha256"]
    for name, expected in hashes.items():
        try:
            if name.endswith(".npy"):
                prepared.array(name.removesuffix(".npy"))
            if (actual := content_sha256(folder / name)) != expected:
                yield f"{name} has sha256 {actual}, expected {expected}"
        except (UsageError, OSError) as error:
            yield str(error)
