"""The data dictionary of a study's folder: a Data Package that says what each column of its data files is."""

import json
from collections.abc import Mapping
from typing import Any

from fairbench.report.table import Table, purpose
from fairbench.suites.schema import Suite

VERSION = "2.0.0"
"""The version of all columns: the first number rises where one is removed or changes its meaning, the second where one
is added."""


def data_package(suite: Suite, data: Mapping[str, Table[Any]]) -> str:
    """The dictionary as a Data Package (https://datapackage.org), which the libraries of Frictionless read."""
    package = {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": "fairbench-study",
        "title": suite.name,
        "description": suite.description,
        "version": VERSION,
        "resources": [_resource(name, table) for name, table in data.items()],
    }
    return json.dumps(package, indent=1, ensure_ascii=False) + "\n"


def _resource(name: str, table: Table[Any]) -> dict[str, Any]:
    """A file and its columns."""
    stem, _, ending = name.rpartition(".")
    about = purpose(table.kind) if table.kind else ""
    file = {"name": stem, "type": "table", "path": name, "format": ending, "description": about}
    schema = {"schema": {"fields": [field.to_json() for field in table.fields]}}
    return {**file, **schema, **({"mediatype": "text/csv", "encoding": "utf-8"} if ending == "csv" else {})}
