"""The choice of the test examples as variance, by a two-way analysis of variance with numpy."""

import math

import numpy as np
import pytest
from fabricated import Records, edited, study
from scipy import stats

from fairbench.analysis.comparison.interim_analyses import judge_interim_analyses
from fairbench.analysis.comparison.split_effect import NO_SPLIT_EFFECT, split_effect

SEEDS = range(6)
THREE = ("AdamW", "Lion", "PsiLogic")


class Splits(Records):
    """Final trials whose metric on test lies `splits(spec)` below the one on validation."""

    def __init__(self, the_study, splits, **scores):
        super().__init__(the_study, **scores)
        self.splits = splits

    def __call__(self, spec):
        record = super().__call__(spec)
        if spec.stage != "final" or record.status != "finished":
            return record
        (metric, *_) = record.result.final["val"]
        on_test = record.result.final["val"][metric] - self.splits(spec)
        return edited(record, "result.final.test", {metric: on_test})


def normal(*key):
    """A normal number for each key."""
    entropy = [*"".join(map(str, key)).encode()]
    return float(np.random.default_rng(entropy).standard_normal())


def scattered(effect, noise=1.0, scale=0.01):
    """Splits that prefer settings of their own, by `effect` times their scatter over seeds; seeds share a part."""

    def splits(spec):
        own = noise * normal("own", spec.optimizer.name, spec.lr, spec.seed)
        of_setting = effect * normal("setting", spec.optimizer.name, spec.lr)
        return scale * (own + of_setting + 3 * normal("seed", spec.seed))

    return splits


def near(lr):
    """A score that is best at 1e-3."""
    return 0.5 - 0.01 * abs(math.log10(lr) + 3)


class Searched(Splits):
    """Splits of optimizers that are best at a rate of 1e-3; Lion is worse by 0.01."""

    def outcome(self, spec):
        value = near(spec.lr)
        if spec.stage == "final":
            value += 0.002 * normal("noise", spec.optimizer.name, spec.lr, spec.seed)
        if spec.optimizer.name == "Lion":
            value -= 0.01
        return None if spec.stage == "timing" else value


def studied(splits, records=Searched, settings=3, **fields):
    the_study = study(("vit",), THREE, SEEDS, settings=settings, **fields)
    return judge_interim_analyses(the_study, records(the_study, splits))


def f_test(rows):
    """F of the rows of a table in a two-way analysis of variance: residuals of least squares without and with them."""
    rows = np.array(rows)
    settings, seeds = rows.shape
    of_seed = np.tile(np.eye(seeds), (settings, 1))
    of_setting = np.repeat(np.eye(settings), seeds, axis=0)
    residuals = []
    for columns in (of_seed, np.hstack([of_seed, of_setting])):
        fitted = columns @ np.linalg.lstsq(columns, rows.ravel(), rcond=None)[0]
        residuals.append(np.sum((rows.ravel() - fitted) ** 2))
    without, with_settings = residuals
    df = settings - 1
    return (without - with_settings) / df / (with_settings / (df * (seeds - 1)))


def complete_settings(results, splits):
    """What the splits add to each setting that has all seeds."""
    rows = []
    for arm in results.arms:
        by_setting = {}
        for run in (*arm.others, *arm.final):
            by_setting.setdefault(run.setting, []).append(splits(run.spec))
        rows += [values for values in by_setting.values() if len(values) == len(SEEDS)]
    return rows


@pytest.mark.parametrize("effect", [0.0, 0.5, 3.0])
def test_the_ratio_is_f_of_a_two_way_analysis_of_variance(effect):
    splits = scattered(effect)
    results = studied(splits).results
    rows = complete_settings(results, splits)
    assert len(rows) == 6  # two of each optimizer continue, a third has two seeds
    found = split_effect(results, "vit", len(SEEDS))
    assert (found.ratio, found.df) == (pytest.approx(f_test(rows)), 5)


@pytest.mark.parametrize("effect", [0.0, 2.0])
def test_the_split_is_part_of_the_error_with_the_degrees_of_freedom_of_satterthwaite(effect):
    splits = scattered(effect)
    judged = studied(splits)
    rows = complete_settings(judged.results, splits)
    ratio = f_test(rows)
    assert (ratio > 1) == (effect > 0)
    for c in judged.comparisons:
        ours = judged.results.arm("vit", c.optimizer).final
        theirs = judged.results.arm("vit", c.baseline).final
        gains = np.subtract(
            [run.metric("test", "accuracy") for run in ours], [run.metric("test", "accuracy") for run in theirs]
        )
        x = np.subtract([splits(run.spec) for run in ours], [splits(run.spec) for run in theirs])
        of_seeds = stats.sem(gains) ** 2
        of_split = max(ratio - 1, 0) * x.var(ddof=1) / 6 / 2
        df = (of_seeds + of_split) ** 2 / (of_seeds**2 / 5 + of_split**2 / 5)
        assert c.split_error == pytest.approx(math.sqrt(of_split))
        assert c.error == pytest.approx(math.sqrt(of_seeds + of_split))
        assert c.df == pytest.approx(df)
        assert c.t == pytest.approx(gains.mean() / c.error)


def test_a_difference_that_the_splits_explain_is_no_verdict():
    """PsiLogic gains 0.05 on this test split alone; other settings gain or lose as much."""

    def of_split(spec):
        shift = {"PsiLogic": -0.05, "AdamW": 0.02, "Lion": 0.04}[spec.optimizer.name]
        return (shift if spec.lr == 1e-3 else -shift) + 0.003 * normal(spec.optimizer.name, spec.lr, spec.seed)

    for c in studied(of_split).comparisons:
        plain = 2 * stats.t.sf(c.gain / math.sqrt(c.error**2 - c.split_error**2), 5)
        assert plain < 0.001
        assert c.verdict == "inconclusive"


def test_optimizers_that_end_with_nearly_the_same_weights_have_nearly_no_split_error():
    """AdamW's predictions are nearly PsiLogic's; Lion's are others."""

    def splits(spec):
        family = spec.optimizer.name.replace("AdamW", "PsiLogic")
        own = normal("own", family, spec.lr, spec.seed) + 2 * normal("setting", family, spec.lr)
        return 0.01 * own + 1e-6 * normal(spec.optimizer.name, spec.seed)

    adamw, lion = studied(splits).comparisons
    assert lion.split_error > 1000 * adamw.split_error > 0


def test_without_an_effect_of_the_splits_nothing_is_added():
    for splits in (lambda spec: 0.0, lambda spec: 0.1 * spec.seed):
        judged = studied(splits)
        for c in judged.comparisons:
            assert c.split_error == pytest.approx(0, abs=1e-12)
    one = study(("vit",), THREE, (1,))
    results = judge_interim_analyses(one, Records(one)).results
    assert split_effect(results, "vit", 1) == NO_SPLIT_EFFECT


@pytest.mark.parametrize("size", [1e-200, 1e180])
def test_metrics_whose_squares_are_no_numbers_have_a_split_effect(size):
    plain = scattered(2.0)

    class Large(Searched):
        def outcome(self, spec):
            value = super().outcome(spec)
            return None if value is None else value * size

    expected = studied(plain)
    found = studied(lambda spec: size * plain(spec), Large)
    ratio = split_effect(found.results, "vit", len(SEEDS)).ratio
    assert ratio == pytest.approx(split_effect(expected.results, "vit", len(SEEDS)).ratio)
    for c, other in zip(found.comparisons, expected.comparisons, strict=True):
        assert c.split_error / size == pytest.approx(other.split_error)
