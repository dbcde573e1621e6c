"""Rules for the names of columns: how programs and people call what they measure."""

import re
from collections.abc import Mapping, Sequence

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


def is_setting(column: str) -> bool:
    """Whether a column is a setting, a cost or an identifier, by its name."""
    return bool(SETTING.fullmatch(plain_name(column)))
