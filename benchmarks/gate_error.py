"""How often `fairbench gate` certifies what is not there, what it finds, and what it costs, in simulated sessions.

nice .venv/bin/python benchmarks/gate_error.py [--csv docs/results/benchmarks/gate_error.csv]

The rules are those of the command (`fairbench.gate`); a function that draws a number takes the place of the program. A
run has a standard deviation of 1 over seeds, and the two runs of a pair share nothing. Each try changes head by its
effect, which is drawn:

    nothing  no try has an effect
    mix      half of the tries harm (exponential, mean -3), 35% do nothing, 15% help (exponential, mean 1.5)
    dry      20% of the first 30 tries help (mean 2.75), then 4% (mean 0.75); half harm as in "mix", the rest do nothing

A stack is certified as soon as it is due, and at the end of the session if something was kept since. A keep is false if
its effect is not positive. The true gain is that of the last base against the first one. The greedy rows keep what is
better once, from one run for each try.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from csv_files import print_table

from fairbench.gate.session import Batch, Entry, Run, Session, after
from fairbench.gate.verdicts import finish_step

WORLDS = (("nothing", 100, 2000), ("nothing", 300, 1000), ("mix", 100, 1000), ("dry", 100, 1000))
"""The world, the tries of a session, and the number of sessions."""
GREEDY = (("nothing", 100, 1000), ("mix", 100, 1000), ("dry", 100, 1000), ("dry", 160, 1000))
HARM = 3.0
"""The mean size of an effect that harms, in standard deviations over seeds."""
HARMFUL = 0.5
"""The share of tries that harm."""
BASE = "base"


class SimulatedSession:
    """A session in memory. Commits are numbers of tries, and every commit has a true gain over the first base."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.session = Session(sign=1, base=BASE, head=BASE)
        self.gains = {BASE: 0.0}
        self._generator = generator

    def next_seeds(self, count: int) -> list[int]:
        """Numbers in place of seeds."""
        first = self.session.seeds
        return list(range(first, first + count))

    def append(self, entry: Entry) -> None:
        """Take an entry."""
        self.session = after(self.session, entry)

    def train(self, batch: Batch, seeds: Sequence[int]) -> list[Run]:
        """A normal number for each run."""
        runs = []
        for seed in seeds:
            for arm, commit in batch.arms.items():
                value = self.gains[commit] + float(self._generator.standard_normal())
                runs.append(Run(arm, seed, "finished", value))
        return runs

    def step(self, kind: str, arms: dict[str, str]) -> Entry:
        """Begin a step, and finish it."""
        self.append({"event": "begin", "kind": kind, "arms": arms})
        return finish_step(self, self.train)


@dataclass
class Outcome:
    """What a session has found.

    Attributes:
        false: the number of certificates whose stack is truly no better than the one before.
        kept: the effects of the keeps.
    """

    runs: int = 0
    begun: int = 0
    certified: int = 0
    false: int = 0
    claimed: float = 0.0
    gain: float = 0.0
    kept: list[float] = field(default_factory=list)


def helpful_tries(world: str, number: int) -> tuple[float, float]:
    """The share of tries that help after a number of tries, and the mean size of their effects."""
    if world == "mix":
        return 0.15, 1.5
    if number < 30:
        return 0.2, 2.75
    return 0.04, 0.75


def effect_of(world: str, number: int, generator: np.random.Generator) -> float:
    """The effect of a try on head."""
    if world == "nothing":
        return 0.0
    helpful, size = helpful_tries(world, number)
    drawn = generator.random()
    if drawn < helpful:
        return float(generator.exponential(size))
    if drawn < helpful + HARMFUL:
        return -float(generator.exponential(HARM))
    return 0.0


def gated(world: str, tries: int, generator: np.random.Generator) -> Outcome:
    """A session by the rules of the command."""
    book = SimulatedSession(generator)
    outcome = Outcome()
    book.step("calibration", {"base": BASE})
    for number in range(tries):
        effect = effect_of(world, number, generator)
        commit = f"try {number}"
        book.gains[commit] = book.gains[book.session.head] + effect
        end = book.step("try", {"try": commit})
        if end["verdict"] == "keep":
            outcome.kept.append(effect)
        if book.session.is_due:
            certify(book, outcome)
    if book.session.keeps:
        certify(book, outcome)
    outcome.runs = book.session.runs
    outcome.begun = book.session.certificates
    outcome.gain = book.gains[book.session.base]
    return outcome


def certify(book: SimulatedSession, outcome: Outcome) -> None:
    """Certify head, and count what the certificate says."""
    base = book.session.base
    head = book.session.head
    end = book.step("certificate", {"base": base, "head": head})
    if end["verdict"] != "certified":
        return
    outcome.certified += 1
    outcome.claimed += end["gain"]
    if book.gains[head] <= book.gains[base]:
        outcome.false += 1


def greedy(world: str, tries: int, generator: np.random.Generator) -> Outcome:
    """A session that keeps whatever is better once."""
    outcome = Outcome(runs=tries + 1)
    true = 0.0
    best = float(generator.standard_normal())
    first = best
    for number in range(tries):
        effect = effect_of(world, number, generator)
        value = true + effect + float(generator.standard_normal())
        if value > best:
            best = value
            true += effect
            outcome.kept.append(effect)
    outcome.gain = true
    outcome.claimed = best - first
    return outcome


def row(rule: str, world: str, tries: int, sessions: int) -> dict[str, str | float]:
    """The row of some sessions."""
    generator = np.random.default_rng(0)
    play = gated if rule == "gate" else greedy
    outcomes = [play(world, tries, generator) for _ in range(sessions)]
    keeps = [len(outcome.kept) for outcome in outcomes]
    false_keeps = [sum(effect <= 0 for effect in outcome.kept) for outcome in outcomes]
    return {
        "rule": rule,
        "world": world,
        "tries": tries,
        "sessions": sessions,
        "runs": mean(outcome.runs for outcome in outcomes),
        "certificates_begun": mean(outcome.begun for outcome in outcomes),
        "certificates": mean(outcome.certified for outcome in outcomes),
        "false_certificate": round(float(np.mean([outcome.false > 0 for outcome in outcomes])), 4),
        "keeps": mean(keeps),
        "false_keeps": mean(false_keeps),
        "true_gain": mean(outcome.gain for outcome in outcomes),
        "claimed": mean(outcome.claimed for outcome in outcomes),
        "error_of_gain": round(float(np.std([outcome.gain for outcome in outcomes]) / np.sqrt(sessions)), 3),
    }


def mean(values: Sequence[float] | Iterator[float]) -> float:
    """The mean, rounded."""
    return round(float(np.mean(list(values))), 3)


def rows() -> Iterator[dict[str, str | float]]:
    """Every row of the table."""
    for world, tries, sessions in WORLDS:
        yield row("gate", world, tries, sessions)
    for world, tries, sessions in GREEDY:
        yield row("greedy", world, tries, sessions)


if __name__ == "__main__":
    print_table(__doc__, rows())
