"""Rules for the names of columns: how programs and people call what they measure."""

import re
from collections.abc import Mapping, Sequence

from fairbench.common.errors import UsageError, unknown

ARENA = ("arena", "workload", "task", "dataset", "benchmark", "problem", "env", "environment", "env_id", "table")
OPTIMIZER = (
    "optimizer",
    "optimiser",
    "optimizer_name",
    "optim",
    "method",
    "algorithm",
    "algo",
    "submission",
    "framework",
    "solver",
    "configuration",
    "variant",
)
SEED = ("seed", "random_seed", "rng_seed", "replicate", "repeat", "rep", "trial", "run", "run_idx", "fold")
N = ("n", "n_seeds", "num_seeds", "seeds", "n_runs", "num_runs", "runs", "count")
STEP = ("step", "global_step", "training_iteration", "iteration", "iter", "epoch")
METRIC = ("metric", "metric_name", "tag", "measure")
DIRECTION = ("better", "direction", "higher_is_better")
ROLES: Mapping[str, Sequence[str]] = {
    "arena": ARENA,
    "optimizer": OPTIMIZER,
    "seed": SEED,
    "n": N,
    "step": STEP,
    "metric": METRIC,
    "state": ("state", "status"),
    "better": DIRECTION,
    "margin": ("margin",),
    "value": (),
    "mean": (),
    "std": (),
    "sem": (),
}
"""The roles that a column may have, with the names by which each is recognized, the surest name first."""
VALUES = ("value", "final_value", "metric_value", "score", "result")
"""Names of columns with the judged result."""
RUNS = ("run", "run_name", "name", "experiment", "exp_name")
"""Names of columns with the names of runs. A name of a run tells the optimizer if no column does."""
STATISTICS = {
    "mean": re.compile(r"(?:(.+)_)?(?:mean|avg|average)|(?:mean|avg|average)_(.+)"),
    "std": re.compile(r"(?:(.+)_)?(?:std|sd|stdev|stddev|std_dev)|(?:std|sd|stdev|stddev)_(.+)"),
    "sem": re.compile(r"(?:(.+)_)?(?:sem|se|stderr|std_err|standard_error)|(?:sem|stderr)_(.+)"),
    "n": re.compile(r"(.+)_(?:count|n)()"),
}
"""Names of columns with a statistic of several runs. A group of the pattern holds the name of the metric, if any."""
LOWER = "loss|error|err|perplexity|ppl|nll|mse|rmse|mae|wer|fid|bpb|bpc|regret"
HIGHER = "acc|accuracy|f1|auc|auroc|auprc|bleu|rouge|reward|return|iou|miou|psnr|ssim|top1|top5"
"""Words in the names of metrics: of those with better lower values (LOWER), and better higher values (HIGHER)."""
SPLIT = "train|training|val|valid|validation|test|eval|dev|final|best|last"
METRIC_AT_THE_END = rf"((?:(?:{SPLIT})[\s_./-]+)*(?:{LOWER}|{HIGHER}))"
OF_METRIC = re.compile(rf"(?!(?:{SPLIT})[\s_./:-])(.+?)[\s_./:-]+{METRIC_AT_THE_END}", re.IGNORECASE)
"""A name of a column that joins the name of an optimizer and that of a metric, as "AdamW val_loss"."""
VARIED = re.compile("lr|learning_rate|weight_decay|wd|batch_size")
"""Settings that often differ between the runs of one optimizer."""
DURATIONS = "(.+_)?(time|duration|runtime|timestamp|seconds|memory|params)"
SETTING = re.compile(
    rf"{VARIED.pattern}|beta\d|eps|epsilon|\w*epochs|\w*steps|{DURATIONS}"
    r"|created|(.+_)?(id|idx|index)|number|rank|column_.*"
)
"""Names of columns of numbers that are only judged if the user asks for them."""
SUMMARY = re.compile("mean|avg|average|std|sd|median|min|max|count")
"""The name of a row that summarizes other rows."""
PREFIX = re.compile(r"(?:(?:config|params?|hparams|metrics?|summary|tags|args|cfg)[./]|params_|user_attrs_|_+)")
"""The prefix that trackers put before the name of a column."""
RUN_WITH_SEED = re.compile(r"(.+?)[\s_./(-]*seed[\s_=:-]*(\d+)\)?", re.IGNORECASE)
"""The name of a run with its seed."""
RUN_WITH_NUMBER = re.compile(r"(.+?)[\s_./-]+(?:s|run|rep|trial)?[\s_=-]*(\d+)", re.IGNORECASE)
"""The name of a run with a number, which may be its seed."""
OF_SEED = re.compile(r"(?:seed|run|rep|repeat|trial)[\s_-]*(\d+)", re.IGNORECASE)
"""The name of a column with the values of one seed."""


def plain_name(column: str) -> str:
    """The name of a column in small letters and underscores, without the prefix of a tracker."""
    name = column.strip().casefold()
    prefix = PREFIX.match(name)
    if prefix:
        name = name[prefix.end() :]
    return re.sub(r"\W+", "_", name).strip("_")


def direction_of(metric: str) -> str:
    """The better values of a metric by its name: "lower", "higher", or empty if the name does not say."""
    is_lower = _has_word(metric, LOWER)
    is_higher = _has_word(metric, HIGHER)
    if is_lower == is_higher:
        return ""  # no word of a metric, or words that contradict each other
    return "lower" if is_lower else "higher"


def _has_word(metric: str, words: str) -> bool:
    """Whether the name of a metric has one of some words, which are the alternatives of a pattern."""
    return bool(re.search(rf"(?:^|_)(?:{words})(?:_|$)", plain_name(metric)))


def is_setting(column: str) -> bool:
    """Whether a column is a setting, a cost or an identifier, by its name."""
    return bool(SETTING.fullmatch(plain_name(column)))


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


def chosen_metric(table: str, metric: str, known: Sequence[str]) -> str:
    """The known metric that the user asks for; without a wish, the only known one.

    Args:
        table: the name of the table, for messages.
        metric: the metric that the user asks for, or empty.
        known: the metrics of the table.

    Raises:
        UsageError: the metric is unknown, or there are several and none is asked for.
    """
    names = {plain_name(name): name for name in known}
    if metric:
        if plain_name(metric) not in names:
            raise unknown(f"metric of {table}", metric, names.values())
        return names[plain_name(metric)]
    if len(names) > 1:
        raise UsageError(f"{table}: which metric is judged? Give --metric with one of {', '.join(names.values())}")
    return next(iter(names.values()))
