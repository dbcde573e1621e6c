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
    scores = [*map(Fraction, SCORES[:n])]
    draws = [min(draw) for draw in itertools.product(scores, repeat=k)]
    highest = [-x for x in scores]

    def p(count):
        return Fraction(count, n) ** k

    printed = sum(v * (p(sum(x <= v for x in highest)) - p(sum(x < v for x in highest))) for v in {*highest})
    assert sum(draws) / len(draws) == -printed
    assert expected_best(SCORES[:n], k) == pytest.approx(float(-printed), rel=1e-12, abs=0)


def rows(the_study, sweeps, own=None):
    """The rows of a study by optimizer and what is drawn; `own` has defaults of optimizers."""
    resolved = {x: replace(of, options=(own or {}).get(x, {})) for x, of in the_study.optimizers.items()}
    the_study = replace(the_study, optimizers=resolved)
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
    assert {(row.optimizer, row.default_lr, row.default_from) for row in found.values()} == {
        ("AdamW", 1e-2, "optimizer"),  # the nearest by ratio
        ("Lion", None, ""),  # its own was not tried
        ("PsiLogic", 1e-3, "grid"),
    }
    first = {name: found[name, "1"] for name in ("AdamW", "Lion", "PsiLogic")}
    assert {name: row.value for name, row in first.items()} == pytest.approx(
        {"AdamW": 1.9 / 4, "Lion": 1.4 / 4, "PsiLogic": 1.7 / 4}
    )
    assert {name: (row.rank, row.ranked) for name, row in first.items()} == {
        **{"AdamW": (1, 3), "PsiLogic": (2, 3), "Lion": (3, 3)}
    }
    assert found["AdamW", "2"].value == pytest.approx((0.1 + 3 * 0.5 + 5 * 0.6 + 7 * 0.7) / 16)
    assert found["AdamW", "2"].p_diverged == pytest.approx(1 / 16)
    assert found["AdamW", "2"].gain == pytest.approx(found["AdamW", "2"].value - 0.6)
    assert found["AdamW", "all"].gain == pytest.approx(0.1)
    assert [(found[name, "all"].value, found[name, "all"].rank) for name in first] == [(0.7, 2), (0.8, 1), (0.5, 3)]
    assert [(found[name, "default"].rank, found[name, "default"].ranked) for name in ("AdamW", "PsiLogic")] == [
        *((1, 2), (2, 2))
    ]
    assert found["Lion", "1"].gain is None


def test_what_diverged_has_no_gain_and_ranks_last():
    lost = dict.fromkeys((1e-5, 1e-4, 1e-3, 1e-2), "diverged")
    found = rows(study(("vit",)), {"Lion": lost, "AdamW": ADAMW}, {"AdamW": {"lr": 1e-4}})
    assert (found["Lion", "all"].p_diverged, found["Lion", "all"].value, found["Lion", "all"].rank) == (1, 0.4, 3)
    assert {row.gain for (name, _), row in found.items() if name in ("Lion", "AdamW")} == {None}
    assert {name for name, _ in rows(study(("vit",)), {"Lion": {1e-3: "failed"}})} == {"AdamW", "PsiLogic"}


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
            near = spec.optimizer.options["betas"] == (0.9, 0.99)
            return self.record(spec, spec.lr + 0.5 * near * (spec.seed == 11) if spec.lr < 0.05 else 0.0)

    resolved = {x: replace(of, options=own) for x, of in the_study.optimizers.items()}
    changed = history(replace(the_study, optimizers=resolved))
    found = {x.drawn: x for x in tuning(Analyses(changed, OfEach()))}
    assert found["all"].value == pytest.approx((0.01 + 0.51) / 2)
    assert found["1"].settings == 12
    assert found["1"].default_lr == expected
    if expected:
        assert found["default"].value == pytest.approx((0.001 + 0.501) / 2)
