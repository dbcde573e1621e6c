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
from fairbench.study.record import Series

DOCS = Path(__file__).parents[3] / "docs"
VERDICTS = (DOCS / "reference/verdicts.md").read_text()
TYPES = {"string": "string", "integer": "int64", "number": "double", "boolean": "bool", "any": "string"}
SCORES = {"PsiLogic": [0.9, 0.91, "diverged"], "+groups": ["failed", 0.5, 0.6], "AdamW": [0.5, 0.51, None]}


def asked():
    """A study with all files but shocks, schedules and size_trends: horizons, a control ladder, timing."""
    found = study(
        arenas=("gpt", "vit"),
        optimizers=("AdamW", "+groups", "PsiLogic"),
        compare=EVERY_PAIR,
        controls=["AdamW", "+groups"],
    )
    betas = [[0.9, 0.9], [0.9, 0.99]]
    sweep = replace(found.suite.sweep, extra={"betas": betas})
    return with_horizons(with_suite(found, sweep=sweep), 0.5, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairbench.report.study.draw_figures", lambda *_: [])
        slow = recorded({"cost.seconds": seconds(2.0)}, optimizer="PsiLogic")
        silent = recorded({"details.loss_curve": Series()}, arena="vit", optimizer="PsiLogic", seed=2)
        records = Records(asked(), timing(), slow, silent, **SCORES)
        write_report(history(asked()), records, folder)
    return folder


def resources(folder):
    """The files that the dictionary of a study describes, by their paths."""
    package = json.loads((folder / "datapackage.json").read_text())
    return {resource["path"]: resource for resource in package["resources"]}


def described_columns(folder, name):
    """The columns of a file in the dictionary."""
    return [field["name"] for field in resources(folder)[name]["schema"]["fields"]]


def read(folder, name):
    """The columns of a CSV file as another library infers them; texts that stand for missing values stay texts."""
    return pyarrow.csv.read_csv(folder / name).to_pydict()


@pytest.mark.parametrize("study", ["fabricated", "mini", "ablation", "shock", "zoo", "ladder", "schedules"])
def test_every_cell_has_the_type_that_the_dictionary_says(folder, study):
    """So have those of the published studies, whose dictionaries describe the files that are there."""
    if study != "fabricated":
        folder = DOCS / "results" / study
    types_of = {}
    for path, resource in resources(folder).items():
        if resource["format"] == "csv":
            types_of[path] = described_types(resource)
    assert types_of.keys() == {path.name for path in folder.glob("*.csv")}
    for name, types in types_of.items():
        options = pyarrow.csv.ConvertOptions(column_types=types)
        schema = pyarrow.csv.read_csv(folder / name, convert_options=options).schema
        assert dict(zip(schema.names, schema.types, strict=True)) == types, name


def described_types(resource):
    """The type of each column of a file as the dictionary says it."""
    return {field["name"]: pyarrow.type_for_alias(TYPES[field["type"]]) for field in resource["schema"]["fields"]}


def test_names_and_truth_values_are_read_as_they_are(folder):
    assert set(read(folder, "aggregate.csv")["optimizer"]) == set(SCORES)
    searched = read(folder, "lr_sweep.csv")
    assert set(searched["selected"]) == {True, False}
    assert json.loads(searched["betas"][0]) == [0.9, 0.9]
    assert set(read(folder, "leaderboard.csv")["tuned"]) == {True}
    assert set(read(folder, "ranking.csv")["groups"]) - {""} == {"a"}
    assert read(folder, "significance.csv")["tuned_baseline"][0] is True


def test_the_records_are_in_the_parquet_file(folder):
    table = pyarrow.parquet.read_table(folder / "records.parquet")
    assert table.column_names == described_columns(folder, "records.parquet")
    stages = table["stage"].to_pylist()
    assert stages.count("sweep") == 60
    assert stages.count("final") == 28
    assert stages.count("timing") == 30
    trials = table.to_pylist()
    (ours,) = trials_with(trials, arena="vit", optimizer="PsiLogic", stage="final", seed=1)
    assert ours["status"] == "finished"
    assert ours["test_accuracy"] == 0.9
    assert ours["test_perplexity"] is None
    assert ours["alone"] is True
    assert ours["train_steps"] == [5, 10]
    assert ours["train_loss"] == [2.0, 1.0]
    assert ours["evaluated_at"] == [5, 10]
    assert ours["evaluation_accuracy"] == [0.9, 0.9]
    assert ours["hash_initial_weights"] == sha("vit 1")
    assert ours["mechanism_total_fired"] == mechanism().totals["fired"]
    assert ours["mechanism_read_at"] == [5, 10]
    assert ours["mechanism_added_fired"] == [5.0, 15.0]
    in_tensors = zip(ours["mechanism_tensors"], ours["mechanism_in_tensor_fired"], strict=True)
    assert dict(in_tensors) == mechanism().tensors["fired"]
    assert json.loads(ours["hyperparameters"])["lr"] == 1e-3
    assert ours["batch_size"] == 4
    assert ours["planned_steps"] == 10
    (silent,) = trials_with(trials, arena="vit", optimizer="PsiLogic", stage="final", seed=2)
    assert silent["train_loss"] == []
    lost = trials_with(trials, status="failed")[0]
    assert lost["optimizer"] == "+groups"
    assert lost["error_message"] == "no <luck>"
    assert lost["train_loss"] is None


def trials_with(trials, **values):
    """The trials with these values."""
    return [trial for trial in trials if values.items() <= trial.items()]


def test_a_column_without_a_meaning_is_an_error():
    assert meanings_of(Trial)["lr"] == "learning rate; empty where the sweep has not selected one yet"
    with pytest.raises(KeyError, match="lr"):
        fields_of(make_dataclass("Undocumented", [("lr", float)]))


def test_every_column_of_every_file_has_a_meaning():
    """Also of files that no study of the tests writes: the dictionary of a study would fail."""
    kinds = []
    for section in SECTIONS:
        kinds += [output.kind for output in section.outputs if output.kind and output.name != "records"]
    assert len(kinds) == 17
    for kind in kinds:
        assert all(field.description for field in fields_of(kind))


def test_the_page_on_verdicts_has_every_column_of_the_tuning(folder):
    """Those of significance.csv are in `test_docs.py`."""
    _, _, tuning = VERDICTS.partition("`tuning.csv` has one\n")
    _, _, table = tuning.partition("| column | meaning |")
    table, _, _ = table.partition("\n\n")
    named = []
    for line in table.splitlines()[2:]:
        columns = line.split("|")[1]
        named += re.findall(r"`(\w+)`", columns)
    assert sorted(named) == sorted(described_columns(folder, "tuning.csv"))
