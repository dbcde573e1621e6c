"""Changes to a suite by the options of a command."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from fairbench.arenas.program import PROGRAM_SUITE, TASK
from fairbench.arenas.registry import ARENAS
from fairbench.common.coercion import KeyPath, Wrong
from fairbench.common.errors import UsageError
from fairbench.common.formatting import plural, some
from fairbench.data.datasets.registry import READING
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.arenas import ArenaPlan
from fairbench.suites.compare import ALL, Compare
from fairbench.suites.lengths import with_seeds, with_steps
from fairbench.suites.named_plans import named_arenas, named_optimizers
from fairbench.suites.schema import Suite
from fairbench.suites.settings import with_settings
from fairbench.suites.stages import Sweep
from fairbench.suites.variants import with_searched

USER_DATA: dict[str, dict[str, int]] = {"images": {"size": 32}, "text": {}}
"""Options for a user's folder on the command line: images so small that a study takes minutes."""
SET_BY = {
    "lr_grid": ("sweep.lr_m*", "sweep.points"),
    "seeds": ("final.seeds", "final.interim_analyses"),
    "steps": ("arenas.*.steps", "arenas.*.sweep_steps", "training.warmup_steps", "training.log_every", "sweep.extra.*"),
}
"""The keys that an option changes, as patterns, in the order in which an error looks for the option."""


@dataclass(frozen=True)
class Overrides:
    """Changes to a suite by the options of a command.

    The attributes are the arguments of `fairbench.Suite.replace`, and:
        added: names of further optimizers.
        folders: a user's folder by kind of data, "images" or "text".
        preview: whether the suite is for `fairbench try`. It then has one arena with a sweep of its own, which is the
            first one if `arenas` is None, and its reference is the first optimizer.
        variants: variants of a program, which are compared in place of optimizers; empty for none.
        options: the option of the command that gave each of the `settings`, where it was not --set.
    """

    arenas: Sequence[str] | None = None
    optimizers: Sequence[str] | None = None
    added: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: int | Sequence[int] | None = None
    steps: int | None = None
    lr_grid: str = ""
    folders: Mapping[str, str] = field(default_factory=dict)
    reference: str = ""
    preview: bool = False
    variants: Mapping[str, OptimizerPlan] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def message(self, path: KeyPath, reason: object) -> str:
        """The message on the value of a key that an option set; empty if it comes from the suite file.

        The key is left out where the user typed none: where the option alone says what is wrong.
        """
        option = self._option_at(path)
        if not option:
            return ""
        if option in self.options.values():
            return f"{option} {reason}"
        if option.startswith("--variant "):
            of_table = path[2:]
            if of_table:
                return f"{option}: {Wrong(of_table, reason)}"
            return f"{option} {reason}"
        is_of_program = path[:2] == ("arenas", PROGRAM_SUITE) and not option.startswith("setting ")
        if is_of_program or path == ("final", "seeds"):
            return f"{option}: {reason}"
        return f"{option}: {'.'.join(path)}: {reason}"

    def _option_at(self, path: KeyPath) -> str:
        """The option that set the value of a key; empty if it comes from the suite file."""
        keys = (".".join(path), _short_key(path), _key_of_model(path))
        entry = path[:2]  # a table of the suite, and a name in it
        for setting in self.settings:
            is_table_of_key = any(key.startswith(f"{setting}.") for key in keys)
            if setting in keys or is_table_of_key:
                return self.options.get(setting, f"setting {setting}")
        for name in self.variants:
            if entry in (("variants", name), ("optimizers", name)):
                return f"--variant {name}"
        for option, patterns in SET_BY.items():
            value = getattr(self, option)
            was_given = value not in (None, "")
            if was_given and any(fnmatchcase(keys[0], pattern) for pattern in patterns):
                return f"--{option.replace('_', '-')} {value}"
        for word in self.arenas or ():
            _, colon, name = word.rpartition(":")  # a user's own arena is given as file.py:Class
            if colon and entry == ("arenas", name):
                return f"--arenas {word}"
        return ""


def _short_key(path: KeyPath) -> str:
    """The key as a setting can name it: "AdamW.eps" for "optimizers.AdamW.options.eps"."""
    if path[:1] == ("optimizers",) and path[2:3] == ("options",):
        return ".".join((path[1], *path[3:]))
    return ".".join(path)


def _key_of_model(path: KeyPath) -> str:
    """The key of a program as an option sets it: "arenas.mine.model.at" for "arenas.mine.at"."""
    return ".".join((*path[:2], "model", *path[2:]))


def overridden(suite: Suite, overrides: Overrides) -> Suite:
    """A suite with the changes of a command, not yet checked. If anything differs, its description says what it is.

    Raises:
        UsageError: something is unknown, or an option does not have its form.
    """
    changed = _changed(suite, overrides)
    has_program = any(plan.task == TASK for plan in changed.arenas.values())
    if changed == suite or has_program or not changed.arenas:  # the suite of a program has no sizes of its own
        return changed
    return replace(changed, description=_description(changed))


def _description(suite: Suite) -> str:
    """What a suite consists of that the options of a command have changed: the text of its file may be wrong for it."""
    steps = sorted({plan.steps for plan in suite.arenas.values()})
    span = f"{steps[0]} to {steps[-1]} steps"
    if len(steps) == 1:
        span = plural(steps[0], "step")
    arenas = f"{plural(len(suite.arenas), 'arena')} ({some([*suite.arenas])})"
    optimizers = f"{plural(len(suite.optimizers), 'optimizer')} ({some([*suite.optimizers])})"
    return f"changed by options: {arenas}, {optimizers}, {span}"


def _changed(suite: Suite, overrides: Overrides) -> Suite:
    """A suite with the changes of a command, and with the description that it had."""
    if overrides.lr_grid:
        suite = replace(suite, sweep=_with_grid(suite.sweep, overrides.lr_grid))
    suite = _with_arenas(suite, overrides)
    suite = _with_folders(suite, overrides.folders)
    if overrides.variants:
        first = next(iter(overrides.variants))
        suite = replace(suite, optimizers=dict(overrides.variants), reference=first, compare=Compare(), controls=[])
    else:
        suite = _with_optimizers(suite, overrides)
    if overrides.steps is not None:
        suite = with_steps(suite, overrides.steps)
    if overrides.seeds is not None:
        suite = with_seeds(suite, overrides.seeds)
    if overrides.settings:
        suite = with_settings(suite, overrides.settings)
    suite = with_searched(suite)
    if overrides.preview:
        first = next(iter(suite.optimizers))
        return replace(suite, reference=first, compare=Compare(), controls=[])
    return _with_reference(suite, overrides)


def _with_grid(sweep: Sweep, text: str) -> Sweep:
    """The sweep with another grid of learning rates. The number of rates beyond the grid stays the same."""
    try:
        lowest, highest, number = text.split(":")
        lr_min = float(lowest)
        lr_max = float(highest)
        points = int(number)
    except ValueError:
        raise UsageError(
            f"--lr-grid must have the form lowest:highest:points, such as 1e-4:1e-1:7; got {text!r}"
        ) from None
    budget = 0
    if sweep.budget:
        budget = points + sweep.budget - sweep.points
    return replace(sweep, lr_min=lr_min, lr_max=lr_max, points=points, budget=budget)


def _with_arenas(suite: Suite, overrides: Overrides) -> Suite:
    """The suite with only the named arenas, and without options of optimizers for other arenas."""
    words = overrides.arenas
    if words is None:
        if not overrides.preview:
            return suite  # all arenas stay
        words = list(suite.arenas)[:1]
    names = []
    for word in words:
        names += _arenas_of(word, suite.arenas)
    arenas = named_arenas(names, suite.arenas)
    if overrides.preview:
        arenas = _first_on_its_own(arenas)
    optimizers = {name: _without_other_arenas(plan, arenas) for name, plan in suite.optimizers.items()}
    return replace(suite, arenas=arenas, optimizers=optimizers)


def _arenas_of(word: str, arenas: Mapping[str, ArenaPlan]) -> list[str]:
    """The arenas that a name stands for: the arena with the name, and all arenas that the suite file makes of it."""
    names = []
    for name, plan in arenas.items():
        point = plan.ladder_point
        if point and word in (point.family, point.reference_curve_arena):
            names.append(name)
    if word in arenas or not names:  # an unknown word stays, for the error message
        names.insert(0, word)
    return names


def _first_on_its_own(arenas: Mapping[str, ArenaPlan]) -> dict[str, ArenaPlan]:
    """Only the first of several arenas, with a sweep of its own."""
    name, plan = next(iter(arenas.items()))
    return {name: replace(plan, tuning_arena="", ladder_point=None)}


def _without_other_arenas(optimizer: OptimizerPlan, arenas: Container[str]) -> OptimizerPlan:
    """An optimizer plan without the options for arenas that are not among `arenas`."""
    kept = {arena: options for arena, options in optimizer.arenas.items() if arena in arenas}
    return replace(optimizer, arenas=kept)


def _with_folders(suite: Suite, folders: Mapping[str, str]) -> Suite:
    """The suite with arenas that read a user's folders. The options that say how data are read stay the same."""
    arenas = dict(suite.arenas)
    for kind, folder in folders.items():
        matching = [name for name, plan in arenas.items() if _reads(kind, name, plan)]
        if not matching:
            raise UsageError(f"--{kind} {folder}: none of these arenas reads {kind}: {', '.join(arenas)}")
        for name in matching:
            plan = arenas[name]
            reading = {key: value for key, value in plan.data.items() if key in READING[kind]}
            data = {"source": kind, "path": folder, **USER_DATA[kind], **reading}
            arenas[name] = replace(plan, data=data)
    return replace(suite, arenas=arenas)


def _reads(kind: str, name: str, plan: ArenaPlan) -> bool:
    """Whether an arena reads data of this kind."""
    facts = plan.facts or ARENAS.get(plan.task or name)
    return facts is not None and facts.kind == kind


def _with_optimizers(suite: Suite, overrides: Overrides) -> Suite:
    """The suite with only the named and the added optimizers, and with the pairs that are left."""
    names = list(suite.optimizers)
    if overrides.optimizers is not None:
        names = list(overrides.optimizers)
    optimizers = named_optimizers([*names, *overrides.added], suite.optimizers, suite.trains_programs)
    compare = _compare(suite, optimizers, overrides)
    return replace(suite, optimizers=optimizers, compare=compare)


def _compare(suite: Suite, optimizers: dict[str, OptimizerPlan], overrides: Overrides) -> Compare:
    """The pairs that are compared when the suite has other optimizers.

    The pairs of removed optimizers are left out, and added optimizers are compared as the listed ones. If a list of the
    suite becomes empty, every optimizer is compared with the reference, which is what `Compare()` means.
    """
    has_all_pairs = suite.compare == Compare(baselines=[ALL])
    if overrides.reference and not has_all_pairs:
        return Compare()  # all others are compared with the reference of the command
    number_kept = len(optimizers) - len(overrides.added)
    added = list(optimizers)[number_kept:]  # they are the last
    extended = suite.compare.extended(added)
    removed = suite.optimizers.keys() - optimizers.keys()
    left = Compare(
        optimizers=[name for name in extended.optimizers if name not in removed],
        baselines=[name for name in extended.baselines if name not in removed],
    )
    if extended.optimizers and not left.optimizers:
        return Compare()
    if extended.baselines and not left.baselines:
        return Compare()
    if removed:
        changed = replace(suite, optimizers=optimizers, compare=left)
        if not changed.pairs:
            return Compare()
    return left


def _with_reference(suite: Suite, overrides: Overrides) -> Suite:
    """The suite with the reference of a command. A control ladder that has lost an optimizer is removed.

    In a suite of programs without its reference, the first optimizer of the command is the reference.
    """
    narrowed = overrides.optimizers is not None
    reference = overrides.reference or suite.reference
    if narrowed and not overrides.reference and suite.trains_programs and reference not in suite.optimizers:
        reference = next(iter(suite.optimizers))  # as with variants: a program has its own names
    if (narrowed or overrides.reference) and reference not in suite.optimizers:
        choices = ", ".join(suite.optimizers)
        raise UsageError(
            f"the reference {suite.noun} {reference!r} is not in the run; give --reference one of: {choices}"
        )
    controls = suite.controls
    if narrowed and any(name not in suite.optimizers for name in controls):
        controls = []  # without one of them, its successor would add two things
    return replace(suite, reference=reference, controls=controls)
