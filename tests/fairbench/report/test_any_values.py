"""Whatever the values of the records, there is a report with every figure and table."""

import random

import pytest
from fabricated import EVERY_PAIR, QUANTITIES, Records, history, study, with_horizons, with_ladder
from msgspec.structs import replace
from pages import HOSTILE, Page
from rich.console import Console

from fairbench.analysis.analyses import Analyses
from fairbench.report.study import write_report
from fairbench.report.two_studies import two_studies
from fairbench.study.record import Series

NAMES = ["AdamW", "Lion", HOSTILE, "Adam\N{GREEK SMALL LETTER BETA}", "a" * 90, "0", "\N{COW FACE}", "-", ".", "x/y"]


def some_value(rng, scale):
    """A finite value of any size, one near `scale`, a zero, or none, as a loss of NaN leaves."""
    value = rng.choice([10 ** rng.uniform(-300, 300), scale * rng.uniform(0.9, 1.1), scale, 0.0, 1e300, 1e-300])
    return "diverged" if rng.random() < 0.05 else value


class AnyRecords(Records):
    """Records with any curves and times, too."""

    def metrics(self, spec, outcome):
        rng = random.Random(spec.id)
        return {name: outcome if i == 0 else some(rng) for i, name in enumerate(super().metrics(spec, outcome))}

    def details(self, spec, outcome, finished):
        found = super().details(spec, outcome, finished)
        rng = random.Random(f"curves {spec.id}")
        evaluations = {name: (some(rng), last) for name, (_, last) in found.evaluations.values.items()}
        curves = {"loss": (some(rng), some(rng))} if finished else {"loss": ()}
        course = Series(found.evaluations.steps, evaluations)
        return replace(found, loss_curve=Series(found.loss_curve.steps, curves), evaluations=course)


def some(rng):
    value = some_value(rng, 1.0)
    return 1.0 if value == "diverged" else value


def any_study(number):
    """A study, and its records, of any shape and with any values."""
    rng = random.Random(number)
    seeds = rng.choice([(1,), (1, 2), (1, 2, 3), (1, 2, 3, 4, 5)])
    names = ["AdamW", "PsiLogic", *rng.sample(NAMES[1:], rng.choice([0, 1, 3]))]
    the_study = study(
        rng.choice([("gpt",), ("vit",), ("gpt", "vit")]),
        names,
        seeds,
        margin=rng.choice([1e-12, 0.01, 1e200]),
        budget=rng.choice([0, 4]),
        settings=rng.choice([1, 1, 3]) if len(seeds) > 2 else 1,
        test=rng.choice(["paired", "welch"]),
        reference=rng.choice(names[:2]),
        compare=EVERY_PAIR,
    )
    if "gpt" in the_study.suite.arenas and rng.random() < 0.15:
        the_study = with_ladder(study(("gpt",), names[:2], seeds, compare=EVERY_PAIR))
    elif rng.random() < 0.3:
        the_study = with_horizons(the_study, 0.5, 1, 2)
    scale = 10 ** rng.uniform(-250, 250)
    every = [(arena, name) for arena in the_study.suite.arenas for name in names]
    scores = {arm: {seed: some_value(rng, scale) for seed in range(20)} for arm in every}
    kind = rng.choice(["any", "equal", "zero", "huge"])
    if kind != "any":
        value = {"equal": scale, "zero": 0.0, "huge": 1e300}[kind]
        scores = {arm: dict.fromkeys(range(20), value) for arm in every}
    sweeps = {arm: {lr: some_value(rng, scale) for lr in (1e-4, 1e-3, 1e-2)} for arm in every}
    quantities = {
        name: (unit, {tensor: rng.choice([1.0, 0.0, 1e300, 1e-300]) for tensor in tensors})
        for name, (unit, tensors) in QUANTITIES.items()
    }
    return the_study, AnyRecords(scores, sweeps, quantities, speed=rng.choice([None, 1e-3, 1e4]))


def reported(number, folder):
    """The document of such a study."""
    the_study, records = any_study(number)
    document = write_report(history(the_study), records, folder / str(number))
    with (folder / "terminal.txt").open("w") as file:
        Console(file=file).print(document)
    other = Analyses(history(the_study), records)
    assert two_studies(other, other, ["a", "b"]).tables
    return document


@pytest.mark.parametrize("number", range(3))
def test_any_records_become_a_report(number, tmp_path):
    Page(reported(number, tmp_path).page.read_text())


@pytest.mark.soak
@pytest.mark.parametrize("number", range(3, 300))
def test_more_records_become_a_report(number, tmp_path):
    Page(reported(number, tmp_path).page.read_text())
