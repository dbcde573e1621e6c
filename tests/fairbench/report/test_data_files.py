"""The data files as other programs read them: each column as the dictionary says, each record as it was written."""

import json
import re
from dataclasses import make_dataclass, replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest
from fabricated import (
    EVERY_PAIR,
    Records,
    history,
    mechanism,
    recorded,
    seconds,
    sha,
    study,
    timing,
    with_horizons,
    with_suite,
)

from fairbench.report.fields import fields_of, meanings_of
from fairbench.report.sections import SECTIONS
from fairbench.report.sections.trial_tables import Trial
from fairbench.report.study import write_report

DOCS = Path(__file__).parents[3] / "docs"
VERDICTS = (DOCS / "verdicts.md").read_text()
TYPES = {"string": "string", "integer": "int64", "number": "double", "boolean": "bool", "any": "string"}
SCORES = {"PsiLogic": [0.9, 0.91, "diverged"], "+groups": ["failed", 0.5, 0.6], "AdamW": [0.5, 0.51, None]}


def asked():
    """A study with all files but shocks, schedules and size_trends: horizons, a control ladder, timing."""
    found = study(("gpt", "vit"), ("AdamW", "+groups", "PsiLogic"), compare=EVERY_PAIR, controls=["AdamW", "+groups"])
    sweep = replace(found.suite.sweep, extra={"betas": [[0.9, 0.9], [0.9, 0.99]]})
    return with_horizons(with_suite(found, sweep=sweep), 0.5, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairbench.report.study.draw_figures", lambda *_: [])
        slow = recorded({"cost.seconds": seconds(2.0)}, optimizer="PsiLogic")
        records = Records(asked(), timing(), slow, **SCORES)
        write_report(history(asked()), records, folder)
    return folder


@pytest.fixture(scope="module")
def described(folder):
    """The resources of the dictionary by their path."""
    package = json.loads((folder / "datapackage.json").read_text())
    return {resource["path"]: resource for resource in package["resources"]}


def read(folder, name):
    """The columns of a CSV file as another library infers them; texts that stand for missing values stay texts."""
    return pyarrow.csv.read_csv(folder / name).to_pydict()


@pytest.mark.parametrize("study", ["fabricated", "mini", "ablation", "shock", "zoo", "ladder", "schedules"])
def test_every_cell_has_the_type_that_the_dictionary_says(folder, study):
    """So have those of the published studies, whose dictionaries describe the files that are there."""
    at = folder if study == "fabricated" else DOCS / "results" / study
    package = json.loads((at / "datapackage.json").read_text())
    resources = {x["path"]: x["schema"]["fields"] for x in package["resources"] if x["format"] == "csv"}
    assert resources.keys() == {path.name for path in at.glob("*.csv")}
    for name, fields in resources.items():
        types = {field["name"]: pyarrow.type_for_alias(TYPES[field["type"]]) for field in fields}
        table = pyarrow.csv.read_csv(at / name, convert_options=pyarrow.csv.ConvertOptions(column_types=types))
        assert dict(zip(table.column_names, table.schema.types, strict=True)) == types, name


def test_names_and_truth_values_are_read_as_they_are(folder):
    assert set(read(folder, "aggregate.csv")["optimizer"]) == set(SCORES)
    searched = read(folder, "lr_sweep.csv")
    assert set(searched["selected"]) == {True, False}
    assert json.loads(searched["betas"][0]) == [0.9, 0.9]
    assert set(read(folder, "leaderboard.csv")["tuned"]) == {True}
    assert {x for x in read(folder, "ranking.csv")["groups"] if x} == {"a"}
    assert read(folder, "significance.csv")["tuned_baseline"][0] is True


def test_the_records_are_in_the_parquet_file(folder, described):
    table = pyarrow.parquet.read_table(folder / "records.parquet")
    assert table.column_names == [field["name"] for field in described["records.parquet"]["schema"]["fields"]]
    trials = table.to_pylist()
    stages = [trial["stage"] for trial in trials]
    assert (stages.count("sweep"), stages.count("final"), stages.count("timing")) == (60, 28, 30)
    identity = ("vit", "PsiLogic", "final", 1)
    (ours,) = [x for x in trials if (x["arena"], x["optimizer"], x["stage"], x["seed"]) == identity]
    assert (ours["status"], ours["test_accuracy"]) == ("finished", 0.9)
    assert (ours["test_perplexity"], ours["alone"]) == (None, True)
    assert (ours["train_steps"], ours["train_loss"], ours["evaluated_at"]) == ([5, 10], [2.0, 1.0], [5, 10])
    assert (ours["evaluation_accuracy"], ours["hash_initial_weights"]) == ([0.9, 0.9], sha("vit 1"))
    assert ours["mechanism_total_fired"] == mechanism().totals["fired"]
    assert (ours["mechanism_read_at"], ours["mechanism_added_fired"]) == ([5, 10], [5.0, 15.0])
    in_tensors = zip(ours["mechanism_tensors"], ours["mechanism_in_tensor_fired"], strict=True)
    assert dict(in_tensors) == mechanism().tensors["fired"]
    assert (json.loads(ours["hyperparameters"])["lr"], ours["batch_size"], ours["planned_steps"]) == (1e-3, 4, 10)
    (lost, *_) = [x for x in trials if x["status"] == "failed"]
    assert (lost["optimizer"], lost["error_message"], lost["train_loss"]) == ("+groups", "no <luck>", None)


def test_a_column_without_a_meaning_is_an_error():
    assert meanings_of(Trial)["lr"] == "learning rate; empty where the sweep has not selected one yet"
    with pytest.raises(KeyError, match="lr"):
        fields_of(make_dataclass("Undocumented", [("lr", float)]))


def test_every_column_of_every_file_has_a_meaning():
    """Also of files that no study of the tests writes: the dictionary of a study would fail."""
    kinds = [x.kind for section in SECTIONS for x in section.outputs if x.kind and x.name != "records"]
    assert len(kinds) == 16
    assert all(field.description for kind in kinds for field in fields_of(kind))


def test_the_page_on_verdicts_has_every_column_of_the_tuning(described):
    """Those of significance.csv are in `test_docs.py`."""
    table = VERDICTS.partition("`tuning.csv` has one\n")[2].partition("| column | meaning |")[2].partition("\n\n")[0]
    named = [column for line in table.splitlines()[2:] for column in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert sorted(named) == sorted(field["name"] for field in described["tuning.csv"]["schema"]["fields"])
