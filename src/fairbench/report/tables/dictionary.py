"""The data dictionary of a study's folder: a Data Package that says what each column of its data files is."""

import json
from typing import Any

from fairbench.analysis.analyses import Analyses
from fairbench.report.tables.csv_files import TRIALS, analysis_rows, further_hyperparameters
from fairbench.report.tables.fields import Field, fields_of, purpose
from fairbench.report.tables.parquet import RECORDS, Columns
from fairbench.report.tables.rows import Trial

VERSION = "1.0.0"
"""The version of all columns: the first number rises where one is removed or changes its meaning, the second where one
is added."""


def data_package(analyses: Analyses, records: Columns) -> str:
    """The dictionary as a Data Package (https://datapackage.org), which the libraries of Frictionless read."""
    suite = analyses.suite
    *first, seed = fields_of(Trial)
    searched = [Field(x, "any", "searched hyperparameter") for x in further_hyperparameters(suite)]
    resources = [
        *(_csv(name, purpose(kind), [*first, *searched, seed, *fields_of(kind)]) for name, kind in TRIALS.items()),
        *(_csv(name, purpose(kind), fields_of(kind)) for name, (kind, _) in analysis_rows(analyses).items()),
        _resource(RECORDS, "All records, a row for each trial.", [column.field for column in records]),
    ]
    package = {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": "fairbench-study",
        "title": suite.name,
        "description": suite.description,
        "version": VERSION,
        "resources": resources,
    }
    return json.dumps(package, indent=1, ensure_ascii=False) + "\n"


def _csv(name: str, description: str, fields: list[Field]) -> dict[str, Any]:
    resource = _resource(name, description, fields)
    return {**resource, "mediatype": "text/csv", "encoding": "utf-8"}


def _resource(name: str, description: str, fields: list[Field]) -> dict[str, Any]:
    """A file and its columns."""
    stem, _, ending = name.rpartition(".")
    about = {"name": stem, "type": "table", "path": name, "format": ending, "description": description}
    return {**about, "schema": {"fields": [field.to_json() for field in fields]}}
