"""Which trial runs next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairbench.study.plan import Arm, Lookup, Study, Trials
from fairbench.study.trial_spec import TrialSpec


@dataclass(frozen=True)
class Outlook:
    """How far a study is.

    Attributes:
        done: trials with a record.
        trials: trials in all, as far as is known: the sweeps may still be extended.
        steps_left: training steps that are left in each arena.
    """

    done: int
    trials: int
    steps_left: Mapping[str, int]

    def after(self, spec: TrialSpec) -> "Outlook":
        """The same when one more trial has its record."""
        arena = spec.arena.name
        return Outlook(
            self.done + 1, self.trials, {**self.steps_left, arena: self.steps_left[arena] - spec.training.steps}
        )


class Schedule:
    """What to run next. A trial that has ended concerns its own arm, which is planned anew when its sweep is through.

    Args:
        study: the study.
        lookup: the record of a trial; None if it is yet to run.
    """

    def __init__(self, study: Study, lookup: Lookup) -> None:
        self._study, self._lookup = study, lookup
        suite = study.suite
        self._trials = {(a, o): Trials(study, a, o) for a in suite.arenas for o in suite.optimizers}
        self._given: set[str] = set()
        self._waiting: dict[str, dict[tuple[str, str], list[TrialSpec]]] = {"sweep": {}, "final": {}}
        self._unfinished: dict[tuple[str, str], set[str]] = {}
        self._outlooks: dict[tuple[str, str], Outlook] = {}
        for pair in self._trials:
            self._plan(pair)

    def _plan(self, pair: tuple[str, str]) -> None:
        """See what the records say of an arm."""
        arm = self._trials[pair].arm(self._lookup)
        left = [spec for spec in arm.trials if self._lookup(spec) is None]
        for stage, waiting in self._waiting.items():
            waiting[pair] = [x for x in reversed(left) if x.stage == stage and x.id not in self._given]
        self._unfinished[pair] = {spec.id for spec in left}
        self._outlooks[pair] = _outlook(self._study, arm, left)

    def next(self) -> TrialSpec | None:
        """A trial that can run now and was not given yet, stage 1 first; None if there is none."""
        for of_stage in self._waiting.values():
            for waiting in of_stage.values():
                if waiting:
                    self._given.add(waiting[-1].id)
                    return waiting.pop()
        return None

    def ended(self, spec: TrialSpec) -> None:
        """There is a record of the trial now."""
        suite, arena, optimizer = self._study.suite, spec.arena.name, spec.optimizer.name
        unfinished = self._unfinished[arena, optimizer]
        unfinished.discard(spec.id)
        self._outlooks[arena, optimizer] = self._outlooks[arena, optimizer].after(spec)
        if spec.stage == "sweep" and not unfinished:
            for concerned in suite.arenas:
                if suite.tuned_on(concerned) == arena:
                    self._plan((concerned, optimizer))

    def outlook(self) -> Outlook:
        """How far the study is."""
        done = sum(x.done for x in self._outlooks.values())
        trials = sum(x.trials for x in self._outlooks.values())
        steps = dict.fromkeys(self._study.suite.arenas, 0)
        for x in self._outlooks.values():
            for arena, left in x.steps_left.items():
                steps[arena] += left
        return Outlook(done, trials, steps)


def _outlook(study: Study, arm: Arm, left: Sequence[TrialSpec]) -> Outlook:
    """How far an arm is, of whose known trials some are left."""
    steps = [spec.training.steps for spec in left]
    done = len(arm.trials) - len(left)
    if arm.setting is None and not arm.diverged:
        steps += [study.suite.arenas[arm.arena].steps] * len(study.suite.final.seeds)
    return Outlook(done, done + len(steps), {arm.arena: sum(steps)})
