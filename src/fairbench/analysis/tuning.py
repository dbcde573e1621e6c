"""What tuning costs: the expected best of a few settings of a search, and what the search gains over the default."""

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
from fairbench.study.plan import ResolvedSuite
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
    """Settings drawn at random: what the draw is called, the scores from which they are drawn, and how many."""

    name: str
    scores: Sequence[float]
    settings: int


def expected_best(scores: npt.ArrayLike, k: int) -> float:
    """The expected lowest of k scores that are drawn at random, with replacement, from n.

        sum over i of s_i ((1 - (i - 1) / n)^k - (1 - i / n)^k),    s_1 <= ... <= s_n

    Source: Dodge et al., "Show Your Work: Improved Reporting of Experimental Results", EMNLP 2019, section 3.1, there
    of the highest (arXiv 1909.03004).
    """
    rising = np.sort(scores)
    none_lower = (np.arange(len(rising), -1, -1) / len(rising)) ** k
    return math.fsum(rising * -np.diff(none_lower))


def default_setting(study: ResolvedSuite, arm: ArmResults, tried: Sequence[Setting]) -> tuple[Setting | None, str]:
    """The tried setting that counts as an arm's default, and whose default it is, "optimizer" or "grid".

    It is the one whose rate is nearest to the optimizer's own default rate by ratio, if that lies within the tried
    rates, with the defaults of all else that is searched, and the suite's warm-up; None if there is no such setting. An
    optimizer without a default of one of them has the setting in the middle of its search as planned.
    """
    planned = study.search(arm.optimizer).first()
    defaults = _defaults(study, arm)
    rate = defaults.get("lr")
    searched = dict(planned[0].extra).keys()
    if not isinstance(rate, (int, float)) or not searched <= defaults.keys():
        return planned[len(planned) // 2], "grid"
    setting_of_rate: dict[float, Setting] = {}
    for setting in tried:
        if all(defaults[name] == value for name, value in setting.extra):
            setting_of_rate[setting.lr] = setting
    if not setting_of_rate or not min(setting_of_rate) <= rate <= max(setting_of_rate):
        return None, ""
    nearest = min(setting_of_rate, key=lambda lr: abs(math.log(lr / rate)))
    return setting_of_rate[nearest], "optimizer"


def _defaults(study: ResolvedSuite, arm: ArmResults) -> dict[str, Any]:
    """The suite's warm-up and the optimizer's own hyperparameters, with tuples for lists, as a setting has them."""
    resolved = study.optimizers[arm.optimizer]
    own = {WARMUP: study.suite.training.warmup_steps, **resolved.options, **resolved.arenas.get(arm.arena, {})}
    for name, value in own.items():
        if isinstance(value, list):
            own[name] = tuple(value)
    return own


def tuning(analyses: Analyses) -> list[Tuning]:
    """Every arm whose search is complete, for every number of drawn settings, in the order of the suite."""
    rows = []
    for arena in analyses.suite.compared_arenas:
        rows += _in_arena(analyses.results, arena)
    return rows


def _in_arena(results: Results, arena: str) -> list[Tuning]:
    study = results.study
    metric = study.suite.arenas[arena].metric
    sign = -study.suite.sign(arena)  # lower is better after it
    searched = []
    finite: list[float] = []
    for arm in results.of(arena):
        scores = _scores(arm, metric, sign)
        if scores:
            searched.append((arm, scores))
            finite += filter(math.isfinite, scores.values())
    if not finite:
        return []
    rows = []
    for arm, scores in searched:
        rows += _of_arm(study, arm, scores, max(finite))
    ranked = _ranked(rows, arms=len(searched))
    return [replace(row, metric=metric, value=sign * row.value) for row in ranked]


def _ranked(rows: Sequence[Tuning], arms: int) -> list[Tuning]:
    """The rows of an arena with their ranks, where all arms have that many settings; among the defaults in any case."""
    found = list(rows)
    for drawn, indices in grouped((row.drawn, index) for index, row in enumerate(rows)).items():
        if drawn != DEFAULT and len(indices) < arms:
            continue
        ranks = stats.rankdata([rows[index].value for index in indices])
        for index, rank in zip(indices, ranks.tolist(), strict=True):
            found[index] = replace(rows[index], rank=rank, ranked=len(indices))
    return found


def _scores(arm: ArmResults, metric: str, sign: float) -> Scores:
    """The scores of an arm's search; none while a trial has no result, and for an arm without a search."""
    if any(run.status in ("missing", "failed") for run in arm.sweep):
        return {}
    values: dict[Setting, list[float]] = {}
    for run in arm.sweep:
        if run.setting is not None:
            value = run.metric("val", metric)
            score = math.inf if value is None else sign * value
            values.setdefault(run.setting, []).append(score)
    return {setting: fmean(of_seeds) for setting, of_seeds in values.items()}


def _of_arm(study: ResolvedSuite, arm: ArmResults, scores: Scores, worst: float) -> list[Tuning]:
    """The rows of an arm, with scores in place of values, without metric and rank."""
    default, source = default_setting(study, arm, [*scores])
    every = list(scores.values())
    draws = []
    if default:
        draws.append(Draw(DEFAULT, [scores[default]], 1))
    for count in range(1, len(every) + 1):
        draws.append(Draw(str(count), every, count))
    draws.append(Draw(ALL, [min(every)], 1))
    rows = []
    at_default: Tuning | None = None
    for draw in draws:
        row = Tuning(
            arena=arm.arena,
            optimizer=arm.optimizer,
            metric="",
            settings=len(every),
            default_lr=default.lr if default else None,
            default_from=source,
            drawn=draw.name,
            value=expected_best(np.minimum(draw.scores, worst), draw.settings),
            p_diverged=expected_best(np.isinf(draw.scores), draw.settings),
            gain=None,
        )
        if draw.name == DEFAULT:
            at_default = row
        rows.append(replace(row, gain=_gain(at_default, row)))
    return rows


def _gain(default: Tuning | None, row: Tuning) -> float | None:
    """The improvement over the default; None without one, and where the default or all that is drawn diverged."""
    if default is None or default.p_diverged == 1 or row.p_diverged == 1:
        return None
    return default.value - row.value
