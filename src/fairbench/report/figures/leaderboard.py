"""The gains over the baselines, with their intervals."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.seed_gains import final_gains
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.common.formatting import interval_name
from fairbench.common.grouping import grouped
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.gain_map import draw_gain_map
from fairbench.report.figures.intervals import Interval, draw_intervals
from fairbench.report.figures.style import ArmStyle, ArmStyles, short_names

ROW_HEIGHT = 0.26
"""The height of a row in inches."""
MOST_IN_ORDER = 8
"""The most rows of a panel that keep their order."""


@dataclass(frozen=True)
class Gains:
    """The content of the figure.

    Attributes:
        has_one_optimizer: whether one optimizer is compared with each baseline; otherwise each optimizer with the
        first baseline. by_arm: whether a panel is an arm, whose rows are arenas; otherwise it is an arena, whose rows
        are arms.
    """

    analyses: Analyses
    styles: ArmStyles
    comparisons: list[Comparison]
    has_one_optimizer: bool
    by_arm: bool

    @property
    def first_optimizer(self) -> str:
        """The optimizer that is compared with each baseline."""
        return self.analyses.suite.sides[0][0]

    @property
    def first_baseline(self) -> str:
        """The baseline with which each optimizer is compared."""
        return self.analyses.suite.sides[1][0]

    def rows(self) -> dict[str, list[Interval]]:
        """The rows of each panel: in the order of the grid of verdicts, or of many rows the largest gain first."""
        rows: dict[str, list[Interval]] = {}
        short_arenas = short_names([*self.analyses.suite.arenas])
        for comparison in self.comparisons:
            if self.by_arm:
                panel = self._style(comparison).label
                row = self._row_of_arm(comparison, short_arenas[comparison.arena])
            else:
                panel = comparison.arena
                row = self._row_of_arena(comparison)
            rows.setdefault(panel, []).append(row)
        for panel_rows in rows.values():
            if len(panel_rows) > MOST_IN_ORDER:
                panel_rows.sort(key=lambda row: -row.value)
        return rows

    def name(self, comparison: Comparison) -> str:
        """The arm of a comparison that varies in the figure, and names a row or a panel."""
        return comparison.baseline if self.has_one_optimizer else comparison.optimizer

    def _style(self, comparison: Comparison) -> ArmStyle:
        """The style of the arm that names a row or a panel."""
        return self.styles[self.name(comparison)]

    def _row_of_arm(self, comparison: Comparison, label: str) -> Interval:
        """The row of an arena in the panel of an arm. Its gain is in units of the arena's margin."""
        margin = self.analyses.suite.arenas[comparison.arena].margin
        name = f"{self.name(comparison)}, {comparison.arena}, in margins"
        return self._row(comparison, label, name, unit=margin)

    def _row(self, comparison: Comparison, label: str, name: str, unit: float) -> Interval:
        """The row of a comparison, with its gain divided by a unit."""
        assert comparison.gain is not None
        low = None
        high = None
        # if the values are identical seed by seed, an interval between seeds would say something else
        is_same = comparison.verdict in ("identical", "identical values")
        if not is_same and comparison.ci_low is not None and comparison.ci_high is not None:
            low = comparison.ci_low / unit
            high = comparison.ci_high / unit
        return Interval(
            label=label,
            name=name,
            style=self._style(comparison),
            value=comparison.gain / unit,
            low=low,
            high=high,
            sure=comparison.verdict in ("better", "worse"),
            singles=[gain / unit for gain in final_gains(self.analyses.results, comparison)],
        )

    def _row_of_arena(self, comparison: Comparison) -> Interval:
        """The row of an arm in the panel of an arena."""
        return self._row(comparison, self._style(comparison).label, self.name(comparison), unit=1.0)

    def margins(self, panels: Mapping[str, object]) -> dict[str, float]:
        """The margin of each panel."""
        if self.by_arm:
            return dict.fromkeys(panels, 1.0)
        arenas = self.analyses.suite.arenas
        return {arena: arenas[arena].margin for arena in panels}

    def axis(self) -> str:
        """The label of the axis."""
        if self.has_one_optimizer:
            whose = f"of {self.styles[self.first_optimizer].label} over each"
        else:
            whose = f"over {self.styles[self.first_baseline].label}"
        unit = ", in margins" if self.by_arm else ""
        return f"gain {self._metric()}{whose}{unit} (right is better)"

    def _metric(self) -> str:
        """The metric of the gains, as the beginning of a phrase; empty if there are several."""
        metrics = {comparison.metric for comparison in self.comparisons}
        if len(metrics) > 1:
            return ""
        return f"in {metrics.pop()} "

    def map_title(self) -> str:
        """The title of a map of the gains."""
        if self.has_one_optimizer:
            return f"Gain of {self.first_optimizer} over each"
        return f"Gain over {self.first_baseline}"

    def map_caption(self) -> str:
        """The caption of a map of the gains."""
        return (
            f"{self.map_title()} on the test split, mean over the seeds, positive where the optimizer is "
            "better; the largest mean gain in margins first. ▲ better, ▼ worse, = equivalent, ? not decided. Only "
            f"decided cells have a color: darker from 3 and from 10 margins on.{self._left_out()} The intervals are in "
            "the table of verdicts."
        )

    def caption(self) -> str:
        """The caption of the figure."""
        if self.has_one_optimizer:
            whose = f"{self.first_optimizer} over each baseline"
        else:
            whose = f"each optimizer over {self.first_baseline}"
        unit = ", in multiples of the margin of each arena" if self.by_arm else ""
        interval = interval_name(c.ci_level for c in self.comparisons)
        return (
            f"The gain of {whose} on the test split, to the right where the optimizer is better{unit}. Mean over the "
            f"seeds with the {interval} that decides the verdict. Small points: single seeds. Filled: the verdict is "
            "better or worse. The band is the margin, within which differences do not matter; beyond it the axis is "
            f"logarithmic.{self._left_out()}"
        )

    def _left_out(self) -> str:
        """A sentence on comparisons without a gain, which are not drawn; empty without any."""
        if all(comparison.gain is not None for comparison in self.analyses.comparisons):
            return ""
        return " Arms of which a seed diverged or is missing are left out."


def shown_gains(analyses: Analyses) -> tuple[list[Comparison], bool]:
    """The comparisons that figures of gains show, and whether they are those of one optimizer with several baselines.

    Otherwise each optimizer is compared with the first baseline.
    """
    optimizers, baselines = analyses.suite.sides
    has_one_optimizer = len(optimizers) == 1 < len(baselines)
    shown = []
    for comparison in analyses.comparisons:
        is_first = has_one_optimizer or comparison.baseline == baselines[0]
        if comparison.gain is not None and is_first:
            shown.append(comparison)
    return shown, has_one_optimizer


def draw_leaderboard(analyses: Analyses, styles: ArmStyles) -> Drawing | None:
    """The figure of the gains, with a panel for each arena or for each arm; None without any gain.

    If one optimizer is compared with several baselines, its gain over each is shown, otherwise the gain of each
    optimizer over the first baseline.
    """
    shown, has_one_optimizer = shown_gains(analyses)
    if not shown:
        return None
    arms = {comparison.pair[1:] for comparison in shown}
    arenas = {comparison.arena for comparison in shown}
    by_arm = 2 * len(arms) <= len(arenas)  # few panels with many rows are easier to read
    gains = Gains(analyses, styles, shown, has_one_optimizer=has_one_optimizer, by_arm=by_arm)
    if len(arms) > MOST_IN_ORDER and len(arenas) > 1 and not by_arm:
        by_name = grouped((gains.name(comparison), comparison) for comparison in shown)
        return draw_gain_map(by_name, styles, gains.map_title(), gains.map_caption())
    rows = gains.rows()
    return draw_intervals(
        rows,
        name="leaderboard",
        title="Gains",
        axis=gains.axis(),
        caption=gains.caption(),
        row_height=ROW_HEIGHT,
        margins=gains.margins(rows),
    )
