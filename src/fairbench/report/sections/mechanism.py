"""The effects of the mechanisms of optimizers in the final trials."""

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.mechanism import Quantity, mechanisms, quantities
from fairbench.common.formatting import SHOWN, number, plural
from fairbench.report.columns import ARM, integers, numbers, page_only, percents, words
from fairbench.report.document import Output, Section
from fairbench.report.figures.mechanism import draw_mechanism


def _acted(analyses: Analyses) -> str:
    """Sentences on the effects of a few mechanisms that acted, beginning with that of the reference.

    Mechanisms that never acted are named by the audit.
    """
    reference = analyses.suite.reference
    rows = sorted(analyses.of(mechanisms), key=lambda row: row.optimizer != reference)
    acted = [f"{row.arena}, {row.optimizer}: {row.state}." for row in rows if row.acted != 0]
    sentences = acted[:SHOWN]
    other_arms = len(rows) - len(sentences)
    if other_arms:
        has = "has" if other_arms == 1 else "have"
        noun = "other arm" if sentences else "arm"
        sentences.append(f"{plural(other_arms, noun)} {has} one: see mechanism.csv.")
    return " ".join(sentences)


IN_WORDS = Output[Analyses](
    name="mechanism",
    title="In words",
    rows=lambda analyses: analyses.of(mechanisms),
    columns=(*ARM, integers("Seeds", "n"), words("In words", "state")),
    caption="The effect of the optimizers’ mechanisms in the final trials. A tensor step is one tensor in one step.",
    figure=draw_mechanism,
    finding=("Mechanism", _acted),
)

QUANTITY_COLUMNS = (
    *ARM,
    words("Quantity", "quantity"),
    numbers("Total", "value", form=number),
    words("Unit", "unit"),
    numbers("Per tensor step", "per_tensor_step", form=number),
    percents("Of the path", "of_path_length"),
    *page_only(words("Most in", "most_in"), percents("Of it", "most_share")),
    percents("Half by", "half_by"),
)

IN_NUMBERS = Output[Analyses](
    name="quantities",
    title="In numbers",
    rows=lambda analyses: analyses.of(quantities),
    columns=QUANTITY_COLUMNS,
    caption=(
        "Totals over tensors and steps, means over the final seeds. Of the path: the distance that it moved the "
        "weights as a share of the path length of all steps; half by: the share of the training after which half "
        "of the total was reached."
    ),
    kind=Quantity,
    file="mechanism",
    always=True,
)

MECHANISM = Section[Analyses](
    name="mechanism",
    title="Did the mechanism act?",
    outputs=(IN_WORDS, IN_NUMBERS),
)
