"""Optimizers by name, and anyone's own from a module or a file; every hyperparameter goes into the trial's spec."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from fairbench.common.errors import UsageError, unknown
from fairbench.common.imports import load
from fairbench.common.json_values import check_value, is_plain
from fairbench.optimizers.registry import OPTIMIZERS, OptimizerFacts
from fairbench.optimizers.spec import HORIZON, OptimizerPlan, OptimizerSpec, ResolvedOptimizer

if TYPE_CHECKING:
    import torch


NEEDS = {
    "create_graph": "the gradients are differentiable",
    "closure": "the step gets a function that computes loss and gradients again",
    "modes": "it is told when the model is trained and when evaluated, by train() and eval()",
    "constant_lr": "the learning rate is only warmed up",
}
"""What an optimizer may need of the training loop."""
DECOUPLING = ("decoupled_weight_decay", "weight_decouple")
"""Options that say whether the weight decay is decoupled, of optimizers that can do both."""
TREATMENTS = {
    "grad_centralize": "gradient centralization",
    "use_gc": "gradient centralization",
    "agc_clip": "adaptive gradient clipping",
    "max_grad_norm": "gradient clipping of its own",
}
"""Options that do what could be done for every optimizer, with what that is."""
PRESETS = ("psilogic:PsiLogicNLP", "psilogic:PsiLogicGPT", "psilogic:PsiLogicViT")
"""Factories that choose options of that kind by themselves."""
ENTRY_POINTS = "fairbench.optimizers"
"""Where an installed package names optimizers: `Name = "module:Class"`."""


@cache
def known_optimizers() -> Mapping[str, OptimizerFacts]:
    """Every optimizer that has a name: those of fairbench, and those that installed packages name.

    A name of fairbench's stays what it is, and so does the first of two packages that choose the same.
    """
    from importlib.metadata import entry_points  # which takes long to load: who looks at a study does without

    known = dict(OPTIMIZERS)
    for entry in entry_points(group=ENTRY_POINTS):
        package = entry.dist.name if entry.dist else entry.value
        if entry.name in known:
            taken = f"{ENTRY_POINTS}: {entry.name!r} of {package} is ignored"
            warnings.warn(f"{taken}, since it is {known[entry.name].factory} already", stacklevel=2)
        else:
            known[entry.name] = OptimizerFacts(entry.value, f"from {package}", decay="unknown")
    return known


def load_factory(factory: str) -> Callable[..., torch.optim.Optimizer]:
    """Import `module:Class` or `path/to/file.py:Class`, see `fairbench.common.imports`.

    Raises:
        UsageError: there is no such module, file or class.
    """
    found = load(factory, "optimizer factory")
    if not callable(found):
        raise UsageError(f"optimizer factory {factory!r} is no class but {found!r}")
    return found  # type: ignore[no-any-return]


def rates_of(name: str, plan: OptimizerPlan) -> tuple[float, float | None]:
    """Scale of the sweep's rates for an optimizer, and its own rate if none is searched.

    What the plan says of either replaces all that is known: with a scale a rate is searched whatever is known.
    """
    if plan.lr is not None or plan.lr_scale is not None:
        return 1.0 if plan.lr_scale is None else plan.lr_scale, plan.lr
    facts = _facts(name, plan)
    return facts.lr_scale, facts.lr


def _facts(name: str, plan: OptimizerPlan) -> OptimizerFacts:
    """What is known of a plan's optimizer; of one that has a factory no more than that."""
    return OptimizerFacts(plan.factory, "", "unknown") if plan.factory else known_optimizers()[name]


def resolve_optimizer(name: str, plan: OptimizerPlan, extra: Iterable[str] = ()) -> ResolvedOptimizer:
    """Import the optimizer, check the names of its hyperparameters and fill in its defaults.

    Args:
        name: what tables call it; when the plan has no factory, one that fairbench knows.
        plan: its factory and hyperparameters.
        extra: hyperparameters that the sweep selects with the rate, where it selects one.

    Returns:
        The optimizer, without its code: what takes part is known when it has taken a step.

    Raises:
        UsageError: the optimizer has no such hyperparameter, or one is no plain value.
    """
    facts = _facts(name, plan)
    factory = load_factory(facts.factory)
    lr_scale, lr = rates_of(name, plan)
    defaults = _defaults(name, facts.factory, plan, ("lr", *(extra if lr is None else ())))
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
    )


def _defaults(name: str, factory: str, plan: OptimizerPlan, selected: Iterable[str]) -> dict[str, Any]:
    """The factory's defaults, now that it has what the sweep selects and what the plan gives."""
    arguments = list(inspect.signature(load_factory(factory)).parameters.values())[1:]
    known = {argument.name: argument for argument in arguments}
    takes_any = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
    for hyperparameter in selected:
        if hyperparameter not in known and not takes_any:
            way = "" if hyperparameter == "lr" else ", or leave sweep.extra out"
            reason = f"has no argument {hyperparameter}, which the sweep selects; wrap it in a function{way}"
            raise UsageError(f"optimizers.{name}: {factory} {reason}")
    # A default that is no plain value stays where it is, in the code, which the trial's identity covers.
    defaults = {key: value.default for key, value in known.items() if is_plain(value.default)}
    for option, value in (item for options in (plan.options, *plan.arenas.values()) for item in options.items()):
        if option not in known and not takes_any:
            raise unknown(f"hyperparameter of {name}", option, known)
        check_value(f"optimizers.{name}.options.{option}", value, defaults.get(option))
    return defaults


def _needs(factory: str) -> list[str]:
    """What is known of a factory's needs, else what can be seen of its class."""
    if facts := _facts_of(factory):
        return list(facts.needs)
    made = load_factory(factory)
    closure = inspect.signature(step).parameters.get("closure") if (step := getattr(made, "step", None)) else None
    seen = {
        "closure": closure is not None and closure.default is closure.empty,
        "modes": all(callable(getattr(made, mode, None)) for mode in ("train", "eval")),
    }
    return [need for need, is_seen in seen.items() if is_seen]


def decay_kind(factory: str, options: Mapping[str, Any]) -> str:
    """Whether an optimizer's weight decay is "coupled" or "decoupled", "none" or, if nobody knows, "unknown".

    Args:
        factory: `module:Class`.
        options: its options, defaults included.
    """
    for option in DECOUPLING:
        if option in options:
            return "decoupled" if options[option] else "coupled"
    if factory.startswith("psilogic:"):
        return "decoupled"
    facts = _facts_of(factory)
    return facts.decay if facts else "unknown"


def state_per_weight(factory: str) -> str:
    """What an optimizer keeps for each weight, in words; empty if nobody knows.

    Args:
        factory: `module:Class`.
    """
    facts = _facts_of(factory)
    if facts is None:
        return ""
    return f"{facts.state}, and {facts.factors}" if facts.factors else str(facts.state)


def _facts_of(factory: str) -> OptimizerFacts | None:
    """What fairbench knows of a factory under whatever name."""
    return next((facts for facts in OPTIMIZERS.values() if facts.factory == factory), None)


def schedule(needs: Sequence[str]) -> str:
    """What the training loop does with the learning rate of an optimizer with such needs, in words."""
    return "warm-up only" if "constant_lr" in needs else "warm-up and cosine"


def _takes(factory: Callable[..., Any], argument: str) -> bool:
    """Whether a factory has an argument, or hands on to a parent that has it what it does not know itself."""
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
    factory, groups = (
        load(spec.factory, "optimizer factory"),
        load(spec.groups, "groups") if spec.groups else _trainable,
    )
    return factory(groups(model), **options)  # type: ignore[no-any-return]


def _trainable(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters that are trained, all alike."""
    return [p for p in model.parameters() if p.requires_grad]
