"""The commands that read a study: audit and report."""

import argparse
from pathlib import Path

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit as raised
from fairbench.common.console import Terminal
from fairbench.report.console import print_audit
from fairbench.report.render.terminal import print_place, print_report
from fairbench.report.study import write_report
from fairbench.study.snapshot import open_study


def audit(options: argparse.Namespace) -> int:
    """Show every flag of a study; 1 on a fail."""
    flags = Analyses(*open_study(options.directory)).of(raised)
    print_audit(flags, Terminal())
    return int(any(flag.severity == "fail" for flag in flags))


def report(options: argparse.Namespace) -> int:
    """Write all derived files of a study again; 1 if a trial failed."""
    return show_report(options.directory, options.output_dir or options.directory, options.figures == "paper")


def show_report(directory: Path, output: Path, for_paper: bool = False, quiet: bool = False) -> int:
    """Write all derived files of a study and print the verdict table, or only its place; 1 when a trial failed."""
    history, lookup = open_study(directory)
    result = write_report(history, lookup, output, for_paper)
    if quiet:
        print_place(result, output, Terminal())
    else:
        print_report(result, output, Terminal())
    return int(result.failed > 0)
