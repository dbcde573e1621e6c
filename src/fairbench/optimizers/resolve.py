"""Registered and user-defined optimizers; every hyperparameter becomes part of the trial's spec."""

from __future__ import annotations

import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from fairbench.common.coercion import check_value, is_json
from fairbench.common.errors import UsageError, unknown
from fairbench.common.imports import entry_points, load
from fairbench.optimizers.registry import OPTIMIZERS, OptimizerFacts
from fairbench.optimizers.spec import BY_PROGRAM, HORIZON, WARMUP, OptimizerPlan, OptimizerSpec, ResolvedOptimizer

if TYPE_CHECKING:
    import torch


NEEDS = {
    "create_graph": "the gradients are differentiable",
    "closure": "step() gets a function that computes loss and gradients again",
    "modes": "its train() and eval() are called before the model is trained and evaluated",
    "constant_lr": "the learning rate is warmed up and then constant",
    "model": "its constructor gets the model in place of the parameters",
    "named_parameters": "its constructor gets pairs of a name and a parameter",
}
"""What an optimizer may need of the training loop; further needs name its methods, see `METHODS`."""
METHODS = {
    "A then B": "its methods A() and B() take the place of step(), with new gradients before each",
    "A every 10 steps": "its method A() is called after the first step, and then after every tenth",
    "A every 10 steps with gradients": "the same, after the gradients are computed again and not clipped",
}
"""Needs that name methods of the optimizer."""
PARTS, CALL = re.compile(r"\w+( then \w+)+"), re.compile(r"(\w+) every ([1-9]\d*) steps( with gradients)?")
FIRST = {"model": ("model", "module", "net", "network"), "named_parameters": ("named_parameters", "named_params")}
"""What the first argument of a constructor means by its name; anything else is parameters."""
HORIZONS = re.compile(
    r"((num|total|max)_)?train(ing)?_steps|max_steps|t_max|total_iter(ation)?s|horizon", re.IGNORECASE
)
"""Other names of the argument that gets the number of training steps; if it has no default, these do, too."""
IF_REQUIRED = re.compile(r"((num|max|n)_)?(steps|iterations|iters)")
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
    known = dict(OPTIMIZERS)
    for entry in entry_points().select(group=ENTRY_POINTS):
        package = entry.dist.name if entry.dist else entry.value
        if entry.name in known:
            taken = f"{ENTRY_POINTS}: {entry.name!r} of {package} is ignored"
            warnings.warn(f"{taken}, since it is {known[entry.name].factory} already", stacklevel=2)
        else:
            known[entry.name] = OptimizerFacts(entry.value, f"from {package}", decay="unknown")
    return known


def known_modules(optimizers: Mapping[str, OptimizerPlan]) -> set[str]:
    """The modules of those of some optimizers that are registered; each process loads those of users itself."""
    known = known_optimizers()
    return {known[x].factory.partition(":")[0] for x, plan in optimizers.items() if not plan.factory and x in known}


def load_factory(factory: str) -> Callable[..., torch.optim.Optimizer]:
    """Import `module:Class` or `path/to/file.py:Class`, see `fairbench.common.imports`."""
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
    if plan.factory:
        return OptimizerFacts(plan.factory, "", "unknown")
    return OPTIMIZERS.get(name) or known_optimizers()[name]


def resolve_optimizer(name: str, plan: OptimizerPlan, extra: Iterable[str] = ()) -> ResolvedOptimizer:
    """Import the optimizer, check the names of its hyperparameters and fill in its defaults.

    Its name is also its registered name if the plan has no factory. It may lack some of the `extra` hyperparameters
    that the sweep selects. Its `code` is known only after a step.
    """
    facts = _facts(name, plan)
    lr_scale, lr = rates_of(name, plan)
    if plan.factory == BY_PROGRAM:
        return ResolvedOptimizer(name, BY_PROGRAM, plan.options, plan.arenas, "", "", {}, [], lr_scale, lr)
    for need in plan.needs or ():
        if need not in NEEDS and not names_methods(need):
            raise unknown("need of the training loop", need, [*NEEDS, *METHODS])
    groups = plan.groups or facts.groups
    if groups:
        load_factory(groups)
    horizon = _horizon(facts.factory, plan)
    defaults, takes = _arguments(name, facts.factory, plan, {"lr", horizon, *extra})
    return ResolvedOptimizer(
        name,
        facts.factory,
        options=json.loads(json.dumps({**defaults, **facts.options, **plan.options})),
        arenas=plan.arenas,
        horizon=horizon,
        groups=groups,
        code={},
        needs=_needs(facts.factory, groups) if plan.needs is None else plan.needs,
        lr_scale=lr_scale,
        lr=lr,
        lacks=[x for x in extra if lr is None and x != WARMUP and not takes(x)],
    )


def names_methods(need: str) -> bool:
    """Whether a need has one of the forms of `METHODS`."""
    return bool(PARTS.fullmatch(need) or CALL.fullmatch(need))


def made_by(factory: Any) -> Any:
    """The class or function behind a factory, which may be a partial, a bound method, or an object that is called."""
    factory = inspect.unwrap(factory)
    if isinstance(factory, partial):
        return made_by(factory.func)
    return factory if inspect.isclass(factory) or inspect.isroutine(factory) else type(factory).__call__


def _arguments(
    name: str, factory: str, plan: OptimizerPlan, given: Iterable[str]
) -> tuple[dict[str, Any], Callable[[str], bool]]:
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
    known_values = {*given, *plan.options, *(key for options in plan.arenas.values() for key in options)}
    for x in arguments:
        if x.default is x.empty and x.kind in (x.POSITIONAL_OR_KEYWORD, x.KEYWORD_ONLY) and x.name not in known_values:
            passed = "fairbench passes parameters, lr, and the number of steps as total_steps or num_training_steps"
            remedy = f"--set {name}.{x.name}=VALUE gives it"
            raise UsageError(f"optimizers.{name}: {factory} needs its argument {x.name}: {passed}; {remedy}")
    return defaults, takes


def _horizon(factory: str, plan: OptimizerPlan) -> str:
    """The argument that gets the number of training steps, also one of a parent class; empty without one."""
    loaded = load_factory(factory)
    given = {*plan.options, *getattr(loaded, "keywords", ())}
    classes = inspect.getmro(made_by(loaded)) if inspect.isclass(made_by(loaded)) else ()
    for each in [loaded, *(vars(cls)["__init__"] for cls in classes if "__init__" in vars(cls))]:
        arguments = inspect.signature(each).parameters
        for x in arguments.values():
            usual = HORIZONS.fullmatch(x.name) or (x.default is x.empty and IF_REQUIRED.fullmatch(x.name))
            if x.name not in given and (x.name == HORIZON or (usual and not facts_of(factory))):
                return x.name
        if not any(x.kind is x.VAR_KEYWORD for x in arguments.values()):
            break
    return ""


def _needs(factory: str, groups: str) -> list[str]:
    """The registry's needs of a factory; without an entry, those that its class and its first argument show."""
    if facts := facts_of(factory):
        return list(facts.needs)
    optimizer, needs = made_by(load_factory(factory)), []
    step = getattr(optimizer, "step", None)
    if step and (closure := inspect.signature(step).parameters.get("closure")) and closure.default is closure.empty:
        needs.append("closure")
    if all(callable(getattr(optimizer, mode, None)) for mode in ("train", "eval")):
        needs.append("modes")
    if all(callable(getattr(optimizer, part, None)) for part in ("first_step", "second_step")):
        needs.append("first_step then second_step")
    first = next(iter(inspect.signature(load_factory(factory)).parameters), "")
    return needs + [need for need, names in FIRST.items() if first in names and not groups]


def way_out(name: str, error: BaseException, is_built: bool) -> str:
    """What changes how a training uses an optimizer that raised an error, in lines to be pasted; empty if unknown."""
    option = f"--set 'optimizers.{name}.needs"
    if not is_built:
        return (
            f'fairbench passes a list of parameters, then lr and the options by name; {option}=["model"]\' passes '
            f'the model first, ["named_parameters"] pairs of a name and a parameter, and --set \'optimizers.{name}.'
            f'groups="file.py:function"\' what a function makes of the model; --set {name}.OPTION=VALUE sets an option'
        )
    words = {"closure": "closure", "grad_fn|does not require grad|(create|retain)_graph": "create_graph"}
    found = [need for text, need in words.items() if re.search(text, str(error))]
    return "; ".join(f'{option}=["{need}"]\': {NEEDS[need]}' for need in found)


def decay_kind(factory: str, options: Mapping[str, Any]) -> str:
    """Whether the weight decay of a factory with these options is "coupled", "decoupled", "none" or "unknown"."""
    for option in DECOUPLING:
        if option in options:
            return "decoupled" if options[option] else "coupled"
    if factory.startswith("psilogic:"):
        return "decoupled"
    facts = facts_of(factory)
    return facts.decay if facts else "unknown"


def facts_of(factory: str) -> OptimizerFacts | None:
    """The registry's facts on a factory, under any name; None if it has none."""
    return next((facts for facts in OPTIMIZERS.values() if facts.factory == factory), None)


def schedule(needs: Sequence[str], name: str, min_lr: float) -> str:
    """The learning-rate schedule of an optimizer in words; the need "constant_lr" replaces any schedule."""
    if "constant_lr" in needs or name == "constant":
        return SCHEDULES["constant"]
    return SCHEDULES[name] + (f" to {min_lr:g} of the peak" if min_lr else "")


def build_optimizer(spec: OptimizerSpec, model: torch.nn.Module) -> torch.optim.Optimizer:
    """The optimizer of a trial."""
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in spec.options.items()}
    factory = load(spec.factory, "optimizer factory")
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    if "model" in spec.needs or "named_parameters" in spec.needs:
        built = factory(model if "model" in spec.needs else named, **options)
    else:
        built = factory(load(spec.groups, "groups")(model) if spec.groups else [p for _, p in named], **options)
    if not hasattr(built, "param_groups"):
        raise TypeError(f"it returned {built!r}, which is no optimizer; it must return one")
    return built  # type: ignore[no-any-return]
