"""All figures of a report, in their order."""

from collections.abc import Callable, Mapping

from fairbench.analysis.analyses import Analyses
from fairbench.report.figures.canvas import Drawing, figure_options
from fairbench.report.figures.causes import draw_causes, draw_mechanism, draw_shocks
from fairbench.report.figures.leaderboard import draw_leaderboard
from fairbench.report.figures.learning_curves import draw_learning_curves, draw_training_loss
from fairbench.report.figures.lr_sensitivity import draw_lr_sensitivity
from fairbench.report.figures.size_trends import draw_size_trends
from fairbench.report.figures.speedup import draw_speedup
from fairbench.report.figures.step_time import draw_step_time
from fairbench.report.figures.style import ArmStyles, styles_of

Draw = Callable[[Analyses, ArmStyles], Drawing | None]


def draw_figures(analyses: Analyses, *size: float) -> list[Drawing]:
    """All figures that have data; `size`: inches of their width and points of their text, see `figure_options`."""
    with figure_options(*size):
        styles = styles_of(analyses.suite)
        drawings = [draw(analyses, styles) for draw in FIGURES.values()]
    return [drawing for drawing in drawings if drawing is not None]


def draw_figure(analyses: Analyses, name: str) -> Drawing | None:
    """One figure by its name; None if the study has no data for it."""
    with figure_options():
        return FIGURES[name](analyses, styles_of(analyses.suite))


FIGURES: Mapping[str, Draw] = {
    "leaderboard": draw_leaderboard,
    "learning_curves": draw_learning_curves,
    "training_loss": draw_training_loss,
    "lr_sensitivity": draw_lr_sensitivity,
    "speedup": draw_speedup,
    "size_trends": draw_size_trends,
    "causes": draw_causes,
    "shocks": draw_shocks,
    "mechanism": draw_mechanism,
    "step_time": draw_step_time,
}
