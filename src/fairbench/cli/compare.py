"""`fairbench compare`: a study with another study, or with a publication."""

import argparse

from fairbench.api.comparing import Replicated
from fairbench.api.comparing import compare as compared
from fairbench.common.console import Terminal
from fairbench.report.replication import print_replication, write_replication
from fairbench.report.two_studies import print_two_studies, write_two_studies


def compare(options: argparse.Namespace) -> int:
    """Write the comparison, and print its summary.

    Raises:
        UsageError: there is no such study or publication, or the two studies have no arm in common.
    """
    output, console = options.output_dir or options.directory, Terminal()
    comparison = compared(options.directory, options.other)
    if isinstance(comparison, Replicated):
        print_replication(comparison.found, write_replication(comparison.found, output), console)
    else:
        print_two_studies(comparison.found, write_two_studies(comparison.found, output), console)
    return 0
