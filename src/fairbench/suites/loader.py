"""Read suites from TOML, change them by the options of a command, and check them before anything starts."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairbench.common.coercion import KeyPath, Wrong, build
from fairbench.common.errors import UsageError, unknown
from fairbench.common.toml import tomllib
from fairbench.common.wording import OPTIMIZER
from fairbench.suites.arena_tables import arena_plan
from fairbench.suites.checks import NAME, check_file, check_suite
from fairbench.suites.expansion import expanded
from fairbench.suites.overrides import Overrides, overridden
from fairbench.suites.schema import Suite
from fairbench.suites.suite_file import SuiteFile
from fairbench.suites.variants import with_program_factories, with_variant_tables

UNCHANGED = Overrides()
SUITES = Path(__file__).parent
"""The folder of the suites that fairbench includes."""


def suite_names() -> list[str]:
    """The names of the suites that fairbench includes, sorted."""
    return sorted(file.stem for file in SUITES.glob("*.toml"))


def load_suite(name_or_path: str, overrides: Overrides = UNCHANGED) -> Suite:
    """Read a suite by its name, or from a file that ends in .toml.

    Args:
        name_or_path: one of `suite_names`, or a path.
        overrides: changes, which are made before the suite is checked.

    Raises:
        UsageError: there is no such suite, or something in it is wrong.
    """
    file, text = _read(name_or_path)
    content = _parsed(file, text)
    name = file.name.removesuffix(".toml")
    given_name = content.get("name", name)
    if given_name != name:
        reason = f"name = {given_name!r}: a suite is named by its file, {name!r}; leave that line out"
        raise UsageError(f"{file.name}: {reason}")
    if not re.fullmatch(NAME, name):
        allowed = "letters, digits, '_', '-' and '.'"
        raise UsageError(f"{name_or_path}: a suite is named by its file, and a name has only {allowed}; rename it")
    with _located(file.name, text, overrides):
        suite_file = _suite_file(name, content)
        check_file(suite_file)
        suite = overridden(expanded(suite_file), overrides)
        with _in_words_of(suite):
            check_suite(suite)
    return suite


@contextmanager
def _in_words_of(suite: Suite) -> Iterator[None]:
    """Turn `Wrong` on an optimizer into one on a variant, if the suite compares variants."""
    try:
        yield
    except Wrong as wrong:
        if suite.noun == OPTIMIZER:
            raise
        path = [*wrong.path]
        if path[0] == "optimizers":
            path[0] = "variants"
            path[2:3] = ["values" if key == "options" else key for key in path[2:3]]
        raise Wrong(tuple(path), suite.wording.text(str(wrong.reason))) from None


def _parsed(file: Path, text: str) -> dict[str, Any]:
    """The tables of a suite's TOML. Raises `UsageError` with the line of the first mistake."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason, _, position = str(error).partition(" (at ")
        line = re.match(r"line \d+", position)
        place = f"{file.name}, {line[0]}" if line else file.name
        raise UsageError(f"{place}: {reason}; correct the TOML") from None


def _suite_file(name: str, content: Mapping[str, Any]) -> SuiteFile:
    """The suite with a name and the content of a file, not yet checked. Raises `Wrong` if a value has a wrong type."""
    tables: dict[str, Any] = build(dict[str, Any], content.get("arenas", {}), ("arenas",))
    arenas = {arena: arena_plan(arena, table) for arena, table in tables.items()}
    completed = with_variant_tables(with_program_factories(content))
    suite_file: SuiteFile = build(SuiteFile, {**completed, "name": name, "arenas": arenas}, ())
    return suite_file


def suite_text(name_or_path: str) -> str:
    """The TOML of a suite, by its name or from a file that ends in .toml."""
    _, text = _read(name_or_path)
    return text


def _read(name_or_path: str) -> tuple[Path, str]:
    """The file of a suite, and its text. Raises `UsageError` if it cannot be read."""
    file = _file_of(name_or_path)
    try:
        return file, file.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name_or_path} cannot be read: {error}; give a suite file in UTF-8") from error


def _file_of(name_or_path: str) -> Path:
    """The file of a suite.

    Raises `UsageError` if there is no such file, or if its name is that of an included suite.
    """
    file = Path(name_or_path)
    if not name_or_path.endswith(".toml"):
        if name_or_path in suite_names():
            return SUITES / f"{name_or_path}.toml"
        if file.is_dir():
            advice = "give it as --output-dir, or read it with `fairbench status`; a suite is a name or a TOML file"
            raise UsageError(f"{name_or_path} is a directory, not a suite; {advice}")
        raise unknown("suite", name_or_path, suite_names())
    if not file.is_file():
        names = ", ".join(suite_names())
        raise UsageError(f"there is no suite file {name_or_path!r} in {Path.cwd()}; give its path, or one of: {names}")
    if file.stem in suite_names():
        raise UsageError(f"{name_or_path}: fairbench includes a suite of that name; rename the file")
    return file


def changed(suite: Suite, overrides: Overrides) -> Suite:
    """A suite with changes, checked. Raises `UsageError` if something is unknown, or does not fit."""
    with _located(f"suite {suite.name}", overrides=overrides):
        suite = overridden(suite, overrides)
        check_suite(suite)
    return suite


def parse_suite(content: Mapping[str, Any], where: str) -> Suite:
    """Read the suite whose plain values `Suite.to_json` gave, and check it. Error messages name it `where`."""
    with _located(where):
        suite: Suite = build(Suite, content, ())
        check_suite(suite)
    return suite


@contextmanager
def _located(where: str, text: str = "", overrides: Overrides = UNCHANGED) -> Iterator[None]:
    """Turn `Wrong` into a `UsageError` that names the option that set the value, or else the file and the line."""
    try:
        yield
    except Wrong as wrong:
        message = overrides.message(wrong.path, wrong.reason)
        if message:
            raise UsageError(message) from None
        number = line_of(text, wrong.path)
        place = f"{where}, line {number}" if number else where
        raise UsageError(f"{place}: {'.'.join(wrong.path)}: {wrong.reason}") from None


def line_of(text: str, path: KeyPath) -> int:
    """The number of the line in a TOML text that shares the longest beginning of its path with a key; 0 without one."""
    best_line = 0
    best_depth = 0
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[([^\[\]]+)\]", line)
        key = re.match(r"\s*([\w\-\"'.]+)\s*=", line)
        if header:
            table = _key_path(header[1])
            line_path = table
        elif key:
            line_path = table + _key_path(key[1])
        else:
            continue
        depth = min(len(line_path), len(path))
        if path[:depth] == line_path[:depth] and depth > best_depth:
            best_line = number
            best_depth = depth
    return best_line


def _key_path(text: str) -> KeyPath:
    """The path of a key in a line of TOML, such as `a."b".c`."""
    return tuple(part.strip(" \"'") for part in text.split("."))
