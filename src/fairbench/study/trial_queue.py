"""Which trial runs next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fairbench.common.grouping import grouped
from fairbench.study.plan import Lookup, ResolvedSuite, SeedsNeeded, Trials, timing_trials
from fairbench.study.trial_spec import TrialSpec


@dataclass(frozen=True)
class Progress:
    """The progress of a study: trials with a record, all that are needed, and the training steps left in each arena."""

    done: int
    trials: int
    steps_left: Mapping[str, int]

    def after(self, spec: TrialSpec) -> "Progress":
        left = self.steps_left.get(spec.arena.name, 0) - spec.training.steps
        return Progress(self.done + 1, self.trials, {**self.steps_left, spec.arena.name: left})


class TrialQueue:
    """Yields the trials of a study: sweeps, final trials, then timing trials, if there are any.

    The end of a trial affects only its own arm, which is planned again when all its known trials have ended. When
    nothing else can run, a look is complete, and the arms that are not decided get more seeds. A timing trial is
    exclusive: it is given when every other trial has ended, and the next one only after it.
    """

    def __init__(
        self,
        study: ResolvedSuite,
        lookup: Lookup,
        timing: bool = False,
        seeds_needed: Callable[[], SeedsNeeded] | None = None,
    ) -> None:
        self._study, self._lookup, self._seeds_needed = study, lookup, seeds_needed
        self._seeds = seeds_needed() if seeds_needed else study.suite.all_seeds
        self._trials = {arm: Trials(study, lookup, *arm) for arm in study.suite.arms}
        timed = timing_trials(study) if timing else []
        self._untimed = [spec for spec in reversed(timed) if lookup(spec) is None]
        steps = [(spec.arena.name, spec.training.steps) for spec in self._untimed]
        self._given: set[str] = set()
        self._waiting: dict[str, dict[tuple[str, str], list[TrialSpec]]] = {"sweep": {}, "final": {}}
        # Of each arm, and of all timing trials under the key None.
        self._unfinished: dict[tuple[str, str] | None, set[str]] = {None: set()}
        self._progress_of: dict[tuple[str, str] | None, Progress] = {
            None: _progress(len(timed) - len(self._untimed), steps)
        }
        for pair in self._trials:
            self._plan(pair)

    def _plan(self, pair: tuple[str, str]) -> None:
        suite, seeds = self._study.suite, self._seeds[pair]
        arm = self._trials[pair].arm(seeds)
        left = [spec for spec in arm.trials if self._lookup(spec) is None]
        for stage, waiting in self._waiting.items():
            waiting[pair] = [x for x in reversed(left) if x.stage == stage and x.id not in self._given]
        self._unfinished[pair] = {spec.id for spec in left}
        done, steps = len(arm.trials) - len(left), [(arm.arena, spec.training.steps) for spec in left]
        if not (arm.selected or arm.diverged):  # what follows is known in number only
            search, plan = self._study.search(arm.optimizer), suite.arenas[arm.arena]
            searching = search.size * len(suite.sweep.seeds) - len(arm.sweep) if arm.sweep and not arm.located else 0
            finals = search.final_trials(suite.final, seeds) if arm.sweep else seeds
            steps += [(arm.arena, plan.sweep_steps)] * searching
            steps += [(arm.arena, plan.steps)] * (finals - len(arm.others))
        self._progress_of[pair] = _progress(done, steps)

    def next(self) -> TrialSpec | None:
        """A trial that can run now and was not given before; None if there is none at the moment."""
        for of_stage in self._waiting.values():
            for waiting in of_stage.values():
                if waiting:
                    self._given.add(waiting[-1].id)
                    return waiting.pop()
        if not self._untimed or any(self._unfinished.values()):
            return None
        spec = self._untimed.pop()
        self._unfinished[None] = {spec.id}
        return spec

    def ended(self, spec: TrialSpec) -> None:
        suite = self._study.suite
        arm = None if spec.stage == "timing" else (spec.arena.name, spec.optimizer.name)
        self._progress_of[arm] = self._progress_of[arm].after(spec)
        self._unfinished[arm].discard(spec.id)
        if not self._unfinished[arm]:
            for tuned, name in self._trials:
                if (suite.tuning_arena(tuned), name) == arm:
                    self._plan((tuned, name))
        if arm and suite.final.looks and self._seeds_needed and not any(self._unfinished.values()):
            self._seeds = self._seeds_needed()
            for pair in self._trials:
                self._plan(pair)

    def progress(self) -> Progress:
        each = self._progress_of.values()
        steps = dict.fromkeys(self._study.suite.arenas, 0)
        for progress in each:
            for arena, left in progress.steps_left.items():
                steps[arena] += left
        return Progress(sum(x.done for x in each), sum(x.trials for x in each), steps)


def _progress(done: int, left: Sequence[tuple[str, int]]) -> Progress:
    """The progress of trials: how many have a record, then arena and steps of each that has none."""
    return Progress(done, done + len(left), {arena: sum(steps) for arena, steps in grouped(left).items()})
