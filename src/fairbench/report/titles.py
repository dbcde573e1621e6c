"""What panels are called."""

from collections.abc import Sequence

from fairbench.analysis.results import Results


def titles(results: Results, arenas: Sequence[str]) -> dict[str, str]:
    """What the panel of each arena is called: its task, and the arena where that has another name."""
    suite = results.study.suite
    return {x: suite.facts(x).title + ("" if suite.task(x) == x else f" ({x})") for x in arenas}
