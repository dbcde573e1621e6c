"""The `fairbench data` command."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.cli.options import settings
from fairbench.common.errors import UsageError, pick
from fairbench.common.formatting import format_bytes
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
        for key in (given := settings(options)):
            pick(f"option of {names[0]}", key, PREPARED[names[0]].options)
        return [dataset_config(names[0], given)]
    if not options.suite:
        complete = [name for name, info in PREPARED.items() if None not in {x.default for x in info.options.values()}]
        return [dataset_config(name) for name in names or complete]
    configs = configs_of(load_suite(options.suite).data_tables)
    for name in names:
        if name not in {config.dataset for config in configs}:
            raise UsageError(f"suite {options.suite} reads no {name}, but {[config.label for config in configs]}")
    return [config for config in configs if not names or config.dataset in names]


def prepare_datasets(options: argparse.Namespace) -> int:
    """`fairbench data download` and `fairbench data prepare`."""
    from fairbench.data.preparation.prepare import prepare  # slow to import

    configs = chosen_configs(options)
    if not configs:
        say(f"suite {options.suite} reads no data that must be prepared")
    if options.hub is not None and not options.hub.is_dir():
        raise UsageError(f"--hub {options.hub} is no folder; it must contain the hub's files as owner/name/path")
    fetch = options.verb == "download"
    prepare_options = PrepareOptions(options.data_root, options.hub, fetch, options.unverified, options.again)
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
    root, chosen = options.data_root, options.suite or options.dataset
    known = {config.folder(root): config for config in chosen_configs(options)}
    folders = [*known] if chosen else [x for x in sorted((root / "prepared").glob("[!.]*")) if x.is_dir()]
    if missing := [known[folder] for folder in folders if not folder.is_dir()]:
        raise UsageError("\n  ".join(f"{x.label} is not prepared; {x.repair(root)}" for x in missing))
    if not folders:
        raise UsageError(f"nothing is prepared in {root}; give --data-root, or run: fairbench data download")
    states = {folder: _state(folder, known.get(folder), root) for folder in folders}
    for folder, state in states.items():
        say(f"{folder}: {state}")
    return int(not all(state.startswith(INTACT) for state in states.values()))


def _state(folder: Path, config: DatasetConfig | None, root: Path) -> str:
    """The state of a prepared folder and what to do about it; without a config its manifest says what it is."""
    try:
        prepared = read_folder(folder)
        manifest = prepared.manifest
        pick("dataset", manifest["dataset"], PREPARED)
        config = config or dataset_config(manifest["dataset"], manifest["options"])
        wrong = "; ".join(read_folder(folder, config.options).differences())
    except UsageError as error:
        again = "delete the folder, and run the command again that prepared it"
        return f"{error}; {config.repair(root) if config else again}"
    if wrong:
        return f"{wrong}; {config.repair(root)}"
    if manifest["verified"] or config.user_path:
        return INTACT
    return f"{INTACT}, but not verified; {config.by_hand(root)}"


@dataclass(frozen=True)
class Datasets:
    """The datasets that the options choose, their licenses and the local files."""

    options: argparse.Namespace

    def to_json(self) -> dict[str, Any]:
        found = []
        for config in chosen_configs(self.options):
            about = {key: getattr(config.info, key) for key in ("title", "license", "repository")}
            prepared = prepared_line(config.folder(self.options.data_root))
            found.append({"name": config.dataset, "label": config.label, **about, "prepared": prepared})
        return {"datasets": found}

    def __str__(self) -> str:
        configs, root, lines = chosen_configs(self.options), self.options.data_root, list[str]()
        for config in configs:
            lines.append(f"{config.label}\n  {config.info.title}\n  license:  {config.info.license}")
            if config.info.fault:
                lines.append(f"  fault:    {config.info.fault}")
            if config.info.repository:
                lines.append(f"  archives: {'; '.join(_archive_lines(config, root))}")
                lines.append(f"  hub:      {_hub_line(config, root / 'hub')}")
            lines.append(f"  prepared: {prepared_line(config.folder(root))}")
        known = {config.dataset for config in configs}
        others = [] if self.options.suite or self.options.dataset else [x for x in PREPARED if x not in known]
        lines += [f"{x}\n  {PREPARED[x].title}; options: {', '.join(PREPARED[x].options)}" for x in others]
        return "\n".join(lines)


def _archive_lines(config: DatasetConfig, data_root: Path) -> list[str]:
    local = {file.name: file.path for file in local_archives(config, data_root)}
    return [
        f"{archive.name}{f' ({format_bytes(archive.size)})' if archive.size else ''} "
        + (f"is {local[archive.name]}" if archive.name in local else f"from {config.info.page}, not there")
        for archive in config.archives
    ]


def _hub_line(config: DatasetConfig, hub_root: Path) -> str:
    files, missing = local_files(config, hub_root)
    incomplete = f", {', '.join(missing)} missing" if missing else ""
    state = f"{len(files)} files there{incomplete}" if files else "not there"
    return f"{config.info.repository} at {config.info.revision[:12]}, {state}"


def prepared_line(folder: Path) -> str:
    """The state of a folder of prepared data, in a line."""
    if not folder.exists():
        return "no"
    try:
        manifest = read_folder(folder).manifest
    except UsageError as error:
        return str(error)
    counts = ", ".join(f"{split} {count:,}" for split, count in manifest["counts"]["examples"].items())
    return f"{folder}: {counts}; {'verified' if manifest['verified'] else 'not verified'}"
