"""Single values of a suite by dotted keys, as the option `--set` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairbench.common.coercion import KeyPath, build
from fairbench.common.errors import UsageError, pick, unknown
from fairbench.common.toml import tomllib
from fairbench.suites.arena_tables import arena_plan
from fairbench.suites.schema import Suite

FORM = "AdamW.weight_decay=0.1, training.clip_norm=0 or arenas.vit.steps=100"
NAMED = (("arenas",), ("optimizers",))
"""The tables whose keys are names: a setting does not add one."""


def parse_setting(text: str) -> tuple[str, Any]:
    """The dotted key and the value of a text such as "AdamW.weight_decay=0.1"; the value is TOML."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals):
        raise UsageError(f"--set must have the form key=value, as {FORM}; got {text!r}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        advice = f"text needs quotes, as --set '{key}=\"{value}\"'"
        raise UsageError(f"--set {text}: {value!r} is no TOML value; {advice}") from None


def with_settings(suite: Suite, settings: Mapping[str, Any]) -> Suite:
    """A suite with some values replaced, by their dotted keys."""
    tables = suite.to_json()
    facts = {name: table.pop("facts") for name, table in tables["arenas"].items()}
    changed = [change(tables, key, value) for key, value in settings.items()]
    for name, known in facts.items():
        if ("arenas", name) in (path[:2] for path in changed):  # the class of a user's arena knows its options
            tables["arenas"][name] = arena_plan(name, tables["arenas"][name])
        else:
            tables["arenas"][name]["facts"] = known
    replaced: Suite = build(Suite, tables, ())
    return replaced


def change(tables: dict[str, Any], key: str, value: Any) -> KeyPath:
    """Replace the value of a dotted key in the tables of a suite; returns the path of the key."""
    path = setting_path(tables, key)
    table = tables
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UsageError(f"setting {key}: {part} is a value, not a table; leave out what follows it")
    table[path[-1]] = value
    return path


def setting_path(tables: Mapping[str, Any], key: str) -> KeyPath:
    """The path of a dotted key: "AdamW.eps" is an option of AdamW, anything else a key as in a suite file."""
    optimizers = tables["optimizers"]
    head, dot, _ = key.partition(".")
    if head in tables and (dot or not isinstance(tables[head], dict)):
        return _path(tables, key, ())
    if name := _longest(optimizers, key):
        return ("optimizers", name, "options", key[len(name) + 1 :])
    if not dot:
        raise UsageError(f"--set must have the form key=value, as {FORM}; got the key {key!r}")
    known = [*optimizers, *(name for name, table in tables.items() if isinstance(table, dict))]
    raise unknown("optimizer or table of a suite", key.rpartition(".")[0], known)


def _path(table: Mapping[str, Any], key: str, above: KeyPath) -> KeyPath:
    """The parts of a dotted key; the name of an arena or an optimizer may contain dots itself."""
    if name := _longest(table, key):
        inner = table[name] if isinstance(table[name], dict) else {}
        return (name, *_path(inner, key[len(name) + 1 :], (*above, name)))
    if above in NAMED:
        pick(above[0].removesuffix("s"), key.partition(".")[0], table)
    return tuple(key.split("."))


def _longest(table: Mapping[str, Any], key: str) -> str:
    """The longest key of a table with which a dotted key begins; empty without one."""
    return max((name for name in table if key.startswith(f"{name}.")), key=len, default="")
