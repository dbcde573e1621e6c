"""Which column of anyone's table is what: recognized by the names that programs give it, otherwise asked for."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairbench.analysis.published.table_numbers import is_lost, is_number
from fairbench.analysis.published.table_reading import Row, Sheet
from fairbench.common.errors import UsageError, unknown
from fairbench.common.formatting import plural, some
from fairbench.common.grouping import grouped

ROLES: Mapping[str, Sequence[str]] = {
    "arena": ("arena", "workload", "task", "dataset", "benchmark", "problem", "env", "environment", "env_id", "table"),
    "optimizer": (
        *("optimizer", "optimiser", "optimizer_name", "optim", "method", "algorithm", "algo", "submission"),
        *("framework", "solver", "configuration", "variant"),
    ),
    "seed": ("seed", "random_seed", "rng_seed", "replicate", "repeat", "rep", "trial", "run", "run_idx", "fold"),
    "n": ("n", "n_seeds", "num_seeds", "seeds", "n_runs", "num_runs", "runs", "count"),
    "step": ("step", "global_step", "training_iteration", "iteration", "iter", "epoch"),
    "metric": ("metric", "metric_name", "tag", "measure"),
    "state": ("state", "status"),
    "better": ("better", "direction", "higher_is_better"),
    "margin": ("margin",),
    **dict.fromkeys(("value", "mean", "std", "sem"), ()),
}
"""What a column may be, with the names by which it is recognized, the surest first."""
VALUES = ("value", "final_value", "metric_value", "score", "result")
RUNS = ("run", "run_name", "name", "experiment", "exp_name")
"""Names of columns with what is judged, and with the names of runs, which have the optimizer if no other column has."""
STATISTICS = {
    "mean": re.compile(r"(?:(.+)_)?(?:mean|avg|average)|(?:mean|avg|average)_(.+)"),
    "std": re.compile(r"(?:(.+)_)?(?:std|sd|stdev|stddev|std_dev)|(?:std|sd|stdev|stddev)_(.+)"),
    "sem": re.compile(r"(?:(.+)_)?(?:sem|se|stderr|std_err|standard_error)|(?:sem|stderr)_(.+)"),
    "n": re.compile(r"(.+)_(?:count|n)()"),
}
LOWER = "loss|error|err|perplexity|ppl|nll|mse|rmse|mae|wer|fid|bpb|bpc|regret"
HIGHER = "acc|accuracy|f1|auc|auroc|auprc|bleu|rouge|reward|return|iou|miou|psnr|ssim|top1|top5"
"""Words of metrics of which lower, or higher, values are better."""
SPLIT = "train|training|val|valid|validation|test|eval|dev|final|best|last"
END = rf"((?:(?:{SPLIT})[\s_./-]+)*(?:{LOWER}|{HIGHER}))"
OF_METRIC = re.compile(rf"(?!(?:{SPLIT})[\s_./:-])(.+?)[\s_./:-]+{END}", re.IGNORECASE)
"""A column with the name of an optimizer and of a metric."""
VARIED = re.compile("lr|learning_rate|weight_decay|wd|batch_size")
SETTING = re.compile(
    rf"{VARIED.pattern}|beta\d|eps|epsilon|\w*epochs|\w*steps|(.+_)?(time|duration|runtime|timestamp|seconds|memory|params)"
    "|created|(.+_)?(id|idx|index)|number|rank|column_.*"
)
"""Numbers by which no table is judged unless it is asked to."""
SUMMARY = re.compile("mean|avg|average|std|sd|median|min|max|count")
"""What names a row that summarizes others."""
PREFIX = re.compile(r"(?:(?:config|params?|hparams|metrics?|summary|tags|args|cfg)[./]|params_|user_attrs_|_+)")
SEED = re.compile(r"(.+?)[\s_./(-]*seed[\s_=:-]*(\d+)\)?", re.IGNORECASE)
NUMBERED = re.compile(r"(.+?)[\s_./-]+(?:s|run|rep|trial)?[\s_=-]*(\d+)", re.IGNORECASE)
"""The name of a run with its seed, and one with a number, which may be its seed."""
OF_SEED = re.compile(r"(?:seed|run|rep|repeat|trial)[\s_-]*(\d+)", re.IGNORECASE)
"""A column with the values of one seed."""
Roles = dict[str, list[str]]
"""The columns of each role."""


@dataclass(frozen=True)
class Entry:
    """A value of a run at a step, or the summary of several runs.

    Attributes:
        seed: as the table has it; None where it has none.
        texts: those of value, or of mean, std or sem, and n; and of other roles that the table has.
    """

    arena: str
    optimizer: str
    seed: str | None
    texts: Mapping[str, str]
    row: Row


def plain_name(column: str) -> str:
    """The name of a column in small letters and underscores, without what trackers put before it."""
    name = column.strip().casefold()
    return re.sub(r"\W+", "_", name[found.end() :] if (found := PREFIX.match(name)) else name).strip("_")


def direction_of(metric: str) -> str:
    """Which values of a metric are better by its name: "lower", "higher", or empty where it does not say."""
    low, high = (bool(re.search(rf"(?:^|_)(?:{words})(?:_|$)", plain_name(metric))) for words in (LOWER, HIGHER))
    return "" if low == high else "lower" if low else "higher"


def entries_of(
    sheet: Sheet, columns: Mapping[str, str], metric: str, *, alone: bool
) -> tuple[list[Entry], str, list[str]]:
    """The entries of a table, the name of their metric, and what must be said of how they were found.

    Args:
        columns: the column of each role that the user names, or several joined by "+"; of `n` also a number.
        metric: the metric to judge, empty for the only one.
        alone: whether a table of one optimizer is judged, which needs no column for it.

    Raises:
        UsageError: a column is unknown, missing, or may be more than one.
    """
    sheet, notes = _without_ranges(sheet)
    roles = _given(sheet, columns)
    roles |= {"value": [metric]} if metric in sheet.columns else {}
    for role in ROLES:
        if role not in roles and not (role == "metric" and metric in sheet.columns):
            _recognize(sheet, role, roles)
    used = {x for of_role in roles.values() for x in of_role}
    runs = [c for name in RUNS for c in sheet.columns if plain_name(c) == name and c not in used][:1]
    left = [c for c in sheet.columns if c not in {*used, *runs} and _is_numeric(sheet, c)]
    wide = {} if runs or "optimizer" in roles else _optimizers(sheet, used, left, fewest=1 if alone else 2)
    seeds = {c: x[1] for c in left if (x := OF_SEED.fullmatch(c))}
    sheet = _without_summaries(sheet, roles, notes)
    if wide:
        if "metric" not in roles:
            metric = chosen_metric(sheet.name, metric, dict.fromkeys(name for _, name in wide.values()))
        of = {c: name for c, (name, of_metric) in wide.items() if "metric" in roles or of_metric == metric}
        sheet, roles = _long(sheet, roles, "optimizer", of, notes)
    elif len(seeds) > 1 and not {"seed", "value"} & roles.keys():
        sheet, roles = _long(sheet, roles, "seed", seeds, notes)
    if not wide:
        roles = {"optimizer": runs, **roles} if runs else roles
        if "optimizer" not in roles and not alone:
            raise _asked(sheet, "optimizer", "or a table with a column for each optimizer; ")
        numbers, metric = _numbers(sheet, roles, left, metric)
        if not {"seed", "step"} & roles.keys():
            _check_runs(sheet, roles, [c for c in sheet.columns if c not in {*used, *numbers.values(), *runs}])
        roles |= {role: [column] for role, column in numbers.items()}
    entries = [_entry(row, roles, sheet.name, metric) for row in sheet.rows]
    if not entries:
        raise UsageError(f"{sheet.name} has no values in {some([*wide]) if wide else 'its rows'}")
    if "metric" in roles:
        metric = chosen_metric(sheet.name, metric, dict.fromkeys(x.texts["metric"] for x in entries))
        entries = [x for x in entries if x.texts["metric"] == metric]
    return (entries if "seed" in roles else _with_seeds_of_names(entries, notes)), metric, notes


def _without_summaries(sheet: Sheet, roles: Roles, notes: list[str]) -> Sheet:
    names = [sheet.columns[0], *roles.get("seed", ())]
    kept = [row for row in sheet.rows if not any(SUMMARY.fullmatch(row.cells[c].casefold()) for c in names)]
    if skipped := len(sheet.rows) - len(kept):
        notes.append(f"{plural(skipped, 'row')} of means or other summaries skipped")
    return replace(sheet, rows=kept)


def _long(sheet: Sheet, roles: Roles, role: str, columns: Mapping[str, str], notes: list[str]) -> tuple[Sheet, Roles]:
    """The table with a row for each value of some columns, which are an optimizer's or a seed's each."""
    kinds = "optimizers or their runs" if role == "optimizer" else "seeds"
    notes.append(f"{plural(len(columns), 'column')} taken as {kinds}: {some([*columns])}")
    values = [(row, c) for row in sheet.rows for c in columns if row.cells[c]]
    if (blank := len(sheet.rows) * len(columns) - len(values)) and "step" not in roles:
        notes.append(f"{plural(blank, 'empty cell')} taken as a seed that was not run")
    rows = [replace(row, cells={**row.cells, f"its {role}": columns[c], "value": row.cells[c]}) for row, c in values]
    return replace(sheet, rows=rows), {**roles, role: [f"its {role}"], "value": ["value"]}


def _without_ranges(sheet: Sheet) -> tuple[Sheet, list[str]]:
    """The table without the columns in which W&B has the ranges of others."""
    ranges = {c: c[:-5] for c in sheet.columns if c.endswith(("__MIN", "__MAX")) and c[:-5] in sheet.columns}
    if not ranges:
        return sheet, [*sheet.notes]
    grouped = any(row.cells[c] != row.cells[of] for row in sheet.rows for c, of in ranges.items())
    note = f"{len(ranges)} columns __MIN and __MAX skipped" + ", which say that each value is a mean of runs" * grouped
    return replace(sheet, columns=[c for c in sheet.columns if c not in ranges]), [*sheet.notes, note]


def _given(sheet: Sheet, columns: Mapping[str, str]) -> Roles:
    roles: Roles = {}
    for role, text in columns.items():
        if role not in ROLES:
            raise unknown("role of a column", role, ROLES)
        roles[role] = [text] if text in sheet.columns else text.split("+")
        for name in roles[role]:
            if name not in sheet.columns and not (role == "n" and name.isdigit()):
                raise unknown(f"column of {sheet.name}", name, sheet.columns)
    return roles


def _recognize(sheet: Sheet, role: str, roles: Roles) -> None:
    """Find the column of a role by its name."""
    free = [c for c in sheet.columns if not any(c in given for given in roles.values())]
    for name in ROLES[role]:
        found = [c for c in free if name in (plain_name(c), plain_name(c.split("/")[-1]))]
        if role == "seed" and not name.endswith("seed"):
            found = [c for c in found if all(row.cells[c].isdigit() for row in sheet.rows)]
        if any(len({row.cells[c] for c in found}) > 1 for row in sheet.rows):
            ways = " or ".join(f'--columns {role}="{c}"' for c in found)
            raise UsageError(f"{sheet.name} has {len(found)} columns that may be the {role}; give {ways}")
        if found:
            roles[role] = found[:1]
            return


def _is_numeric(sheet: Sheet, column: str) -> bool:
    """Whether a column has numbers; one with the name of a value may have wrong ones, which are named later."""
    numbers = [is_number(row.cells[column]) for row in sheet.rows if not is_lost(row.cells[column])]
    if direction_of(column):
        return any(numbers) or not numbers
    return plain_name(column) in VALUES or (all(numbers) and bool(numbers))


def _optimizers(sheet: Sheet, used: Iterable[str], left: Sequence[str], fewest: int) -> dict[str, tuple[str, str]]:
    """The optimizer and the metric of each column, if the columns are optimizers."""
    found: dict[str, tuple[str, str]] = {}
    for column in left:
        name, dash, metric = column.rpartition(" - ")  # as W&B names the runs of a chart
        if not dash:
            name, metric = parts.groups() if (parts := OF_METRIC.fullmatch(column)) else (column, "")
        if not metric and direction_of(column):
            return {}  # a column of a metric, so that the others are no optimizers
        if plain_name(column) not in VALUES and not SETTING.fullmatch(plain_name(column)):
            found[column] = (re.sub(r"^optimi[sz]er: ", "", name), metric or "value")
    others = [c for c in sheet.columns if c not in {*used, *left} and not c.startswith("column ")]
    texts = any(len({row.cells[c] for row in sheet.rows}) > 1 for c in others)
    return found if len(found) >= fewest and not texts else {}


def chosen_metric(table: str, metric: str, known: Iterable[str]) -> str:
    """The metric that the user means, or the only one."""
    names = {plain_name(x): x for x in known}
    if metric and plain_name(metric) not in names:
        raise unknown(f"metric of {table}", metric, names.values())
    if not metric and len(names) > 1:
        raise UsageError(f"{table}: which metric is judged? Give --metric with one of {', '.join(names.values())}")
    return names[plain_name(metric)] if metric else next(iter(names.values()))


def _asked(sheet: Sheet, role: str, other: str = "") -> UsageError:
    known = ", ".join(sheet.columns)
    return UsageError(f"{sheet.name}: which column is the {role}? Give --columns {role}=NAME; {other}it has {known}")


def _numbers(sheet: Sheet, roles: Roles, left: Sequence[str], metric: str) -> tuple[dict[str, str], str]:
    """The columns of the value, or of mean, std and n, and the name of the metric."""
    given = {str(role): roles[role][0] for role in ("value", "mean", "std", "sem") if role in roles}
    if {"value", "mean"} & given.keys():
        return given, metric or given.get("value", "value")
    values = [c for name in VALUES for c in left if plain_name(c) == name][:1]
    values = values or [c for c in left if direction_of(c) and not _statistic(c)]
    values = values or [c for c in left if not SETTING.fullmatch(plain_name(c)) and not _statistic(c)]
    of_tag = "metric" in roles
    known = {c: {"value": c} for c in (left if metric and not of_tag else values)}
    for column in left:
        if statistic := _statistic(column):
            role, stem = statistic
            same = [c for c in values if plain_name(c) == stem or (stem == "value" and len(values) == 1)]
            known.setdefault(*((same[0], {}) if same and role != "mean" else (stem, {})))[role] = column
    for name, parts in [*known.items()]:
        if not {"value", "mean"} & parts.keys():
            del known[name]
    if not (known := known or {c: {"value": c} for c in left if direction_of(c)}):
        raise _asked(sheet, "value")
    name = chosen_metric(sheet.name, "" if of_tag else metric, known)
    return {**known[name], **given}, metric if of_tag else name


def _statistic(column: str) -> tuple[str, str] | None:
    """Which statistic a column has, and of what."""
    found = ((role, pattern.fullmatch(plain_name(column))) for role, pattern in STATISTICS.items())
    return next(((role, x[1] or x[2] or "value") for role, x in found if x), None)


def _check_runs(sheet: Sheet, roles: Roles, columns: Iterable[str]) -> None:
    """Refuse runs without seeds that differ in what may be an arena, a seed or a setting."""
    of = roles.get("optimizer", [])
    for column in columns:
        key = (*of, *roles.get("arena", ()))
        seen = grouped((tuple(row.cells[c] for c in key), row.cells[column]) for row in sheet.rows)
        once = not _is_numeric(sheet, column) or all(len(set(x)) == len(x) for x in seen.values())
        crossed = once and len(seen) > 1 and len({frozenset(x) for x in seen.values()}) == 1
        if any(len(set(x)) > 1 for x in seen.values()) and (crossed or VARIED.fullmatch(plain_name(column))):
            ways = f'seed="{column}", arena="{column}" or optimizer="{"+".join([*of, column])}"'
            raise UsageError(f"{sheet.name}: runs of one optimizer differ in {column}; give --columns {ways}")


def _entry(row: Row, roles: Roles, optimizer: str, metric: str) -> Entry:
    texts = {role: "/".join(row.cells.get(c, c) for c in found) for role, found in roles.items()}
    texts["value"] = texts.get("mean", texts.get("value", ""))
    for role in ("arena", "optimizer", "seed"):
        if texts.get(role) == "":
            raise UsageError(f"{row.place}: the {role} is empty; fill it in, or leave the row out")
    arena = texts.get("arena", texts.get("metric", metric))
    return Entry(arena, texts.get("optimizer", optimizer), texts.get("seed"), texts, row)


def _with_seeds_of_names(entries: list[Entry], notes: list[str]) -> list[Entry]:
    """Entries whose optimizers are names of runs, by the seeds at the ends of these names; a note says so."""
    names = list(dict.fromkeys(x.optimizer for x in entries))
    found = {name: parts.groups() for name in names if (parts := SEED.fullmatch(name))}
    if not found:
        numbered = {name: parts.groups() for name in names if (parts := NUMBERED.fullmatch(name))}
        runs = Counter(stem for stem, _ in numbered.values())
        found = numbered if len(numbered) == len(names) and len(runs) > 1 and min(runs.values()) > 1 else {}
    if found:
        stems = list(dict.fromkeys(stem for stem, _ in found.values()))
        of = plural(len(stems), "optimizer")
        notes.append(f"{plural(len(found), 'name')} taken as seeds of {of} by the numbers at their ends: {some(stems)}")
    return [replace(x, optimizer=y[0], seed=y[1]) if (y := found.get(x.optimizer)) else x for x in entries]
