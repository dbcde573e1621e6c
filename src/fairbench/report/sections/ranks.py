"""The ranks of the optimizers: the leaderboard over all arenas, and the ranks in each arena."""

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.leaderboard import DECIDED, Standing, leaderboard
from fairbench.analysis.comparison.ranking import Rank, ranking
from fairbench.analysis.cost import is_timed
from fairbench.common.formatting import exact, number
from fairbench.report.columns import ARM, aligned, numbers, page_only, values, words
from fairbench.report.document import Output
from fairbench.report.view import TextColumn


def _leaderboard_columns(analyses: Analyses) -> list[TextColumn]:
    """The columns of the leaderboard; times and speed-ups only if the study measures them."""
    columns = [
        words("Optimizer", "optimizer"),
        aligned("Mean rank", "mean_rank"),
        *page_only(words("Groups", "groups")),
    ]
    for verdict in DECIDED:
        columns.append(numbers(verdict.capitalize(), verdict, form=exact))
    columns += page_only(numbers("Undecided", "undecided", form=exact))
    if is_timed(analyses):
        columns.append(aligned("Step time", "step_ratio"))
        columns.append(aligned("Training time", "train_ratio"))
    if any(standing.faster is not None for standing in analyses.of(leaderboard)):
        columns.append(aligned("Speed-up", "speedup"))
        columns += page_only(numbers("Faster in", "faster", form=exact))
    columns += page_only(TextColumn("State", _state), TextColumn("Rate", _rate))
    return columns


def _state(standing: Standing) -> str:
    """The number of values that an optimizer keeps for each weight, and its further state, in words."""
    known = "" if standing.state is None else str(standing.state)
    if standing.further_state:
        return f"{known}, and {standing.further_state}"
    return known


def _rate(standing: Standing) -> str:
    """Whether the learning rate of an optimizer was searched or fixed."""
    return "searched" if standing.tuned else "fixed"


def _leaderboard_caption(analyses: Analyses) -> str:
    """The caption of the leaderboard."""
    reference = analyses.suite.reference
    times = ""
    if is_timed(analyses):
        times = f"Times are those of timing trials, as multiples of {reference}’s. "
    return (
        "Every optimizer over all arenas, by its mean rank, with the number of arenas in which it is better than "
        f"{reference}, equivalent to it, worse, or undecided. {_separation(analyses)} {times}State is the number of "
        "values for each weight."
    )


def _separation(analyses: Analyses) -> str:
    """A sentence on which mean ranks are separated."""
    for standing in analyses.of(leaderboard):
        if standing.critical_difference is not None:
            difference = number(standing.critical_difference, 3)
            return f"Mean ranks that differ by less than {difference} are not separated (Nemenyi): they share a group."
    return "There are too few arenas to separate mean ranks."


LEADERBOARD_TABLE = Output[Analyses](
    name="leaderboard",
    title="Leaderboard",
    rows=lambda analyses: analyses.of(leaderboard),
    columns=_leaderboard_columns,
    caption=_leaderboard_caption,
    kind=Standing,
)

RANKING_COLUMNS = (
    *ARM,
    values("Mean", "mean"),
    numbers("Rank", "rank", form=exact),
    numbers("At best", "rank_low", form=exact),
    numbers("At worst", "rank_high", form=exact),
    words("Groups", "groups"),
    words("Separated by", "method"),
)

RANKING_TABLE = Output[Analyses](
    name="ranking",
    title="Ranks",
    rows=lambda analyses: analyses.of(ranking),
    columns=RANKING_COLUMNS,
    caption=(
        "Ranks by the primary metric, 1 is best, with the best and the worst rank that is not ruled out. "
        "Optimizers that share a group are not separated."
    ),
    kind=Rank,
)
