"""The resolution of a suite's plan of an optimizer: every hyperparameter becomes part of the trial's spec."""

import inspect
import json
import re
from collections.abc import Collection, Mapping, Sequence

from fairbench.common.coercion import check_value
from fairbench.common.errors import UsageError, explained, one_line, unknown
from fairbench.optimizers.factories import Arguments, arguments_of, constructors, load_factory
from fairbench.optimizers.needs import check_needs, needs_of
from fairbench.optimizers.registry import OPTIMIZERS, OptimizerFacts, facts_of, known_optimizers
from fairbench.optimizers.spec import BY_PROGRAM, HORIZON, WARMUP, OptimizerPlan, ResolvedOptimizer

HORIZONS = re.compile(
    r"((num|total|max)_)?train(ing)?_steps|max_steps|t_max|total_iter(ation)?s|horizon", re.IGNORECASE
)
"""Further names of the argument that gets the number of training steps."""
HORIZONS_IF_REQUIRED = re.compile(r"((num|max|n)_)?(steps|iterations|iters)")
"""Further names of this argument, but only if it has no default."""


def rates_of(name: str, plan: OptimizerPlan) -> tuple[float, float | None]:
    """The scale of the sweep's rates for an optimizer, and its fixed rate, which is None if the rate is swept.

    If the plan sets one of the two, the registry's values of both are ignored: a plan with a scale has its rate swept.
    """
    if plan.lr is None and plan.lr_scale is None:
        facts = _facts_on(name, plan)
        return facts.lr_scale, facts.lr
    lr_scale = 1.0 if plan.lr_scale is None else plan.lr_scale
    return lr_scale, plan.lr


def _facts_on(name: str, plan: OptimizerPlan) -> OptimizerFacts:
    """The registry's facts of a plan's optimizer. A plan with a factory has facts without values."""
    if plan.factory:
        return OptimizerFacts(plan.factory, title="", decay="unknown")
    if name in OPTIMIZERS:
        return OPTIMIZERS[name]
    return known_optimizers()[name]


def check_optimizers(plans: Mapping[str, OptimizerPlan], extra: Collection[str]) -> None:
    """Import every optimizer of a suite, and check the names and the types of its options.

    Raises `UsageError` for the first one that is wrong. The arguments are those of `resolve_optimizer`.
    """
    for name, plan in plans.items():
        resolve_optimizer(name, plan, extra)


def resolve_optimizer(name: str, plan: OptimizerPlan, extra: Collection[str] = ()) -> ResolvedOptimizer:
    """Import the optimizer, check the names of its hyperparameters and fill in its defaults.

    Args:
        name: the name of the optimizer; it must be registered if the plan has no factory.
        plan: the plan in the suite.
        extra: the hyperparameters that the sweep selects in addition to the learning rate; the optimizer may lack some.

    Returns:
        The optimizer without its `code`, which is known only after a step.

    Raises:
        UsageError: the optimizer cannot be imported, or it does not take an argument that it would get.
    """
    if plan.factory == BY_PROGRAM:
        return made_by_program(name, plan)
    with explained(lambda error: f"optimizers.{name}: cannot be loaded: {one_line(error)}"):
        return _imported(name, plan, extra)


def _imported(name: str, plan: OptimizerPlan, extra: Collection[str]) -> ResolvedOptimizer:
    """An optimizer that is imported, with its options checked."""
    facts = _facts_on(name, plan)
    lr_scale, lr = rates_of(name, plan)
    horizon = _horizon(facts.factory, plan)
    arguments = arguments_of(facts.factory)
    _check_arguments(name, facts.factory, plan, arguments, searched={"lr", horizon, *extra})
    groups = plan.groups or facts.groups
    if groups:
        load_factory(groups)
    if plan.needs is None:
        needs: Sequence[str] = needs_of(facts.factory, groups)
    else:
        check_needs(plan.needs)
        needs = plan.needs
    options = {**arguments.defaults, **facts.options, **plan.options}
    lacks = []
    if lr is None:
        lacks = [option for option in extra if option != WARMUP and not arguments.take(option)]
    return ResolvedOptimizer(
        name,
        facts.factory,
        options=json.loads(json.dumps(options)),
        arenas=plan.arenas,
        horizon=horizon,
        groups=groups,
        code={},
        needs=needs,
        lr_scale=lr_scale,
        lr=lr,
        lacks=lacks,
    )


def made_by_program(name: str, plan: OptimizerPlan) -> ResolvedOptimizer:
    """An optimizer that a program makes, so that nothing of it can be checked here."""
    lr_scale, lr = rates_of(name, plan)
    return ResolvedOptimizer(
        name,
        BY_PROGRAM,
        options=plan.options,
        arenas=plan.arenas,
        horizon="",
        groups="",
        code={},
        lr_scale=lr_scale,
        lr=lr,
        variant=plan.variant,
    )


def _horizon(factory: str, plan: OptimizerPlan) -> str:
    """The name of the argument that gets the number of training steps; empty if there is none.

    It may be an argument of a parent class, if all constructors before it pass further keywords on.
    """
    loaded = load_factory(factory)
    given = {*plan.options, *getattr(loaded, "keywords", ())}
    is_registered = facts_of(factory) is not None
    for constructor in constructors(loaded):
        arguments = inspect.signature(constructor).parameters.values()
        for argument in arguments:
            if argument.name in given:
                continue
            if argument.name == HORIZON:
                return argument.name
            if not is_registered and _is_horizon_by_name(argument):
                return argument.name
        passes_further_ones_on = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
        if not passes_further_ones_on:
            break
    return ""


def _is_horizon_by_name(argument: inspect.Parameter) -> bool:
    """Whether the name of an argument is usual for the number of training steps."""
    if HORIZONS.fullmatch(argument.name):
        return True
    is_required = argument.default is argument.empty
    return is_required and HORIZONS_IF_REQUIRED.fullmatch(argument.name) is not None


def _check_arguments(
    name: str, factory: str, plan: OptimizerPlan, arguments: Arguments, searched: Collection[str]
) -> None:
    """Raise UsageError unless the factory takes the learning rate and every option, and gets all that it requires.

    Args:
        name: the name of the optimizer.
        factory: its factory.
        plan: its options, some of which may be those of single arenas.
        arguments: what the factory takes.
        searched: the arguments that get a value in each trial.
    """
    if not arguments.take("lr"):
        reason = "has no argument lr, which the sweep selects; wrap it in a function"
        raise UsageError(f"optimizers.{name}: {factory} {reason}")
    defaults = arguments.defaults
    given = set()
    for options in (plan.options, *plan.arenas.values()):
        for option, value in options.items():
            if not arguments.take(option):
                raise unknown(f"hyperparameter of {name}", option, arguments.by_name)
            check_value(f"optimizers.{name}.options.{option}", value, defaults.get(option))
            given.add(option)
    for argument in arguments.required:
        if argument not in given and argument not in searched:
            passed = "fairbench passes parameters, lr, and the number of steps as total_steps or num_training_steps"
            remedy = f"--set {name}.{argument}=VALUE gives it"
            raise UsageError(f"optimizers.{name}: {factory} needs its argument {argument}: {passed}; {remedy}")
