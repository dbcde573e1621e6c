"""The values that the figure of learning rates shows: the metric of each setting, and what lies too far away."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, quantiles
from typing import Any

from fairbench.analysis.results import ArmResults, Run
from fairbench.common.formatting import number, rate
from fairbench.common.grouping import grouped
from fairbench.suites.search import Setting

Values = Mapping[Setting, Sequence[float]]
"""The metric of every seed, by setting. Settings with which a seed did not finish are left out."""

SPACE = 0.06
"""The space above and below the values, as a share of their range."""
SEARCHED = 3
"""The least settings of an arm with final trials that show how it depends on the rate."""


@dataclass(frozen=True)
class Line:
    """A line of the figure: the settings of an arm that differ only in their rate, by rising rate.

    Attributes:
        texts: a sentence about each mean.
    """

    settings: Sequence[Setting]
    means: list[float]
    texts: list[str]

    @property
    def rates(self) -> list[float]:
        """The rate of each setting."""
        return [setting.lr for setting in self.settings]


def values_of(runs: Iterable[Run], metric: str) -> Values:
    """The metric of every seed of each setting, without settings with which a seed did not finish."""
    values: dict[Setting, list[Any]] = grouped((run.setting, run.metric("val", metric)) for run in runs if run.setting)
    return {setting: seeds for setting, seeds in values.items() if None not in seeds}


def _means(by_arm: Mapping[str, Values]) -> list[float]:
    """The means over seeds of all settings of all arms."""
    means = []
    for values in by_arm.values():
        means += [fmean(seeds) for seeds in values.values()]
    return means


def reported_settings(
    arms: Sequence[ArmResults], full: Mapping[str, Values]
) -> list[tuple[ArmResults, Setting, float]]:
    """The selected setting of each arm, and its mean; without arms whose final trials are not finished."""
    reported = []
    for arm in arms:
        if arm.selected and arm.selected in full[arm.optimizer]:
            reported.append((arm, arm.selected, fmean(full[arm.optimizer][arm.selected])))
    return reported


def limits_of(
    full: Mapping[str, Values], short: Mapping[str, Values], reported: Sequence[float]
) -> tuple[float, float] | None:
    """The ends of the y axis, so that values far from those that decide lie beyond its edge; None for any ends.

    The values of final trials decide, if some arm has them at enough rates, otherwise those of all trials. A value is
    far if it is more than three interquartile ranges outside of the quartiles. A reported value never is.
    """
    means = _means(full)
    if max(map(len, full.values()), default=0) < SEARCHED:
        means += _means(short)
    if len(means) < 2:
        return None
    low, _, high = quantiles(means, n=4)
    reach = 3 * (high - low)
    near = [value for value in means if low - reach <= value <= high + reach or value in reported]
    space = SPACE * (max(near) - min(near))
    if space > 0 and isfinite(reach + space):
        return min(near) - space, max(near) + space
    return None


def lines_of(arm: ArmResults, values: Values) -> Iterator[Line]:
    """The lines of an arm: one for each combination of the hyperparameters that are searched with the rate."""
    rising = sorted(values, key=lambda setting: setting.lr)
    for extra in dict.fromkeys(setting.extra for setting in values):
        settings = [setting for setting in rising if setting.extra == extra]
        means = []
        texts = []
        for setting in settings:
            mean = fmean(values[setting])
            means.append(mean)
            texts.append(f"{in_words(arm, setting)}: {number(mean)}")
        yield Line(settings, means, texts)


def in_words(arm: ArmResults, setting: Setting) -> str:
    """The optimizer and the setting in words."""
    extra = "".join(f", {name} {value}" for name, value in setting.extra)
    return f"{arm.optimizer}, rate {rate(setting.lr)}{extra}"


def diverged_rates(arm: ArmResults) -> list[float]:
    """The rates at which trials of an arm diverged, rising."""
    rates = set()
    for run in (*arm.sweep, *arm.full_length):
        if run.status == "diverged" and run.lr:
            rates.add(run.lr)
    return sorted(rates)
