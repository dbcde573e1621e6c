"""Variants of a program: as a suite file has them, and as the option --variant gives them."""

import io
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from fairbench.arenas.program import TASK
from fairbench.arenas.program_command import ProgramCommand
from fairbench.common.coercion import Wrong, build
from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import BY_PROGRAM, OptimizerPlan
from fairbench.optimizers.variant import VariantPlan
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.schema import Suite

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
"""A word such as `NAME=value`."""
SETTING = re.compile(r"(?<!\S)(-|@|\w+=)")
"""The beginning of a word that changes a program: an option, a revision, or a value. A name has no such word."""
FORM = '"NAME: words for the command", such as --variant base --variant "dropout: --dropout 0.1"'
DEFAULT_SWEEP = {"lr_min": 1e-4, "lr_max": 1e-2, "points": 5, "seeds": [0], "evaluations": 1}
"""The sweep of a suite file that has variants and no sweep. It is used only if a command has `{lr}`."""


@dataclass(frozen=True)
class VariantTable:
    """The table of a variant in a suite file.

    Attributes:
        args, env, revision, folder: see `VariantPlan`.
        values: values of placeholders in the command.
    """

    args: str = ""
    env: dict[str, str] = field(default_factory=dict)
    revision: str = ""
    folder: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def plan(self) -> OptimizerPlan:
        """The plan of the variant. Whether its learning rate is searched is not known yet, see `with_searched`."""
        variant = VariantPlan(self.args, self.env, self.revision, self.folder)
        return OptimizerPlan(BY_PROGRAM, options=self.values, variant=variant)


def with_program_factories(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a suite file with "program" as the factory of each optimizer that has "program:NAME" there.

    NAME must be the name of the table, since it is what the program gets as `{optimizer}`.
    """
    tables = content.get("optimizers")
    if not isinstance(tables, Mapping):
        return dict(content)
    optimizers = dict(tables)
    for name, table in tables.items():
        factory = str(table.get("factory", "")) if isinstance(table, Mapping) else ""
        if not factory.startswith(f"{BY_PROGRAM}:"):
            continue
        if factory != f"{BY_PROGRAM}:{name}":
            reason = f"names another optimizer than its table; call the table [optimizers.{factory.partition(':')[2]}]"
            raise Wrong(("optimizers", name, "factory"), f"{reason}, got {factory!r}")
        optimizers[name] = {**table, "factory": BY_PROGRAM}
    return {**content, "optimizers": optimizers}


def with_variant_tables(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a suite file whose variants, if it has any, are plans in the place of optimizers.

    The first variant is the reference, unless the file names another. Without a sweep the file gets the default one.

    Raises:
        Wrong: a table does not fit, or the file has optimizers too.
    """
    others = dict(content)
    if "variants" not in content:
        return others
    tables = build(dict[str, VariantTable], others.pop("variants"), ("variants",))
    if not tables:
        raise Wrong(("variants",), "must have at least one table, such as [variants.base]")
    if "optimizers" in content:
        raise Wrong(("variants",), "are compared in place of optimizers; leave [optimizers] out")
    plans = {}
    for name, table in tables.items():
        _check_args(name, table.args)
        plans[name] = table.plan
    first = next(iter(plans))
    return {"reference": first, "sweep": DEFAULT_SWEEP, **others, "optimizers": plans}


def _check_args(name: str, args: str) -> None:
    """Raise `Wrong` unless the text `args` of the table of a variant can be split into words."""
    try:
        shlex.split(args)
    except ValueError as error:
        raise Wrong(("variants", name, "args"), f"must be words of a command: {error}; got {args!r}") from error


def parsed_variants(texts: Iterable[str], program: str) -> dict[str, OptimizerPlan]:
    """The variants that the option --variant gives, by name.

    Args:
        texts: the values of the option, see `FORM`.
        program: the command of the program.

    Raises:
        UsageError: a value does not have its form, or two variants have the same name.
    """
    plans: dict[str, OptimizerPlan] = {}
    for text in texts:
        name, plan = _parsed(text, program)
        if name in plans:
            raise UsageError(f"--variant {text!r}: two variants are called {name!r}; give each a name of its own")
        plans[name] = plan
    return plans


def _parsed(text: str, program: str) -> tuple[str, OptimizerPlan]:
    """The name and the plan of the variant that a value of the option --variant describes."""
    before, colon, rest = text.partition(":")
    name = before.strip()
    args = rest.strip()
    if not name:
        raise UsageError(f"--variant must have the form {FORM}; got {text!r}")
    setting = SETTING.search(name)
    if setting and not colon:
        named = name[: setting.start()].strip() or "NAME"
        form = f"{named}: {name[setting.start() :].strip()}"
        raise UsageError(f"--variant {text!r} has no colon after the name; write {form!r}")
    placeholders = ProgramCommand(program).placeholders
    table = VariantTable()
    while args:
        first, remaining = _first_word(text, args)
        changed = _with_word(table, first, placeholders)
        if changed is None:
            break
        table = changed
        args = remaining
    return name, replace(table, args=args).plan


def _first_word(text: str, args: str) -> tuple[str, str]:
    """The first word of `args`, and the text after this word, unchanged.

    `text` is the whole value of the option, for the error if a quotation in `args` does not end.
    """
    try:
        shlex.split(args)
    except ValueError as error:
        raise UsageError(f"--variant {text!r}: its words cannot be read: {error}; close the quotation") from error
    rest = io.StringIO(args)
    lexer = shlex.shlex(rest, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    word = lexer.get_token() or ""
    return word, rest.read().strip()


def _with_word(table: VariantTable, word: str, placeholders: Iterable[str]) -> VariantTable | None:
    """A variant with the setting that a word gives; None if the word gives none, and so belongs to the command.

    `@REV` is a git revision, and `@` the working tree. `@PATH` is a folder if PATH begins with "/", "./", "../" or
    "~/", or is "." or "..". `NAME=value` is the value of a placeholder of the command. If the command has none with
    this name, and NAME has no small letters, it is an environment variable.
    """
    if word.startswith(("@./", "@../", "@/", "@~/")) or word in ("@.", "@.."):
        return replace(table, folder=word[1:])
    if word.startswith("@"):
        return replace(table, revision=word[1:] or "@")
    assignment = ASSIGNMENT.fullmatch(word)
    if assignment is None:
        return None
    name = assignment[1]
    value = assignment[2]
    if name in placeholders:
        return replace(table, values={**table.values, name: value})
    if name == name.upper():
        return replace(table, env={**table.env, name: value})
    return None


def with_searched(suite: Suite) -> Suite:
    """A suite in which each variant notes whether its learning rate is searched, which is so if it has `{lr}`."""
    plans = {}
    for name, plan in suite.optimizers.items():
        plans[name] = plan
        if plan.variant is not None:
            searched = _has_rate(suite.arenas.values(), plan.variant)
            plans[name] = replace(plan, variant=replace(plan.variant, searched=searched))
    return replace(suite, optimizers=plans)


def _has_rate(arenas: Iterable[ArenaPlan], variant: VariantPlan) -> bool:
    """Whether the command of a program has `{lr}` with a variant, in its words or its environment variables."""
    programs = [arena.model["program"] for arena in arenas if arena.task == TASK]
    return any("lr" in ProgramCommand(program, variant.args, variant.env).placeholders for program in programs)


def is_same_but_for_code(one: OptimizerPlan, other: OptimizerPlan) -> bool:
    """Whether two variants have the same words, environment variables, values and folder."""
    assert one.variant is not None
    assert other.variant is not None
    without_code = replace(one.variant, revision=other.variant.revision, commit=other.variant.commit)
    return without_code == other.variant and one.options == other.options


def check_different(suite: Suite) -> None:
    """Raise `UsageError` if two variants of a suite are declared alike: nothing but chance could tell them apart."""
    for (name, plan), (other, other_plan) in combinations(suite.optimizers.items(), 2):
        if plan.variant is None or other_plan.variant is None:
            continue
        is_same_revision = plan.variant.revision == other_plan.variant.revision
        if is_same_revision and is_same_but_for_code(plan, other_plan):
            remedy = f'a variable that the program does not read shows what chance does, as in "{other}: AGAIN=1"'
            raise UsageError(f"{name} and {other} have the same command, variables and code; change one; {remedy}")


def check_variants(suite: Suite) -> None:
    """Raise `Wrong` for the first error in the variants of a suite."""
    for name, plan in suite.optimizers.items():
        variant = plan.variant
        if variant is None:
            continue
        path = ("variants", name)
        for arena, arena_plan in suite.arenas.items():
            if arena_plan.task != TASK:
                raise Wrong(path, f"is a variant of a program, and arena {arena} has none; give it a program")
        if "lr" in plan.options and variant.searched:
            reason = (
                "is searched for every variant; for rates of your own, call the placeholder otherwise, such as {rate}"
            )
            raise Wrong((*path, "values", "lr"), reason)
        has_begun = bool(variant.commit)  # then the folder is the program's place in the checkout of the revision
        if variant.folder and variant.revision and not has_begun:
            raise Wrong((*path, "folder"), "does not go with a revision, which has a folder of its own; leave one out")
    _check_search(suite)


def _check_search(suite: Suite) -> None:
    """Raise `Wrong` if only some variants have `{lr}`, or if other hyperparameters are searched without `{lr}`."""
    is_searched = {}
    for name, plan in suite.optimizers.items():
        if plan.variant is not None:
            is_searched[name] = plan.variant.searched
    without = [name for name, has_rate in is_searched.items() if not has_rate]
    if without and any(is_searched.values()):
        raise Wrong(("variants", without[0]), "has no {lr}, which other variants have; give it to all, in the command")
    if without and suite.sweep.extra:
        extra = next(iter(suite.sweep.extra))
        raise Wrong(("sweep", "extra", extra), "is searched together with a rate, and the command has no {lr}")
