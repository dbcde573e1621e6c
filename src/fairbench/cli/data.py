"""The `fairbench data` command."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.cli.arguments import settings
from fairbench.common.errors import UsageError, pick
from fairbench.common.formatting import format_bytes, short_hash
from fairbench.common.terminal import say
from fairbench.data.dataset_config import PREPARED, DatasetConfig, configs_of, dataset_config
from fairbench.data.preparation.hub import local_files
from fairbench.data.preparation.locate import PrepareOptions, local_archives
from fairbench.data.prepared import read_folder
from fairbench.suites.loader import load_suite

INTACT = "intact"


def chosen_configs(options: argparse.Namespace) -> list[DatasetConfig]:
    """The datasets of a suite, or those whose options all have defaults; only those of --dataset, if it is given."""
    names = options.dataset or []
    for name in names:
        pick("dataset", name, PREPARED)
    if options.set:
        if options.suite or len(names) != 1:
            raise UsageError("--set is for the options of one dataset: give --dataset with its name, and no --suite")
        (name,) = names
        given = settings(options.set)
        for key in given:
            pick(f"option of {name}", key, PREPARED[name].options)
        return [dataset_config(name, given)]
    if not options.suite:
        return [dataset_config(name) for name in names or _with_all_defaults()]
    configs = configs_of(load_suite(options.suite).data_tables)
    if not names:
        return configs
    datasets = [config.dataset for config in configs]
    for name in names:
        if name not in datasets:
            raise UsageError(f"suite {options.suite} reads no {name}, but {[config.label for config in configs]}")
    return [config for config in configs if config.dataset in names]


def _with_all_defaults() -> list[str]:
    """The datasets whose options all have defaults."""
    names = []
    for name, dataset in PREPARED.items():
        if all(option.default is not None for option in dataset.options.values()):
            names.append(name)
    return names


def prepare_datasets(options: argparse.Namespace) -> int:
    """`fairbench data download` and `fairbench data prepare`."""
    from fairbench.data.preparation.prepare import prepare  # slow to import

    configs = chosen_configs(options)
    if not configs:
        say(f"suite {options.suite} reads no data that must be prepared")
    if options.hub is not None and not options.hub.is_dir():
        raise UsageError(f"--hub {options.hub} is no folder; it must contain the hub's files as owner/name/path")
    prepare_options = PrepareOptions(
        options.data_root,
        options.hub,
        fetch=options.verb == "download",
        unverified=options.unverified,
        again=options.again,
    )
    complaints = []
    for config in configs:
        try:
            prepare(config, prepare_options)
        except UsageError as error:  # the other datasets may still be available
            complaints.append(str(error))
    if complaints:
        raise UsageError("\n  ".join(complaints))
    return 0


def verify(options: argparse.Namespace) -> int:
    """`fairbench data verify`; 1 when an array differs from its manifest."""
    root = options.data_root
    known = {config.folder(root): config for config in chosen_configs(options)}
    if options.suite or options.dataset:
        folders = list(known)
        _check_folders(known, root)
    else:
        folders = [path for path in sorted((root / "prepared").glob("[!.]*")) if path.is_dir()]
    if not folders:
        raise UsageError(f"nothing is prepared in {root}; give --data-root, or run: fairbench data download")
    states = {folder: _state(folder, known.get(folder), root) for folder in folders}
    for folder, state in states.items():
        say(f"{folder}: {state}")
    if all(state.startswith(INTACT) for state in states.values()):
        return 0
    return 1


def _check_folders(configs: Mapping[Path, DatasetConfig], root: Path) -> None:
    """Raise `UsageError` on the datasets whose folders are missing."""
    complaints = []
    for folder, config in configs.items():
        if not folder.is_dir():
            complaints.append(f"{config.label} is not prepared; {config.repair(root)}")
    if complaints:
        raise UsageError("\n  ".join(complaints))


def _state(folder: Path, config: DatasetConfig | None, root: Path) -> str:
    """The state of a prepared folder and what to do about it; without a config its manifest says what it is."""
    try:
        prepared = read_folder(folder)
        manifest = prepared.manifest
        pick("dataset", manifest["dataset"], PREPARED)
        if config is None:
            config = dataset_config(manifest["dataset"], manifest["options"])
        differences = list(read_folder(folder, config.options).differences())
    except UsageError as error:
        remedy = "delete the folder, and run the command again that prepared it"
        if config is not None:
            remedy = config.repair(root)
        return f"{error}; {remedy}"
    if differences:
        return f"{'; '.join(differences)}; {config.repair(root)}"
    if manifest["verified"] or config.user_path:
        return INTACT
    return f"{INTACT}, but not verified; {config.by_hand(root)}"


@dataclass(frozen=True)
class Datasets:
    """The datasets that the options choose, their licenses and the local files."""

    options: argparse.Namespace

    def to_json(self) -> dict[str, Any]:
        """The facts of each dataset, and whether it is prepared."""
        datasets = []
        for config in chosen_configs(self.options):
            entry = {
                "name": config.dataset,
                "label": config.label,
                "title": config.info.title,
                "license": config.info.license,
                "repository": config.info.repository,
                "prepared": prepared_line(config.folder(self.options.data_root)),
            }
            datasets.append(entry)
        return {"datasets": datasets}

    def __str__(self) -> str:
        """Some lines for each dataset, and one for each of which options are missing."""
        configs = chosen_configs(self.options)
        lines: list[str] = []
        for config in configs:
            lines += _lines(config, self.options.data_root)
        if not self.options.suite and not self.options.dataset:
            shown = [config.dataset for config in configs]
            for name, dataset in PREPARED.items():
                if name not in shown:
                    lines.append(f"{name}\n  {dataset.title}; options: {', '.join(dataset.options)}")
        return "\n".join(lines)


def _lines(config: DatasetConfig, root: Path) -> list[str]:
    """What is known of a dataset, and which of its files are there."""
    lines = [config.label, f"  {config.info.title}", f"  license:  {config.info.license}"]
    if config.info.fault:
        lines.append(f"  fault:    {config.info.fault}")
    if config.info.repository:
        lines.append(f"  archives: {'; '.join(_archive_lines(config, root))}")
        lines.append(f"  hub:      {_hub_line(config, root / 'hub')}")
    lines.append(f"  prepared: {prepared_line(config.folder(root))}")
    return lines


def _archive_lines(config: DatasetConfig, data_root: Path) -> list[str]:
    """Where each archive of a dataset is."""
    local = {file.name: file.path for file in local_archives(config, data_root)}
    lines = []
    for archive in config.archives:
        size = f" ({format_bytes(archive.size)})" if archive.size else ""
        place = f"from {config.info.page}, not there"
        if archive.name in local:
            place = f"is {local[archive.name]}"
        lines.append(f"{archive.name}{size} {place}")
    return lines


def _hub_line(config: DatasetConfig, hub_root: Path) -> str:
    """Which files of the hub are there."""
    files, missing = local_files(config, hub_root)
    state = "not there"
    if files:
        state = f"{len(files)} files there"
        if missing:
            state += f", {', '.join(missing)} missing"
    return f"{config.info.repository} at {short_hash(config.info.revision)}, {state}"


def prepared_line(folder: Path) -> str:
    """The state of a folder of prepared data, in a line."""
    if not folder.exists():
        return "no"
    try:
        manifest = read_folder(folder).manifest
    except UsageError as error:
        return str(error)
    examples = manifest["counts"]["examples"]
    counts = ", ".join(f"{split} {count:,}" for split, count in examples.items())
    trust = "verified" if manifest["verified"] else "not verified"
    return f"{folder}: {counts}; {trust}"
