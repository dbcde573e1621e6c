"""The expected best of a search against all its draws, and what the rows of a study say, by hand."""

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest
from fabricated import Records, analysed, history, study, sweep, with_suite

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.tuning import expected_best, tuning

SCORES = [0.31, 0.07, 0.5, 0.5, 0.93]


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_the_expected_best_is_the_mean_over_all_draws_and_the_papers_closed_form(n, k):
    """1909.03004, of the highest: the sum over v of v (P(V <= v)^k - P(V < v)^k), with P over the n values."""
    scores = [Fraction(score) for score in SCORES[:n]]
    draws = [min(draw) for draw in itertools.product(scores, repeat=k)]
    highest = [-score for score in scores]
    printed = 0
    for value in set(highest):
        up_to_value = sum(other <= value for other in highest)
        below_value = sum(other < value for other in highest)
        printed += value * (Fraction(up_to_value, n) ** k - Fraction(below_value, n) ** k)
    assert sum(draws) / len(draws) == -printed
    assert expected_best(SCORES[:n], k) == pytest.approx(float(-printed), rel=1e-12, abs=0)


def with_options(the_study, options):
    """The study with these options of its optimizers by name, and no others."""
    resolved = {}
    for name, optimizer in the_study.optimizers.items():
        resolved[name] = replace(optimizer, options=options.get(name, {}))
    return replace(the_study, optimizers=resolved)


def rows(the_study, sweeps, defaults=None):
    """The rows of a study by optimizer and what is drawn; `defaults` has the options of optimizers."""
    the_study = with_options(the_study, defaults or {})
    cases = []
    for optimizer, outcomes in sweeps.items():
        for lr, outcome in outcomes.items():
            cases.append(sweep(optimizer=optimizer, lr=lr, outcome=outcome))
    records = Records(the_study, *cases)
    return {(row.optimizer, row.drawn): row for row in tuning(analysed(the_study, records))}


LION = {1e-4: 0.2, 1e-3: 0.3, 1e-2: 0.8, 0.1: 0.1}
ADAMW = {1e-4: "diverged", 1e-3: 0.7, 1e-2: 0.6, 0.1: 0.5}


def test_the_rows_of_an_arena():
    """PsiLogic reaches 0.4, 0.5, 0.4, 0.4; a setting that diverged counts as 0.1, the worst of the arena."""
    own = {"Lion": {"lr": 1.0}, "AdamW": {"lr": 8e-3}}
    found = rows(study(("vit",), budget=4), {"Lion": LION, "AdamW": ADAMW}, own)
    numbers = ["1", "2", "3", "4"]
    assert [drawn for name, drawn in found if name == "Lion"] == [*numbers, "all"]
    assert [drawn for name, drawn in found if name == "AdamW"] == ["default", *numbers, "all"]
    defaults = {
        "AdamW": (1e-2, "optimizer"),  # the nearest by ratio
        "Lion": (None, ""),  # its own was not tried
        "PsiLogic": (1e-3, "grid"),
    }
    assert {row.optimizer for row in found.values()} == defaults.keys()
    for row in found.values():
        assert (row.default_lr, row.default_from) == defaults[row.optimizer]
    of_one = [("AdamW", 1.9 / 4, 1), ("PsiLogic", 1.7 / 4, 2), ("Lion", 1.4 / 4, 3)]
    for name, value, rank in of_one:
        row = found[name, "1"]
        assert row.value == pytest.approx(value)
        assert (row.rank, row.ranked) == (rank, 3)
    of_two = found["AdamW", "2"]
    assert of_two.value == pytest.approx((0.1 + 3 * 0.5 + 5 * 0.6 + 7 * 0.7) / 16)
    assert of_two.p_diverged == pytest.approx(1 / 16)
    assert of_two.gain == pytest.approx(of_two.value - 0.6)
    of_all = [("AdamW", 0.7, 2), ("Lion", 0.8, 1), ("PsiLogic", 0.5, 3)]
    for name, value, rank in of_all:
        row = found[name, "all"]
        assert (row.value, row.rank) == (value, rank)
    assert found["AdamW", "all"].gain == pytest.approx(0.1)
    for name, rank in [("AdamW", 1), ("PsiLogic", 2)]:
        row = found[name, "default"]
        assert (row.rank, row.ranked) == (rank, 2)
    assert found["Lion", "1"].gain is None


def test_what_diverged_has_no_gain_and_ranks_last():
    lost = dict.fromkeys((1e-5, 1e-4, 1e-3, 1e-2), "diverged")
    found = rows(study(("vit",)), {"Lion": lost, "AdamW": ADAMW}, {"AdamW": {"lr": 1e-4}})
    lion = found["Lion", "all"]
    assert (lion.p_diverged, lion.value, lion.rank) == (1, 0.4, 3)
    for row in found.values():
        if row.optimizer != "PsiLogic":
            assert row.gain is None


def test_a_search_with_a_failed_trial_has_no_rows():
    found = rows(study(("vit",)), {"Lion": {1e-3: "failed"}})
    assert {row.optimizer for row in found.values()} == {"AdamW", "PsiLogic"}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"lr": 1e-3, "betas": [0.9, 0.99]}, 1e-3),
        ({"lr": 1e-3, "betas": [0.9, 0.5]}, None),
        ({"lr": 1e-3}, 1e-3),  # the middle
    ],
)
def test_the_default_has_all_that_is_searched(own, expected):
    the_study = study(("vit",), ("AdamW", "PsiLogic"), seeds=(1, 2))
    extra = {"betas": [[0.9, 0.95], [0.9, 0.99]], "warmup_steps": [0, 5]}
    sweep = replace(the_study.suite.sweep, extra=extra, seeds=[10, 11])
    the_study = with_suite(the_study, sweep=sweep)

    class OfEach(Records):
        def __call__(self, spec):
            score = 0.0
            if spec.lr < 0.05:
                score = spec.lr
                if spec.seed == 11 and spec.optimizer.options["betas"] == (0.9, 0.99):
                    score += 0.5
            return self.record(spec, score)

    changed = history(with_options(the_study, dict.fromkeys(the_study.optimizers, own)))
    found = {row.drawn: row for row in tuning(Analyses(changed, OfEach()))}
    assert found["all"].value == pytest.approx((0.01 + 0.51) / 2)
    assert found["1"].settings == 12
    assert found["1"].default_lr == expected
    if expected:
        assert found["default"].value == pytest.approx((0.001 + 0.501) / 2)
