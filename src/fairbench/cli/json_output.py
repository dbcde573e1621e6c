"""What commands show, as JSON for programs; `docs/json.md` has the keys.

Every function does the same as the command without `--json`, and returns the same exit code.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from fairbench.analysis.published.publication import load_publication
from fairbench.analysis.published.replication import LEVEL
from fairbench.analysis.published.user_table import table_comparisons
from fairbench.analysis.published.verdicts import published_comparisons
from fairbench.api import catalog
from fairbench.api.plan import planned
from fairbench.api.study import Study
from fairbench.cli.arguments import names
from fairbench.cli.check import checked
from fairbench.cli.data import chosen_configs, prepared_line
from fairbench.cli.explain import explained
from fairbench.cli.places import places
from fairbench.cli.running import output_directory, prepare_own_data
from fairbench.cli.suite_options import chosen_suite
from fairbench.common.checks import Flag
from fairbench.common.terminal import say
from fairbench.runner.progress.watch import StudyStatus, Watcher
from fairbench.study.record import plain_values

SCHEMA = 1
"""Rises when a key is removed or changes its meaning; keys may be added at any time."""


def _write(command: str, **content: Any) -> None:
    """Write the content to standard output; what is not finite becomes null."""
    values = {"schema": SCHEMA, "command": command, **content}
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(values, enc_hook=str), indent=2).decode() + "\n")


def list_(options: argparse.Namespace) -> int:
    """`fairbench list`."""
    _write(
        "list",
        suites=catalog.suites().to_dicts(),
        arenas=catalog.arenas().to_dicts(),
        data=catalog.data().to_dicts(),
        optimizers=catalog.optimizers().to_dicts(),
    )
    return 0


def plan(options: argparse.Namespace) -> int:
    """`fairbench plan`."""
    suite = chosen_suite(options)
    directory = output_directory(options, suite)
    where = places(options, directory)
    prepare_own_data(options, suite)
    found = planned(suite, directory, where, options.freeze, partial(say, is_error=True))
    _write(
        "plan",
        suite=suite.name,
        directory=str(directory),
        trials=found.trials,
        seconds=60 * found.minutes,
        workers=found.workers,
        frozen=found.frozen,
        arenas=found.arenas.to_dicts(),
        damaged=found.damaged,
    )
    return 0


def status(options: argparse.Namespace) -> int:
    """`fairbench status`."""
    found = Watcher(options.directory).status()
    content: dict[str, Any] = {"trials": None, "done": None, "seconds_left": None, "arms": [], "damaged": []}
    if isinstance(found, StudyStatus):
        stages = [{stage: _progress(getattr(x, stage)) for stage in ("sweep", "confirm", "final")} for x in found.arms]
        counts = [count for of_arm in stages for count in of_arm.values()]
        arms = [
            {"arena": x.arena, "optimizer": x.optimizer, **of_arm} for x, of_arm in zip(found.arms, stages, strict=True)
        ]
        content = {
            "trials": sum(count["planned"] for count in counts),
            "done": sum(count["done"] for count in counts),
            "seconds_left": found.left if found.drivers else None,
            "arms": arms,
            "damaged": found.damaged,
        }
    running = [asdict(trial) for trial in found.running]
    _write("status", complete=found.complete, drivers=found.drivers, running=running, **content)
    return int(options.exit_code and not found.complete)


def _progress(entries: Iterable[Any]) -> dict[str, int]:
    known = [*entries]
    return {"planned": len(known), "done": len(known) - known.count(None)}


def audit(options: argparse.Namespace) -> int:
    """`fairbench audit`."""
    return _flags("audit", Study(options.directory).audit())


def check(options: argparse.Namespace) -> int:
    """`fairbench check`."""
    return _flags("check", checked(options))


def _flags(command: str, flags: Iterable[Flag]) -> int:
    rows = [*map(asdict, flags)]
    ok = all(row["severity"] != "fail" for row in rows)
    _write(command, ok=ok, flags=rows)
    return int(not ok)


def verdicts(options: argparse.Namespace) -> int:
    """`fairbench verdicts`."""
    baselines = names("--baselines", options.baselines) or ()
    if options.results.endswith(".csv"):
        reference, better = options.reference or "", options.better or ""
        judged = table_comparisons(Path(options.results), reference=reference, better=better, baselines=baselines)
    else:
        published = published_comparisons(load_publication(options.results), LEVEL, baselines)
        judged = [each.comparison for each in published]
    _write("verdicts", alpha=LEVEL, comparisons=[*map(asdict, judged)])
    return 0


def explain(options: argparse.Namespace) -> int:
    """`fairbench explain`."""
    records, lines = explained(options.trials, options.output_dir)
    keys = ("id", "status", "spec", "error", "environment")
    _write("explain", trials=[{key: record[key] for key in keys} for record in map(plain_values, records)], text=lines)
    return 0


def data_list(options: argparse.Namespace) -> int:
    """`fairbench data list`."""
    datasets = [
        {
            "name": config.dataset,
            "label": config.label,
            "title": config.info.title,
            "license": config.info.license,
            "repository": config.info.repository,
            "prepared": prepared_line(config.folder(options.data_root)),
        }
        for config in chosen_configs(options)
    ]
    _write("data list", datasets=datasets)
    return 0
