"""Changes to a suite by the options of a command."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fairbench.arenas.registry import ARENAS, known_arenas
from fairbench.common.coercion import KeyPath, Wrong, build
from fairbench.common.errors import UsageError, pick
from fairbench.common.imports import place_and_name
from fairbench.data.registry import READING
from fairbench.optimizers.resolve import known_optimizers
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.schema import ArenaPlan, Suite, Sweep
from fairbench.suites.user_arenas import completed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

USER_DATA: dict[str, dict[str, int]] = {"images": {"size": 32}, "text": {}}
"""Options for a user's folder on the command line: images so small that a study takes minutes."""
GRID_KEYS = ("lr_min", "lr_max", "points")


@dataclass(frozen=True)
class Overrides:
    """Changes to a suite by the options of a command.

    Attributes:
        arenas: only these: names in the suite, and users' arenas as `module:Class`, `path/to/file.py:Class` or the name
            of an entry point. None for all.
        optimizers: only these, named in the suite, known to fairbench, or as `module:Class` or `path/to/file.py:Class`.
            None for all.
        added: further optimizers.
        settings: hyperparameters as in "AdamW.weight_decay=0.1"; the values are TOML.
        lr_grid: a grid of learning rates as in "1e-4:1e-1:7"; empty for the suite's search.
        folders: a user's folder by kind of data, "images" or "text".
        reference: the reference optimizer; empty for the suite's.
        compile: whether to compile models and optimizer steps; False for the suite's choice.
        preview: for `fairbench try`: one arena (the first if `arenas` is None) is swept itself, and the last optimizer
            is the reference.
    """

    arenas: Sequence[str] | None = None
    optimizers: Sequence[str] | None = None
    added: Sequence[str] = ()
    settings: Sequence[str] = ()
    lr_grid: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    compile: bool = False
    preview: bool = False

    def option_at(self, path: KeyPath) -> str:
        """The option that set the value of a key; empty if it comes from the suite file."""
        if path[:1] == ("sweep",) and path[-1] in GRID_KEYS and self.lr_grid:
            return f"--lr-grid {self.lr_grid}"
        for text in self.settings:
            name, _, option = text.partition("=")[0].strip().rpartition(".")
            if path[:4] == ("optimizers", name, "options", option):
                return f"--set {text}"
        for word in self.arenas or ():
            if ":" in word and path[:2] == ("arenas", word.rpartition(":")[2]):
                return f"--arenas {word}"
        return ""


def overridden(suite: Suite, overrides: Overrides) -> Suite:
    """A suite with the changes of a command, not yet checked.

    Raises:
        UsageError: an option has a wrong form, or names an unknown arena or optimizer.
    """
    if overrides.compile:
        suite = replace(suite, training=replace(suite.training, compile=True))
    if overrides.lr_grid:
        suite = replace(suite, sweep=_with_grid(suite.sweep, overrides.lr_grid))
    suite = _with_folders(_with_arenas(suite, overrides), overrides.folders)
    names = [*(suite.optimizers if overrides.optimizers is None else overrides.optimizers), *overrides.added]
    optimizers = with_settings(named_optimizers(names, suite.optimizers), overrides.settings)
    suite = replace(suite, optimizers=optimizers)
    if overrides.preview:
        return replace(suite, reference=[*optimizers][-1], ladder=[])
    narrowed = overrides.optimizers is not None
    if narrowed and not set(suite.ladder) <= optimizers.keys():  # without a rung, the next one adds two things
        suite = replace(suite, ladder=[])
    if (narrowed or overrides.reference) and (overrides.reference or suite.reference) not in optimizers:
        name, choices = overrides.reference or suite.reference, ", ".join(optimizers)
        raise UsageError(f"the reference optimizer {name!r} is not in the run; give --reference one of: {choices}")
    return replace(suite, reference=overrides.reference or suite.reference)


def _with_grid(sweep: Sweep, text: str) -> Sweep:
    """The sweep with its search replaced by a grid of learning rates."""
    try:
        lowest, highest, points = text.split(":")
        lr_min, lr_max, count = float(lowest), float(highest), int(points)
        if count < 1:  # the schema takes 0 for a missing number
            raise ValueError
    except ValueError:
        form = "lowest:highest:points, as 1e-4:1e-1:7"
        raise UsageError(f"--lr-grid must have the form {form}; got {text!r}") from None
    budget = count + sweep.budget - sweep.points if sweep.search == "grid" and sweep.budget else 0
    return replace(sweep, search="grid", lr_min=lr_min, lr_max=lr_max, points=count, budget=budget, search_seed=0)


def _with_arenas(suite: Suite, overrides: Overrides) -> Suite:
    """The suite with only the named arenas, and without options of optimizers for other arenas."""
    names = overrides.arenas
    if names is None:
        if not overrides.preview:
            return suite
        names = [*suite.arenas][:1]
    arenas = named_arenas(names, suite.arenas)
    if overrides.preview:
        arenas = {name: replace(plan, tuned_on="") for name, plan in arenas.items()}
    optimizers = {
        name: replace(plan, arenas={arena: options for arena, options in plan.arenas.items() if arena in arenas})
        for name, plan in suite.optimizers.items()
    }
    return replace(suite, arenas=arenas, optimizers=optimizers)


def named_arenas(names: Iterable[str], known: Mapping[str, ArenaPlan]) -> dict[str, ArenaPlan]:
    """Arenas of a suite by their names; users' arenas have the defaults of their classes.

    Raises:
        UsageError: an arena is unknown or incomplete, or two have the same name.
    """
    registered = known_arenas().keys() - ARENAS.keys()
    plans: dict[str, ArenaPlan] = {}
    for word in names:
        is_users = word not in known and (":" in word or word in registered)
        name = place_and_name(word, "arena")[1] if ":" in word else word
        if name in plans:
            raise UsageError(f"two arenas are called {name!r}; rename one in a suite file")
        plans[name] = _user_arena(name, word) if is_users else pick("arena", word, known)
    return plans


def _user_arena(name: str, task: str) -> ArenaPlan:
    path = ("arenas", name)
    try:
        plan: ArenaPlan = build(ArenaPlan, completed(name, {"task": task}), path)
    except Wrong as wrong:
        key = ".".join(wrong.path[len(path) :])
        place = f"the arena's defaults or in a suite file's [arenas.{name}]"
        remedy = "" if key in ("", "task") else f"; define it in {place}"
        raise UsageError(f"--arenas {task}: {key}: {wrong.reason}{remedy}") from None
    return plan


def _with_folders(suite: Suite, folders: Mapping[str, str]) -> Suite:
    """The suite with arenas that read a user's folders, with unchanged reading options.

    Raises:
        UsageError: no arena reads data of a kind.
    """
    arenas = dict(suite.arenas)
    for kind, folder in folders.items():
        facts = {name: plan.facts or ARENAS.get(plan.task or name) for name, plan in arenas.items()}
        matching = [name for name, known in facts.items() if known and known.kind == kind]
        if not matching:
            raise UsageError(f"--{kind} {folder}: none of these arenas reads {kind}: {', '.join(arenas)}")
        for name in matching:
            reading = {key: value for key, value in arenas[name].data.items() if key in READING[kind]}
            arenas[name] = replace(arenas[name], data={"source": kind, "path": folder, **USER_DATA[kind], **reading})
    return replace(suite, arenas=arenas)


def named_optimizers(names: Iterable[str], known: Mapping[str, OptimizerPlan]) -> dict[str, OptimizerPlan]:
    """Optimizers by their names in a suite or in fairbench, or as `module:Class` or `path/to/file.py:Class`.

    Raises:
        UsageError: an optimizer is unknown, or two have the same name.
    """
    by_name = {**{name: OptimizerPlan() for name in known_optimizers()}, **known}
    plans: dict[str, OptimizerPlan] = {}
    for word in names:
        is_users = word not in known and ":" in word
        name = place_and_name(word, "optimizer factory")[1] if is_users else word
        if name in plans:
            raise UsageError(f"two optimizers are called {name!r}; rename one in a suite file")
        if not is_users and word.endswith(".py"):
            raise UsageError(f"optimizer {word!r} names a file; name its class too, as {word}:MyOptimizer")
        plans[name] = OptimizerPlan(factory=word) if is_users else pick("optimizer", word, by_name)
    return plans


def with_settings(optimizers: Mapping[str, OptimizerPlan], settings: Iterable[str]) -> dict[str, OptimizerPlan]:
    """Optimizers with hyperparameters from texts as "AdamW.weight_decay=0.1"; the values are TOML.

    Raises:
        UsageError: a text has the wrong form or names an unknown optimizer, or its value is not TOML.
    """
    plans = dict(optimizers)
    for text in settings:
        key, equals, value = text.partition("=")
        name, _, option = key.strip().rpartition(".")
        if not (equals and name and option):
            form = "OPTIMIZER.option=value, as AdamW.weight_decay=0.1"
            raise UsageError(f"--set must have the form {form}; got {text!r}")
        plan = pick("optimizer", name, plans)
        plans[name] = replace(plan, options={**plan.options, option: _toml_value(text, key, value.strip())})
    return plans


def _toml_value(text: str, key: str, value: str) -> Any:
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        advice = f"text needs quotes, as --set '{key}=\"{value}\"'"
        raise UsageError(f"--set {text}: {value!r} is no TOML value; {advice}") from None
