"""A study in Python is what its report is made of: the same rows, names and pictures."""

import csv
import json
import re
import sys
from functools import partial

import pytest

import fairbench as fb

pytestmark = pytest.mark.xdist_group("servers")


@pytest.fixture(scope="module")
def written(tiny_run):
    """The report's files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tiny_run)
        return fb.open("results/mine").report().path.parent.resolve()


TABLES = {
    "significance.csv": lambda study: study.verdicts(),
    "mechanism.csv": lambda study: study.table("mechanism"),
    "cost.csv": lambda study: study.table("cost"),
}


@pytest.mark.parametrize("file", TABLES)
def test_a_table_has_the_columns_and_values_of_its_file(file, study, written):
    with (written / file).open() as lines:
        rows = [*csv.DictReader(lines)]
    table = TABLES[file](study)
    assert list(table.columns) == list(rows[0])
    for values, row in zip(table.to_dicts(), rows, strict=True):
        written_values = {key: in_csv(value) for key, value in values.items()}
        assert written_values == row


def in_csv(value):
    """A value as a CSV file has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    return str(value)


def test_curves_are_the_rows_of_steps(study, written):
    with (written / "steps.csv").open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["metric"] == "loss"]
    curves = study.curves("vit", "loss").to_dicts()
    assert list(curves[0]) == list(rows[0])
    assert [point["value"] for point in curves] == [float(row["value"]) for row in rows]
    assert {point["split"] for point in curves} == {"train", "val"}


def test_trials_are_the_rows_of_the_parquet_file_and_pandas_takes_them(study, written):
    import pandas

    stored = pandas.read_parquet(written / "records.parquet")
    frame = study.trials().to_pandas()
    assert list(stored.columns) == list(frame.columns)
    assert stored["id"].tolist() == frame["id"].tolist()
    assert stored["train_loss"].map(list).tolist() == frame["train_loss"].tolist()
    package = json.loads((written / "datapackage.json").read_text())
    (described,) = [resource for resource in package["resources"] if resource["name"] == "records"]
    assert [field["name"] for field in described["schema"]["fields"]] == list(frame.columns)


def test_what_a_notebook_shows_is_the_reports(study, written):
    page = (written / "report.html").read_text()
    verdicts = study.verdicts()
    shown = verdicts._repr_html_()
    for cell in verdicts.view.rows[0]:
        assert f">{cell.text}<" in shown
        assert f">{cell.text}<" in page
    assert study.figure("learning_curves")._repr_svg_() == (written / "figures/learning_curves.svg").read_text()
    assert 'href="results/mine/report.html"' in study.report()._repr_html_()
    assert '<td style="text-align: left">vit</td>' in fb.Suite.load("mini")._repr_html_()


def test_every_repr_fits_a_screen(study, here):
    tables = [study.verdicts(), study.trials(), study.curves("vit", "loss"), study.audit(), fb.list_suites()]
    analyses = study.analyses
    others = [study, study.status, analyses, analyses.results, analyses.history]
    others += [fb.Suite.load("mini"), fb.compare(study, study)]
    for table in tables:
        lines = repr(table).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
    for value in others:
        assert len(repr(value)) < 200


def test_a_table_is_a_sequence(study):
    curves = study.curves("vit", "loss")
    assert curves[0] == next(iter(curves)) == curves[:2][0]
    assert len(curves[:2]) == 2
    assert "... 2 of 2 rows" not in repr(curves[:2])


def test_without_pandas_the_error_says_what_to_do(study, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fb.UsageError, match=r"pip install pandas; or take to_dicts"):
        study.table("cost").to_pandas()


def test_an_error_names_the_value_and_the_way_out(study, check_errors):
    names = {"fb": fb, "study": study}
    known = partial(re.sub, r"known: [^)]*", "known: ...")
    check_errors("python.txt", lambda expression: eval(expression, names), fb.UsageError, known)


def test_a_saved_suite_loads_to_the_same_suite(here):
    for name in ("zoo", "shock", "strict"):
        suite = fb.Suite.load(name).replace(seeds=3)
        loaded = fb.Suite.load(suite.save("saved.toml"))
        assert {**loaded.content.to_json(), "name": name} == suite.content.to_json()
