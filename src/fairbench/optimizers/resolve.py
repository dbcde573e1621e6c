"""Registered and user-defined optimizers; every hyperparameter becomes part of the trial's spec."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from fairbench.common.coercion import check_value, is_json
from fairbench.common.errors import UsageError, unknown
from fairbench.common.imports import load
from fairbench.optimizers.registry import OPTIMIZERS, OptimizerFacts
from fairbench.optimizers.spec import BY_PROGRAM, HORIZON, WARMUP, OptimizerPlan, OptimizerSpec, ResolvedOptimizer

if TYPE_CHECKING:
    import torch


NEEDS = {
    "create_graph": "the gradients are differentiable",
    "closure": "step() gets a function that computes loss and gradients again",
    "modes": "its train() and eval() are called before the model is trained and evaluated",
    "constant_lr": "the learning rate is warmed up and then constant",
}
"""What an optimizer may need of the training loop."""
SCHEDULES = {
    "cosine": "warm-up and cosine",
    "linear": "warm-up and linear decay",
    "wsd": "warm-up, constant, linear decay at the end",
    "constant": "warm-up only",
}
"""The learning-rate schedules in words; `fairbench.training.schedules` has their formulas."""
DECOUPLING = ("decoupled_weight_decay", "weight_decouple")
"""Options that decouple the weight decay, of optimizers that offer both kinds."""
TREATMENTS = {
    "grad_centralize": "gradient centralization",
    "use_gc": "gradient centralization",
    "agc_clip": "adaptive gradient clipping",
    "max_grad_norm": "gradient clipping of its own",
}
"""Options for techniques that any optimizer could use, with the names of the techniques."""
PRESETS = ("psilogic:PsiLogicNLP", "psilogic:PsiLogicGPT", "psilogic:PsiLogicViT")
"""Factories that set such options themselves."""
ENTRY_POINTS = "fairbench.optimizers"
"""The entry point under which installed packages register optimizers: `Name = "module:Class"`."""


@cache
def known_optimizers() -> Mapping[str, OptimizerFacts]:
    """Every registered optimizer by its name: fairbench's, and those of installed packages.

    A package cannot replace a name of fairbench or of an earlier package; it gets a warning.
    """
    from importlib.metadata import entry_points  # slow to import, and not needed to view a study

    known = dict(OPTIMIZERS)
    for entry in entry_points(group=ENTRY_POINTS):
        package = entry.dist.name if entry.dist else entry.value
        if entry.name in known:
            taken = f"{ENTRY_POINTS}: {entry.name!r} of {package} is ignored"
            warnings.warn(f"{taken}, since it is {known[entry.name].factory} already", stacklevel=2)
        else:
            known[entry.name] = OptimizerFacts(entry.value, f"from {package}", decay="unknown")
    return known


def known_modules(optimizers: Mapping[str, OptimizerPlan]) -> set[str]:
    """The modules of those of some optimizers that are registered; each process loads those of users itself."""
    registered = (
        known_optimizers()[x] for x, plan in optimizers.items() if not plan.factory and x in known_optimizers()
    )
    return {facts.factory.partition(":")[0] for facts in registered}


def load_factory(factory: str) -> Callable[..., torch.optim.Optimizer]:
    """Import `module:Class` or `path/to/file.py:Class`, see `fairbench.common.imports`.

    Raises:
        UsageError: the module, file or class does not exist, or cannot be called.
    """
    loaded = load(factory, "optimizer factory")
    if not callable(loaded):
        raise UsageError(f"optimizer factory {factory!r} must be a class or a function, got {loaded!r}")
    return loaded  # type: ignore[no-any-return]


def rates_of(name: str, plan: OptimizerPlan) -> tuple[float, float | None]:
    """Scale of the sweep's rates for an optimizer, and its fixed rate, None if the rate is swept.

    A plan with either replaces both of the registry: a plan with a scale has its rate swept.
    """
    if plan.lr is not None or plan.lr_scale is not None:
        return 1.0 if plan.lr_scale is None else plan.lr_scale, plan.lr
    facts = _facts(name, plan)
    return facts.lr_scale, facts.lr


def _facts(name: str, plan: OptimizerPlan) -> OptimizerFacts:
    """The registry's facts on a plan's optimizer; none for a plan with a factory."""
    return OptimizerFacts(plan.factory, "", "unknown") if plan.factory else known_optimizers()[name]


def resolve_optimizer(name: str, plan: OptimizerPlan, extra: Iterable[str] = ()) -> ResolvedOptimizer:
    """Import the optimizer, check the names of its hyperparameters and fill in its defaults.

    Args:
        name: its name in tables; also its registered name if the plan has no factory.
        plan: its factory and hyperparameters.
        extra: hyperparameters that the sweep selects in addition to the rate; it may lack some of them.

    Returns:
        The optimizer without `code`, which is known only after a step.

    Raises:
        UsageError: it has no learning rate or no hyperparameter of the plan, or a value has the wrong kind.
    """
    facts = _facts(name, plan)
    lr_scale, lr = rates_of(name, plan)
    if plan.factory == BY_PROGRAM:
        return ResolvedOptimizer(name, BY_PROGRAM, plan.options, plan.arenas, False, "", {}, [], lr_scale, lr)
    factory = load_factory(facts.factory)
    defaults, takes = _arguments(name, facts.factory, plan)
    groups = plan.groups or facts.groups
    if groups:
        load_factory(groups)
    return ResolvedOptimizer(
        name,
        facts.factory,
        options=json.loads(json.dumps({**defaults, **facts.options, **plan.options})),
        arenas=plan.arenas,
        takes_horizon=HORIZON not in plan.options and _takes(factory, HORIZON),
        groups=groups,
        code={},
        needs=_needs(facts.factory) if plan.needs is None else plan.needs,
        lr_scale=lr_scale,
        lr=lr,
        lacks=[x for x in extra if lr is None and x != WARMUP and not takes(x)],
    )


def _arguments(name: str, factory: str, plan: OptimizerPlan) -> tuple[dict[str, Any], Callable[[str], bool]]:
    """The factory's defaults, and whether it takes an argument; it must take the rate and the plan's options."""
    arguments = list(inspect.signature(load_factory(factory)).parameters.values())[1:]
    known = {argument.name: argument for argument in arguments}
    takes_any = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)

    def takes(option: str) -> bool:
        return option in known or takes_any

    if not takes("lr"):
        reason = "has no argument lr, which the sweep selects; wrap it in a function"
        raise UsageError(f"optimizers.{name}: {factory} {reason}")
    # Any other default is left to the code, which is part of the trial's identity as well.
    defaults = {key: value.default for key, value in known.items() if is_json(value.default)}
    for option, value in (item for options in (plan.options, *plan.arenas.values()) for item in options.items()):
        if not takes(option):
            raise unknown(f"hyperparameter of {name}", option, known)
        check_value(f"optimizers.{name}.options.{option}", value, defaults.get(option))
    return defaults, takes


def _needs(factory: str) -> list[str]:
    """The registry's needs of a factory; without an entry, those that its class shows."""
    if facts := facts_of(factory):
        return list(facts.needs)
    optimizer, needs = load_factory(factory), []
    step = getattr(optimizer, "step", None)
    if step and (closure := inspect.signature(step).parameters.get("closure")) and closure.default is closure.empty:
        needs.append("closure")
    if all(callable(getattr(optimizer, mode, None)) for mode in ("train", "eval")):
        needs.append("modes")
    return needs


def decay_kind(factory: str, options: Mapping[str, Any]) -> str:
    """Whether the weight decay of a factory with these options is "coupled", "decoupled", "none" or "unknown"."""
    for option in DECOUPLING:
        if option in options:
            return "decoupled" if options[option] else "coupled"
    if factory.startswith("psilogic:"):
        return "decoupled"
    facts = facts_of(factory)
    return facts.decay if facts else "unknown"


def default_scale(factory: str) -> float:
    """The registry's scale of a factory's rates; 1 without an entry."""
    facts = facts_of(factory)
    return facts.lr_scale if facts else 1.0


def facts_of(factory: str) -> OptimizerFacts | None:
    """The registry's facts on a factory, under any name; None if it has none."""
    return next((facts for facts in OPTIMIZERS.values() if facts.factory == factory), None)


def schedule(needs: Sequence[str], name: str, min_lr: float) -> str:
    """The learning-rate schedule of an optimizer with these needs, in words.

    Args:
        needs: its needs, of which "constant_lr" replaces any schedule.
        name: the schedule, see `SCHEDULES`.
        min_lr: the last rate as a share of the peak.
    """
    if "constant_lr" in needs or name == "constant":
        return SCHEDULES["constant"]
    return SCHEDULES[name] + (f" to {min_lr:g} of the peak" if min_lr else "")


def _takes(factory: Callable[..., Any], argument: str) -> bool:
    """Whether a factory has an argument, or passes its keyword arguments to a parent class that has it."""
    classes = inspect.getmro(factory) if inspect.isclass(factory) else ()
    for each in [vars(cls)["__init__"] for cls in classes if "__init__" in vars(cls)] or [factory]:
        arguments = inspect.signature(each).parameters
        if argument in arguments:
            return True
        if not any(x.kind is x.VAR_KEYWORD for x in arguments.values()):
            return False
    return False


def build_optimizer(spec: OptimizerSpec, model: torch.nn.Module) -> torch.optim.Optimizer:
    """The optimizer of a trial."""
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in spec.options.items()}
    factory = load(spec.factory, "optimizer factory")
    trainable = [p for p in model.parameters() if p.requires_grad]
    built = factory(load(spec.groups, "groups")(model) if spec.groups else trainable, **options)
    if not hasattr(built, "param_groups"):
        raise TypeError(f"it returned {built!r}, which is no optimizer; it must return one")
    return built  # type: ignore[no-any-return]
