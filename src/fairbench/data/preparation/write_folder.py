"""From raw examples to a prepared folder: the arrays, and a manifest of what they were made of."""

from importlib import metadata
from pathlib import Path
from typing import Any

from fairbench.common.formatting import some
from fairbench.common.hashing import digest
from fairbench.common.terminal import say
from fairbench.data.dataset_config import DatasetConfig
from fairbench.data.formats.raw import SPLITS, Images, Texts
from fairbench.data.formats.source_files import SourceFiles
from fairbench.data.preparation import write_images, write_texts
from fairbench.data.preparation.staging import StagingFolder
from fairbench.data.preparation.verification import Verification
from fairbench.data.prepared import FORMAT

MAKERS = ("numpy", "pillow", "pyarrow", "tokenizers")
"""The packages whose versions may affect the arrays."""


def write_folder(
    config: DatasetConfig,
    source: SourceFiles,
    verification: Verification,
    raw: Images | Texts,
    target: Path,
) -> None:
    """Write the arrays and the manifest, and publish the finished folder.

    Args:
        config: the dataset.
        source: where its files come from.
        verification: what is known of these files.
        raw: the examples in these files.
        target: the folder, which is replaced if it exists.
    """
    origin = _origin(config, source, verification)
    staging = StagingFolder(target, digest(origin))
    if isinstance(raw, Images):
        made, facts = write_images.write(raw, staging)
    else:
        made, facts = write_texts.write(raw, staging)
    for reason, count in facts["counts"]["dropped"].items():
        if count:
            say(f"  left out, {reason}: {count}")
    if staging.reused:
        say(f"  reused from an interrupted preparation: {', '.join(staging.reused)}")
    staging.publish(made, {**origin, **facts})
    examples = facts["counts"]["examples"]
    summary = ", ".join(f"{split} {examples[split]:,}" for split in SPLITS)
    if isinstance(raw, Images) and raw.classes:
        summary += f"; classes: {some(raw.classes)}"
    say(f"{config.label}: prepared in {target}: {summary}")


def _origin(config: DatasetConfig, source: SourceFiles, verification: Verification) -> dict[str, Any]:
    """The part of the manifest that is known before the arrays are written. It determines everything else."""
    info = config.info
    repository = info.repository if source.kind == "hub" else ""
    versions = {name: metadata.version(name) for name in MAKERS}
    return {
        "format": FORMAT,
        "dataset": config.dataset,
        "options": dict(config.options),
        "title": info.title,
        "license": info.license,
        "citation": info.citation,
        "source": source.kind,
        "repository": repository,
        "revision": source.revision,
        "files": verification.files,
        "verified": verification.verified,
        "verification": verification.in_words,
        "versions": versions,
    }
