"""Arenas and optimizers by the names that a command or a call gives: a suite's, fairbench's or a user's own."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TypeVar

from fairbench.arenas.registry import ARENAS, known_arenas
from fairbench.common.coercion import Wrong
from fairbench.common.errors import UsageError, nearest, unknown
from fairbench.common.imports import check_file, module_and_name
from fairbench.optimizers.registry import known_optimizers
from fairbench.optimizers.spec import BY_PROGRAM, OptimizerPlan
from fairbench.suites.arena_tables import arena_plan
from fairbench.suites.arenas import ArenaPlan

PlanT = TypeVar("PlanT")
OWN_FORM = "path/to/file.py:Class or module:Class"


def named_arenas(names: Iterable[str], known: Mapping[str, ArenaPlan]) -> dict[str, ArenaPlan]:
    """The arenas that names stand for: arenas of a suite, or a user's arenas with the defaults of their classes.

    Raises:
        UsageError: a name is unknown, or two arenas have the same name.
    """
    registered = known_arenas().keys() - ARENAS.keys()
    remark = "these are the suite's, "
    return _named("arena", names, known, _user_arena, remark=remark, registered=registered)


def named_optimizers(
    names: Sequence[str], known: Mapping[str, OptimizerPlan], of_program: bool = False
) -> dict[str, OptimizerPlan]:
    """The optimizers that names stand for.

    A name is that of an optimizer of the suite or of fairbench, or `module:Class`, `file.py:Class` or `program:Name`.

    Args:
        names: the names.
        known: the optimizers of the suite.
        of_program: whether a training program may make the optimizers itself, for messages.

    Raises:
        UsageError: a name is unknown, or two optimizers have the same name.
    """
    by_name = {name: OptimizerPlan() for name in known_optimizers()}
    by_name.update(known)
    if of_program:
        for name in names:
            if name not in by_name and ":" not in name and not name.endswith(".py"):
                raise _unknown_of_program(name, by_name)
    return _named("optimizer", names, by_name, _user_optimizer)


def _unknown_of_program(name: str, known: Iterable[str]) -> UsageError:
    """The error for an optimizer that fairbench does not have, and that a training program may make itself."""
    remedy = f"write {BY_PROGRAM}:{name} if your program makes it itself"
    made_here = nearest(name, known) or "; fairbench list optimizers shows those that fairbench makes"
    return UsageError(f"unknown optimizer {name!r}: {remedy}{made_here}")


def _named(
    kind: str,
    words: Iterable[str],
    known: Mapping[str, PlanT],
    plan_of_user: Callable[[str, str], PlanT],
    remark: str = "",
    registered: Container[str] = (),
) -> dict[str, PlanT]:
    """The plans that words stand for, by name.

    Args:
        kind: "arena" or "optimizer", for messages.
        words: names, or references such as `module:Class`.
        known: the plans that have names.
        plan_of_user: makes the plan of a user's class from its name and its reference.
        remark: the beginning of the advice in an error about an unknown word.
        registered: names that installed packages have registered.
    """
    plans: dict[str, PlanT] = {}
    for word in words:
        name = word
        if word not in known and ":" in word:
            place, name = module_and_name(word, kind)
            if place.endswith(".py"):
                check_file(place, f"{kind} {word!r}")
        if name in plans:
            raise UsageError(f"two {kind}s are called {name!r}: name it once, or rename a class of your own")
        if word in known:
            plans[name] = known[word]
        elif ":" in word or word in registered:
            plans[name] = plan_of_user(name, word)
        elif word.endswith(".py"):
            raise UsageError(f"{kind} {word!r} names a file; name its class too, such as {word}:My{kind.title()}")
        else:
            raise UsageError(f"{unknown(kind, word, known)}; {remark}your own is given as {OWN_FORM}")
    return plans


def _user_optimizer(name: str, factory: str) -> OptimizerPlan:
    """The plan of a user's optimizer, which may be made by a training program."""
    if factory == f"{BY_PROGRAM}:{name}":
        return OptimizerPlan(BY_PROGRAM)
    return OptimizerPlan(factory)


def _user_arena(name: str, task: str) -> ArenaPlan:
    """The plan of a user's arena with the defaults of its class."""
    try:
        return arena_plan(name, {"task": task})
    except Wrong as wrong:
        key = ".".join(wrong.path[2:])  # without "arenas" and the name
        remedy = ""
        if key not in ("", "task"):
            remedy = f"; define it in the arena's defaults or in a suite file's [arenas.{name}]"
        raise UsageError(f"--arenas {task}: {key}: {wrong.reason}{remedy}") from None
