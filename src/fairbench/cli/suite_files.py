"""`fairbench suite show` and `fairbench suite check`."""

import argparse
import sys

from fairbench.common.terminal import say
from fairbench.suites.loader import load_suite, suite_text


def show(options: argparse.Namespace) -> int:
    """Print the TOML of a suite, as it is."""
    sys.stdout.write(suite_text(options.suite))
    return 0


def check(options: argparse.Namespace) -> int:
    """Check a suite file, and say what it contains."""
    suite = load_suite(options.suite)
    say(
        f"{options.suite} is valid: {', '.join(suite.arenas)} with {', '.join(suite.optimizers)}; "
        f"{suite.final.in_words}, reference {suite.reference}"
    )
    return 0
