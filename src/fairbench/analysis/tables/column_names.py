"""What the names of columns say: the names by which programs and people call what they measure."""

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
"""What a column may be, with the names by which it is recognized, the surest first."""
VALUES = ("value", "final_value", "metric_value", "score", "result")
"""Names of columns with what is judged."""
RUNS = ("run", "run_name", "name", "experiment", "exp_name")
"""Names of columns with the names of runs, which have the optimizer if no other column has."""
STATISTICS = {
    "mean": re.compile(r"(?:(.+)_)?(?:mean|avg|average)|(?:mean|avg|average)_(.+)"),
    "std": re.compile(r"(?:(.+)_)?(?:std|sd|stdev|stddev|std_dev)|(?:std|sd|stdev|stddev)_(.+)"),
    "sem": re.compile(r"(?:(.+)_)?(?:sem|se|stderr|std_err|standard_error)|(?:sem|stderr)_(.+)"),
    "n": re.compile(r"(.+)_(?:count|n)()"),
}
"""Columns with a statistic of several runs, and perhaps the name of what it is of."""
LOWER = "loss|error|err|perplexity|ppl|nll|mse|rmse|mae|wer|fid|bpb|bpc|regret"
HIGHER = "acc|accuracy|f1|auc|auroc|auprc|bleu|rouge|reward|return|iou|miou|psnr|ssim|top1|top5"
"""Words of metrics of which lower, or higher, values are better."""
SPLIT = "train|training|val|valid|validation|test|eval|dev|final|best|last"
METRIC_AT_THE_END = rf"((?:(?:{SPLIT})[\s_./-]+)*(?:{LOWER}|{HIGHER}))"
OF_METRIC = re.compile(rf"(?!(?:{SPLIT})[\s_./:-])(.+?)[\s_./:-]+{METRIC_AT_THE_END}", re.IGNORECASE)
"""A column with the name of an optimizer and of a metric."""
VARIED = re.compile("lr|learning_rate|weight_decay|wd|batch_size")
"""Settings of which runs often have several."""
DURATIONS = "(.+_)?(time|duration|runtime|timestamp|seconds|memory|params)"
SETTING = re.compile(
    rf"{VARIED.pattern}|beta\d|eps|epsilon|\w*epochs|\w*steps|{DURATIONS}"
    r"|created|(.+_)?(id|idx|index)|number|rank|column_.*"
)
"""Numbers by which no table is judged unless it is asked to."""
SUMMARY = re.compile("mean|avg|average|std|sd|median|min|max|count")
"""What names a row that summarizes others."""
PREFIX = re.compile(r"(?:(?:config|params?|hparams|metrics?|summary|tags|args|cfg)[./]|params_|user_attrs_|_+)")
"""What trackers put before the name of a column."""
RUN_WITH_SEED = re.compile(r"(.+?)[\s_./(-]*seed[\s_=:-]*(\d+)\)?", re.IGNORECASE)
"""The name of a run with its seed."""
RUN_WITH_NUMBER = re.compile(r"(.+?)[\s_./-]+(?:s|run|rep|trial)?[\s_=-]*(\d+)", re.IGNORECASE)
"""The name of a run with a number, which may be its seed."""
OF_SEED = re.compile(r"(?:seed|run|rep|repeat|trial)[\s_-]*(\d+)", re.IGNORECASE)
"""A column with the values of one seed."""


def plain_name(column: str) -> str:
    """The name of a column in small letters and underscores, without what trackers put before it."""
    name = column.strip().casefold()
    prefix = PREFIX.match(name)
    if prefix:
        name = name[prefix.end() :]
    return re.sub(r"\W+", "_", name).strip("_")


def direction_of(metric: str) -> str:
    """Which values of a metric are better by its name: "lower", "higher", or empty where it does not say."""
    is_lower = _has_word(metric, LOWER)
    is_higher = _has_word(metric, HIGHER)
    if is_lower == is_higher:
        return ""
    return "lower" if is_lower else "higher"


def _has_word(metric: str, words: str) -> bool:
    return bool(re.search(rf"(?:^|_)(?:{words})(?:_|$)", plain_name(metric)))


def is_setting(column: str) -> bool:
    """Whether a column has a setting or a cost by its name."""
    return bool(SETTING.fullmatch(plain_name(column)))


def statistic_of(column: str) -> tuple[str, str] | None:
    """Which statistic a column has, and of what."""
    for role, pattern in STATISTICS.items():
        found = pattern.fullmatch(plain_name(column))
        if found:
            return role, found[1] or found[2] or "value"
    return None


def chosen_metric(table: str, metric: str, known: Sequence[str]) -> str:
    """The metric that the user means, or the only one."""
    names = {plain_name(name): name for name in known}
    if metric:
        if plain_name(metric) not in names:
            raise unknown(f"metric of {table}", metric, names.values())
        return names[plain_name(metric)]
    if len(names) > 1:
        raise UsageError(f"{table}: which metric is judged? Give --metric with one of {', '.join(names.values())}")
    return next(iter(names.values()))
