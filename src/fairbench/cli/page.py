"""`fairbench open`: the page of a study in a browser."""

import argparse
import webbrowser
from pathlib import Path

from fairbench.common.terminal import say
from fairbench.study.folder import PAGE


def open_page(options: argparse.Namespace) -> int:
    """Show the page of a study in a browser; write the report first if there is none. 1 without a browser."""
    page: Path = options.directory / PAGE
    if not page.is_file():
        from fairbench.cli.studies import show_report

        show_report(options.directory, options.directory, quiet=True)
    if webbrowser.open(page.resolve().as_uri()):
        return 0
    say(f"fairbench: no browser can be started here; open {page} in one", is_error=True)
    return 1
