"""The cost of tuning: the expected best of a few settings of a search, and the gain of a search over the default."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results
from fairbench.common.grouping import grouped
from fairbench.optimizers.spec import WARMUP
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.search import Setting

DEFAULT = "default"
ALL = "all"
Scores = Mapping[Setting, float]
"""The score of each setting of a search, lower is better; infinite if a trial diverged."""


@dataclass(frozen=True)
class Tuning:
    """What an arm reaches at its default, with some of the settings of its search, or with all of them.

    Values are those of the search: the primary metric at the end of the sweep trials, mean over the sweep's seeds. A
    setting with a diverged trial counts as the worst value with which a setting of any arm of the arena finished.

    Attributes:
        settings: settings that the search tried.
        default_lr: rate of the setting that is the default, see `default_setting`; None without one.
        default_from: whose default that setting is, "optimizer" or "grid"; empty without one.
        drawn: "default"; a number of settings drawn at random; or "all".
        value: value at the default; expected best of the drawn settings, see `expected_best`; best of all.
        p_diverged: probability that each of these settings diverged.
        gain: improvement of the value over the default's; None without a default, and if either of them diverged.
        rank: rank of the value in the arena, 1 is best, ties have their average; None if an arm has fewer settings.
        ranked: the number of arms with a rank.
    """

    arena: str
    optimizer: str
    metric: str
    settings: int
    default_lr: float | None
    default_from: str
    drawn: str
    value: float
    p_diverged: float
    gain: float | None
    rank: float | None = None
    ranked: int | None = None


class Draw(NamedTuple):
    """A number of settings that are drawn at random.

    Attributes:
        name: the name of the draw: `DEFAULT`, `ALL` or the number of settings.
        scores: the scores from which the draw is made.
        settings: the number of settings that are drawn.
    """

    name: str
    scores: Sequence[float]
    settings: int


def expected_best(scores: npt.ArrayLike, k: int) -> float:
    """The expected lowest of k scores that are drawn at random from n scores, with replacement.

        sum over i of s_i ((1 - (i - 1) / n)^k - (1 - i / n)^k),    s_1 <= ... <= s_n

    Source: Dodge et al., "Show Your Work: Improved Reporting of Experimental Results", EMNLP 2019, section 3.1
    (arXiv 1909.03004), which has the formula for the highest score.
    """
    rising = np.sort(scores)
    # the probability that no draw is among the i lowest scores, for i from 0 to n
    none_lower = (np.arange(len(rising), -1, -1) / len(rising)) ** k
    return math.fsum(rising * -np.diff(none_lower))


def default_setting(study: ResolvedSuite, arm: ArmResults, tried: Sequence[Setting]) -> tuple[Setting | None, str]:
    """The tried setting that counts as an arm's default, and where the default comes from, "optimizer" or "grid".

    If the optimizer has a default for everything that is searched, it is the setting with these defaults and the
    suite's warm-up. Its rate is the tried one that is nearest to the default rate by ratio. None if there is no such
    setting, or the default rate lies outside the tried rates.

    Otherwise it is the setting in the middle of the search as planned, from the "grid".
    """
    planned = study.search(arm.optimizer).first()
    defaults = _defaults(study, arm)
    default_rate = defaults.get("lr")
    has_other_defaults = all(name in defaults for name, _ in planned[0].extra)
    if not isinstance(default_rate, (int, float)) or not has_other_defaults:
        return planned[len(planned) // 2], "grid"
    setting_of_rate: dict[float, Setting] = {}
    for setting in tried:
        if all(defaults[name] == value for name, value in setting.extra):
            setting_of_rate[setting.lr] = setting
    if not setting_of_rate or not min(setting_of_rate) <= default_rate <= max(setting_of_rate):
        return None, ""
    nearest = min(setting_of_rate, key=lambda lr: abs(math.log(lr / default_rate)))
    return setting_of_rate[nearest], "optimizer"


def _defaults(study: ResolvedSuite, arm: ArmResults) -> dict[str, Any]:
    """The suite's warm-up and the optimizer's own hyperparameters. Lists become tuples, as settings have them."""
    resolved = study.optimizers[arm.optimizer]
    defaults = {WARMUP: study.suite.training.warmup_steps, **resolved.options, **resolved.arenas.get(arm.arena, {})}
    for name, value in defaults.items():
        if isinstance(value, list):
            defaults[name] = tuple(value)
    return defaults


def tuning(analyses: Analyses) -> list[Tuning]:
    """The rows of every arm whose search is complete, in the order of the suite.

    An arm has a row for its default, for each number of drawn settings, and for all settings.
    """
    rows = []
    for arena in analyses.suite.compared_arenas:
        rows += _rows_of_arena(analyses.results, arena)
    return rows


def _rows_of_arena(results: Results, arena: str) -> list[Tuning]:
    """The rows of an arena; empty if no setting finished."""
    study = results.study
    metric = study.suite.arenas[arena].metric
    # the factor that makes lower values better
    sign = -study.suite.sign(arena)
    searched = []
    finite_scores: list[float] = []
    for arm in results.of(arena):
        scores = _scores(arm, metric, sign)
        if scores:
            searched.append((arm, scores))
            finite_scores += filter(math.isfinite, scores.values())
    if not finite_scores:
        return []
    rows = []
    for arm, scores in searched:
        rows += _rows_of_arm(study, arm, scores, worst=max(finite_scores))
    ranked = _ranked(rows, arms=len(searched))
    return [replace(row, metric=metric, value=sign * row.value) for row in ranked]


def _ranked(rows: Sequence[Tuning], arms: int) -> list[Tuning]:
    """The rows of an arena with their ranks among the rows with the same draw.

    A row has no rank if an arm has fewer settings. Defaults are ranked in any case, as some arms may have none.
    """
    ranked = list(rows)
    for drawn, indices in grouped((row.drawn, index) for index, row in enumerate(rows)).items():
        if drawn != DEFAULT and len(indices) < arms:
            continue
        ranks = stats.rankdata([rows[index].value for index in indices])
        for index, rank in zip(indices, ranks.tolist(), strict=True):
            ranked[index] = replace(rows[index], rank=rank, ranked=len(indices))
    return ranked


def _scores(arm: ArmResults, metric: str, sign: float) -> Scores:
    """The score of each setting of an arm's search.

    Empty while a trial is missing or failed, and for an arm without a search.
    """
    if any(run.status in ("missing", "failed") for run in arm.sweep):
        return {}
    values: dict[Setting, list[float]] = {}
    for run in arm.sweep:
        if run.setting is not None:
            value = run.metric("val", metric)
            score = math.inf if value is None else sign * value
            values.setdefault(run.setting, []).append(score)
    return {setting: fmean(seed_values) for setting, seed_values in values.items()}


def _rows_of_arm(study: ResolvedSuite, arm: ArmResults, scores: Scores, worst: float) -> list[Tuning]:
    """The rows of an arm, without metric and rank. They have scores, of which lower is better, in place of values.

    Args:
        scores: the score of each setting.
        worst: the score of a setting that diverged.
    """
    default, source = default_setting(study, arm, [*scores])
    all_scores = list(scores.values())
    draws = []
    if default:
        draws.append(Draw(DEFAULT, [scores[default]], settings=1))
    for count in range(1, len(all_scores) + 1):
        draws.append(Draw(str(count), all_scores, settings=count))
    # with all settings, the best one is certain
    draws.append(Draw(ALL, [min(all_scores)], settings=1))
    rows = []
    default_row: Tuning | None = None
    for draw in draws:
        row = Tuning(
            arena=arm.arena,
            optimizer=arm.optimizer,
            metric="",
            settings=len(all_scores),
            default_lr=default.lr if default else None,
            default_from=source,
            drawn=draw.name,
            value=expected_best(np.minimum(draw.scores, worst), draw.settings),
            # the lowest of zeros and ones is 1 if all drawn settings diverged
            p_diverged=expected_best(np.isinf(draw.scores), draw.settings),
            gain=None,
        )
        if draw.name == DEFAULT:
            default_row = row  # the first draw, so that all others have its row
        rows.append(replace(row, gain=_gain(default_row, row)))
    return rows


def _gain(default: Tuning | None, row: Tuning) -> float | None:
    """The improvement of a row over the default; None without a default, or if one of the two certainly diverged."""
    if default is None or default.p_diverged == 1 or row.p_diverged == 1:
        return None
    return default.value - row.value
