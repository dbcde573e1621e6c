"""What tuning costs: the expected best of a few settings of a search, and what the search gains over the default."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import numpy.typing as npt
from scipy import stats

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.results import ArmResults, Results
from fairbench.common.grouping import grouped
from fairbench.optimizers.spec import WARMUP
from fairbench.study.plan import ResolvedSuite
from fairbench.suites.search import Setting

DEFAULT, ALL = "default", "all"
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
    resolved, planned = study.optimizers[arm.optimizer], study.search(arm.optimizer).first()
    own = {WARMUP: study.suite.training.warmup_steps, **resolved.options, **resolved.arenas.get(arm.arena, {})}
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in own.items()}  # as a setting's
    rate = own.get("lr")
    if not isinstance(rate, (int, float)) or not own.keys() >= dict(planned[0].extra).keys():
        return planned[len(planned) // 2], "grid"
    alike = {setting.lr: setting for setting in tried if all(own[name] == value for name, value in setting.extra)}
    if not alike or not min(alike) <= rate <= max(alike):
        return None, ""
    return alike[min(alike, key=lambda lr: abs(math.log(lr / rate)))], "optimizer"


def tuning(analyses: Analyses) -> list[Tuning]:
    """Every arm whose search is complete, for every number of drawn settings, in the order of the suite."""
    return [row for arena in analyses.suite.compared_arenas for row in _in_arena(analyses.results, arena)]


def _in_arena(results: Results, arena: str) -> list[Tuning]:
    study, metric = results.study, results.study.suite.arenas[arena].metric
    sign = -study.suite.sign(arena)  # lower is better after it
    searched = [(arm, scores) for arm in results.of(arena) if (scores := _scores(arm, metric, sign))]
    worst = max((x for _, scores in searched for x in scores.values() if math.isfinite(x)), default=None)
    if worst is None:
        return []
    rows = [row for arm, scores in searched for row in _of_arm(study, arm, scores, worst)]
    for drawn, of in grouped((row.drawn, i) for i, row in enumerate(rows)).items():
        if drawn == DEFAULT or len(of) == len(searched):
            for i, rank in zip(of, stats.rankdata([rows[i].value for i in of]).tolist(), strict=True):
                rows[i] = replace(rows[i], rank=rank, ranked=len(of))
    return [replace(row, metric=metric, value=sign * row.value) for row in rows]


def _scores(arm: ArmResults, metric: str, sign: float) -> Scores:
    """The scores of an arm's search; none while a trial has no result, and for an arm without a search."""
    if any(run.status in ("missing", "failed") for run in arm.sweep):
        return {}
    found = [(run.setting, run.metric("val", metric)) for run in arm.sweep if run.setting is not None]
    values = grouped((setting, math.inf if value is None else sign * value) for setting, value in found)
    return {setting: fmean(of) for setting, of in values.items()}


def _of_arm(study: ResolvedSuite, arm: ArmResults, scores: Scores, worst: float) -> list[Tuning]:
    """The rows of an arm, with scores in place of values, without metric and rank."""
    default, source = default_setting(study, arm, [*scores])
    settings = len(scores)
    some = {str(k): ([*scores.values()], k) for k in range(1, settings + 1)}
    at_default = {DEFAULT: ([scores[default]], 1)} if default else {}
    samples = {**at_default, **some, ALL: ([min(scores.values())], 1)}
    reached = {drawn: expected_best(np.minimum(x, worst), k) for drawn, (x, k) in samples.items()}
    lost = {drawn: expected_best(np.isinf(x), k) for drawn, (x, k) in samples.items()}
    about = (arm.arena, arm.optimizer, "", settings, default.lr if default else None, source)

    def gain(drawn: str) -> float | None:
        return None if 1 in (lost.get(DEFAULT, 1), lost[drawn]) else reached[DEFAULT] - reached[drawn]

    return [Tuning(*about, drawn, reached[drawn], lost[drawn], gain(drawn)) for drawn in samples]
