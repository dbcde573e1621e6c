"""The directive `generated`: parts of the reference, made from what they describe."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from docutils import nodes
from markdown_text import code, escaped, meanings, summary, table
from msgspec import Struct
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fairbench.analysis.published.replication import ValueRow, VerdictRow
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
from fairbench.suites.schema import Compare, Suite
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
SET_BY_FAIRBENCH = {"name", "facts", "cell", "size"}
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "table"}
PRESETS: Mapping[type[Preset], Any] = {PsiLogicNLP: NLP, PsiLogicGPT: GPT, PsiLogicViT: VIT}


def command() -> Lines:
    """Every command with its options, an example and its exit codes."""
    for each in _commands(parser()):
        each.formatter_class = lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=88)
        example, _, codes = (each.epilog or "").partition("\nexit codes: ")
        about = each.description or ""
        yield from (f"## {each.prog}", "", escaped(about[:1].upper() + about[1:]), "")
        yield from ("```text", each.format_usage().strip(), "```")
        for group in each._action_groups:
            actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
            rows = [_option(action) for action in actions if action.dest != "help"]
            if rows:
                yield from (table((escaped(group.title or ""), "meaning"), rows))
        yield from ("Example:", "", "```text", example.removeprefix("example: "), "```", "")
        yield from (f"Exit codes: {escaped(codes)}.", "")


def _commands(top: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands that have no commands of their own."""
    below = [action.choices for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    for choices in below:
        for each in choices.values():
            yield from _commands(each)
    if not below:
        yield top


def _option(action: argparse.Action) -> tuple[str, str]:
    """An option with its value, and its help."""
    value = action.metavar or "|".join(action.choices or ())
    shown = f" {value}" if value and action.nargs != 0 else ""
    names = ", ".join(code(f"{name}{shown}") for name in action.option_strings)
    return names or code(value), escaped(action.help or "")


def suite_keys() -> Lines:
    """The keys of each table of a suite file."""
    for title, kind in TABLES.items():
        types, words = get_type_hints(kind), meanings(kind, "Attributes")
        own = [x for x in fields(kind) if x.name not in SET_BY_FAIRBENCH and not _of_tables(types[x.name])]
        rows = [(code(x.name), _type(types[x.name]), _default(x), escaped(words[x.name])) for x in own]
        yield from (f"## {code(title) if '[' in title else title}", "", escaped(summary(kind)))
        yield from table(("key", "value", "default", "meaning"), rows)


def _of_tables(hint: Any) -> bool:
    """Whether a key is a table, or several, with keys of its own."""
    return any(is_dataclass(x) for x in (hint, *get_args(hint)))


def _type(hint: Any) -> str:
    """The type of a value in words."""
    if get_origin(hint) is list:
        return f"list of {_type(get_args(hint)[0])}s"
    kinds = [x for x in get_args(hint) if x is not NoneType] if NoneType in get_args(hint) else [hint]
    return "list of texts" if kinds == [list[str]] else WORDS[get_origin(kinds[0]) or kinds[0]]


def _default(field: Any) -> str:
    """The default of a key as TOML; nothing where it is left out."""
    if field.default is MISSING and field.default_factory is MISSING:
        return "required"
    value = field.default if field.default_factory is MISSING else field.default_factory()
    return "" if value in (None, "", {}) else code(json.dumps(value))


def shocks() -> Lines:
    """The kinds of shocks."""
    rows = []
    for name, facts in SHOCKS.items():
        options = ", ".join(code(f"{key} = {json.dumps(value)}") for key, value in facts.options.items())
        rows.append((code(name), facts.title, ", ".join(facts.kinds), options))
    yield from table(("kind", "effect", "data", "option"), rows)


def words_of() -> Lines:
    """The schedules and the needs of optimizers."""
    yield from table(("schedule", "learning rate"), [(code(name), words) for name, words in SCHEDULES.items()])
    yield from table(("need", "meaning"), [(code(name), words) for name, words in NEEDS.items()])


def data_files() -> Lines:
    """The columns of every data file of a study."""
    searched = Field("NAME", "any", "each further hyperparameter that the suite searches")
    written = {x.file_name: x.kind for section in SECTIONS for x in section.outputs if x.kind}
    for name, kind in written.items():
        own = _record_columns() if kind is RecordTable else fields_of(kind)
        if issubclass(kind, Trial):
            own.insert([x.name for x in own].index("seed"), searched)
        yield from _columns(name, purpose(kind), own)
    for name, kind in COMPARED.items():
        yield from _columns(name, purpose(kind), fields_of(kind))


def _columns(name: str, about: str, own: list[Field]) -> Lines:
    described = [x.to_json() for x in own]
    types = [f"list of {x.item}s" if x.item else x.type for x in own]
    rows = [
        (code(x["name"]), type_, x.get("unit", ""), escaped(x["description"].removeprefix("list: ")))
        for x, type_ in zip(described, types, strict=True)
    ]
    yield from (f"## {name}", "", escaped(about), *table(("column", "type", "unit", "meaning"), rows))


def _record_columns() -> list[Field]:
    """The columns of all records, with words in capitals for names that differ between studies."""
    results = SimpleNamespace(
        study=SimpleNamespace(suite=SimpleNamespace(arenas=["ARENA"], selection="val")), metrics={"ARENA": ["METRIC"]}
    )
    mechanism = SimpleNamespace(totals={"QUANTITY": 0.0}, path_length={"QUANTITY": 0.0}, tensors={})
    cost = SimpleNamespace(seconds={"PHASE": 0.0})
    run = SimpleNamespace(cost=cost, environment={"PACKAGE": ""}, mechanism=mechanism)
    return [*columns(results, [run])]  # type: ignore[arg-type, list-item]


def record() -> Lines:
    """The keys of a record."""
    yield from table(("key", "value"), _record_keys(WholeRecord, ""))


def _record_keys(kind: Any, prefix: str) -> Iterator[tuple[str, str]]:
    for name, hint in get_type_hints(kind).items():
        inner = next((x for x in (hint, *get_args(hint)) if isinstance(x, type) and issubclass(x, Struct)), None)
        listed = "list of: " if get_origin(hint) is list else ""
        shown = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")
        yield code(prefix + name), f"{listed}{escaped(summary(inner))}" if inner else code(shown)
        if inner:
            yield from _record_keys(inner, f"{prefix}{name}.")


def presets() -> Lines:
    """The values of the presets, and the chaos gain of each part of a model."""
    defaults = inspect.signature(PsiLogic).parameters
    names = dict.fromkeys(name for preset in PRESETS for name in preset.hyperparameters)
    values = [[defaults[name].default, *(preset.hyperparameters.get(name) for preset in PRESETS)] for name in names]
    head = ("argument", "PsiLogic", *(preset.__name__ for preset in PRESETS))
    yield from table(head, [(code(name), *map(str, row)) for name, row in zip(names, values, strict=True)])
    yield from ("A preset that gets a module makes these groups:", "")
    gains = [(preset.__name__, x) for preset, sections in PRESETS.items() for x in sections]
    parts = [", ".join(sorted(part.name.lower() for part in x.parts)) for _, x in gains]
    rows = [(name, code(x.name), f"{x.gamma:g}", of) for (name, x), of in zip(gains, parts, strict=True)]
    yield from table(("preset", "group", "gamma", "parts"), rows)


PARTS: Mapping[str, Callable[[], Lines]] = {
    function.__name__: function
    for function in (
        command, suite_keys, shocks, words_of, data_files, record, presets,
    )
}  # fmt: skip


class Generated(SphinxDirective):
    """A part of the reference by its name: `{generated} NAME`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(PARTS[self.arguments[0]]()), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("generated", Generated)
    return {"version": "1", "parallel_read_safe": True}
