"""`fairbench compare`: a study with another study, or with a publication."""

import argparse

from fairbench.api.comparing import compare as compared
from fairbench.common.console import Terminal
from fairbench.report.render.terminal import print_report


def compare(options: argparse.Namespace) -> int:
    """Write the comparison, and print its summary.

    Raises:
        UsageError: there is no such study or publication, or the two studies have no arm in common.
    """
    output = options.output_dir or options.directory
    document = compared(options.directory, options.other).document
    document.write(output)
    print_report(document, output, Terminal())
    return 0
