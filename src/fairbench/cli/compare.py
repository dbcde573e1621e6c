"""`fairbench compare`: a study with another study, or with a publication."""

import argparse
from pathlib import Path

from fairbench.analysis.analyse import analyse
from fairbench.analysis.published.publication import load_publication, publication_names
from fairbench.common.console import Terminal
from fairbench.common.errors import UsageError, unknown
from fairbench.report.replication import print_replication, write_replication
from fairbench.report.two_studies import print_two_studies, two_studies, write_two_studies
from fairbench.study.snapshot import open_study


def compare(options: argparse.Namespace) -> int:
    """Write the comparison, and print its summary.

    Raises:
        UsageError: there is no such study or publication, or the two studies have no arm in common.
    """
    output, other, console = options.output_dir or options.directory, Path(options.other), Terminal()
    if str(options.directory) in publication_names() and not options.directory.is_dir():
        raise UsageError(f"the study comes first: fairbench compare {other} {options.directory}")
    if options.other in publication_names():
        publication = load_publication(options.other)
        replication = write_replication(publication, *open_study(options.directory), output)
        print_replication(replication, console)
        return 0
    if not other.is_dir():
        raise unknown("directory or publication", options.other, publication_names())
    a, b = (analyse(*open_study(directory)) for directory in (options.directory, other))
    found = two_studies(a, b, [directory.resolve().name for directory in (options.directory, other)])
    print_two_studies(found, write_two_studies(found, output), console)
    return 0
