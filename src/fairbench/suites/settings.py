"""Changes of single values of a suite by dotted keys, as the option `--set` gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairbench.common.coercion import KeyPath, build
from fairbench.common.errors import UsageError, pick, unknown
from fairbench.common.formatting import some
from fairbench.common.toml import tomllib
from fairbench.suites.arena_tables import arena_plan
from fairbench.suites.schema import Suite

FORM = "AdamW.weight_decay=0.1, training.clip_norm=0 or arenas.vit.steps=100"
NAMED = (("arenas",), ("optimizers",))
"""The tables whose keys are names: a setting does not add one."""


def parse_setting(text: str) -> tuple[str, Any]:
    """The dotted key and the value of a text such as "AdamW.weight_decay=0.1"; the value is TOML."""
    left, equals, right = text.partition("=")
    key = left.strip()
    value = right.strip()
    if not key or not equals:
        raise UsageError(f"--set must have the form key=value, such as {FORM}; got {text!r}")
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        advice = f"text needs quotes, such as --set '{key}=\"{value}\"'"
        if "," in value:
            advice = f"a list needs brackets, such as --set '{key}=[{value}]'"
        raise UsageError(f"--set {text}: {value!r} is no TOML value; {advice}") from None


def with_settings(suite: Suite, settings: Mapping[str, Any]) -> Suite:
    """A suite with the values of some dotted keys replaced."""
    tables = suite.to_json()
    arenas = tables["arenas"]
    facts = {name: table.pop("facts") for name, table in arenas.items()}
    changed_tables = set()
    for key, value in settings.items():
        path = change(tables, key, value)
        changed_tables.add(path[:2])
    for name in facts:
        if ("arenas", name) in changed_tables:
            arenas[name] = arena_plan(name, arenas[name])  # the class of a user's arena knows its options
        else:
            arenas[name]["facts"] = facts[name]
    replaced: Suite = build(Suite, tables, ())
    return replaced


def change(tables: dict[str, Any], key: str, value: Any) -> KeyPath:
    """Replace the value of a dotted key in the tables of a suite. Returns the path of the key."""
    path = setting_path(tables, key)
    table = tables
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UsageError(f"setting {key}: {part} is a value, not a table; leave out what follows it")
    table[path[-1]] = value
    return path


def setting_path(tables: Mapping[str, Any], key: str) -> KeyPath:
    """The path of a dotted key. "AdamW.eps" is an option of the optimizer AdamW; other keys are as in a suite file."""
    optimizers = tables["optimizers"]
    head, dot, _ = key.partition(".")
    if head in tables and (dot or not isinstance(tables[head], dict)):
        return _path(tables, key, ())
    name = _longest(optimizers, key)
    if name:
        option = key.removeprefix(f"{name}.")
        return ("optimizers", name, "options", option)
    if not dot:
        examples = some([f"{name}.{key}" for name in optimizers])
        raise UsageError(
            f"--set {key}: put the name of an optimizer or of a table before it: {examples}, or training.{key}"
        )
    names_of_tables = [name for name, table in tables.items() if isinstance(table, dict)]
    named, _, _ = key.rpartition(".")
    raise unknown("optimizer or table of a suite", named, [*optimizers, *names_of_tables])


def _path(table: Mapping[str, Any], key: str, above: KeyPath) -> KeyPath:
    """The parts of a dotted key in a table, which is at the path `above`.

    The name of an arena or an optimizer may itself contain dots.
    """
    name = _longest(table, key)
    if name:
        inner = table[name] if isinstance(table[name], dict) else {}
        return (name, *_path(inner, key.removeprefix(f"{name}."), (*above, name)))
    if above in NAMED:
        kind = above[0].removesuffix("s")
        head, _, _ = key.partition(".")
        pick(kind, head, table)
    return tuple(key.split("."))


def _longest(table: Mapping[str, Any], key: str) -> str:
    """The longest key of a table that is the beginning of a dotted key; empty without one."""
    matching = [name for name in table if key.startswith(f"{name}.")]
    return max(matching, key=len, default="")
