"""`fairbench status` and `fairbench watch`, which load no slow library."""

import argparse
from contextlib import suppress

from fairbench.common.console import Terminal
from fairbench.runner.progress.watch import Watcher, watch_study


def status(options: argparse.Namespace) -> int:
    """Show the progress of a study; with --exit-code, 1 if it is not complete."""
    found = Watcher(options.directory).status()
    Terminal().print(found.view(), highlight=False)
    return int(options.exit_code and not found.complete)


def watch(options: argparse.Namespace) -> int:
    """Show the progress of a study until it is complete; Ctrl-C ends it normally."""
    with suppress(KeyboardInterrupt):
        watch_study(options.directory, Terminal())
    return 0
