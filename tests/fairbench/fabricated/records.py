"""Records that nobody trained: the cases of a test say what is different in which of them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fabricated.mechanisms import mechanism
from fairbench.study.record import Details, Hashes, Result, Seconds, Series, TrialCost, WholeRecord, failed

METRICS = {"gpt": ["loss", "perplexity", "bits_per_byte"], "vit": ["accuracy", "loss"]}
"""The metrics of each arena, the primary first."""
UNCHANGED = "unchanged"


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is different in the records of some trials.

    Attributes:
        stage, arena, optimizer, lr, seed: which trials; None concerns all of them.
        outcome: a score, "diverged", "failed", or None for no record.
        scores: outcomes in the order of the final seeds, in place of `outcome`.
        values: other values of a record that finished, by paths as in `edited`, or a function that has them for a
            trial.
    """

    stage: str | None = None
    arena: str | None = None
    optimizer: str | None = None
    lr: float | None = None
    seed: int | None = None
    outcome: float | str | None = UNCHANGED
    scores: Sequence[float | str | None] | None = None
    values: Mapping[str, Any] | Callable[..., Mapping[str, Any]] = field(default_factory=dict)

    def concerns(self, spec):
        """Whether the case is about a trial."""
        facts = (
            (self.stage, spec.stage),
            (self.arena, spec.arena.name),
            (self.optimizer, spec.optimizer.name),
            (self.lr, spec.lr),
            (self.seed, spec.seed),
        )
        return all(wanted is None or wanted == found for wanted, found in facts)

    def outcome_of(self, spec, seeds):
        """The outcome of a trial; `seeds` are the final ones of its study."""
        if self.scores is None:
            return self.outcome
        by_seed = dict(zip(seeds, self.scores, strict=True))
        return by_seed.get(spec.seed)

    def applied(self, spec, record):
        """The record of a trial with the case's values."""
        values = self.values
        if callable(values):
            values = values(spec)
        for path, value in values.items():
            record = edited(record, path, value)
        return record


def finals(*, outcome=UNCHANGED, scores=None, arena=None, optimizer=None, lr=None, seed=None):
    """Final trials have another outcome, or other scores in the order of the study's seeds."""
    return Case(stage="final", outcome=outcome, scores=scores, arena=arena, optimizer=optimizer, lr=lr, seed=seed)


def sweep(*, outcome, arena=None, optimizer=None, lr=None, seed=None):
    """Trials of the sweep have another outcome."""
    return Case(stage="sweep", outcome=outcome, arena=arena, optimizer=optimizer, lr=lr, seed=seed)


def timing():
    """Timing trials have records."""
    return Case(stage="timing", outcome=0.5)


def recorded(values, *, stage=None, arena=None, optimizer=None, lr=None, seed=None):
    """Trials that finished recorded other values: by path, or a function that has them for a trial."""
    return Case(values=values, stage=stage, arena=arena, optimizer=optimizer, lr=lr, seed=seed)


class Records:
    """The lookup of a study's records.

    Every optimizer scores 0.5 in its final trials, unless `scores` has its outcomes in the order of the seeds, for all
    arenas. The sweep is best at a learning rate of 1e-3. Timing trials have no record. `cases` say what is different;
    where two of them concern one trial, the later holds.
    """

    def __init__(self, the_study=None, *cases, **scores):
        self.seeds = None
        self.scores = {}
        self.cases = list(cases)
        if the_study is not None:
            self.seeds = list(the_study.suite.final.seeds)
        for optimizer, outcomes in scores.items():
            self.scores[optimizer] = dict(zip(self.seeds, outcomes, strict=True))

    def __call__(self, spec):
        outcome = self.outcome(spec)
        if outcome is None:
            return None
        return self.record(spec, outcome)

    def outcome(self, spec):
        """The outcome of a trial: a score, "diverged", "failed", or None for no record."""
        for case in reversed(self.cases):
            if case.concerns(spec):
                outcome = case.outcome_of(spec, self.seeds)
                if outcome != UNCHANGED:
                    return outcome
        if spec.stage == "timing":
            return None
        if spec.stage == "sweep":
            return self.sweep_score(spec)
        if self.seeds is not None and spec.seed not in self.seeds:
            return None
        if spec.optimizer.name in self.scores:
            return self.scores[spec.optimizer.name][spec.seed]
        return 0.5

    def sweep_score(self, spec):
        """A score that is best at a learning rate of 1e-3."""
        if spec.lr == 1e-3:
            return 0.5
        if spec.arena.task == "vit":
            return 0.4
        return 0.6

    def record(self, spec, outcome):
        """The record of a trial that had this outcome."""
        if outcome == "failed":
            return failed(spec, "RuntimeError", "no <luck>", "Traceback: no <luck>")
        finished = outcome != "diverged"
        record = WholeRecord(
            id=spec.id,
            stage=spec.stage,
            status="finished" if finished else "diverged",
            result=self.result(spec, outcome, finished),
            details=self.details(spec, outcome, finished),
            cost=TrialCost(
                seconds=seconds(),
                steps=10 if finished else 5,
                peak_memory_bytes=5_000_000,
                alone=True,
                data_on="cpu",
            ),
            environment={"python": "3.99", "device": "a machine", "git": "abc"},
        )
        if finished:
            for case in self.cases:
                if case.concerns(spec):
                    record = case.applied(spec, record)
        return record

    def result(self, spec, outcome, finished):
        """What a trial measured; a diverged one did so after half of its steps."""
        arena = spec.arena.name
        final = None
        if finished:
            metrics = self.metrics(spec, outcome)
            final = {"val": metrics}
            if spec.stage == "final":
                final["test"] = metrics
        hashes = Hashes(
            initial_weights=sha(f"{arena} {spec.seed}"),
            batches=sha(f"{arena} {spec.seed} {finished}"),
            noise=sha(f"{arena} {spec.seed} {finished}"),
            final_weights=sha(f"{arena} {spec.optimizer.name} {spec.seed} {spec.lr}"),
        )
        return Result(
            steps=10 if finished else 5,
            final=final,
            hashes=hashes,
            parameters=7,
            clip_rate=0.25,
            path_length=0.6,
        )

    def details(self, spec, outcome, finished):
        """The curves of a trial; that of the metrics is flat."""
        loss_curve = Series((), {"loss": ()})
        evaluations = Series()
        if finished:
            metrics = self.metrics(spec, outcome)
            loss_curve = Series((5, 10), {"loss": (2.0, 1.0)})
            evaluations = Series((5, 10), {name: [value] * 2 for name, value in metrics.items()})
        observed = None
        if spec.optimizer.name == "PsiLogic":
            observed = mechanism()
        return Details(loss_curve=loss_curve, evaluations=evaluations, mechanism=observed)

    def metrics(self, spec, outcome):
        """The metrics of a trial that finished: the primary is its score."""
        names = METRICS.get(spec.arena.name)
        if names is None:
            names = METRICS[spec.arena.task]
        primary, *others = names
        return {primary: outcome, **dict.fromkeys(others, 1.5)}


def seconds(factor=1.0):
    """What the phases of a trial take, times a factor."""
    return Seconds(
        data=factor * 0.01,
        forward=factor * 0.02,
        backward=factor * 0.03,
        step=factor * 0.04,
        eval=factor * 0.5,
        log=0.0,
        total=factor * 1.0,
    )


def edited(value, path, new):
    """A record with another value at a path like "result.final.val"."""
    key, _, rest = path.partition(".")
    if isinstance(value, dict):
        if rest:
            new = edited(value[key], rest, new)
        return {**value, key: new}
    if rest:
        new = edited(getattr(value, key), rest, new)
    return msgspec.structs.replace(value, **{key: new})


def sha(text):
    """The sha256 of a text, as records have it."""
    return hashlib.sha256(text.encode()).hexdigest()
