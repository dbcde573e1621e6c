"""Changes to a suite by the options of a command."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from fairbench.arenas.registry import ARENAS, known_arenas
from fairbench.common.coercion import KeyPath, Wrong
from fairbench.common.errors import UsageError, unknown
from fairbench.common.imports import module_and_name
from fairbench.data.datasets.registry import READING
from fairbench.optimizers.registry import known_optimizers
from fairbench.optimizers.spec import BY_PROGRAM, WARMUP, OptimizerPlan
from fairbench.suites.expansion import arena_plan
from fairbench.suites.schema import ALL, ArenaPlan, Compare, Suite
from fairbench.suites.settings import with_settings
from fairbench.suites.stages import Sweep

PlanT = TypeVar("PlanT")
USER_DATA: dict[str, dict[str, int]] = {"images": {"size": 32}, "text": {}}
"""Options for a user's folder on the command line: images so small that a study takes minutes."""
SET_BY = {
    "lr_grid": ("sweep.lr_m*", "sweep.points"),
    "seeds": ("final.seeds", "final.looks", "sweep.seeds"),
    "steps": ("arenas.*.steps", "arenas.*.sweep_steps", "training.warmup_steps", "training.log_every", "sweep.extra.*"),
}
"""The keys that an option changes, as patterns, in the order in which an error looks for the option."""
OWN_FORM = "path/to/file.py:Class or module:Class"


@dataclass(frozen=True)
class Overrides:
    """Changes to a suite by the options of a command.

    Attributes as the arguments of `fairbench.Suite.replace`, and:
        added: further optimizers.
        folders: a user's folder by kind of data, "images" or "text".
        preview: for `fairbench try`: one arena (the first if `arenas` is None) is swept itself, and the first optimizer
            is the reference.
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

    def option_at(self, path: KeyPath) -> str:
        """The option that set the value of a key; empty if it comes from the suite file."""
        key = short = ".".join(path)
        if (path[:1], path[2:3]) == (("optimizers",), ("options",)):
            short = ".".join((path[1], *path[3:]))
        for setting in self.settings:
            if setting in (key, short) or key.startswith(f"{setting}."):
                return f"setting {setting}"
        for name, patterns in SET_BY.items():
            if getattr(self, name) not in (None, "") and any(fnmatchcase(key, pattern) for pattern in patterns):
                return f"--{name.replace('_', '-')} {getattr(self, name)}"
        for word in self.arenas or ():
            if ":" in word and path[:2] == ("arenas", word.rpartition(":")[2]):
                return f"--arenas {word}"
        return ""


def overridden(suite: Suite, overrides: Overrides) -> Suite:
    """A suite with the changes of a command, not yet checked."""
    if overrides.lr_grid:
        suite = replace(suite, sweep=_with_grid(suite.sweep, overrides.lr_grid))
    suite = _with_folders(_with_arenas(suite, overrides), overrides.folders)
    names = [*(suite.optimizers if overrides.optimizers is None else overrides.optimizers), *overrides.added]
    optimizers = named_optimizers(names, suite.optimizers)
    suite = replace(suite, optimizers=optimizers, compare=_compare(suite, optimizers, overrides))
    if overrides.steps is not None:
        suite = with_steps(suite, overrides.steps)
    if overrides.seeds is not None:
        suite = with_seeds(suite, overrides.seeds)
    if overrides.settings:
        suite = with_settings(suite, overrides.settings)
    if overrides.preview:
        return replace(suite, reference=next(iter(suite.optimizers)), compare=Compare(), controls=[])
    narrowed, reference = overrides.optimizers is not None, overrides.reference or suite.reference
    if (narrowed or overrides.reference) and reference not in suite.optimizers:
        choices = ", ".join(suite.optimizers)
        raise UsageError(f"the reference optimizer {reference!r} is not in the run; give --reference one of: {choices}")
    # Without a rung of the control ladder, the next one adds two things.
    controls = [] if narrowed and not set(suite.controls) <= suite.optimizers.keys() else suite.controls
    return replace(suite, reference=reference, controls=controls)


def _compare(suite: Suite, optimizers: dict[str, OptimizerPlan], overrides: Overrides) -> Compare:
    """The pairs of the optimizers that are left and added; those with the reference where none of a list is left."""
    if overrides.reference and suite.compare != Compare(baselines=[ALL]):
        return Compare()
    added = [*optimizers][len(optimizers) - len(overrides.added) :]
    asked, gone = suite.compare.extended(added), suite.optimizers.keys() - optimizers.keys()
    left = Compare(**{key: [name for name in names if name not in gone] for key, names in vars(asked).items()})
    emptied = (asked.optimizers and not left.optimizers) or (asked.baselines and not left.baselines)
    alone = gone and not replace(suite, optimizers=optimizers, compare=left).pairs
    return Compare() if emptied or alone else left


def _with_grid(sweep: Sweep, text: str) -> Sweep:
    """The sweep with another grid of learning rates, and as many rates beyond its points."""
    try:
        lowest, highest, number = text.split(":")
        lr_min, lr_max, points = float(lowest), float(highest), int(number)
    except ValueError:
        raise UsageError(f"--lr-grid must have the form lowest:highest:points, as 1e-4:1e-1:7; got {text!r}") from None
    budget = points + sweep.budget - sweep.points if sweep.budget else 0
    return replace(sweep, lr_min=lr_min, lr_max=lr_max, points=points, budget=budget)


def _with_arenas(suite: Suite, overrides: Overrides) -> Suite:
    """The suite with only the named arenas, and without options of optimizers for other arenas."""
    names = overrides.arenas
    if names is None:
        if not overrides.preview:
            return suite
        names = [*suite.arenas][:1]
    arenas = named_arenas([name for word in names for name in _cells(word, suite.arenas)], suite.arenas)
    if overrides.preview:
        arenas = {name: replace(plan, tuned_on="", cell=None) for name, plan in [*arenas.items()][:1]}
    optimizers = {
        name: replace(plan, arenas={arena: options for arena, options in plan.arenas.items() if arena in arenas})
        for name, plan in suite.optimizers.items()
    }
    return replace(suite, arenas=arenas, optimizers=optimizers)


def _cells(word: str, arenas: Mapping[str, ArenaPlan]) -> list[str]:
    """The arenas that a name in a suite file stands for: itself, and those that are made of it."""
    cells = [name for name, plan in arenas.items() if plan.cell and word in (plan.cell.family, plan.cell.curve_of)]
    return [*([] if cells and word not in arenas else [word]), *cells]


def named_arenas(names: Iterable[str], known: Mapping[str, ArenaPlan]) -> dict[str, ArenaPlan]:
    """Arenas of a suite by their names; users' arenas have the defaults of their classes."""
    return _named("arena", names, known, _user_arena, "these are the suite's, ", known_arenas().keys() - ARENAS.keys())


def named_optimizers(names: Iterable[str], known: Mapping[str, OptimizerPlan]) -> dict[str, OptimizerPlan]:
    """Optimizers by their names in a suite or in fairbench, as `module:Class`, `file.py:Class` or `program:Name`."""
    by_name = {**{name: OptimizerPlan() for name in known_optimizers()}, **known}

    def of_user(name: str, factory: str) -> OptimizerPlan:
        return OptimizerPlan(BY_PROGRAM if factory == f"{BY_PROGRAM}:{name}" else factory)

    return _named("optimizer", names, by_name, of_user)


def _named(
    kind: str,
    words: Iterable[str],
    known: Mapping[str, PlanT],
    of_user: Callable[[str, str], PlanT],
    remark: str = "",
    registered: Container[str] = (),
) -> dict[str, PlanT]:
    """The plans that words name: those known by them, or a user's, made of its name and its class."""
    plans: dict[str, PlanT] = {}
    for word in words:
        is_users = word not in known and (":" in word or word in registered)
        name = module_and_name(word, kind)[1] if is_users and ":" in word else word
        if name in plans:
            raise UsageError(f"two {kind}s are called {name!r}; rename one in a suite file")
        if not is_users and word not in known:
            if word.endswith(".py"):
                raise UsageError(f"{kind} {word!r} names a file; name its class too, as {word}:My{kind.title()}")
            raise UsageError(f"{unknown(kind, word, known)}; {remark}your own is given as {OWN_FORM}")
        plans[name] = of_user(name, word) if is_users else known[word]
    return plans


def _user_arena(name: str, task: str) -> ArenaPlan:
    try:
        return arena_plan(name, {"task": task})
    except Wrong as wrong:
        key = ".".join(wrong.path[2:])
        place = f"the arena's defaults or in a suite file's [arenas.{name}]"
        remedy = "" if key in ("", "task") else f"; define it in {place}"
        raise UsageError(f"--arenas {task}: {key}: {wrong.reason}{remedy}") from None


def _with_folders(suite: Suite, folders: Mapping[str, str]) -> Suite:
    """The suite with arenas that read a user's folders, with unchanged reading options."""
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


def with_seeds(suite: Suite, seeds: int | Sequence[int]) -> Suite:
    """A suite with other final seeds, and its looks to match; of a number of seeds the suite's own come first."""
    final = suite.final
    if isinstance(seeds, int):
        more = range(max(final.seeds) + 1, max(final.seeds) + 1 + max(seeds - len(final.seeds), 0))
        seeds = [*final.seeds[:seeds], *more]
    looks = [look for look in final.looks if look < len(seeds)]
    return replace(suite, final=replace(final, seeds=[*seeds], looks=[*looks, len(seeds)] if looks else []))


def with_steps(suite: Suite, steps: int) -> Suite:
    """A suite with final trials of that many steps; search trials, warm-up and log intervals keep their shares.

    Cells with other horizons have as many more or fewer; on a ladder the shortest trials have that many. Options of
    optimizers and shocks that count steps stay as they are.
    """

    def rescaled(plan: ArenaPlan) -> ArenaPlan:
        own, sweep = (max(round(x * steps / _unit(suite, plan)), 1) for x in (plan.steps, plan.sweep_steps))
        return replace(plan, steps=own, sweep_steps=sweep)

    arenas = {name: rescaled(plan) for name, plan in suite.arenas.items()}
    before, after = (min(min(x.steps, x.sweep_steps) for x in plans.values()) for plans in (suite.arenas, arenas))

    def scaled(number: int) -> int:
        return number * after // before  # rounded down, so that it fits into the shortest trial as before

    warmup_steps, log_every = scaled(suite.training.warmup_steps), max(scaled(suite.training.log_every), 1)
    training = replace(suite.training, warmup_steps=warmup_steps, log_every=log_every)
    extra = {name: [*map(scaled, x)] if name == WARMUP else x for name, x in suite.sweep.extra.items()}
    return replace(suite, arenas=arenas, training=training, sweep=replace(suite.sweep, extra=extra))


def _unit(suite: Suite, plan: ArenaPlan) -> int:
    """The steps that become the given ones: an arena's own, or those of the arena to which it is in proportion."""
    if plan.cell and plan.cell.curve_of in suite.arenas:
        return suite.arenas[plan.cell.curve_of].steps
    if plan.cell and plan.cell.size:
        cells = [(x.cell, x.steps) for x in suite.arenas.values()]
        return min(steps for cell, steps in cells if cell and cell.size and cell.family == plan.cell.family)
    return plan.steps
