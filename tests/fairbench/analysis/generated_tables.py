"""Tables in the forms that people keep results in, made from known runs; and tables that must be refused."""

import csv
import io
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

Results = dict[str, dict[str, dict[str, float]]]
"""The value of each run by arena, optimizer and seed."""
OPTIMIZERS = ("AdamW", "SGD", "Lion", "Muon", "Adam", "RMSProp", "Shampoo", "SOAP", "Ours", "MyRule", "Adafactor")
ARENAS = ("mnist", "svhn", "CIFAR-10", "WikiText-103", "ImageNet", "PTB", "fastmri", "IMDB", "adult", "STL-10")
METRICS = {"val_loss": "", "test accuracy": "", "eval/loss": "", "final_ppl": "", "top1": "", "score": "higher"}
"""Names of metrics, with the option --better that each needs."""
OPTIMIZER_NAMES = ("optimizer", "Optimizer", "method", "algorithm", "config.optimizer.name", "optim", "Algo")
SEED_NAMES = ("seed", "Seed", "random_seed", "trial", "run", "config.seed", "replicate", "fold")
ARENA_NAMES = ("dataset", "task", "Dataset", "workload", "benchmark", "problem", "env_id")
SUMMARIES = ("Avg.", "Mean", "mean", "Overall", "Average", "Std. dev.", "Total", "Median", "avg", "Durchschnitt")


@dataclass
class Generated:
    """A table, the options that its reader must give, and what is true of it.

    Attributes:
        results: the runs; None if the table must be refused.
        lost: the arenas and optimizers of which a run has no value.
        are_means: whether the table has only means and standard deviations, rounded to 6 decimals.
    """

    form: str
    text: str
    results: Results | None
    lost: set[tuple[str, str]] = field(default_factory=set)
    are_means: bool = False
    options: dict[str, Any] = field(default_factory=dict)


def generated(number: int) -> Generated:
    """The table of a number. The same number always gives the same table."""
    rng = random.Random(number)
    make = rng.choice([*READABLE, *READABLE, *READABLE, *REFUSED])
    return make(rng)


def some_results(rng: random.Random, most_arenas: int = 3) -> Results:
    """The runs of two to four optimizers in one to three arenas, with three to six seeds each."""
    arenas = rng.sample(ARENAS, rng.randint(1, most_arenas))
    optimizers = rng.sample(OPTIMIZERS, rng.randint(2, 4))
    first = rng.choice((0, 1, 40))
    seeds = [str(first + number) for number in range(rng.randint(3, 6))]
    results: Results = {}
    for arena in arenas:
        center = rng.uniform(0.5, 5)
        results[arena] = {}
        for optimizer in optimizers:
            mean = center * rng.uniform(0.9, 1.1)
            results[arena][optimizer] = {seed: round(rng.gauss(mean, 0.03 * center), 4) for seed in seeds}
    return results


def a_metric(rng: random.Random) -> tuple[str, dict[str, Any]]:
    metric = rng.choice([*METRICS])
    better = METRICS[metric]
    return metric, {"better": better} if better else {}


def as_csv(rng: random.Random, rows: list[Mapping[str, Any]], columns: list[str], *, shuffled: bool = False) -> str:
    if shuffled:
        rng.shuffle(rows)
    text = io.StringIO()
    writer = csv.writer(text, delimiter=rng.choice(",,,;\t"))
    writer.writerow(columns)
    writer.writerows([row.get(column, "") for column in columns] for row in rows)
    return text.getvalue()


def long_table(rng: random.Random) -> Generated:
    """A row for each run, in any order, with more columns that say nothing on the verdict."""
    results = some_results(rng)
    metric, options = a_metric(rng)
    optimizer_name = rng.choice(OPTIMIZER_NAMES)
    seed_name = rng.choice(SEED_NAMES)
    arena_name = rng.choice(ARENA_NAMES)
    rows: list[Mapping[str, Any]] = []
    for arena, optimizer, seed, value in runs_of(results):
        row = {arena_name: arena, optimizer_name: optimizer, seed_name: seed, metric: value}
        row |= {"": len(rows), "lr": len(optimizer) / 100, "runtime": rng.randint(10, 99), "host": rng.choice("ab")}
        rows.append(row)
    columns = [optimizer_name, seed_name, metric]
    if len(results) > 1 or rng.random() < 0.5:
        columns.append(arena_name)
    columns += [name for name in ("lr", "runtime", "host") if rng.random() < 0.4]
    rng.shuffle(columns)
    if rng.random() < 0.3:
        columns.insert(0, "")
    options["metric"] = metric
    lost = set()
    if rng.random() < 0.2:
        row = rows[0]
        rows[0] = {**row, metric: rng.choice(("", "NA", "failed"))}
        lost.add((row[arena_name], row[optimizer_name]))
    return Generated("long", as_csv(rng, rows, columns, shuffled=True), results, lost=lost, options=options)


def column_for_each_optimizer(rng: random.Random) -> Generated:
    """A row for each seed, perhaps with summaries at the end."""
    results = some_results(rng)
    seed_name = rng.choice(SEED_NAMES)
    arena_name = rng.choice([*ARENA_NAMES, ""])
    rows: list[Mapping[str, Any]] = []
    for arena, arms in results.items():
        optimizers = [*arms]
        for seed in [*arms[optimizers[0]]]:
            values: dict[str, Any] = {optimizer: arms[optimizer][seed] for optimizer in optimizers}
            if len(rows) % 5 == 4 and rng.random() < 0.3:
                values[optimizers[0]] = ""  # a seed that was not run
                del arms[optimizers[0]][seed]
            rows.append({arena_name: arena, seed_name: seed, **values})
        if rng.random() < 0.4:
            means = {optimizer: fmean(arms[optimizer].values()) for optimizer in optimizers}
            rows.append({arena_name: arena, seed_name: rng.choice(SUMMARIES), **means})
    columns = [seed_name, *optimizers]
    if len(results) > 1:
        columns.insert(0, arena_name)
    return Generated("column for each optimizer", as_csv(rng, rows, columns), results, options={"better": "lower"})


def column_for_each_seed(rng: random.Random) -> Generated:
    """A row for each optimizer and arena, perhaps with a mean in the last column."""
    results = some_results(rng)
    prefix = rng.choice(("", "seed ", "run", "Seed_"))
    rows: list[Mapping[str, Any]] = []
    for arena, arms in results.items():
        for optimizer, values in arms.items():
            named = {f"{prefix}{number}": value for number, value in enumerate(values.values())}
            rows.append({"dataset": arena, "optimizer": optimizer, **named, "Mean": fmean(values.values())})
    columns = ["optimizer", *named]
    if len(results) > 1:
        columns.insert(rng.randint(0, 1), "dataset")
    if rng.random() < 0.4:
        columns.append("Mean")
    return Generated("column for each seed", as_csv(rng, rows, columns), results, options={"better": "lower"})


def optimizers_by_data_sets(rng: random.Random) -> Generated:
    """The table that papers print, perhaps the other way around: a mean and a deviation in each cell."""
    results = some_results(rng, most_arenas=5)
    sign = rng.choice(("±", "+/-", " ± ", "\\pm "))
    arrow = rng.choice(("", " ↑"))
    n = len(next(iter(next(iter(results.values())).values())))
    cells: dict[tuple[str, str], str] = {}
    for arena, arms in results.items():
        for optimizer, values in arms.items():
            cells[arena, optimizer] = f"{fmean(values.values()):.6f}{sign}{stdev(values.values()):.6f}"
    optimizers = [*arms]
    rows: list[Mapping[str, Any]] = []
    if rng.random() < 0.5 and len(results) > 1:
        for optimizer in optimizers:
            row = {f"{arena}{arrow}": cells[arena, optimizer] for arena in results}
            rows.append({"Method": optimizer, **row})
        columns = ["Method", *row]
        options: dict[str, Any] = {} if arrow else {"better": "higher"}
    else:
        first = rng.choice(("dataset", "", "Task"))
        rows += [{first: arena, **{name: cells[arena, name] for name in optimizers}} for arena in results]
        columns = [first, *optimizers]
        options = {"better": "higher"}
    options["columns"] = {"n": str(n)}
    return Generated("optimizers by data sets", as_csv(rng, rows, columns), results, are_means=True, options=options)


def columns_of_statistics(rng: random.Random) -> Generated:
    """A row for each arm with columns for mean, standard deviation and number."""
    results = some_results(rng)
    metric, options = a_metric(rng)
    form = "{metric}_{statistic}"
    if rng.random() < 0.5:
        form = "{statistic}_{metric}"
    mean = form.format(statistic="mean", metric=metric)
    std = form.format(statistic="std", metric=metric)
    rows: list[Mapping[str, Any]] = []
    for arena, arms in results.items():
        for optimizer, values in arms.items():
            statistics = {
                mean: round(fmean(values.values()), 6),
                std: round(stdev(values.values()), 6),
                "n": len(values),
            }
            rows.append({"dataset": arena, "optimizer": optimizer, **statistics})
    columns = ["optimizer", mean, std, "n"]
    if len(results) > 1:
        columns.append("dataset")
    rng.shuffle(columns)
    return Generated("statistics", as_csv(rng, rows, columns), results, are_means=True, options=options)


def nested_json(rng: random.Random) -> Generated:
    """Mappings of mappings in any order of their levels, with the seeds as a list or as keys."""
    results = some_results(rng)
    as_list = rng.random() < 0.5
    nested: dict[str, Any] = {}
    swapped = rng.random() < 0.5
    for arena, arms in results.items():
        for optimizer, values in arms.items():
            leaf: Any = [*values.values()] if as_list else dict(values)
            if swapped:
                nested.setdefault(optimizer, {})[arena] = leaf
            else:
                nested.setdefault(arena, {})[optimizer] = leaf
    return Generated("nested JSON", json.dumps(nested), results, options={"better": "lower"})


def records_in_json(rng: random.Random) -> Generated:
    """A list of runs, with their settings in a mapping; or a run in each line."""
    results = some_results(rng)
    metric, options = a_metric(rng)
    records = []
    for arena, optimizer, seed, value in runs_of(results):
        config = {"optimizer": optimizer, "seed": int(seed), "dataset": arena}
        records.append({"id": f"r{len(records)}", "config": config, metric: value})
    rng.shuffle(records)
    text = json.dumps(records) if rng.random() < 0.5 else "\n".join(map(json.dumps, records))
    options["metric"] = metric
    return Generated("records", text, results, options=options)


def runs_of(results: Results) -> list[tuple[str, str, str, float]]:
    return [
        (arena, optimizer, seed, value)
        for arena, arms in results.items()
        for optimizer, values in arms.items()
        for seed, value in values.items()
    ]


def curve(rng: random.Random) -> list[float]:
    return [round(1 + 2 / (1 + step) + rng.gauss(0, 0.01), 4) for step in range(rng.randint(6, 20))]


def histories(rng: random.Random) -> Generated:
    """Curves without --at."""
    text = json.dumps({name: {"loss": curve(rng), "val_loss": curve(rng)} for name in rng.sample(OPTIMIZERS, 3)})
    return Generated("histories", text, None, options={"metric": "val_loss"})


def search(rng: random.Random) -> Generated:
    """The trials of a search, each with another learning rate."""
    rows: list[Mapping[str, Any]] = []
    for optimizer in rng.sample(OPTIMIZERS, 2):
        for trial in range(5):
            rows.append({"trial": trial, "optimizer": optimizer, "lr": rng.random(), "val_loss": rng.random()})
    columns = ["trial", "optimizer", rng.choice(("lr", "lr", "params_lr")), "val_loss"]
    for row in rows:
        assert isinstance(row, dict)
        row["params_lr"] = row["lr"]
    return Generated("search", as_csv(rng, rows, columns, shuffled=True), None)


def variants(rng: random.Random) -> Generated:
    """Runs of two variants of each optimizer, told apart by a word or a size."""
    name = rng.choice(("schedule", "width", "batch_size", "augmentation", "variant_of_data"))
    names = ("cosine", "linear")
    if name in ("width", "batch_size"):
        names = ("64", "128")
    rows: list[Mapping[str, Any]] = []
    for optimizer in rng.sample(OPTIMIZERS, 2):
        for variant in names:
            rows += [{"optimizer": optimizer, name: variant, "loss": rng.random()} for _ in range(3)]
    return Generated("variants", as_csv(rng, rows, ["optimizer", name, "loss"], shuffled=True), None)


def turned_metric(rng: random.Random) -> Generated:
    """A metric whose name may turn its direction, without --better."""
    results = some_results(rng, most_arenas=1)
    name = rng.choice(("neg_log_loss", "time_to_accuracy", "loss reduction", "accuracy_gap", "inverse ppl", "acc_drop"))
    rows = [{"optimizer": run[1], "seed": run[2], name: run[3]} for run in runs_of(results)]
    return Generated("turned metric", as_csv(rng, [*rows], ["optimizer", "seed", name]), None, options={"metric": name})


def gains(rng: random.Random) -> Generated:
    """A gain or a rank in parentheses."""
    rows: list[Mapping[str, Any]] = []
    for arena in rng.sample(ARENAS, 3):
        second = rng.choice(("+0.02", "1", "-0.4%", "2"))
        rows.append({"dataset": arena, "AdamW": f"0.91 ({second})", "SGD": f"0.90 ({second})"})
    options = {"better": "higher", "columns": {"n": "5"}}
    return Generated("gains", as_csv(rng, rows, ["dataset", "AdamW", "SGD"]), None, options=options)


def splits(rng: random.Random) -> Generated:
    """A row for each split, of which only the first has the epoch."""
    rows: list[Mapping[str, Any]] = []
    for name in rng.sample(OPTIMIZERS, 2):
        for split, epoch in (("dev", rng.randint(5, 50)), ("test-clean", ""), ("test-other", "")):
            rows.append({"optimizer": name, "split": split, "epoch": epoch, "wer": rng.random()})
    return Generated("splits", as_csv(rng, rows, ["optimizer", "split", "wer", "epoch"], shuffled=True), None)


def components(rng: random.Random) -> Generated:
    """Several rows of each seed, told apart by a word or a number that is no well-known setting."""
    name, variants = rng.choice((("fusion", ("sum", "concat")), ("horizon", (96, 192)), ("n_bands", (1, 3))))
    rows: list[Mapping[str, Any]] = []
    for optimizer in rng.sample(OPTIMIZERS, 2):
        for seed in range(3):
            rows += [{"optimizer": optimizer, "seed": seed, name: one, "mse": rng.random()} for one in variants]
    return Generated("components", as_csv(rng, rows, ["optimizer", name, "seed", "mse"], shuffled=True), None)


def means_without_spread(rng: random.Random) -> Generated:
    """Means with the numbers of their runs alone."""
    rows: list[Mapping[str, Any]] = []
    for optimizer in rng.sample(OPTIMIZERS, 3):
        rows.append({"optimizer": optimizer, "loss_mean": rng.random(), "n_seeds": 5})
    return Generated("means without spread", as_csv(rng, rows, ["optimizer", "loss_mean", "n_seeds"]), None)


Maker = Callable[[random.Random], Generated]
READABLE: tuple[Maker, ...] = (
    *(long_table, column_for_each_optimizer, column_for_each_seed, optimizers_by_data_sets, columns_of_statistics),
    *(nested_json, records_in_json),
)
REFUSED: tuple[Maker, ...] = (
    *(histories, search, variants, turned_metric, gains),
    *(splits, components, means_without_spread),
)
