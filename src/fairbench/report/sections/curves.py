"""Learning curves."""

from fairbench.analysis.analyses import Analyses
from fairbench.report.figures.learning_curves import draw_learning_curves, draw_training_loss
from fairbench.report.output import Output, Section

CURVES = Section[Analyses](
    "curves",
    "Learning curves",
    (Output("learning_curves", figure=draw_learning_curves), Output("training_loss", figure=draw_training_loss)),
)
