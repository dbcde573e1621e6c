"""Trials of a program that report the same although their learning rates or their optimizers differ.

Such a program ignores what it gets: its loop overwrites the rate, or it reads `{optimizer}` and makes another one.
Equal values are a proof only if chance cannot explain them, see `is_exact`.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from fairbench.arenas.program import TASK, ProgramOptions
from fairbench.common.errors import UsageError
from fairbench.common.exact_values import FEW_EXAMPLES, MANY_EXAMPLES, is_exact
from fairbench.study.plan import Lookup, arms
from fairbench.study.record import WholeRecord
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.search import NO_RATE

WholeLookup = Callable[[TrialSpec], WholeRecord | None]
FEWEST_EXACT = 2
"""The fewest different exact values that prove something in two trials."""


@dataclass(frozen=True)
class Values:
    """What a finished trial has reported.

    Attributes:
        digest: the sha256 of all values, equal only if all of them are.
        distinct: the different values.
        shown: the metrics at the end, in words.
    """

    digest: str
    distinct: Collection[float]
    shown: str

    @classmethod
    def of(cls, record: WholeRecord) -> "Values":
        """The values of a finished trial."""
        final = record.final("val")
        details = record.details
        curves = [details.evaluations, details.loss_curve] if details else []
        distinct = {*final.values()}
        for series in curves:
            for column in series.values.values():
                distinct.update(column)
        content = msgspec.json.encode([final, curves], enc_hook=list)
        shown = ", ".join(f"val/{name} {value:.10g}" for name, value in final.items())
        return cls(hashlib.sha256(content).hexdigest(), distinct, shown)

    def exact(self, examples: int) -> int:
        """The number of different values that are no fractions of this number of examples."""
        return sum(is_exact(value, examples) for value in self.distinct)


class EqualTrials:
    """Compares each trial of a program that has ended with the earlier ones.

    Args:
        study: the study.
        whole: returns the record of a trial with its curves.
        told_by_name: the arenas whose program makes the optimizer itself, by its name.
    """

    def __init__(self, study: ResolvedSuite, whole: WholeLookup, told_by_name: Collection[str]) -> None:
        self._study = study
        self._whole = whole
        self._told_by_name = told_by_name
        self._by_rate: dict[Any, dict[float, Values]] = {}
        self._by_optimizer: dict[Any, dict[str, dict[float, Values]]] = {}

    def add_earlier(self, lookup: Lookup) -> None:
        """Compare the trials that have a record. Raises `UsageError` as `add` does."""
        for arm in arms(self._study, lookup):
            for spec in arm.trials:
                if spec.arena.task == TASK and lookup(spec):
                    self.add(spec)

    def add(self, spec: TrialSpec) -> None:
        """Compare a trial that has ended with those before it.

        Raises:
            UsageError: the program ignores its learning rate or its optimizer.
        """
        if spec.arena.task != TASK or spec.lr == NO_RATE:
            return
        record = self._whole(spec)
        if record is None or record.status != "finished":
            return
        values = Values.of(record)
        others = {name: value for name, value in spec.optimizer.options.items() if name != "lr"}
        own = (spec.arena.name, spec.optimizer.name, spec.stage, spec.seed, repr(others))
        of_rates = self._by_rate.setdefault(own, {})
        self._check_rate(spec, values, of_rates)
        of_rates[spec.lr] = values
        self._check_search(spec, of_rates)
        if spec.arena.name in self._told_by_name and not spec.optimizer.variant:
            of_optimizers = self._by_optimizer.setdefault((spec.arena.name, spec.stage, spec.seed), {})
            of_optimizers.setdefault(spec.optimizer.name, {})[spec.lr] = values
            self._check_optimizer(spec, of_optimizers)

    def _check_rate(self, spec: TrialSpec, values: Values, of_rates: dict[float, Values]) -> None:
        """Raise `UsageError` if a trial reports the same as one with another rate, and its values prove something."""
        if values.exact(MANY_EXAMPLES) < FEWEST_EXACT:
            return
        for lr, other in of_rates.items():
            if other.digest == values.digest:
                raise UsageError(ignored_rate(spec, [lr, spec.lr], values))

    def _check_search(self, spec: TrialSpec, of_rates: dict[float, Values]) -> None:
        """Raise `UsageError` if the trials of all rates of the first grid report the same."""
        grid = {setting.lr for setting in self._study.search(spec.optimizer.name).first()}
        if len(grid) < 2 or not grid <= of_rates.keys():
            return
        values = of_rates[spec.lr]
        digests = {each.digest for each in of_rates.values()}
        if len(digests) == 1 and values.exact(FEW_EXAMPLES):
            raise UsageError(ignored_rate(spec, of_rates, values))

    def _check_optimizer(self, spec: TrialSpec, of_optimizers: dict[str, dict[float, Values]]) -> None:
        """Raise `UsageError` if a trial reports the same as one of another optimizer with the same rate.

        Where values have few digits, the trials of all rates that both have must agree, and more than one.
        """
        own = of_optimizers[spec.optimizer.name]
        values = own[spec.lr]
        for name, theirs in of_optimizers.items():
            shared = own.keys() & theirs.keys()
            if name == spec.optimizer.name or spec.lr not in shared:
                continue
            if any(own[lr].digest != theirs[lr].digest for lr in shared):
                continue
            is_proof = values.exact(MANY_EXAMPLES) >= FEWEST_EXACT
            if len(shared) > 1 and values.exact(FEW_EXAMPLES):
                is_proof = True
            if is_proof:
                raise UsageError(_ignored_optimizer(spec, name, values))


def ignored_rate(spec: TrialSpec, rates: Iterable[float], values: Values) -> str:
    """The message on a program that reports the same values at several learning rates."""
    *others, last = [f"{lr:.3g}" for lr in sorted(rates)]
    variant = spec.optimizer.variant
    command = ProgramOptions(**spec.arena.model).command(variant)
    name = spec.optimizer.name
    if "lr" in command.placeholders:
        source = "{lr} reaches the command, and the program does not train with it"
    else:
        source = "the program takes trial.optimizer or trial.lr, and trains with another rate"
    fixed = f"optimizers.{name}.lr"
    if variant:
        fixed = f"variants.{name}.lr"
    length = f"{spec.training.steps} steps with seed {spec.seed}"
    return (
        f"arenas.{spec.arena.name}: with {name}, the learning rates {', '.join(others)} and {last} give the same "
        f"values ({values.shown} after {length}, and all others): {source}. A loop that sets the rate must scale the "
        'searched one, as in group["lr"] = trial.lr * factor, or take trial.lr_schedule(optimizer). '
        f"If the optimizer has no rate, --set {fixed}=1 searches none"
    )


def _ignored_optimizer(spec: TrialSpec, other: str, values: Values) -> str:
    """The message on a program that reports the same values with two optimizers."""
    arena = spec.arena.name
    length = f"{spec.training.steps} steps with seed {spec.seed}"
    return (
        f"arenas.{arena}: {other} and {spec.optimizer.name} give the same values at learning rate {spec.lr:.3g} "
        f"({values.shown} after {length}, and all others): the program gets the name of its optimizer, and does not "
        "train with it. Let it make the optimizer of that name, or take trial.optimizer. "
        f"If the two differ only later, --set arenas.{arena}.sweep_steps=N makes the trials of the search longer"
    )
