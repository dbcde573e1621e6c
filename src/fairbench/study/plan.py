"""The trials that a study needs. They depend only on the study and on the existing records.

An interrupted study therefore resumes as if it had never stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from fairbench.arenas.base import ArenaFacts
from fairbench.study.planned_trial import trial_spec
from fairbench.study.record import Record
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.search import (
    KEPT,
    Score,
    Scores,
    Setting,
    ranked,
)

T = TypeVar("T")
U = TypeVar("U")
Lookup = Callable[[TrialSpec], Record | None]
"""A function that returns the record of a trial; None without one."""
SeedsNeeded = Mapping[tuple[str, str], int]
"""The number of final seeds that each arm needs, by arena and optimizer. Seeds are used in their order."""
More = Callable[[Scores], list[Setting]]
"""A function that returns the settings to try next, by the scores so far."""


@dataclass(frozen=True)
class Arm(Generic[T]):
    """One optimizer in one arena, as far as its records determine it. T is a trial, or what stands for a trial.

    Attributes:
        tuned: whether the optimizer is searched, in this arena or in its tuning arena, or has nothing to search.
        sweep: trials of stage 1 by rising learning rate; empty if another arena tunes for this one, or if the optimizer
            is not tuned.
        others: trials of stage 2 at settings that are not selected. While no setting is selected, these are all trials
            of stage 2.
        located: the setting around which stage 2 begins; None while the sweep is incomplete.
        selected: the setting that is reported; None while trials are missing on which the selection depends.
        final: trials of stage 2 at the selected setting.
        diverged: whether the sweep is complete, and at least one trial diverged at every rate.
    """

    arena: str
    optimizer: str
    tuned: bool
    sweep: Sequence[T] = ()
    others: Sequence[T] = ()
    located: Setting | None = None
    selected: Setting | None = None
    final: Sequence[T] = ()
    diverged: bool = False

    @property
    def trials(self) -> list[T]:
        """The trials of both stages."""
        return [*self.sweep, *self.others, *self.final]

    def map(self, convert: Callable[[Sequence[T]], Sequence[U]]) -> "Arm[U]":
        """The arm with each list of trials replaced by what `convert` returns for it."""
        return Arm(
            arena=self.arena,
            optimizer=self.optimizer,
            tuned=self.tuned,
            sweep=convert(self.sweep),
            others=convert(self.others),
            located=self.located,
            selected=self.selected,
            final=convert(self.final),
            diverged=self.diverged,
        )


def score(record: Record, metric: str, arena: ArenaFacts) -> Score:
    """A sort key for a trial, lower is better: whether it diverged, then its final validation metrics.

    The primary metric comes first; the other metrics break ties.
    """
    directions = arena.metrics
    if record.status != "finished":
        zeros = [0.0] * len(directions)  # a diverged trial has no metrics
        return (1.0, *zeros)
    measured = record.final("val")
    values = [0.0]
    for name in sorted(directions, key=lambda name: name != metric):
        value = measured[name]
        values.append(value if directions[name] == "min" else -value)
    return tuple(values)


def arms(study: ResolvedSuite, lookup: Lookup, seeds: SeedsNeeded | None = None) -> list[Arm[TrialSpec]]:
    """Every arm of the study as far as its records determine it. Without `seeds`, each arm has all final seeds."""
    needed = seeds or study.suite.all_seeds
    return [Trials(study, lookup, *arm).arm(needed[arm]) for arm in study.suite.arms]


class Trials:
    """The trials of one arm. The spec of a setting is made once and kept."""

    def __init__(self, study: ResolvedSuite, lookup: Lookup, arena: str, optimizer: str) -> None:
        self.study = study
        self.lookup = lookup
        self.arena = arena
        self.optimizer = optimizer
        tuning_arena = study.suite.tuning_arena(arena)
        self._tuning = self if tuning_arena == arena else Trials(study, lookup, tuning_arena, optimizer)
        self._search = study.search(optimizer)
        self._made: dict[tuple[str, Setting], TrialSpec] = {}

    def arm(self, seeds: int) -> Arm[TrialSpec]:
        """The arm as far as its records determine it, with its first `seeds` final seeds."""
        if self._tuning is not self:
            return self._as_tuned_elsewhere(seeds)  # another arena selects the setting
        suite = self.study.suite
        search = self._search
        arm = Arm[TrialSpec](self.arena, self.optimizer, self.study.tuned(self.optimizer))
        if not self.study.searched(self.optimizer):
            (fixed,) = search.first()
            return replace(arm, located=fixed, selected=fixed, final=self._final(fixed, seeds))
        tried, short_scores = self._scored("sweep", search.next, suite.sweep.seeds)
        arm = replace(arm, sweep=_in_order(tried))
        if not short_scores:
            return arm  # the sweep is incomplete
        located = ranked(short_scores)[0]
        share_diverged = short_scores[located][0]
        if share_diverged > 0:
            return replace(arm, diverged=True)
        arm = replace(arm, located=located)
        if suite.final.settings == 1:  # the sweep alone selects
            return replace(arm, selected=located, final=self._final(located, seeds))
        return self._with_finals(arm, partial(search.finals, suite.final, short_scores), seeds)

    def later(self, arm: Arm[TrialSpec], seeds: int) -> tuple[int, int]:
        """The number of sweep trials and of final trials of an arm whose settings depend on records that are missing.

        Args:
            arm: the arm as far as its records determine it.
            seeds: the number of its final seeds.
        """
        suite = self.study.suite
        if arm.selected or arm.diverged:
            return 0, 0  # every trial is known
        sweep_trials = 0
        final_trials = seeds
        if arm.sweep:
            final_trials = self._search.final_trials(suite.final, seeds)
            if not arm.located:
                sweep_trials = self._search.size * len(suite.sweep.seeds) - len(arm.sweep)
        return max(sweep_trials, 0), max(final_trials - len(arm.others), 0)

    def _with_finals(self, arm: Arm[TrialSpec], more: More, seeds: int) -> Arm[TrialSpec]:
        """The arm with stage 2.

        After the first seeds, only the best two settings continue; the better one is selected.
        """
        final = self.study.suite.final
        seeds_of_all = final.seeds[: min(final.halve_after, seeds)]
        trials, scores = self._scored("final", more, seeds_of_all)
        selected = None
        if scores:
            kept = ranked(scores)[:KEPT]

            def finish_kept(finished: Scores) -> list[Setting]:
                """The kept settings, asked for once."""
                return [] if finished else kept

            whole, scores = self._scored("final", finish_kept, final.seeds[:seeds])
            trials = {**trials, **whole}
            if scores:
                selected = ranked(scores)[0]
        others = {setting: specs for setting, specs in trials.items() if setting != selected}
        final_trials = trials[selected] if selected else ()
        return replace(arm, others=_in_order(others), selected=selected, final=final_trials)

    def _as_tuned_elsewhere(self, seeds: int) -> Arm[TrialSpec]:
        """The arm with the setting that its tuning arena selects.

        The setting may differ from one interim analysis to the next: the arm then keeps the trials of each.
        """
        trials: dict[Setting, list[TrialSpec]] = {}
        for number in self.study.suite.final.numbers:
            if number > seeds:
                continue
            tuned = self._tuning.arm(number)
            if tuned.selected:
                trials[tuned.selected] = self._final(tuned.selected, number)
        final = trials.pop(tuned.selected) if tuned.selected else ()
        return replace(tuned, arena=self.arena, sweep=(), others=_in_order(trials), final=final)

    def _scored(self, stage: str, more: More, seeds: Sequence[int]) -> tuple[dict[Setting, list[TrialSpec]], Scores]:
        """The trials of the settings that `more` asks for, and the mean score of each setting.

        The scores are empty while one of these trials has no score.
        """
        trials: dict[Setting, list[TrialSpec]] = {}
        scores: dict[Setting, Score] = {}
        while new := more(scores):
            tried = {setting: self._trial(stage, setting).with_seeds(seeds) for setting in new}
            trials = _by_rate({**trials, **tried})
            means = self._mean_scores(tried)
            if not means:
                return trials, {}
            scores = _by_rate({**scores, **means})
        return trials, scores

    def _mean_scores(self, tried: Mapping[Setting, Sequence[TrialSpec]]) -> dict[Setting, Score]:
        """The mean score of the trials of each setting; empty while one of them has no record, or has failed."""
        records_of: dict[Setting, list[Record]] = {}
        is_complete = True
        for setting, specs in tried.items():
            records = []
            for spec in specs:
                record = self.lookup(spec)
                if record is None or record.status == "failed":
                    is_complete = False
                else:
                    records.append(record)
            records_of[setting] = records
        if not is_complete:
            return {}
        metric = self.study.suite.arenas[self.arena].metric
        facts = self.study.suite.facts(self.arena)
        means = {}
        for setting, records in records_of.items():
            means[setting] = _mean([score(record, metric, facts) for record in records])
        return means

    def _final(self, setting: Setting, seeds: int) -> list[TrialSpec]:
        """The final trials at a setting, with the first `seeds` final seeds."""
        return self._trial("final", setting).with_seeds(self.study.suite.final.seeds[:seeds])

    def _trial(self, stage: str, setting: Setting) -> TrialSpec:
        """A trial of a stage with a setting. Its seed is 0, and is to be replaced."""
        key = (stage, setting)
        if key not in self._made:
            self._made[key] = trial_spec(
                self.study, self.arena, self.optimizer, stage, setting.lr, seed=0, extra=setting.extra
            )
        return self._made[key]


def _in_order(trials_of: Mapping[Setting, Sequence[T]]) -> list[T]:
    """The trials of all settings in one list, those with the lowest learning rate first."""
    trials: list[T] = []
    for trials_of_setting in _by_rate(trials_of).values():
        trials += trials_of_setting
    return trials


def _by_rate(entries: Mapping[Setting, T]) -> dict[Setting, T]:
    """The entries of a dictionary by rising learning rate. Entries with the same rate keep their order."""
    return dict(sorted(entries.items(), key=lambda item: item[0].lr))


def _mean(scores: list[Score]) -> Score:
    """The mean of several scores, part by part."""
    return tuple(sum(column) / len(scores) for column in zip(*scores, strict=True))
