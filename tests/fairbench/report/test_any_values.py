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
    return rng.choice([10 ** rng.uniform(-300, 300), scale * rng.uniform(0.9, 1.1), scale, 0.0, 1e300, 1e-300])


class AnyRecords(Records):
    """Records with any curves and further metrics, too."""

    def metrics(self, spec, outcome):
        rng = random.Random(spec.id)
        return {name: some(rng) if i else outcome for i, name in enumerate(super().metrics(spec, outcome))}

    def details(self, spec, outcome, finished):
        found = super().details(spec, outcome, finished)
        rng = random.Random(f"curves {spec.id}")
        values = {name: (some(rng), last) for name, (_, last) in found.evaluations.values.items()}
        losses = {"loss": [some(rng) for _ in found.loss_curve.steps]}
        course = Series(found.evaluations.steps, values)
        return replace(found, loss_curve=Series(found.loss_curve.steps, losses), evaluations=course)


def any_study(number):
    """A study, and its records, of any shape and with any values."""
    rng = random.Random(number)
    seeds = range(1, rng.choice([2, 3, 4, 6]))
    arenas = rng.choice([("gpt",), ("vit",), ("gpt", "vit")])
    names = ["AdamW", "PsiLogic", *rng.sample(NAMES, rng.choice([0, 1, 3]))]
    options = {"margin": rng.choice([1e-12, 0.01, 1e200]), "test": rng.choice(["paired", "welch"])}
    options |= {"budget": rng.choice([0, 4]), "settings": rng.choice([1, 1, 3]) if len(seeds) > 2 else 1}
    the_study = study(arenas, names, seeds, reference=rng.choice(names[:2]), compare=EVERY_PAIR, **options)
    if arenas == ("gpt",) and rng.random() < 0.4:
        the_study = with_ladder(study(arenas, names, seeds, compare=EVERY_PAIR))
    elif rng.random() < 0.3:
        the_study = with_horizons(the_study, 0.5, 1, 2)
    scale = 10 ** rng.uniform(-250, 250)
    arms = product(the_study.suite.arenas, names)
    outcomes = [lambda: some(rng, scale), lambda: "diverged" if rng.random() < 0.1 else some(rng, scale)]
    outcome = rng.choice([*outcomes, *outcomes, lambda: scale, lambda: 0.0, lambda: 1e300])
    cases = []
    for arena, name in arms:
        scores = [outcome() for _ in seeds]
        cases.append(finals(arena=arena, optimizer=name, scores=scores))
        for lr in (1e-4, 1e-3, 1e-2):
            cases.append(sweep(arena=arena, optimizer=name, lr=lr, outcome=outcome()))
    quantities = {}
    for name, (unit, tensors) in QUANTITIES.items():
        quantities[name] = (unit, {tensor: rng.choice([1.0, 0.0, 1e300, 1e-300]) for tensor in tensors})
    cases.append(recorded({"details.mechanism": mechanism(quantities)}, optimizer="PsiLogic"))
    speed = rng.choice([None, 1e-3, 1e4])
    if speed is not None:
        cases.append(timing())
        cases.append(recorded({"cost.seconds": seconds(speed)}, optimizer="PsiLogic"))
    return the_study, AnyRecords(the_study, *cases)


@pytest.mark.parametrize("number", [*range(3), *(pytest.param(x, marks=pytest.mark.soak) for x in range(3, 300))])
def test_any_records_become_a_report(number, tmp_path):
    the_study, records = any_study(number)
    document = write_report(history(the_study), records, tmp_path)
    text = " ".join(Page(document.page.read_text()).text)
    assert not re.search("cannot be (made|drawn|judged|computed)", text)
