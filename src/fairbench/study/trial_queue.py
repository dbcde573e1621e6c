"""The order of trials: which one runs next."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fairbench.study.plan import Lookup, SeedsNeeded, Trials
from fairbench.study.planned_trial import timing_trials
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.study.trial_spec import TrialSpec

ArmKey = tuple[str, str]
"""Arena and optimizer of an arm."""


@dataclass(frozen=True)
class Progress:
    """The progress of a study.

    Attributes:
        done: number of trials with a record.
        trials: number of trials that the study needs.
        steps_left: training steps that are left in each arena.
    """

    done: int
    trials: int
    steps_left: Mapping[str, int]

    def after(self, spec: TrialSpec) -> "Progress":
        """The progress after the end of one more trial."""
        steps_left = dict(self.steps_left)
        steps_left[spec.arena.name] = steps_left.get(spec.arena.name, 0) - spec.training.steps
        return Progress(self.done + 1, self.trials, steps_left)

    def with_later(self, arena: str, trials: int, steps: int) -> "Progress":
        """The progress with more trials of an arena, of which only the number and the sum of their steps is known."""
        steps_left = dict(self.steps_left)
        steps_left[arena] = steps_left.get(arena, 0) + steps
        return Progress(self.done, self.trials + trials, steps_left)


class TrialQueue:
    """Gives the trials of a study to run: arena by arena, first sweeps, then final trials. Timing trials come last.

    The verdicts on an arena are so known before the next arenas end. Trials of a later arena are given while those of
    an earlier one wait for others.

    The final trials of an arena are given seed by seed, those of all arms next to each other. From one seed to the next
    the order of the arms is reversed: what changes slowly, such as the speed of the machine, is then the same for both
    of a pair.

    The end of a trial affects only its own arm. The arm is planned again when all its known trials have ended. When
    no known trial is left, an interim analysis is complete, and undecided arms get more seeds. A timing trial is
    exclusive: it is given when every other trial has ended, and the next trial is given only after its end.
    """

    def __init__(
        self,
        study: ResolvedSuite,
        lookup: Lookup,
        timing: bool = False,
        seeds_needed: Callable[[], SeedsNeeded] | None = None,
    ) -> None:
        self._study = study
        self._lookup = lookup
        self._seeds_needed = seeds_needed
        self._seeds = seeds_needed() if seeds_needed else study.suite.all_seeds
        self._trials = {arm: Trials(study, lookup, *arm) for arm in study.suite.arms}
        self._position_of_seed = {seed: position for position, seed in enumerate(study.suite.final.seeds)}
        self._given: set[str] = set()  # ids of the trials that `next` has returned
        self._waiting: dict[str, dict[ArmKey, list[TrialSpec]]] = {"sweep": {}, "final": {}}
        timed = timing_trials(study) if timing else []
        self._untimed = [spec for spec in reversed(timed) if lookup(spec) is None]
        # The trials that have not ended, and the progress, of each arm. The key None stands for all timing trials.
        self._unfinished: dict[ArmKey | None, set[str]] = {None: set()}
        self._progress_of: dict[ArmKey | None, Progress] = {None: _progress(timed, self._untimed)}
        for key in self._trials:
            self._plan(key)

    def _plan(self, key: ArmKey) -> None:
        """Plan an arm again by the present records."""
        seeds = self._seeds[key]
        arm = self._trials[key].arm(seeds)
        trials = arm.trials
        left = [spec for spec in trials if self._lookup(spec) is None]
        new = [spec for spec in left if spec.id not in self._given]
        sweep = [spec for spec in new if spec.stage == "sweep"]
        final = sorted((spec for spec in new if spec.stage == "final"), key=self._position)
        self._waiting["sweep"][key] = sweep[::-1]
        self._waiting["final"][key] = final[::-1]
        self._unfinished[key] = {spec.id for spec in left}
        progress = _progress(trials, left)
        sweep_trials, final_trials = self._trials[key].later(arm, seeds)
        plan = self._study.suite.arenas[arm.arena]
        steps = sweep_trials * plan.sweep_steps + final_trials * plan.steps
        self._progress_of[key] = progress.with_later(arm.arena, sweep_trials + final_trials, steps)

    def next(self) -> TrialSpec | None:
        """A trial that can run now and was not given before; None if there is none at the moment."""
        waiting = self._next_waiting()
        if waiting:
            spec = waiting.pop()
            self._given.add(spec.id)
            return spec
        if not self._untimed or any(self._unfinished.values()):
            return None  # a timing trial runs only while no other trial does
        spec = self._untimed.pop()
        self._unfinished[None] = {spec.id}
        return spec

    def _next_waiting(self) -> list[TrialSpec]:
        """The waiting trials of the arm whose turn it is, the next one last; empty if no trial waits."""
        for arena in self._study.suite.arenas:
            waiting = self._next_waiting_in(arena)
            if waiting:
                return waiting
        return []

    def _next_waiting_in(self, arena: str) -> list[TrialSpec]:
        """The waiting trials of the arm of an arena whose turn it is; empty if no trial of the arena waits."""
        for (arena_of_arm, _), waiting in self._waiting["sweep"].items():
            if waiting and arena_of_arm == arena:
                return waiting
        finals = []
        for (arena_of_arm, _), waiting in self._waiting["final"].items():
            if waiting and arena_of_arm == arena:
                finals.append(waiting)
        if not finals:
            return []
        position = min(self._position(waiting[-1]) for waiting in finals)
        of_seed = [waiting for waiting in finals if self._position(waiting[-1]) == position]
        return of_seed[0] if position % 2 == 0 else of_seed[-1]

    def _position(self, spec: TrialSpec) -> int:
        """The position of the seed of a final trial among those of the suite."""
        return self._position_of_seed[spec.seed]

    def ended(self, spec: TrialSpec) -> None:
        """Note that a trial has a record, and plan again what depends on it."""
        key = None if spec.stage == "timing" else (spec.arena.name, spec.optimizer.name)
        self._progress_of[key] = self._progress_of[key].after(spec)
        self._unfinished[key].discard(spec.id)
        if key is None:
            return  # nothing depends on a timing trial
        suite = self._study.suite
        if not self._unfinished[key]:
            # plan the arm and all arms that are tuned by it
            for arena, optimizer in self._trials:
                if (suite.tuning_arena(arena), optimizer) == key:
                    self._plan((arena, optimizer))
        if suite.final.interim_analyses and self._seeds_needed and not any(self._unfinished.values()):
            self._seeds = self._seeds_needed()
            for arm in self._trials:
                self._plan(arm)

    def has_ended(self, arena: str) -> bool:
        """Whether no trial of an arena is left, apart from timing trials."""
        left = 0
        for key, progress in self._progress_of.items():
            if key is not None and key[0] == arena:
                left += progress.steps_left.get(arena, 0)
        return left == 0

    def progress(self) -> Progress:
        """The progress of the whole study."""
        done = 0
        trials = 0
        steps = dict.fromkeys(self._study.suite.arenas, 0)
        for progress in self._progress_of.values():
            done += progress.done
            trials += progress.trials
            for arena, left in progress.steps_left.items():
                steps[arena] += left
        return Progress(done, trials, steps)


def _progress(trials: Sequence[TrialSpec], left: Sequence[TrialSpec]) -> Progress:
    """The progress of some trials, where the trials in `left` have no record."""
    steps_left: dict[str, int] = {}
    for spec in left:
        steps_left[spec.arena.name] = steps_left.get(spec.arena.name, 0) + spec.training.steps
    return Progress(len(trials) - len(left), len(trials), steps_left)
