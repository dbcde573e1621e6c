"""The plans of small studies, resolved without loading any data or model."""

from dataclasses import replace

from fabricated.records import METRICS, sha
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer
from fairbench.study.first_steps import FirstSteps
from fairbench.study.history import DeclaredPlan, History
from fairbench.study.preflight_result import Preflight
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.study.trial_spec import TrainingSpec
from fairbench.suites.arenas import ArenaPlan, LadderPoint
from fairbench.suites.compare import Compare
from fairbench.suites.loader import load_suite
from fairbench.suites.schema import Suite
from fairbench.suites.stages import Final, Sweep, Training

MINI = load_suite("mini").arenas
PSILOGIC = Compare(["PsiLogic"], ["all"])
"""PsiLogic is compared with all others, as in the paper."""
EVERY_PAIR = Compare(baselines=["all"])


def training(**settings):
    """The training of a trial on a CPU, with some settings of its own."""
    usual = {
        "steps": 40,
        "warmup_steps": 0,
        "clip_norm": 1.0,
        "evaluations": 1,
        "log_every": 5,
        "evaluation_batch_size": 64,
        "precision": "float32",
        "deterministic": True,
        "compile": False,
        "selection": "val",
        "shock": {},
        "device": "cpu",
    }
    return TrainingSpec(**{**usual, **settings})


def study(
    arenas=("gpt", "vit"),
    optimizers=("AdamW", "Lion", "PsiLogic"),
    seeds=(1, 2, 3),
    alpha=0.05,
    margin=0.01,
    budget=0,
    settings=1,
    test="paired",
    reference="PsiLogic",
    compare=PSILOGIC,
    **fields,
):
    """The plan of a study with arenas of `mini`; `fields` are further ones of its suite."""
    suite = Suite(
        name="fabricated",
        description="records that nobody trained",
        reference=reference,
        alpha=alpha,
        sweep=Sweep(1e-4, 1e-2, [0], 1, points=3, budget=budget),
        final=Final(list(seeds), 2, settings, test=test),
        training=Training(0, 1.0, 5),
        arenas={name: arena_plan(name, margin) for name in arenas},
        optimizers={name: OptimizerPlan() for name in optimizers},
        compare=compare,
        **fields,
    )
    return ResolvedSuite(
        suite=suite,
        device="cpu",
        arenas={name: resolved_arena(name, seeds) for name in arenas},
        optimizers={name: resolved_optimizer(name) for name in optimizers},
        environment={"python": "3.99", "device": "a machine"},
    )


def arena_plan(name, margin):
    """An arena of `mini`, with ten steps of training."""
    return ArenaPlan(
        metric=METRICS[name][0],
        margin=margin,
        steps=10,
        sweep_steps=10,
        batch_size=4,
        data=MINI[name].data,
        model=MINI[name].model,
    )


def resolved_arena(name, seeds):
    """An arena whose models start, with each seed, with the weights that `Records` have."""
    starts = {}
    for seed in (*range(20), *seeds):
        starts[str(seed)] = sha(f"{name} {seed}")
    return ResolvedArena(fingerprint="0", code={}, starts=starts)


def resolved_optimizer(name):
    """An optimizer of torch's, without options."""
    return ResolvedOptimizer(
        name=name,
        factory=f"torch.optim:{name}",
        options={},
        arenas={},
        horizon="",
        groups="",
        code={},
    )


def with_suite(the_study, **fields):
    """The study with other fields of its suite; a new arena has the data of its task, or of the first one."""
    suite = replace(the_study.suite, **fields)
    known = the_study.arenas
    first = next(iter(known.values()))
    arenas = {}
    for name, plan in suite.arenas.items():
        of_task = known.get(plan.task, first)
        arenas[name] = known.get(name, of_task)
    return replace(the_study, suite=suite, arenas=arenas)


def with_horizons(the_study, *horizons):
    """The study with other horizons of the reference in every arena."""
    arenas = dict(the_study.suite.arenas)
    for name, plan in the_study.suite.arenas.items():
        if plan.ladder_point:
            continue
        for horizon in horizons:
            if horizon == 1:
                continue
            cell = LadderPoint(name, horizon, reference_curve_arena=name)
            steps = round(10 * horizon)
            arenas[f"{name}-x{horizon:g}"] = replace(plan, task=name, steps=steps, ladder_point=cell)
    return with_suite(the_study, arenas=arenas)


def with_ladder(the_study, parameters=(1000, 2000, 4000, 8000), horizons=(0.5, 1, 2)):
    """The study with its arena gpt at several sizes and horizons."""
    arenas = dict(the_study.suite.arenas)
    plan = arenas.pop("gpt")
    for size, count in enumerate(parameters, 1):
        for horizon in horizons:
            steps = round(100 * horizon * count / parameters[0])
            cell = LadderPoint("gpt", horizon, size, count)
            arenas[f"gpt-{size}-x{horizon:g}"] = replace(plan, task="gpt", steps=steps, ladder_point=cell)
    return with_suite(the_study, arenas=arenas)


def history(the_study):
    """The plans of a study that was never changed."""
    declared = DeclaredPlan(the_study, "2026-11-22T10:00:00+00:00", 0)
    return History((declared,))


def rehearsed(the_study):
    """The study with steps of 0.01 and evaluations of 0.5 seconds on a CPU; every trial resumes."""
    suite = the_study.suite
    cost = FirstSteps(seconds=0.01)
    costs = {name: dict.fromkeys(suite.arenas, cost) for name in suite.optimizers}
    return Preflight(the_study, costs, evaluation_seconds=dict.fromkeys(suite.arenas, 0.5))
