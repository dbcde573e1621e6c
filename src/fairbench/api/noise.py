"""The noise of a training program, measured before a study."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairbench.analysis.noise import Noise, noise
from fairbench.analysis.results import collect
from fairbench.common.console import text_table
from fairbench.common.formatting import percent, plain, plural
from fairbench.study.snapshot import open_study

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class MeasuredNoise:
    """The noise of a program, and the directory of its runs."""

    measured: Noise
    directory: Path

    def to_json(self) -> dict[str, Any]:
        """The noise as plain values."""
        return {"directory": str(self.directory), **asdict(self.measured)}

    def __rich__(self) -> Group:
        from rich.console import Group

        found = self.measured
        titles = ("pairs", "difference seen", "equivalence shown", "minutes")
        columns = [(title, True) for title in titles]  # all of them hold numbers
        rows = []
        for reach in found.reaches:
            numbers = (reach.difference, reach.equivalence, reach.minutes)
            texts = [plain(number, ".2g") for number in numbers]
            rows.append([str(reach.pairs), *texts])
        return Group(*self._lines(), text_table(columns, rows), *self._remarks())

    def _lines(self) -> list[str]:
        """Sentences on the spread over seeds, on the same seed, and on the speed."""
        found = self.measured
        lines = [f"{found.metric}: mean {plain(found.mean, '.4g')}, sd over seeds {plain(found.std_seeds, '.2g')}"]
        again = f"the same seed twice ({plural(found.repeated, 'seed')})"
        if found.std_repeated:
            lines.append(f"{again}: sd {plain(found.std_repeated, '.2g')}, so the program is not deterministic")
        else:
            lines.append(f"{again}: the same values")
        speed = f"a run takes {plain(found.seconds, '.3g')} s"
        if found.drift is not None and found.drift_p is not None:
            speed += f"; its step time changed by {percent(found.drift)} over the runs (p {found.drift_p:.2g})"
        lines.append(speed)
        return lines

    def _remarks(self) -> list[str]:
        """What the table means."""
        return [
            "With 80% power, if the runs of a pair share nothing; pairs that share the effect of their seed see more.",
            f"A standard deviation of {self.measured.runs} runs is uncertain: the true one may be half or twice it.",
        ]


def measured_noise(directory: Path, seeds: dict[str, int]) -> MeasuredNoise:
    """The noise by the runs in a directory.

    Args:
        directory: the directory of the runs.
        seeds: the number of seeds of each variant. The first has all seeds, and the second repeats some of them.

    Raises:
        UsageError: a run is missing or has failed.
    """
    history, lookup = open_study(directory)
    study = history.study
    (arena,) = study.suite.arenas  # a study of a program has one
    base, repeated = seeds.keys()
    needed = {(arena, name): number for name, number in seeds.items()}
    results = collect(study, lookup, needed)
    return MeasuredNoise(noise(results, arena, base, repeated), directory)
