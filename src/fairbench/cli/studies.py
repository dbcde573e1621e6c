"""The commands that read a study and do more than show it once."""

import argparse
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any

import fairbench as fb
from fairbench.common.console import Terminal
from fairbench.common.terminal import say
from fairbench.runner.progress.watch import watch_study
from fairbench.study.folder import PAGE


def watch(options: argparse.Namespace) -> int:
    """Show the progress of a study until it is complete. Ctrl-C ends the command without an error."""
    with suppress(KeyboardInterrupt):
        watch_study(options.directory, Terminal())
    return 0


def compare(options: argparse.Namespace) -> Any:
    """Write the comparison of a study with another study or with a publication, and return it."""
    compared = fb.compare(options.directory, options.other)
    compared.save(options.output_dir or options.directory)
    return compared.document


def open_page(options: argparse.Namespace) -> int:
    """Show the page of a study in a browser. If there is no page, the report is written first.

    Returns the exit code: 1 if no browser can be started.
    """
    page: Path = options.directory / PAGE
    if not page.is_file():
        written = fb.open(options.directory).report()
        written.document.brief = True
        Terminal().print(written, highlight=False, crop=False)
    if webbrowser.open(page.resolve().as_uri()):
        return 0
    say(f"fairbench: no browser can be started here; open {page} in one", is_error=True)
    return 1
