"""`fairbench compare`: a study with another study, or with a publication."""

import argparse
from pathlib import Path

from rich.console import Console

from fairbench.analysis.analyse import analyse
from fairbench.analysis.published.publication import load_publication, publication_names
from fairbench.common.errors import UsageError
from fairbench.report.replication import print_replication, write_replication
from fairbench.report.two_studies import print_two_studies, two_studies, write_two_studies
from fairbench.study.snapshot import open_study


def run_compare(options: argparse.Namespace, console: Console) -> None:
    """Write the comparison, and print its summary.

    Raises:
        UsageError: there is no such study or publication, or the two studies have no arm in common.
    """
    output, other = options.output_dir or options.directory, Path(options.other)
    if options.other in publication_names():
        publication = load_publication(options.other)
        replication = write_replication(publication, *open_study(options.directory), output)
        return print_replication(replication, console)
    if not other.is_dir():
        known = ", ".join(publication_names())
        raise UsageError(f"{options.other} is neither a directory nor a publication (known: {known})")
    a, b = (analyse(*open_study(directory)) for directory in (options.directory, other))
    found = two_studies(a, b, [directory.resolve().name for directory in (options.directory, other)])
    return print_two_studies(found, write_two_studies(found, output), console)
