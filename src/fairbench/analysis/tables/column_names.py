"""Rules for the names of columns: how programs and people call what they measure."""

import re
from collections.abc import Mapping, Sequence

ARENA = ("arena", "workload", "task", "dataset", "benchmark", "problem", "env", "environment", "env_id")
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
    "ignore": (),
    "value": (),
    "mean": (),
    "std": (),
    "sem": (),
}
"""The roles that a column may have, with the names by which each is recognized, the surest name first."""
VALUES = ("value", "final_value", "metric_value", "score", "result")
"""Names of columns with the judged result."""
RUNS = ("run", "run_name", "mlflow_runname", "name", "experiment", "exp_name")
"""Names of columns with the names of runs. A name of a run tells the optimizer if no column does."""
VARIED = re.compile(
    r"(?:\w+_)?(?:lr|lrs|learning_rate|lrate|weight_decay|wd|batch_size|batch_tokens|dropout)(?:_max|_min)?"
    r"|(?:(?:initial|base|init|peak|max|min|final)_)?(?:eta|alpha)(?:_max|_min)?"
    r"|l2|decay|batch|bs|momentum|nesterov|betas?_?\d?|eps|epsilon|rho|gamma|warmup|warmup_(?:steps|epochs|ratio)|clip|grad_clip|temperature"
    r"|width|depth|layers|num_layers|n_layers?|hidden|hidden_(?:size|dim|units)|dim|d_model|n_embd|heads|num_heads"
    r"|n_heads?|channels|size|model_size|(?:n_|num_|max_|total_|train_)?epochs|(?:n_|num_|max_|total_|train_)steps|img_size|image_size|resolution|seq_len|sequence_length|context|context_length"
    r"|optimizer_(?:lr|wd|weight_decay|momentum)|scheduler|schedule|lr_schedule(?:r)?|lr_scheduler(?:_type)?"
)
"""Settings that often differ between the runs of one optimizer."""
COST = re.compile(
    r"(?:.+_)?(?:time|duration|runtime|timestamp|seconds|secs|minutes|hours|memory|vram|params|param_count|flops|gflops"
    r"|macs|throughput|latency|samples_per_second|steps_per_second|it_s|tokens_s|img_s|tokens|gpu_hours|ms|mb|gb)"
    r"(?:_(?:s|ms|sec|seconds|min|minutes|h|hours|m|mb|gb|g))?|\w*epochs|\w*steps"
)
"""Costs of a run, and how long it was."""
IDENTIFIER = re.compile(
    r"(?:.+_)?(?:id|idx|index|uuid|hash|commit|sha|date|datetime\w*|created|updated|started|utc|path|dir|folder|file"
    r"|filename|plot|url|link|host|hostname|node|machine|device|gpu|user|author|tags?|git|website|site)|number|rank"
    r"|column_\d+|level_\d+|unnamed_\d+"
)
"""What names a run, or tells where and when it ran."""
REMARKS = re.compile(
    r"(?:.+_)?(?:notes?|comments?|remarks?|info|message|anmerkung(?:en)?|bemerkung(?:en)?|kommentare?|hinweise?"
    r"|notiz(?:en)?|remarques?|commentaires?|observaci(?:ó|o)n(?:es)?|observations?|comentarios?|notas?)"
)
"""Remarks on a run, also in German, French and Spanish."""
COUNT = re.compile(r"(?:n|num|number_of)_.+|.+_count|count_.+")
"""Numbers of things, which are rarely judged."""
OF_TEST = re.compile(
    r"(?:.+_)?ci_?\d*_(?:low|lower|high|upper|lo|hi)(?:_.+)?|(?:.+_)?(?:p_vs|p_adj|p_?val|p_?value|holm|cohen)(?:_.+)?"
    r"|.+_message"
)
"""Limits of intervals, results of tests, and messages."""
WITHOUT_NAME = re.compile(r"column \d+|level[ _]\d+|unnamed: ?\d+(?:_level_\d+)?|index|__index_level_\d+__|table")
"""What programs and the readers of this package write in place of the name of a column."""
PREFIX = re.compile(r"(?:(?:config|params?|hparams|metrics?|summary|tags|args|cfg)[./]|params_|user_attrs_|_+)")
"""The prefix that trackers put before the name of a column."""


def plain_name(column: str) -> str:
    """The name of a column in small letters and underscores, without the prefix of a tracker."""
    name = column.strip().casefold()
    prefix = PREFIX.match(name)
    if prefix:
        name = name[prefix.end() :]
    return re.sub(r"\W+", "_", name).strip("_")


def is_varied(column: str) -> bool:
    """Whether a column is a setting, which may differ between the runs of one optimizer."""
    return bool(VARIED.fullmatch(plain_name(column)))


def is_incidental(column: str) -> bool:
    """Whether a column is a cost, a remark, or what identifies a run, so that it may differ between equal runs."""
    name = plain_name(column)
    return bool(COST.fullmatch(name) or IDENTIFIER.fullmatch(name)) or has_remarks(column)


def has_remarks(column: str) -> bool:
    """Whether a column has remarks on runs, by its name."""
    return bool(REMARKS.fullmatch(plain_name(column)))


def is_setting(column: str) -> bool:
    """Whether a column is only judged if the user asks for it: a setting, a cost or an identifier, by its name."""
    return is_varied(column) or is_incidental(column)


def is_count(column: str) -> bool:
    """Whether a column has numbers of things, by its name."""
    return bool(COUNT.fullmatch(plain_name(column)))


def is_of_test(column: str) -> bool:
    """Whether a column has limits of intervals, results of tests or messages, by its name."""
    return bool(OF_TEST.fullmatch(plain_name(column)))


def has_no_name(column: str) -> bool:
    """Whether the name of a column says nothing, so that its texts must tell what they are."""
    return bool(WITHOUT_NAME.fullmatch(column.casefold()))
