"""One table in the forms in which programs, people and pandas write it is read as one table."""

import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

import pytest
from scipy import stats

import fairbench as fb
from fairbench.common.errors import UsageError

Run = tuple[str, str, str]
"""The optimizer, the seed and the final loss of a run, as text."""
Rows = Sequence[Sequence[str]]

RUNS = {
    "mine": ("1.512", "1.498", "1.52"),
    "adamw": ("1.61", "1.653", "1.6"),
    "lion": ("1.5", "1.6", "1.55"),
}


@pytest.fixture
def pandas():
    """It takes a second to load."""
    return import_module("pandas")


def runs() -> list[Run]:
    found = []
    for optimizer, losses in RUNS.items():
        for seed, loss in enumerate(losses):
            found.append((optimizer, str(seed), loss))
    return found


def own_table():
    return [("Optimizer", "Seed", "final_loss"), *runs()]


def table_of_wandb():
    rows = [("Name", "State", "Runtime", "optimizer", "seed", "val/loss")]
    for optimizer, seed, loss in runs():
        rows.append((f"{optimizer}-{seed}", "finished", "90", optimizer, seed, loss))
    return rows


def table_of_mlflow():
    rows = [("run_id", "status", "metrics.val_loss", "params.lr", "params.optimizer", "params.seed")]
    for number, (optimizer, seed, loss) in enumerate(runs()):
        rows.append((f"{number:x}f", "FINISHED", loss, "0.1", optimizer, seed))
    return rows


def table_of_run_names():
    rows = [("run", "test loss")]
    for optimizer, seed, loss in runs():
        rows.append((f"{optimizer}_seed{seed}", loss))
    return rows


def table_with_a_column_for_each():
    rows = [("seed", *RUNS)]
    for seed, losses in enumerate(zip(*RUNS.values(), strict=True)):
        rows.append((str(seed), *losses))
    return rows


MAKERS = {
    "own": own_table,
    "W&B": table_of_wandb,
    "MLflow": table_of_mlflow,
    "names of runs": table_of_run_names,
    "a column for each": table_with_a_column_for_each,
}


def as_csv(rows: Rows, delimiter: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


def with_losses(rows: Rows, write: Callable[[str], str]) -> list[list[str]]:
    """The rows with another spelling of each loss; all of them begin with 1."""
    found = []
    for row in rows:
        found.append([write(cell) if cell.startswith("1.") else cell for cell in row])
    return found


def marked(rows):
    return "\ufeff" + as_csv(rows)


def with_semicolons(rows):
    return as_csv(with_losses(rows, lambda loss: loss.replace("1.", "1,")), delimiter=";")


def in_percent(rows):
    return as_csv(with_losses(rows, lambda loss: f"{loss} %"), delimiter="\t")


def in_thousandths(rows):
    """A loss of 1.52 as 1,520.5: a thousand times as large, and one half more."""
    return as_csv(with_losses(rows, lambda loss: f"1,{loss[2:]:0<3}.5"))


def with_empty_rows(rows):
    empty = [""] * len(rows[0])
    return as_csv([*rows, empty, empty])


def with_two_readings(rows):
    return as_csv(with_losses(rows, lambda loss: f"1,{loss[2:]:0<3}"))


def with_an_underscore(rows):
    return as_csv(with_losses(rows, lambda loss: loss.replace("1.498", "1_498")))


def with_a_column_twice(rows):
    return as_csv([[*row, row[-1]] for row in rows])


@dataclass
class Oddity:
    """A way to write a table, with the losses that it then has, or with the refusal that it deserves."""

    write: Callable[[Rows], str]
    factor: float = 1.0
    added: float = 0.0
    refusal: str = ""


ODDITIES = {
    "mark": Oddity(marked),
    "semicolons": Oddity(with_semicolons),
    "percent": Oddity(in_percent),
    "thousands": Oddity(in_thousandths, factor=1000, added=0.5),
    "empty rows": Oddity(with_empty_rows),
    "two numbers": Oddity(with_two_readings, refusal="can be 1512 or 1.512"),
    "underscores": Oddity(with_an_underscore, refusal="1_498|--columns"),
    "one name": Oddity(with_a_column_twice, refusal="has two columns"),
}
ACCEPTED = [name for name, oddity in ODDITIES.items() if not oddity.refusal]
REFUSED = [name for name, oddity in ODDITIES.items() if oddity.refusal]


@pytest.mark.parametrize("oddity", ACCEPTED)
@pytest.mark.parametrize("maker", MAKERS)
def test_exports_of_five_makers_with_oddities(maker, oddity):
    odd = ODDITIES[oddity]
    text = odd.write(MAKERS[maker]())
    judged = fb.verdicts(io.StringIO(text), better="lower")
    assert [c.baseline for c in judged] == ["adamw", "lion"]
    for c in judged:
        ours = losses("mine", odd)
        theirs = losses(c.baseline, odd)
        assert (c.optimizer, c.n_optimizer, c.n_baseline, c.test) == ("mine", 3, 3, "paired")
        assert c.gain == pytest.approx(stats.tmean(theirs) - stats.tmean(ours))
        assert c.p == pytest.approx(stats.ttest_rel(theirs, ours).pvalue)


def losses(optimizer, oddity):
    return [oddity.factor * float(loss) + oddity.added for loss in RUNS[optimizer]]


@pytest.mark.parametrize("oddity", REFUSED)
@pytest.mark.parametrize("maker", MAKERS)
def test_oddities_that_may_mean_two_things_are_refused(maker, oddity):
    odd = ODDITIES[oddity]
    text = odd.write(MAKERS[maker]())
    with pytest.raises(UsageError, match=odd.refusal):
        fb.verdicts(io.StringIO(text), better="lower")


def test_rows_in_memory_and_standard_input(tmp_path, pandas, monkeypatch, command):
    file = tmp_path / "table.csv"
    file.write_text(marked(own_table()), encoding="utf-8")
    expected = fb.verdicts(file).to_dicts()
    head, *lines = own_table()
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    columns = {name: [row[name] for row in rows] for name in head}
    json_lines = "\n".join(json.dumps(row) for row in rows)
    sources = [
        rows,
        [head, *lines],
        columns,
        pandas.DataFrame(rows),
        file.open("rb"),
        io.StringIO(json.dumps(rows)),
        io.StringIO(json_lines),
        str(file),
    ]
    for source in sources:
        assert fb.verdicts(source).to_dicts() == expected, source
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file.open("rb")))
    shown = json.loads(command("verdicts", "-", "--json"))
    assert shown["comparisons"] == json.loads(json.dumps(expected))


LOSSES = {"adamw": (3.1, 3.35, 3.2), "muon": (3.0, 3.1, 3.05)}


def rows_of_losses():
    rows = []
    for optimizer, values in LOSSES.items():
        for seed, loss in enumerate(values):
            rows.append({"optimizer": optimizer, "seed": seed, "val_loss": loss, "lr": 0.1})
    return rows


def csv_of_losses(pandas):
    return pandas.DataFrame(rows_of_losses()).to_csv(index=False)


def pivot_of_losses(pandas):
    """A column for each optimizer and quantity, and a row for each seed."""
    frame = pandas.DataFrame(rows_of_losses())
    return frame.pivot(index="seed", columns="optimizer", values=["val_loss", "lr"])


def json_of_pandas(orient):
    return lambda pandas: pandas.DataFrame(rows_of_losses()).to_json(orient=orient)


def json_with_other_keys(pandas):
    return json.dumps({"date": "2026", "results": rows_of_losses()})


def json_by_optimizer_and_seed(pandas):
    by_optimizer = {}
    for optimizer, values in LOSSES.items():
        by_optimizer[optimizer] = {str(seed): {"val_loss": loss} for seed, loss in enumerate(values)}
    return json.dumps(by_optimizer)


def pivot_in_csv(pandas):
    return pivot_of_losses(pandas).to_csv()


def csv_with_a_comment(pandas):
    return f"# by my script\n{csv_of_losses(pandas)}"


def columns_with_spaces(pandas):
    return csv_of_losses(pandas).replace(",", "  ")


LAYOUTS = {
    "columns": json_of_pandas("columns"),
    "index": json_of_pandas("index"),
    "split": json_of_pandas("split"),
    "table": json_of_pandas("table"),
    "records": json_of_pandas("records"),
    "other keys": json_with_other_keys,
    "by optimizer and seed": json_by_optimizer_and_seed,
    "pivot": pivot_in_csv,
    "comment": csv_with_a_comment,
    "spaces": columns_with_spaces,
}


@pytest.fixture
def expected():
    (comparison,) = fb.verdicts(rows_of_losses(), metric="val_loss")
    assert comparison.gain == pytest.approx(-1 / 6)
    return comparison


def assert_same(found, expected):
    assert (found.gain, found.p) == pytest.approx((expected.gain, expected.p))
    assert found.test == "paired"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_pandas_and_of_people_are_the_rows_that_they_stand_for(layout, pandas, expected):
    text = LAYOUTS[layout](pandas)
    (found,) = fb.verdicts(io.StringIO(text), metric="val_loss")
    assert_same(found, expected)


def test_a_data_frame_with_the_optimizers_in_its_index(pandas, expected):
    frame = pandas.DataFrame.from_dict(LOSSES, orient="index")
    (found,) = fb.verdicts(frame, better="lower")
    assert_same(found, expected)
    (found,) = fb.verdicts(io.StringIO(frame.to_csv()), better="lower")
    assert_same(found, expected)


def test_a_row_for_each_optimizer_and_a_column_for_each_seed(expected):
    lines = ["Optimizer,Run 0,Run 1,Run 2,Mean"]
    for optimizer, values in LOSSES.items():
        cells = [*values, sum(values) / 3]
        lines.append(f"{optimizer},{','.join(map(str, cells))}")
    (found,) = fb.verdicts(io.StringIO("\n".join(lines)), better="lower")
    assert_same(found, expected)


def test_names_in_a_comment_as_numpy_writes_them(pandas, expected):
    losses = pivot_of_losses(pandas)["val_loss"].to_csv()
    judged = fb.verdicts(io.StringIO(f"# by my script\n#{losses}"), better="lower")
    (found,) = judged
    assert (found.optimizer, found.gain) == ("adamw", expected.gain)
    assert "1 line of comments skipped" in judged.notes


def test_keys_that_hold_no_rows_are_named():
    text = json.dumps({"date": "2026", "seeds": [3], "results": rows_of_losses()})
    notes = fb.verdicts(io.StringIO(text), metric="val_loss").notes
    assert notes[0] == "keys that hold no rows left out: date, seeds"


def test_a_row_without_a_value_is_not_lost():
    text = '{"optimizer": {"0": "a", "1": "b", "2": "b"}, "loss": {"0": 1, "1": 2}}'
    (found,) = fb.verdicts(io.StringIO(text))
    assert found.note == "b without a value 1/2"


def test_a_list_below_a_metric_is_a_curve_unless_the_user_says_that_it_has_runs():
    by_name = {optimizer: {"val_loss": values, "lr": [0.1] * 3} for optimizer, values in LOSSES.items()}
    text = json.dumps(by_name)
    with pytest.raises(UsageError, match="begins a curve over steps"):
        fb.verdicts(io.StringIO(text), metric="val_loss")
    (last,) = fb.verdicts(io.StringIO(text), metric="val_loss", at="last")
    assert (last.n_optimizer, last.mean_optimizer, last.mean_baseline) == (1, 3.2, 3.05)
    (runs,) = fb.verdicts(io.StringIO(text), metric="val_loss", columns={"seed": "rows"})
    assert (runs.test, runs.n_optimizer) == ("welch", 3)


def test_lists_of_values_by_optimizer():
    (found,) = fb.verdicts(io.StringIO(json.dumps(LOSSES)), better="lower")
    assert (found.test, found.n_optimizer) == ("welch", 3)


def test_numbers_with_the_emphasis_of_latex():
    text = "Method,n,Loss\nA,5,$3.31 \\pm 0.02$\nB,5,$\\mathbf{3.27} \\pm 0.01$"
    (found,) = fb.verdicts(io.StringIO(text))
    assert found.gain == pytest.approx(-0.04)


@pytest.mark.parametrize("keys", [["optimizer"], ["task", "optimizer"]])
def test_levels_of_names_as_pandas_writes_them(keys, pandas):
    rows = [("a", "adamw", 3.1, 50), ("a", "adamw", 3.3, 52), ("a", "muon", 3.0, 54), ("a", "muon", 3.1, 55)]
    frame = pandas.DataFrame(rows, columns=["task", "optimizer", "val_loss", "top1"])
    means = frame.groupby(keys)[["val_loss", "top1"]].agg(["mean", "std", "count"])
    expected = fb.verdicts(means, metric="val_loss").to_dicts()
    assert expected[0]["mean_optimizer"] == pytest.approx(3.2)
    assert fb.verdicts(io.StringIO(means.to_csv()), metric="val_loss").to_dicts() == expected
