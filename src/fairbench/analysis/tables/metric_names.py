"""The names of metrics: which values are better, and which statistic of a metric a column has."""

import re
from collections.abc import Sequence

from fairbench.analysis.tables.column_names import plain_name
from fairbench.analysis.tables.question import Unanswered
from fairbench.common.errors import unknown

STATISTICS = {
    "mean": re.compile(r"(?:(.+)_)?(?:mean|avg|average)|(?:mean|avg|average)_(.+)"),
    "std": re.compile(r"(?:(.+)_)?(?:std|sd|stdev|stddev|std_dev)|(?:std|sd|stdev|stddev)_(.+)"),
    "sem": re.compile(r"(?:(.+)_)?(?:sem|se|stderr|std_err|standard_error)|(?:sem|stderr)_(.+)"),
    "n": re.compile(r"(.+)_(?:count|n)()"),
}
"""Names of columns with a statistic of several runs. A group of the pattern holds the name of the metric, if any."""
STATISTIC_BEHIND = re.compile(
    r"(?P<name>.+?)[\s_./:(\[-]+(?:(?P<mean>mean|avg|average)|(?P<std>std|sd|stdev|stddev|std[\s_]dev)"
    r"|(?P<sem>sem|se|stderr|std[\s_]err|standard[\s_]error)|(?P<n>count|n))[)\]]?",
    re.IGNORECASE,
)
STATISTIC_BEFORE = re.compile(
    r"(?:(?P<mean>mean|avg|average)|(?P<std>std|sd|stdev|stddev)|(?P<sem>sem|stderr))[\s_./:-]+(?:of )?(?P<name>.+)",
    re.IGNORECASE,
)
"""The name of a column with a statistic, behind or before the rest of its name."""
ACCURACY = (
    "acc|accuracy|(?:test|validierungs|trainings|treffer|klassifikations|vorhersage)?genauigkeit|trefferquote"
    "|exactitude|justesse|précision|exactitud|precisión|acierto"
)
ERROR = "error|err|(?:test|validierungs|trainings|klassifikations|vorhersage)?fehler(?:rate|quote)?|erreur"
LOSS = "loss|(?:test|validierungs|trainings)?verlust|perte|pérdida"
"""Words for the commonest metrics, also in German, French and Spanish."""
LOWER = rf"{LOSS}|{ERROR}|perplexity|ppl|nll|mse|rmse|mae|mape|smape|wer|cer|fid|bpb|bpc|ece|brier|regret"
HIGHER = (
    rf"{ACCURACY}|f1|auc|auroc|auprc|bleu|rouge|reward|return|iou|miou|dice|psnr|ssim|top_?1|top_?5|recall|ndcg|mrr"
    r"|map_?\d+|mcc"
)
"""Words in the names of metrics: of those with better lower values (LOWER), and better higher values (HIGHER)."""
PERCENTAGE = (
    rf"{ACCURACY}|f1|auc|auroc|auprc|iou|miou|dice|top_?1|top_?5|precision|recall|ndcg|mrr|map_?\d+|wer|cer|error_rate"
    r"|\w*fehler(?:rate|quote)|percent|percentage|pct|prozent"
)
"""Words in the names of metrics that are fractions of 1, or percentages."""
SPLIT = (
    "train|training|val|valid|validation|test|eval|dev|final|best|last|validierung|entraînement|apprentissage"
    "|validación|entrenamiento|prueba"
)
METRIC_AT_THE_END = rf"((?:(?:{SPLIT})[\s_./-]+)*(?:{LOWER}|{HIGHER}))"
OF_METRIC = re.compile(rf"(?!(?:{SPLIT})[\s_./:-])(.+?)[\s_./:(\[-]+{METRIC_AT_THE_END}[\s,()\[\]%]*", re.IGNORECASE)
"""A name of a column that joins an optimizer or a data set and a metric, such as "CIFAR-10 acc (%)"."""
TURNING = (
    "neg|negative|negated|minus|inv|inverse|inverted|reciprocal|one|no|non|not|without|free|to|till|until|at"
    "|drop|gap|diff|difference|delta|change|gain|reduction|decrease|increase|improvement|relative|rel|ratio|speedup"
    "|saved|savings|time|times|step|steps|epoch|epochs|iter|iteration|iterations|hours|minutes|idx|index|rank|ranking"
    "|weight|coef|coefficient|scale|zeit|bis|epochen|schritte|differenz|gewinn|verbesserung|temps|jusqu|époques|étapes"
    "|différence|réduction|amélioration|tiempo|hasta|épocas|pasos|diferencia|reducción|mejora"
)
"""Words that may turn the better values of a metric around, such as "steps to accuracy" and "loss reduction"."""
TURNING_SIGN = re.compile(r"^\W*[-−]|\b1\s*[-−/]|\^\s*\{?[-−]|⁻")
"""A sign that turns the better values of a metric around, as in "-loss", "1 - acc" and "1/loss"."""
ARROWS = {
    "lower": re.compile(r"[↓⬇▼]\ufe0f?|\$?\\downarrow\$?|\(?lower(?: is|=) better\)?", re.IGNORECASE),
    "higher": re.compile(r"[↑⬆▲]\ufe0f?|\$?\\uparrow\$?|\(?higher(?: is|=) better\)?", re.IGNORECASE),
}
"""Marks in a heading that say which values are better."""


def arrow_of(heading: str) -> str:
    """The better values that a mark in a heading says: "lower", "higher", or empty without one, or with both."""
    found = [better for better, mark in ARROWS.items() if mark.search(heading)]
    if len(found) != 1:
        return ""
    return found[0]


def without_arrow(heading: str) -> str:
    """A heading without the mark that says which values are better."""
    for mark in ARROWS.values():
        heading = mark.sub("", heading)
    return heading.replace("()", "").strip()


BETTER = {"min": "lower", "max": "higher"}
"""The better values, by the direction of a metric."""


def is_metric(name: str) -> bool:
    """Whether a name has a word of a metric, or a mark that says which of its values are better."""
    return _has_word(name, LOWER) or _has_word(name, HIGHER) or bool(arrow_of(name))


def is_percentage(metric: str) -> bool:
    """Whether the name of a metric says that its values are fractions of 1, or percentages."""
    return "%" in metric or _has_word(metric, PERCENTAGE)


def direction_of(metric: str) -> str:
    """The better values of a metric by its name: "lower", "higher", or empty if the name does not say.

    A mark in the name decides. Without one, a name with a word that may turn the values around does not say it.
    """
    arrow = arrow_of(metric)
    if arrow:
        return arrow
    is_lower = _has_word(metric, LOWER)
    is_higher = _has_word(metric, HIGHER)
    if is_lower == is_higher:
        return ""  # no word of a metric, or words that contradict each other
    if _has_word(metric, TURNING) or TURNING_SIGN.search(metric):
        return ""
    if is_lower:
        return "lower"
    return "higher"


def _has_word(metric: str, words: str) -> bool:
    """Whether the name of a metric has one of some words, which are the alternatives of a pattern."""
    return bool(re.search(rf"(?:^|_)(?:{words})(?:_|$)", plain_name(metric)))


def statistic_of(column: str) -> tuple[str, str] | None:
    """The statistic that a column has by its name, and the metric that it describes; None without a statistic.

    The metric is "value" if the name has none.
    """
    for role, pattern in STATISTICS.items():
        match = pattern.fullmatch(plain_name(column))
        if match:
            metric = match[1] or match[2] or "value"
            return role, metric
    return None


def split_statistic(column: str) -> tuple[str, str]:
    """The statistic that a column has by its name, or "value", and the rest of the name as it is spelled."""
    for pattern in (STATISTIC_BEHIND, STATISTIC_BEFORE):
        match = pattern.fullmatch(column)
        if match:
            statistic = next(role for role in STATISTICS if match.groupdict().get(role))
            return statistic, match["name"]
    statistic_alone = statistic_of(column)
    if statistic_alone is not None:
        role, _ = statistic_alone
        return role, ""
    return "value", column


def chosen_metric(table: str, metric: str, known: Sequence[str], ways: str = "") -> str:
    """The known metric that the user asks for; without a wish, the only known one.

    Args:
        table: the name of the table, for messages.
        metric: the metric that the user asks for, or empty.
        known: the metrics of the table.
        ways: what else the user can do where there are several metrics, in words.

    Raises:
        UsageError: the metric is unknown, or there are several and none is asked for.
    """
    names = {plain_name(name): name for name in known}
    if metric:
        if plain_name(metric) not in names:
            raise unknown(f"metric of {table}", metric, names.values())
        return names[plain_name(metric)]
    if len(names) > 1:
        listed = ", ".join(names.values())
        told = [name for name in names.values() if direction_of(name)]
        first = next(iter(told or names.values()))  # no question on a direction that the chosen name may tell
        raise Unanswered(f"{table}: which metric is judged? Give --metric with one of {listed}{ways}", metric=first)
    return next(iter(names.values()))
