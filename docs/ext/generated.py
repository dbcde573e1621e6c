"""The directive `generated`: parts of the reference, made from what they describe."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, SimpleNamespace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docutils import nodes
from markdown_text import code, escaped, meanings, summary, table
from msgspec import Struct
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fairbench.analysis.published.replicated_values import ValueRow
from fairbench.analysis.published.replicated_verdicts import VerdictRow
from fairbench.analysis.two_studies import TwoArms
from fairbench.arenas.program import ProgramOptions
from fairbench.arenas.shocks.registry import SHOCKS
from fairbench.cli.parser import parser
from fairbench.optimizers.needs import NEEDS
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.optimizers.treatments import SCHEDULES
from fairbench.report.fields import Field, fields_of, purpose
from fairbench.report.render.parquet import RecordTable
from fairbench.report.render.record_columns import columns
from fairbench.report.replicated_costs import CostRow
from fairbench.report.sections import SECTIONS
from fairbench.report.sections.trial_tables import Trial
from fairbench.study.record import WholeRecord
from fairbench.suites.arenas import ArenaPlan, Ladder
from fairbench.suites.compare import Compare
from fairbench.suites.schema import Suite
from fairbench.suites.stages import Final, Sweep, Training
from psilogic import Preset, PsiLogic, PsiLogicGPT, PsiLogicNLP, PsiLogicViT
from psilogic.models.groups import GPT, NLP, VIT

Lines = Iterator[str]
TABLES: Mapping[str, type] = {
    "The first lines": Suite,
    "[compare]": Compare,
    "[sweep]": Sweep,
    "[final]": Final,
    "[training]": Training,
    "[arenas.NAME]": ArenaPlan,
    "[arenas.NAME] with a training program": ProgramOptions,
    "[optimizers.NAME]": OptimizerPlan,
    "[ladder.ARENA]": Ladder,
}
"""The tables of a suite file."""
COMPARED: Mapping[str, type] = {
    "compare_arms.csv": TwoArms,
    "comparison_paper.csv": ValueRow,
    "comparison_paper_verdicts.csv": VerdictRow,
    "comparison_paper_cost.csv": CostRow,
}
"""The files of `fairbench compare A B` and `fairbench compare DIR paper`."""
SEARCHED = Field("NAME", "any", "each further hyperparameter that the suite searches")
"""The column of a hyperparameter that the suite searches."""
USAGE_WIDTH = 88
"""The columns of the usage of a command."""
SET_BY_FAIRBENCH = {"name", "facts", "cell", "size"}
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "table"}
PRESETS: Mapping[type[Preset], Any] = {PsiLogicNLP: NLP, PsiLogicGPT: GPT, PsiLogicViT: VIT}


def command() -> Lines:
    """Every command with its options, an example and its exit codes."""
    for each in _commands(parser()):
        usage = argparse.RawDescriptionHelpFormatter(each.prog, width=USAGE_WIDTH)
        usage.add_usage(each.usage, each._actions, each._mutually_exclusive_groups)
        about, _, example = (each.description or "").partition("\n\nExample:\n")
        yield f"## {each.prog}"
        yield ""
        yield escaped(about)
        yield ""
        yield "```text"
        yield usage.format_help().strip()
        yield "```"
        for group in each._action_groups:
            yield from _options(group)
        yield "Example:"
        yield ""
        yield "```text"
        yield example.strip()
        yield "```"
        yield ""
        yield escaped(each.epilog or "")
        yield ""


def _commands(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands that have no commands of their own."""
    below = [action.choices for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    for choices in below:
        for each in choices.values():
            yield from _commands(each)
    if not below:
        yield top


def _options(group: argparse._ArgumentGroup) -> Lines:
    """The table of a group of options; nothing if all of them are hidden."""
    rows = []
    for action in group._group_actions:
        if action.help != argparse.SUPPRESS and action.dest != "help":
            rows.append(_option(action))
    if rows:
        title = escaped(group.title or "")
        yield from table((title, "meaning"), rows)


def _option(action: argparse.Action) -> tuple[str, str]:
    """An option with its value, and its help."""
    value = str(action.metavar or "|".join(action.choices or ()))
    meaning = escaped(action.help or "")
    if not action.option_strings:
        return code(value), meaning
    shown = f" {value}" if value and action.nargs != 0 else ""
    names = [code(f"{name}{shown}") for name in action.option_strings]
    return ", ".join(names), meaning


def suite_keys() -> Lines:
    """The keys of each table of a suite file."""
    for title, kind in TABLES.items():
        types = get_type_hints(kind)
        words = meanings(kind, "Attributes")
        rows = []
        for key in fields(kind):
            if key.name not in SET_BY_FAIRBENCH and not _of_tables(types[key.name]):
                rows.append((code(key.name), _type(types[key.name]), _default(key), escaped(words[key.name])))
        heading = code(title) if "[" in title else title
        yield f"## {heading}"
        yield ""
        yield escaped(summary(kind))
        yield from table(("key", "value", "default", "meaning"), rows)


def _of_tables(hint: Any) -> bool:
    """Whether a key is a table, or several, with keys of its own."""
    return any(is_dataclass(part) for part in (hint, *get_args(hint)))


def _type(hint: Any) -> str:
    """The type of a value in words."""
    parts = get_args(hint)
    if NoneType in parts:
        hint = next(part for part in parts if part is not NoneType)
    if get_origin(hint) is Literal:
        return " or ".join(f'"{word}"' for word in get_args(hint))
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        return f"list of {_type(item)}s"
    return WORDS[get_origin(hint) or hint]


def _default(field: Any) -> str:
    """The default of a key as TOML; nothing where it is left out."""
    if field.default is MISSING and field.default_factory is MISSING:
        return "required"
    value = field.default if field.default_factory is MISSING else field.default_factory()
    if value in (None, "", {}):
        return ""
    return code(json.dumps(value))


def shocks() -> Lines:
    """The kinds of shocks."""
    rows = []
    for name, facts in SHOCKS.items():
        options = [code(f"{key} = {json.dumps(value)}") for key, value in facts.options.items()]
        rows.append((code(name), facts.title, ", ".join(facts.kinds), ", ".join(options)))
    yield from table(("kind", "effect", "data", "option"), rows)


def words_of() -> Lines:
    """The schedules and the needs of optimizers."""
    schedules = [(code(name), words) for name, words in SCHEDULES.items()]
    yield from table(("schedule", "learning rate"), schedules)
    needs = [(code(name), words) for name, words in NEEDS.items()]
    yield from table(("need", "meaning"), needs)


def data_files() -> Lines:
    """The columns of every data file of a study."""
    for name, kind in _written_tables().items():
        own = _record_columns() if kind is RecordTable else fields_of(kind)
        if issubclass(kind, Trial):
            names = [column.name for column in own]
            own.insert(names.index("seed"), SEARCHED)
        yield from _columns(name, purpose(kind), own)
    for name, kind in COMPARED.items():
        yield from _columns(name, purpose(kind), fields_of(kind))


def _written_tables() -> dict[str, type]:
    """The kind of the rows of each file of a report."""
    written = {}
    for section in SECTIONS:
        for output in section.outputs:
            if output.kind:
                written[output.file_name] = output.kind
    return written


def _columns(name: str, about: str, own: list[Field]) -> Lines:
    rows = []
    for column in own:
        described = column.to_json()
        type_ = f"list of {column.item}s" if column.item else column.type
        meaning = described["description"].removeprefix("list: ")
        rows.append((code(described["name"]), type_, described.get("unit", ""), escaped(meaning)))
    yield f"## {name}"
    yield ""
    yield escaped(about)
    yield from table(("column", "type", "unit", "meaning"), rows)


def _record_columns() -> list[Field]:
    """The columns of all records, with words in capitals for names that differ between studies."""
    suite = SimpleNamespace(arenas=["ARENA"], selected_on="val", decides="test")
    results = SimpleNamespace(study=SimpleNamespace(suite=suite), metrics={"ARENA": ["METRIC"]})
    run = SimpleNamespace(
        cost=SimpleNamespace(seconds={"PHASE": 0.0}),
        environment={"PACKAGE": ""},
        mechanism=SimpleNamespace(totals={"QUANTITY": 0.0}, path_length={"QUANTITY": 0.0}, tensors={}),
    )
    return [*columns(results, [run])]  # type: ignore[arg-type, list-item]


def record() -> Lines:
    """The keys of a record."""
    yield from table(("key", "value"), _record_keys(WholeRecord, ""))


def _record_keys(kind: Any, prefix: str) -> Iterator[tuple[str, str]]:
    """The keys of a structure, each with its type or, if it is a structure, with what that is; then the keys of it."""
    for name, hint in get_type_hints(kind).items():
        inner = _structure_in(hint)
        if inner is None:
            yield code(prefix + name), code(_name_of(hint))
            continue
        listed = "list of: " if get_origin(hint) is list else ""
        yield code(prefix + name), listed + escaped(summary(inner))
        yield from _record_keys(inner, f"{prefix}{name}.")


def _structure_in(hint: Any) -> type[Struct] | None:
    """The structure that a value is, or that is in it."""
    for part in (hint, *get_args(hint)):
        if isinstance(part, type) and issubclass(part, Struct):
            return part
    return None


def _name_of(hint: Any) -> str:
    """A type as it is written in the source."""
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")


def presets() -> Lines:
    """The values of the presets, and the chaos gain of each part of a model."""
    defaults = inspect.signature(PsiLogic).parameters
    names: dict[str, None] = {}
    for preset in PRESETS:
        names |= dict.fromkeys(preset.hyperparameters)
    rows = []
    for name in names:
        values = [str(preset.hyperparameters.get(name)) for preset in PRESETS]
        rows.append((code(name), str(defaults[name].default), *values))
    preset_names = [preset.__name__ for preset in PRESETS]
    yield from table(("argument", "PsiLogic", *preset_names), rows)

    yield "A preset that gets a module makes these groups:"
    yield ""
    groups = []
    for preset, sections in PRESETS.items():
        for section in sections:
            parts = sorted(part.name.lower() for part in section.parts)
            groups.append((preset.__name__, code(section.name), f"{section.gamma:g}", ", ".join(parts)))
    yield from table(("preset", "group", "gamma", "parts"), groups)


PARTS: Mapping[str, Callable[[], Lines]] = {
    "command": command,
    "suite_keys": suite_keys,
    "shocks": shocks,
    "words_of": words_of,
    "data_files": data_files,
    "record": record,
    "presets": presets,
}


class Generated(SphinxDirective):
    """A part of the reference by its name: `{generated} NAME`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        text = "\n".join(PARTS[name]())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("generated", Generated)
    return {"version": "1", "parallel_read_safe": True}
