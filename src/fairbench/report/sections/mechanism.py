"""What the mechanisms of optimizers did."""

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.mechanism import Quantity, mechanisms, quantities
from fairbench.common.formatting import SHOWN, percent, plural, three
from fairbench.report.document import Output, Section
from fairbench.report.figures.learning_curves import draw_mechanism
from fairbench.report.view import ARM, integers, numbers, page_only, words


def _acted(analyses: Analyses) -> str:
    """The effects of the first few mechanisms that acted, the reference's first; the audit names the inactive ones."""
    found = sorted(analyses.of(mechanisms), key=lambda m: m.optimizer != analyses.suite.reference)
    sentences = [f"{m.arena}, {m.optimizer}: {m.state}." for m in found if m.acted != 0][:SHOWN]
    if rest := len(found) - len(sentences):
        sentences.append(f"{plural(rest, 'other arm')} {'has' if rest == 1 else 'have'} one: see mechanism.csv.")
    return " ".join(sentences)


MECHANISM = Section[Analyses](
    "mechanism",
    "Did the mechanism act?",
    (
        Output(
            "mechanism",
            "In words",
            lambda a: a.of(mechanisms),
            (*ARM, integers("Seeds", "n"), words("In words", "state")),
            "The effect of the optimizers’ mechanisms in the final trials. A tensor step is one tensor in one step.",
            figure=draw_mechanism,
            finding=("Mechanism", _acted),
        ),
        Output(
            "quantities",
            "In numbers",
            lambda a: a.of(quantities),
            (
                *ARM,
                words("Quantity", "quantity"),
                numbers("Total", "value", three),
                words("Unit", "unit"),
                numbers("Per tensor step", "per_tensor_step", three),
                numbers("Of the path", "of_path_length", percent),
                *page_only(words("Most in", "most_in"), numbers("Of it", "most_share", percent)),
                numbers("Half by", "half_by", percent),
            ),
            "Totals over tensors and steps, means over the final seeds. Of the path: the distance that it moved the "
            "weights as a share of the path length of all steps; half by: the share of the training after which half "
            "of the total was reached.",
            kind=Quantity,
            file="mechanism",
            always=True,
        ),
    ),
)
