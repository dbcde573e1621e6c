"""The commands that read a study: audit, report and open."""

import argparse
import webbrowser
from pathlib import Path

from fairbench.analysis.analyse import analyse
from fairbench.common.console import Terminal
from fairbench.common.terminal import say
from fairbench.report import PAGE, write_report
from fairbench.report.console import print_audit, print_place, print_verdicts
from fairbench.study.snapshot import open_study


def audit(options: argparse.Namespace) -> int:
    """Show every flag of a study; 1 on a fail."""
    flags = analyse(*open_study(options.directory)).flags
    print_audit(flags, Terminal())
    return int(any(flag.severity == "fail" for flag in flags))


def report(options: argparse.Namespace) -> int:
    """Write all derived files of a study again; 1 if a trial failed."""
    return show_report(options.directory, options.output_dir or options.directory, options.figures == "paper")


def show_report(directory: Path, output: Path, for_paper: bool = False, quiet: bool = False) -> int:
    """Write all derived files of a study and print the verdict table, or only its place; 1 when a trial failed."""
    history, lookup = open_study(directory)
    result = write_report(history, lookup, output, for_paper)
    lookup.write_index()
    if quiet:
        print_place(result, output, Terminal())
    else:
        print_verdicts(result, output, Terminal())
    return int(result.analyses.failed > 0)


def open_page(options: argparse.Namespace) -> int:
    """Show the page of a study in a browser; write the report first if there is none. 1 without a browser."""
    page: Path = options.directory / PAGE
    if not page.exists():
        show_report(options.directory, options.directory, quiet=True)
    if webbrowser.open(page.resolve().as_uri()):
        return 0
    say(f"fairbench: no browser can be started here; open {page} in one", is_error=True)
    return 1
