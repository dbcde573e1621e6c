"""The interaction of optimizer and schedule against scipy and statsmodels, and whether a win survives."""

import csv
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fabricated import EVERY_PAIR, Records, analysed, finals, study, with_suite
from scipy import stats

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
    arenas = {}
    for schedule in schedules:
        arenas[f"vit-{schedule}"] = replace(plan, schedule=schedule)
    return with_suite(found, arenas=arenas)


def of_scores(the_study, scores):
    """The analyses of scores by schedule and optimizer; the others have 0.5 in every seed."""
    cases = []
    for (schedule, optimizer), values in scores.items():
        cases.append(finals(arena=f"vit-{schedule}", optimizer=optimizer, scores=values))
    return analysed(the_study, Records(the_study, *cases))


def test_gains_are_compared_seed_by_seed():
    """The noise of a seed is the same in all four arms, as where they begin with the same weights and batches."""
    of_seed = [0.30, -0.20, 0.05, 0.11, -0.31]
    differing = [0.011, 0.008, 0.014, 0.009, 0.012]
    scores = {
        ("cosine", "PsiLogic"): [0.9 + noise for noise in of_seed],
        ("cosine", "AdamW"): [0.5 + noise for noise in of_seed],
        ("linear", "PsiLogic"): [0.9 + noise + more for noise, more in zip(of_seed, differing, strict=True)],
        ("linear", "AdamW"): [0.5 + 1.02 * noise for noise in of_seed],
    }
    (row,) = of_scores(scheduled(), scores).of(interactions)
    differences = [more - 0.02 * noise for noise, more in zip(of_seed, differing, strict=True)]
    truth = stats.ttest_1samp(differences, 0.0)
    interval = truth.confidence_interval(0.95)
    assert row.method == "paired"
    assert row.interaction == pytest.approx(sum(differences) / 5)
    assert row.p == pytest.approx(truth.pvalue)
    assert (row.ci_low, row.ci_high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("direction", ["min", "max"])
def test_the_interaction_is_that_of_a_linear_model(direction):
    """Arms with unequal spreads, of which seeds are not pairs, and with unequal numbers of seeds."""
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
    (row,) = interactions(SimpleNamespace(suite=scheduled().suite, comparisons=comparisons, results=None))
    assert row.method == "pooled"

    rows = []
    for (schedule, optimizer), of_arm in values.items():
        for value in of_arm:
            rows.append((schedule, optimizer, value))
    frame = pandas.DataFrame(rows, columns=["schedule", "optimizer", "value"])
    fit = models.ols("value ~ C(optimizer) * C(schedule)", frame).fit()
    term = "C(optimizer)[T.PsiLogic]:C(schedule)[T.linear]"
    sign = -1 if direction == "min" else 1
    ends = sorted(sign * end for end in fit.conf_int().loc[term])
    assert row.interaction == pytest.approx(sign * fit.params[term], abs=1e-10)
    assert [row.ci_low, row.ci_high] == pytest.approx(ends, abs=1e-10)
    assert row.p == pytest.approx(fit.pvalues[term], abs=1e-10)
    assert row.interaction == row.gain_b - row.gain_a
    assert row.n == 26


def of_psilogic_against_adamw(rows):
    """Those of the rows that compare PsiLogic with AdamW."""
    return [row for row in rows if row.optimizer == "PsiLogic" and row.baseline == "AdamW"]


def assert_gains_are_those_of_the_verdicts(row, found):
    """The gains and verdicts of a row are those of the two arenas that it compares."""
    verdicts = {}
    for comparison in of_psilogic_against_adamw(found.comparisons):
        verdicts[comparison.arena] = comparison
    first = verdicts[f"vit-{row.schedule_a}"]
    second = verdicts[f"vit-{row.schedule_b}"]
    assert (row.gain_a, row.verdict_a) == (first.gain, first.verdict)
    assert (row.gain_b, row.verdict_b) == (second.gain, second.verdict)


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
    all_rows = found.of(interactions)
    assert len(all_rows) == 3 * 3
    rows = of_psilogic_against_adamw(all_rows)
    assert {row.arena for row in rows} == {"vit"}
    assert [(row.schedule_a, row.schedule_b, row.survives) for row in rows] == [
        ("cosine", "linear", "yes"),
        ("cosine", "wsd", "no"),
        ("linear", "wsd", "no"),
    ]
    for row in rows:
        assert_gains_are_those_of_the_verdicts(row, found)
    assert rows[0].interaction == pytest.approx(-0.01)
    corrected = holm([row.p for row in all_rows])
    assert [row.p_holm for row in all_rows] == corrected

    (line, *_) = csv.DictReader(study_report(found).table("schedules").to_csv())
    assert list(line) == [field.name for field in fields_of(Interaction)]
    assert line["arena"] == "vit"
    assert float(line["interaction"]) == all_rows[0].interaction


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
    scores = {
        ("cosine", "PsiLogic"): HIGH,
        ("cosine", "AdamW"): LOW,
        ("linear", "PsiLogic"): psilogic,
        ("linear", "AdamW"): [0.51, 0.50, 0.53, 0.52, 0.50],
    }
    (row,) = of_scores(scheduled(), scores).of(interactions)
    assert (row.verdict_a, row.survives, row.note) == ("better", survives, note)
    results = [row.interaction, row.p, row.p_holm]
    if note:
        assert results == [None, None, None]
    else:
        assert None not in results


def test_nothing_survives_that_was_not_decided():
    (row,) = of_scores(scheduled(), {}).of(interactions)
    assert (row.survives, row.interaction, row.p) == ("not decided", 0.0, 1.0)
    assert row.note == "no seed differs"


def test_only_arenas_that_differ_in_the_schedule_alone_are_compared():
    the_study = scheduled(("cosine", "linear", "wsd"))
    arenas = dict(the_study.suite.arenas)
    arenas["vit-wsd"] = replace(arenas["vit-wsd"], batch_size=9)
    (row,) = of_scores(with_suite(the_study, arenas=arenas), {}).of(interactions)
    assert (row.schedule_a, row.schedule_b) == ("cosine", "linear")
    by_hand = {}
    for name, plan in the_study.suite.arenas.items():
        by_hand[name] = replace(plan, ladder_point=None)
    assert not of_scores(with_suite(the_study, arenas=by_hand), {}).of(interactions)


def test_a_disturbed_twin_is_an_arena_of_its_own():
    the_study = scheduled()
    undisturbed = the_study.suite.arenas
    arenas = dict(undisturbed)
    for name, plan in undisturbed.items():
        arenas[f"{name}-nan"] = replace(plan, tuning_arena=name, shock={"kind": "nan", "at": [0.4]})
    rows = of_scores(with_suite(the_study, arenas=arenas), {}).of(interactions)
    assert [row.arena for row in rows] == ["vit", "vit-nan"]
