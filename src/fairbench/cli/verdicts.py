"""`fairbench verdicts`: published results, or those of a table, judged by the rules of a study."""

import argparse
from pathlib import Path

from fairbench.analysis.published.publication import load_publication
from fairbench.analysis.published.replication import LEVEL
from fairbench.analysis.published.user_table import table_comparisons
from fairbench.analysis.published.verdicts import published_comparisons
from fairbench.cli.arguments import names
from fairbench.common.console import Terminal
from fairbench.common.errors import UsageError
from fairbench.report.console import print_publication_verdicts, print_table_verdicts


def verdicts(options: argparse.Namespace) -> int:
    """Print the verdicts on a publication by its name, or on a CSV file."""
    baselines = names("--baselines", options.baselines) or ()
    if options.results.endswith(".csv"):
        reference, better = options.reference or "", options.better or ""
        judged = table_comparisons(Path(options.results), reference=reference, better=better, baselines=baselines)
        print_table_verdicts(judged, LEVEL, Terminal())
        return 0
    for option, value in (("--reference", options.reference), ("--better", options.better)):
        if value:
            raise UsageError(
                f"{option} {value} is for a CSV file, and {options.results} is a publication; leave it out"
            )
    print_publication_verdicts(
        published_comparisons(load_publication(options.results), LEVEL, baselines), LEVEL, Terminal()
    )
    return 0
