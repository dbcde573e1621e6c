"""The settings of a run in the folder of its results, as Lightning, Hydra and others write them."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairbench.analysis.tables.column_names import ARENA, OPTIMIZER, SEED, is_varied, plain_name

SETTINGS = (
    *(".hydra/overrides.yaml", ".hydra/config.yaml", "hparams.yaml", "args.yaml", "config.yaml", "config.yml"),
    *("hparams.json", "params.json", "args.json"),
)
"""The names that programs give the file with the settings of a run, the surest first."""
OVERRIDE = re.compile(r"- \+*([\w./]+)=(.*)")
"""A setting that the user gave to Hydra."""
SETTING = re.compile(r"""(\s*)["']?([\w.]+)["']?\s*:\s*["']?([^"'#]*?)["']?,?\s*(?:#.*)?""")
"""A setting in a line of YAML, with its indentation; one that has others below it has no value."""


def labels_of_settings(files: Sequence[Path], known: set[str]) -> list[dict[str, str]]:
    """The optimizer, the arena and the seed that the settings of each run say, and its other settings that differ.

    Args:
        files: the file with the results of each run.
        known: the plain names of the columns of these files, which say it already.
    """
    settings = [_settings(file.parent) for file in files]
    labels: list[dict[str, str]] = [{} for _ in files]
    for role, words in (("optimizer", OPTIMIZER), ("arena", ARENA), ("seed", SEED)):
        if known & set(words):
            continue
        for label, found in zip(labels, settings, strict=True):
            texts = [found[word] for word in words if word in found]
            if texts:
                label[role] = texts[0]
    names = dict.fromkeys(name for found in settings for name in found)
    for name in names:
        texts = [found.get(name, "") for found in settings]
        if is_varied(name) and name not in known and len(set(texts)) > 1:
            for label, text in zip(labels, texts, strict=True):
                label[name] = text
    return labels


def _settings(folder: Path) -> dict[str, str]:
    """The settings in the folder of a run by their plain names; empty without a file of settings."""
    settings: dict[str, str] = {}
    for name in SETTINGS:
        file = folder / name
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        for key, value in _pairs(text):
            # a nested setting is known by its last word, too: both optimizer.name and name
            settings.setdefault(plain_name(key), value)
            settings.setdefault(plain_name(key.rpartition(".")[2]), value)
    return settings


def _pairs(text: str) -> list[tuple[str, str]]:
    """The settings of a file. The names of nested ones have dots between their levels."""
    try:
        values = json.loads(text)
    except ValueError:
        return _pairs_of_yaml(text)
    return _pairs_of_json(values, "")


def _pairs_of_json(values: Any, prefix: str) -> list[tuple[str, str]]:
    """The settings of a value in JSON."""
    if not isinstance(values, Mapping):
        return [(prefix.rstrip("."), str(values))]
    return [pair for key, value in values.items() for pair in _pairs_of_json(value, f"{prefix}{key}.")]


def _pairs_of_yaml(text: str) -> list[tuple[str, str]]:
    """The settings of a file in YAML, as far as each has a line of its own."""
    pairs: list[tuple[str, str]] = []
    above: list[tuple[int, str]] = []  # the indentation and the name of each setting that this line is below
    for line in text.splitlines():
        override = OVERRIDE.fullmatch(line.rstrip())
        if override:
            pairs.append((override[1].replace("/", "."), override[2]))
            continue
        match = SETTING.fullmatch(line.rstrip())
        if match is None:
            continue
        indentation = len(match[1])
        above = [(other, name) for other, name in above if other < indentation]
        if match[3]:
            names = [name for _, name in above]
            pairs.append((".".join([*names, match[2]]), match[3]))
        else:
            above.append((indentation, match[2]))
    return pairs
