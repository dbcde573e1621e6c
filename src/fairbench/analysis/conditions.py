"""Whether trials that share arena, stage and seed had the same start and the same data."""

from dataclasses import dataclass

from fairbench.analysis.results import Results, Run, once


@dataclass(frozen=True)
class HashCheck:
    """Whether all trials had the same start and the same data in one arena, stage and seed.

    Attributes:
        arena: name of the arena.
        stage: "sweep" or "final".
        seed: the seed.
        trials: how many are compared.
        initial_weights: whether all had the initial weights of a process that knew no optimizer.
        batches: whether their batch orders agree; trials that stopped early are left out.
        noise: whether the noise of their training losses agrees; likewise.
    """

    arena: str
    stage: str
    seed: int
    trials: int
    initial_weights: bool
    batches: bool
    noise: bool

    @property
    def agrees(self) -> bool:
        """Whether everything agrees."""
        return self.initial_weights and self.batches and self.noise


@once
def hash_checks(results: Results) -> list[HashCheck]:
    """A check for each arena, stage and seed with records of at least two trials."""
    groups: dict[tuple[str, str, int], list[Run]] = {}
    for run in results.select(lambda run: run.result is not None):
        groups.setdefault((run.arena, run.stage, run.seed), []).append(run)
    return [_hash_check(results, *key, runs) for key, runs in groups.items() if len(runs) > 1]


def _hash_check(results: Results, arena: str, stage: str, seed: int, runs: list[Run]) -> HashCheck:
    start = results.study.arenas[arena].starts[str(seed)]
    complete = [run for run in runs if run.status == "finished"]
    same = (len({run.hash(name) for run in complete}) <= 1 for name in ("batches", "noise"))
    return HashCheck(arena, stage, seed, len(runs), {run.hash("initial_weights") for run in runs} == {start}, *same)
