"""The interaction of optimizer and schedule against statsmodels' linear model, and whether a win survives."""

import csv
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fabricated import EVERY_PAIR, Records, analysed, finals, study, with_suite

from fairbench.analysis.comparison.schedules import Interaction, interactions
from fairbench.analysis.comparison.two_arms import summarized
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.statistics.significance import holm, summarize
from fairbench.report.fields import fields_of
from fairbench.report.study import study_report
from fairbench.suites.arenas import LadderPoint

SEEDS = (1, 2, 3, 4, 5)
HIGH = [0.90, 0.91, 0.92, 0.90, 0.91]
LOW = [0.50, 0.51, 0.53, 0.52, 0.50]


def scheduled(schedules=("cosine", "linear"), names=("AdamW", "PsiLogic"), **fields):
    """A study of vit with each schedule."""
    found = study(("vit",), names, SEEDS, **fields)
    plan = replace(found.suite.arenas["vit"], task="vit", ladder_point=LadderPoint("vit"))
    return with_suite(found, arenas={f"vit-{x}": replace(plan, schedule=x) for x in schedules})


def of_scores(the_study, scores):
    """The analyses of scores by schedule and optimizer; the others have 0.5 in every seed."""
    cases = []
    for (schedule, optimizer), values in scores.items():
        cases.append(finals(arena=f"vit-{schedule}", optimizer=optimizer, scores=values))
    return analysed(the_study, Records(the_study, *cases))


@pytest.mark.parametrize("direction", ["min", "max"])
def test_the_interaction_is_that_of_a_linear_model(direction):
    """Arms with unequal spreads; with interim analyses the two comparisons may also have unequal numbers of seeds."""
    import pandas
    import statsmodels.formula.api as models  # a second to load

    draw = random.Random(3)

    def arm(seeds, mean, spread):
        return [draw.gauss(mean, spread) for _ in range(seeds)]

    values = {
        ("cosine", "PsiLogic"): arm(5, mean=0.5, spread=0.1),
        ("cosine", "AdamW"): arm(5, mean=0.4, spread=0.2),
        ("linear", "PsiLogic"): arm(8, mean=0.7, spread=0.3),
        ("linear", "AdamW"): arm(8, mean=0.9, spread=0.1),
    }
    comparisons = []
    for schedule in ("cosine", "linear"):
        ours = summarize(values[schedule, "PsiLogic"])
        theirs = summarize(values[schedule, "AdamW"])
        begun = Comparison(
            arena=f"vit-{schedule}",
            metric="m",
            direction=direction,
            optimizer="PsiLogic",
            baseline="AdamW",
            n_optimizer=ours.n,
            n_baseline=theirs.n,
        )
        comparisons.append(summarized(begun, ours, theirs))
    (row,) = interactions(SimpleNamespace(suite=scheduled().suite, comparisons=comparisons))

    rows = []
    for (schedule, optimizer), of_arm in values.items():
        rows += [(schedule, optimizer, value) for value in of_arm]
    frame = pandas.DataFrame(rows, columns=["schedule", "optimizer", "value"])
    fit = models.ols("value ~ C(optimizer) * C(schedule)", frame).fit()
    term = "C(optimizer)[T.PsiLogic]:C(schedule)[T.linear]"
    estimate = fit.params[term]
    low, high = fit.conf_int().loc[term]
    if direction == "min":
        estimate, low, high = -estimate, -high, -low
    assert row.interaction == pytest.approx(estimate, abs=1e-10)
    assert (row.ci_low, row.ci_high) == pytest.approx((low, high), abs=1e-10)
    assert row.p == pytest.approx(fit.pvalues[term], abs=1e-10)
    assert row.interaction == row.gain_b - row.gain_a
    assert row.n == 26


def test_a_row_for_each_two_schedules_and_each_pair():
    scores = {
        ("cosine", "PsiLogic"): HIGH,
        ("linear", "PsiLogic"): HIGH,
        ("wsd", "PsiLogic"): LOW,
        ("cosine", "AdamW"): LOW,
        ("linear", "AdamW"): [score + 0.01 for score in LOW],
        ("wsd", "AdamW"): HIGH,
    }
    the_study = scheduled(
        schedules=("cosine", "linear", "wsd"),
        names=("AdamW", "Lion", "PsiLogic"),
        reference="AdamW",
        compare=EVERY_PAIR,
    )
    found = of_scores(the_study, scores)
    rows = [x for x in found.of(interactions) if (x.optimizer, x.baseline) == ("PsiLogic", "AdamW")]
    assert len(found.of(interactions)) == 3 * 3
    assert [(x.arena, x.optimizer, x.schedule_a, x.schedule_b, x.survives) for x in rows] == [
        ("vit", "PsiLogic", "cosine", "linear", "yes"),
        ("vit", "PsiLogic", "cosine", "wsd", "no"),
        ("vit", "PsiLogic", "linear", "wsd", "no"),
    ]
    verdicts = {(c.arena, c.baseline): c for c in found.comparisons if c.optimizer == "PsiLogic"}
    for row in rows:
        for schedule, gain, verdict in (
            (row.schedule_a, row.gain_a, row.verdict_a),
            (row.schedule_b, row.gain_b, row.verdict_b),
        ):
            c = verdicts[f"vit-{schedule}", "AdamW"]
            assert (gain, verdict) == (c.gain, c.verdict)
    assert rows[0].interaction == pytest.approx(-0.01)
    assert [x.p_holm for x in found.of(interactions)] == holm([x.p for x in found.of(interactions)])
    (line, *_) = csv.DictReader(study_report(found).table("schedules").to_csv())
    assert list(line) == [field.name for field in fields_of(Interaction)]
    assert (line["arena"], float(line["interaction"])) == ("vit", found.of(interactions)[0].interaction)


@pytest.mark.parametrize(
    ("psilogic", "survives", "note"),
    [
        (HIGH, "yes", ""),
        ([0.50, 0.52, 0.51, 0.50, 0.53], "no", ""),
        ([0.9, None, 0.9, 0.9, 0.9], "not decided", "vit-linear incomplete: PsiLogic missing 1/5"),
        ([0.9, "diverged", 0.9, 0.9, 0.9], "no", "vit-linear diverged: PsiLogic diverged 1/5"),
    ],
)
def test_whether_a_win_survives(psilogic, survives, note):
    """PsiLogic is better under cosine."""
    arms = {("cosine", "PsiLogic"): HIGH, ("cosine", "AdamW"): LOW, ("linear", "AdamW"): LOW}
    (row,) = of_scores(scheduled(), {**arms, ("linear", "PsiLogic"): psilogic}).of(interactions)
    assert (row.verdict_a, row.survives, row.note) == ("better", survives, note)
    assert (row.interaction is None, row.p is None, row.p_holm is None) == (bool(note),) * 3


def test_nothing_survives_that_was_not_decided():
    (row,) = of_scores(scheduled(), {}).of(interactions)
    assert (row.survives, row.interaction, row.p) == ("not decided", 0.0, None)
    assert row.note == "no variance in any arm, no test"


def test_only_arenas_that_differ_in_the_schedule_alone_are_compared():
    the_study = scheduled(("cosine", "linear", "wsd"))
    arenas = {**the_study.suite.arenas, "vit-wsd": replace(the_study.suite.arenas["vit-wsd"], batch_size=9)}
    found = of_scores(with_suite(the_study, arenas=arenas), {}).of(interactions)
    assert [(x.schedule_a, x.schedule_b) for x in found] == [("cosine", "linear")]
    by_hand = {name: replace(plan, ladder_point=None) for name, plan in the_study.suite.arenas.items()}
    assert not of_scores(with_suite(the_study, arenas=by_hand), {}).of(interactions)


def test_a_disturbed_twin_is_an_arena_of_its_own():
    the_study = scheduled()
    twins = {
        f"{name}-nan": replace(plan, tuning_arena=name, shock={"kind": "nan", "at": [0.4]})
        for name, plan in the_study.suite.arenas.items()
    }
    the_study = with_suite(the_study, arenas={**the_study.suite.arenas, **twins})
    assert [x.arena for x in of_scores(the_study, {}).of(interactions)] == ["vit", "vit-nan"]
