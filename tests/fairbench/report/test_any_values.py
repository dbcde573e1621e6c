"""Whatever the values of the records, there is a report with every figure and table."""

import random
import re
from itertools import product

import pytest
from fabricated import (
    EVERY_PAIR,
    QUANTITIES,
    Records,
    finals,
    history,
    mechanism,
    recorded,
    seconds,
    study,
    sweep,
    timing,
    with_horizons,
    with_ladder,
)
from msgspec.structs import replace
from pages import HOSTILE, Page

from fairbench.report.study import write_report
from fairbench.study.record import Series

NAMES = ["Lion", HOSTILE, "Adam\N{GREEK SMALL LETTER BETA}", "a" * 90, "0", "\N{COW FACE}", "-", ".", "x/y"]


def some(rng, scale=1.0):
    """A finite value of any size, or one near `scale`."""
    of_any_size = 10 ** rng.uniform(-300, 300)
    near_scale = scale * rng.uniform(0.9, 1.1)
    return rng.choice([of_any_size, near_scale, scale, 0.0, 1e300, 1e-300])


class AnyRecords(Records):
    """Records with any curves and further metrics, too."""

    def metrics(self, spec, outcome):
        rng = random.Random(spec.id)
        primary, *further = super().metrics(spec, outcome)
        values = {primary: outcome}
        for name in further:
            values[name] = some(rng)
        return values

    def details(self, spec, outcome, finished):
        found = super().details(spec, outcome, finished)
        rng = random.Random(f"curves {spec.id}")
        values = {}
        for name, (_, last) in found.evaluations.values.items():
            values[name] = (some(rng), last)
        evaluations = Series(found.evaluations.steps, values)
        losses = [some(rng) for _ in found.loss_curve.steps]
        loss_curve = Series(found.loss_curve.steps, {"loss": losses})
        return replace(found, loss_curve=loss_curve, evaluations=evaluations)


def any_outcome(rng, scale):
    """A function that gives the outcome of a trial: most often another one each time, else the same for all."""

    def finished():
        return some(rng, scale)

    def finished_or_diverged():
        return "diverged" if rng.random() < 0.1 else some(rng, scale)

    def always_the_scale():
        return scale

    def always_zero():
        return 0.0

    def always_huge():
        return 1e300

    varying = [finished, finished_or_diverged]
    return rng.choice([*varying, *varying, always_the_scale, always_zero, always_huge])


def any_study(number):
    """A study, and its records, of any shape and with any values."""
    rng = random.Random(number)
    seeds = range(1, rng.choice([2, 3, 4, 6]))
    arenas = rng.choice([("gpt",), ("vit",), ("gpt", "vit")])
    names = ["AdamW", "PsiLogic"]
    names += rng.sample(NAMES, rng.choice([0, 1, 3]))
    options = {
        "margin": rng.choice([1e-12, 0.01, 1e200]),
        "test": rng.choice(["paired", "welch"]),
        "budget": rng.choice([0, 4]),
    }
    if len(seeds) > 2:
        options["settings"] = rng.choice([1, 1, 3])
    reference = rng.choice(["AdamW", "PsiLogic"])
    the_study = study(arenas, names, seeds, reference=reference, compare=EVERY_PAIR, **options)
    if arenas == ("gpt",) and rng.random() < 0.4:
        the_study = with_ladder(study(arenas, names, seeds, compare=EVERY_PAIR))
    elif rng.random() < 0.3:
        the_study = with_horizons(the_study, 0.5, 1, 2)
    scale = 10 ** rng.uniform(-250, 250)
    outcome = any_outcome(rng, scale)
    cases = []
    for arena, name in product(the_study.suite.arenas, names):
        scores = [outcome() for _ in seeds]
        cases.append(finals(arena=arena, optimizer=name, scores=scores))
        for lr in (1e-4, 1e-3, 1e-2):
            cases.append(sweep(arena=arena, optimizer=name, lr=lr, outcome=outcome()))
    quantities = {}
    for name, (unit, tensors) in QUANTITIES.items():
        values = {tensor: rng.choice([1.0, 0.0, 1e300, 1e-300]) for tensor in tensors}
        quantities[name] = (unit, values)
    cases.append(recorded({"details.mechanism": mechanism(quantities)}, optimizer="PsiLogic"))
    speed = rng.choice([None, 1e-3, 1e4])
    if speed is not None:
        cases.append(timing())
        cases.append(recorded({"cost.seconds": seconds(speed)}, optimizer="PsiLogic"))
    return the_study, AnyRecords(the_study, *cases)


SOAKED = [pytest.param(number, marks=pytest.mark.soak) for number in range(3, 300)]


@pytest.mark.parametrize("number", [*range(3), *SOAKED])
def test_any_records_become_a_report(number, tmp_path):
    the_study, records = any_study(number)
    document = write_report(history(the_study), records, tmp_path)
    text = " ".join(Page(document.page.read_text()).text)
    assert not re.search("cannot be (made|drawn|judged|computed)", text)
