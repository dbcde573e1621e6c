"""A small study with invented records: the tests give the score of each final trial."""

import hashlib
import json
from dataclasses import replace

import msgspec

from fairbench.analysis.audit import audit
from fairbench.optimizers.spec import OptimizerPlan, ResolvedOptimizer
from fairbench.study.history import DeclaredPlan, History, write_history
from fairbench.study.plan import ResolvedArena, ResolvedSuite, arms
from fairbench.study.record import (
    Details,
    Hashes,
    MechanismReport,
    Result,
    Seconds,
    Series,
    TrialCost,
    WholeRecord,
    failed,
)
from fairbench.study.records import Store
from fairbench.suites.loader import load_suite
from fairbench.suites.schema import ArenaPlan, Cell, Compare, Suite
from fairbench.suites.stages import Final, Sweep, Training

METRICS = {"gpt": ["loss", "perplexity", "bits_per_byte"], "vit": ["accuracy", "loss"]}
COST = {"peak_memory_bytes": 5_000_000, "data_on": "cpu"}
MINI = load_suite("mini").arenas
TENSOR_STEPS, SHARE = "tensor steps", "share of the tensor"
QUANTITIES = {
    "tensor_steps": (TENSOR_STEPS, {"a": 20.0, "b": 20.0}), "fired": (TENSOR_STEPS, {"a": 15.0, "b": 5.0}),
    "acted": (TENSOR_STEPS, {"a": 10.0, "b": 0.0}), "cancellation": (SHARE, {"a": 0.002, "b": 0.0}),
    "weight_decay": (SHARE, {"a": 0.008, "b": 0.008}),
}  # fmt: skip


def mechanism(quantities=QUANTITIES):
    """What a trial of ten steps records of an optimizer's mechanism: a quarter of it by step 5; tensors of length 3."""
    totals = {name: sum(tensors.values()) for name, (_, tensors) in quantities.items()}
    return MechanismReport(
        units={name: unit for name, (unit, _) in quantities.items()},
        totals=totals,
        course=Series((5, 10), {name: (total / 4, total * 0.75) for name, total in totals.items()}),
        path_length={name: 3 * totals[name] for name, (unit, _) in quantities.items() if unit == SHARE},
        tensors={name: dict(tensors) for name, (_, tensors) in quantities.items()},
    )


PSILOGIC, EVERY_PAIR = Compare(["PsiLogic"], ["all"]), Compare(baselines=["all"])
"""What a study compares: PsiLogic with all others, as the paper does, or every pair."""


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
    suite = Suite(
        name="fabricated",
        description="records that nobody trained",
        reference=reference,
        alpha=alpha,
        sweep=Sweep(1e-4, 1e-2, [0], 1, points=3, budget=budget),
        final=Final(list(seeds), 2, settings, test=test),
        training=Training(0, 1.0, 5),
        arenas={
            name: ArenaPlan(METRICS[name][0], margin, 10, 10, 4, MINI[name].data, MINI[name].model) for name in arenas
        },
        optimizers={name: OptimizerPlan() for name in optimizers},
        compare=compare,
        **fields,
    )
    resolved = {name: ResolvedOptimizer(name, f"torch.optim:{name}", {}, {}, "", "", {}) for name in optimizers}
    starts = {name: {str(seed): sha(f"{name} {seed}") for seed in (*range(20), *seeds)} for name in arenas}
    met = {name: ResolvedArena("0", {}, starts[name]) for name in arenas}
    return ResolvedSuite(suite, "cpu", met, resolved, {"python": "3.99", "device": "a machine"})


def with_suite(the_study, **fields):
    """The study with other fields of its suite; a new arena has the data of its task, or of the first one."""
    suite, met = replace(the_study.suite, **fields), the_study.arenas
    first = next(iter(met.values()))
    arenas = {name: met.get(name, met.get(plan.task, first)) for name, plan in suite.arenas.items()}
    return replace(the_study, suite=suite, arenas=arenas)


def with_horizons(the_study, *horizons):
    """The study with other horizons of the reference in every arena."""
    arenas = dict(the_study.suite.arenas)
    for name, plan in the_study.suite.arenas.items():
        cells = {x: Cell(name, x, curve_of=name) for x in horizons if x != 1 and not plan.cell}
        arenas |= {f"{name}-x{x:g}": replace(plan, task=name, steps=round(10 * x), cell=cells[x]) for x in cells}
    return with_suite(the_study, arenas=arenas)


def with_ladder(the_study, parameters=(1000, 2000, 4000, 8000), horizons=(0.5, 1, 2)):
    """The study with its arena gpt at several sizes and horizons."""
    arenas = dict(the_study.suite.arenas)
    plan = arenas.pop("gpt")
    for size, count in enumerate(parameters, 1):
        for x in horizons:
            steps = round(100 * x * count / parameters[0])
            cell = Cell("gpt", x, size, count)
            arenas[f"gpt-{size}-x{x:g}"] = replace(plan, task="gpt", steps=steps, cell=cell)
    return with_suite(the_study, arenas=arenas)


class Records:
    """A lookup: `finals[arena, optimizer][seed]` is a score, "diverged", "failed" or None for no record.

    The sweep is best at 1e-3; `sweeps[arena, optimizer][lr]` overrides a score. Other settings of stage 2 are worse by
    `apart`; `shared`: all trials shared their device. With `speed` there are timing trials, and the trials of PsiLogic
    take `speed` times as long. `edits(spec)` has other values of a record that finished, by paths as in `edited`.
    """

    def __init__(self, finals, sweeps=None, quantities=QUANTITIES, weights=None, batches=None, speed=None, **other):
        self.finals, self.sweeps, self.quantities, self.speed = finals, sweeps or {}, quantities, speed
        self.apart, self.shared = other.get("apart", 0.0), other.get("shared", False)
        self.edits = other.get("edits") or (lambda spec: {})
        self.weights, self.batches = weights or {}, batches or {}

    def __call__(self, spec):
        arm = (spec.arena.name, spec.optimizer.name)
        if spec.stage == "timing":
            return self.record(spec, 0.5) if self.speed else None
        if spec.stage == "sweep":
            best = 0.5 if spec.lr == 1e-3 else 0.4 if spec.arena.task == "vit" else 0.6
            outcome = self.sweeps.get(arm, {}).get(spec.lr, best)
        else:
            outcome = self.finals[arm].get(spec.seed)
            if self.apart and spec.lr != 1e-3 and isinstance(outcome, float):
                worse = self.apart * (1 + spec.seed % 2 / 10)
                outcome += -worse if spec.arena.task == "vit" else worse
        return None if outcome is None else self.record(spec, outcome)

    def record(self, spec, outcome):
        if outcome == "failed":
            return failed(spec, "RuntimeError", "no <luck>", "Traceback: no <luck>")
        factor = self.speed if self.speed and spec.optimizer.name == "PsiLogic" else 1.0
        finished = outcome != "diverged"
        record = WholeRecord(
            id=spec.id,
            stage=spec.stage,
            status="finished" if finished else "diverged",
            result=self.result(spec, outcome, finished),
            details=self.details(spec, outcome, finished),
            cost=TrialCost(
                seconds=Seconds(*(factor * x for x in (0.01, 0.02, 0.03, 0.04, 0.5, 0.0, 1.0))),
                steps=10 if finished else 5,
                alone=not self.shared,
                **COST,
            ),
            environment={"python": "3.99", "device": "a machine", "git": "abc"},
        )
        for path, value in self.edits(spec).items() if finished else ():
            record = edited(record, path, value)
        return record

    def result(self, spec, outcome, finished):
        arena, optimizer, seed = spec.arena.name, spec.optimizer.name, spec.seed
        metrics, key = self.metrics(spec, outcome), f"{arena} {optimizer} {seed} {spec.lr}"
        return Result(
            steps=10 if finished else 5,
            final={"val": metrics, **({"test": metrics} if spec.stage == "final" else {})} if finished else None,
            hashes=Hashes(
                initial_weights=sha(f"{arena} {seed}"),
                batches=self.batches.get((optimizer, seed), sha(f"{arena} {seed} {finished}")),
                noise=sha(f"{arena} {seed} {finished}"),
                final_weights=self.weights.get((optimizer, seed), sha(key)),
            ),
            parameters=7,
            clip_rate=0.25,
            path_length=0.6,
        )

    def details(self, spec, outcome, finished):
        observed = spec.optimizer.name == "PsiLogic" and self.quantities
        columns = {name: [value] * 2 for name, value in self.metrics(spec, outcome).items()}
        return Details(
            loss_curve=Series((5, 10), {"loss": (2.0, 1.0)}) if finished else Series((), {"loss": ()}),
            evaluations=Series((5, 10), columns) if finished else Series(),
            mechanism=mechanism(self.quantities) if observed else None,
        )

    def metrics(self, spec, outcome):
        primary, *others = METRICS.get(spec.arena.name) or METRICS[spec.arena.task]
        return {primary: outcome, **dict.fromkeys(others, 1.5)}


def edited(value, path, new):
    """A record with another value at a path like "result.final.val"."""
    key, _, rest = path.partition(".")
    if isinstance(value, dict):
        return {**value, key: edited(value[key], rest, new) if rest else new}
    return msgspec.structs.replace(value, **{key: edited(getattr(value, key), rest, new) if rest else new})


def stored(path):
    """The plain values in the file of a record."""
    return json.loads(path.read_text().splitlines()[0])


def sealed(text):
    """The content of the file of a record with this JSON."""
    return f"{text}\n{sha(text)}\n"


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def finals(the_study, **scores):
    """Scores by optimizer, the same in every arena: a list in the order of the seeds."""
    seeds = the_study.suite.final.seeds
    return {
        (arena, name): dict(zip(seeds, scores.get(name, [0.5] * len(seeds)), strict=True))
        for arena in the_study.suite.arenas
        for name in the_study.suite.optimizers
    }


def history(the_study):
    """The plans of a study that was never changed."""
    return History((DeclaredPlan(the_study, "2026-11-22T10:00:00+00:00", 0),))


def saved(directory, the_study, records):
    """The directory, as text, with what a run of the study leaves in it."""
    write_history(directory, history(the_study))
    for spec in (spec for arm in arms(the_study, records) for spec in arm.trials if records(spec)):
        Store(directory).write(spec, records(spec))
    return str(directory)


def analysed(the_study, records=None, **scores):
    """The analyses of a study with these records, or with records of these scores."""
    from fairbench.analysis.analyses import Analyses  # scipy, which most users of this module do not need

    return Analyses(history(the_study), records or Records(finals(the_study, **scores)))


def given(analyses, found):
    """The analyses, of which some are given by their functions instead of computed."""
    compute = analyses.of
    analyses.of = lambda analysis: found[analysis] if analysis in found else compute(analysis)
    return analyses


def flags_of(the_study, records):
    """The evidence of each flag that the audit of a study raises, by its name."""
    return {flag.name: flag.evidence for flag in analysed(the_study, records).of(audit)}
