"""Suites from TOML, checked before anything starts: every error names the key, its value and the line."""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from fairbench.arenas.registry import ARENAS
from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.common.errors import UsageError, unknown
from fairbench.suites.checks import check
from fairbench.suites.coercion import KeyPath, Wrong, build
from fairbench.suites.schema import Suite
from fairbench.suites.user_arenas import completed

if sys.version_info >= (3, 11):
    from importlib.resources.abc import Traversable

    import tomllib
else:
    from importlib.abc import Traversable

    import tomli as tomllib


def _suites() -> Traversable:
    return resources.files("fairbench") / "suites"


def suite_names() -> list[str]:
    """Names of the suites that come with fairbench."""
    return sorted(file.name.removesuffix(".toml") for file in _suites().iterdir() if file.name.endswith(".toml"))


def load_suite(name_or_path: str) -> Suite:
    """Read a suite by its name, or from a file that ends in .toml.

    Raises:
        UsageError: there is no such suite or file, or something in it is wrong.
    """
    if name_or_path.endswith(".toml"):
        file: Traversable = Path(name_or_path)
        if not file.is_file():
            raise UsageError(f"no suite file {name_or_path!r}")
        if file.name.removesuffix(".toml") in suite_names():
            raise UsageError(f"{name_or_path}: a suite of that name comes with fairbench; rename the file")
    elif name_or_path in suite_names():
        file = _suites() / f"{name_or_path}.toml"
    else:
        raise unknown("suite", name_or_path, suite_names())
    try:
        text = file.read_bytes().decode("utf-8-sig")
        content = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file.name}: {error}") from error
    name = file.name.removesuffix(".toml")
    if content.get("name", name) != name:
        given = f"name = {content['name']!r}"
        raise UsageError(f"{file.name}: {given}: a suite is named by its file, {name!r}; leave that line out")
    with _located(file.name, text):
        content = _with_own_arenas({**content, "name": name})
    return parse_suite(_with_twins(content, file.name), file.name, text)


def _with_own_arenas(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a suite file, with all that its own arenas say of themselves."""
    arenas = content.get("arenas")
    if not isinstance(arenas, Mapping):
        return content
    tables = {name: completed(name, x) if isinstance(x, Mapping) else x for name, x in arenas.items()}
    return {**content, "arenas": tables}


def _with_twins(content: dict[str, Any], where: str) -> dict[str, Any]:
    """The content of a suite file without its table `shock`: with a twin of each arena for each shock that fits it.

    A twin is the arena with that shock, and is tuned where the arena is.

    Raises:
        UsageError: the table is none of tables.
    """
    shocks, arenas = content.pop("shock", {}), content.get("arenas", {})
    if not isinstance(shocks, Mapping) or not all(isinstance(x, Mapping) for x in (*shocks.values(), *arenas.values())):
        raise UsageError(
            f"{where}: shock: must hold a table for each shock, as [shock.loss], and arenas one for each arena"
        )
    for name, arena in [*arenas.items()] if shocks else []:
        task = arena.get("task", name)
        kind = arena["facts"]["kind"] if "facts" in arena else ARENAS[task].kind if task in ARENAS else ""
        for shock, options in shocks.items():
            facts = SHOCKS.get(str(options.get("kind")))
            if facts is None or not kind or kind in facts.kinds:
                twin = {"task": task, "tuned_on": arena.get("tuned_on", name), "shock": options}
                arenas = {**arenas, f"{name}-{shock}": {**arena, **twin}}
    return {**content, "arenas": arenas}


def parse_suite(content: Mapping[str, Any], where: str, text: str = "") -> Suite:
    """Check the plain values of a suite and make them a `Suite`.

    Args:
        content: the suite, as TOML or `Suite.to_json` gives it.
        where: what errors call it.
        text: its TOML text, in which errors find the line.

    Raises:
        UsageError: a key is unknown or missing, or has a wrong value.
    """
    with _located(where, text):
        suite: Suite = build(Suite, content, ())
        check(suite)
    return suite


@contextmanager
def _located(where: str, text: str) -> Iterator[None]:
    """Say of what is wrong where it stands: in which file, and in which line of its text."""
    try:
        yield
    except Wrong as wrong:
        line = f", line {number}" if (number := line_of(text, wrong.path)) else ""
        raise UsageError(f"{where}{line}: {'.'.join(wrong.path)}: {wrong.reason}") from None


def line_of(text: str, path: KeyPath) -> int:
    """Line number of the key in the TOML text: of the key itself, else of the nearest table around it; 0 if none."""
    best, best_depth = 0, 0
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = tuple(part.strip(" \"'") for part in header[1].split("."))
            here = table
        elif key := re.match(r"\s*([\w\-\"'.]+)\s*=", line):
            here = (*table, *(part.strip("\"'") for part in key[1].split(".")))
        else:
            continue
        if path[: len(here)] == here and len(here) > best_depth:
            best, best_depth = number, len(here)
    return best
