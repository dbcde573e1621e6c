"""The commands that show a value of the API as it is. What is slow to import is loaded when it is used."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import fairbench as fb

if TYPE_CHECKING:
    from fairbench.api.catalog import Catalog
    from fairbench.api.published import Verdicts
    from fairbench.runner.progress.watch import Preparation, StudyStatus


def status(options: argparse.Namespace) -> StudyStatus | Preparation:
    """The progress of a study now."""
    from fairbench.runner.progress.watch import Watcher

    return Watcher(options.directory).status()


def audit(options: argparse.Namespace) -> fb.Audit:
    """Every flag of a study."""
    return fb.open(options.directory).audit()


def report(options: argparse.Namespace) -> fb.Page:
    """Write every table, figure and the page of a study."""
    for_paper = options.figures == "paper"
    return fb.open(options.directory).report(options.output_dir, for_paper)


def verdicts(options: argparse.Namespace) -> Verdicts:
    """Judge a table, or a publication; write the verdicts too, if the user says where."""
    sources = options.results or ["paper"]
    judged = fb.verdicts(
        sources if len(sources) > 1 else sources[0],
        optimizer=options.optimizer,
        better=options.better,
        baselines=options.baselines,
        alpha=options.alpha,
        columns=options.columns,
        metric=options.metric,
        at=options.at,
        margin=options.margin,
        reference_value=options.reference_value,
        test=options.test,
        min_seeds=options.min_seeds,
        name=options.name,
    )
    if options.output_dir:
        from fairbench.common.files import write_atomically

        write_atomically(options.output_dir / "verdicts.csv", judged.to_csv())
        write_atomically(options.output_dir / "verdicts.tex", judged.to_latex())
    return judged


def catalog(options: argparse.Namespace) -> Catalog:
    """Everything that fairbench has by name."""
    from fairbench.api.catalog import catalog

    return catalog()


def suite_text(options: argparse.Namespace) -> str:
    """The TOML of a suite."""
    from fairbench.suites.loader import suite_text

    return suite_text(options.suite)


def check(options: argparse.Namespace) -> fb.Audit:
    """The checks of an optimizer."""
    from fairbench.cli.arguments import settings

    return fb.check(options.optimizer, options.suite, settings(options.set))
