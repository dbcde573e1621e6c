"""Two studies, A and B, compared arm by arm: what differs between their plans, their verdicts, values and costs."""

from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any, NamedTuple

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.analysis.cost import costs
from fairbench.analysis.results import ArmResults
from fairbench.analysis.statistics.significance import difference_test
from fairbench.common.formatting import plural
from fairbench.common.hashing import digest
from fairbench.study.history import ABSENT, Change, changes, locked_settings
from fairbench.study.plan import ResolvedSuite

HASHES = ("initial_weights", "batches", "noise")
"""What must agree in a seed of two studies, so that its two values are a pair."""
ELSEWHERE = ("margin", "sweep_steps", "tuning_arena", "log_every", "evaluation_batch_size")
"""Keys of an arena or of the training that change no final trial."""
OWN = ("clip_norm", "schedule", "min_lr")
"""Keys of the training that an optimizer may have instead of the suite's."""


class TwoVerdicts(NamedTuple):
    """A comparison that both studies have, as A made it and as B made it."""

    a: Comparison
    b: Comparison

    @property
    def title(self) -> str:
        """The comparison in words."""
        return f"{self.a.arena}: {self.a.optimizer} against {self.a.baseline}"

    @property
    def changed(self) -> bool:
        """Whether the verdicts differ."""
        return self.a.verdict != self.b.verdict


@dataclass(frozen=True)
class TwoArms:
    """One arm that two studies have: final value of the primary metric on the test split, rate and cost.

    Attributes:
        gain: mean of B minus mean of A, positive where B is better; None where they are not compared.
        p: two-sided p-value, not corrected.
        method: "paired" where both have the same seeds with the same initial weights, batches and noise,
            otherwise "Welch"; empty where they are not compared.
        note: why they are not compared, or what the comparison depends on.
        mean_a, std_a, mean_b, std_b: mean and standard deviation (ddof = 1) over the finished seeds.
        n_a, n_b: finished seeds.
        lr_a, lr_b: the selected learning rate.
        step_ratio_a, step_ratio_b: time of a training step as a multiple of that of A's reference in the same study.
    """

    arena: str
    optimizer: str
    metric: str
    direction: str
    gain: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    method: str
    note: str
    mean_a: float | None
    std_a: float | None
    n_a: int
    mean_b: float | None
    std_b: float | None
    n_b: int
    lr_a: float | None
    lr_b: float | None
    step_ratio_a: float | None
    step_ratio_b: float | None


def plan_changes(a: Analyses, b: Analyses) -> list[Change]:
    """What differs: names that only one plan has, settings of what both have, versions, machine and revision."""
    plans = a.results.study, b.results.study
    found = []
    for kind in ("arenas", "optimizers"):
        ours, theirs = (getattr(study.suite, kind) for study in plans)
        only = [", ".join(x for x in one if x not in other) for one, other in ((ours, theirs), (theirs, ours))]
        found += [Change(f"{kind} that only one has", *(names or ABSENT for names in only))] if any(only) else []
    found += changes(_settings(*plans), _settings(*reversed(plans)))
    ours, theirs = ({fact: " / ".join(x) for fact, x in side.results.environment.items()} for side in (a, b))
    return found + changes(ours, theirs, "environment")


def _settings(study: ResolvedSuite, other: ResolvedSuite) -> dict[str, Any]:
    """What the verdicts of a study depend on, for the arenas and optimizers of both; code as one digest.

    Of an optimizer it has what the trials get, and not once more what the suite sets of it.
    """
    plain = locked_settings(study)
    suite = plain["suite"]
    arenas, optimizers = (
        {name: {**x, "code": digest(x["code"])[:12]} for name, x in plain[kind].items() if name in of_other}
        for kind, of_other in (("arenas", other.suite.arenas), ("optimizers", other.suite.optimizers))
    )
    planned = suite.pop("optimizers")
    suite["arenas"] = {name: suite["arenas"][name] for name in arenas}
    trained = {name: {**x, **{key: planned[name][key] for key in OWN}} for name, x in optimizers.items()}
    return {**plain, "arenas": arenas, "optimizers": trained}


def two_verdicts(a: Analyses, b: Analyses) -> list[TwoVerdicts]:
    """The comparisons that both studies have, in either direction, in the order and direction of A."""
    theirs = {x.pair: x for x in (*(c.exchanged for c in b.comparisons), *b.comparisons)}
    return [TwoVerdicts(c, theirs[c.pair]) for c in a.comparisons if c.pair in theirs]


def two_arms(a: Analyses, b: Analyses) -> list[TwoArms]:
    """The arms that both studies have, in the order of A."""
    theirs = b.results.by_name
    return [_two_arms(a, b, arm, theirs[name]) for name, arm in a.results.by_name.items() if name in theirs]


def _two_arms(a: Analyses, b: Analyses, ours: ArmResults, theirs: ArmResults) -> TwoArms:
    arena, optimizer, metric = ours.arena, ours.optimizer, a.suite.arenas[ours.arena].metric
    method, test, note = "", None, _obstacle(a, b, ours, theirs)
    if not note:
        first, second = ([(run.seed, *map(run.hash, HASHES)) for run in arm.final] for arm in (ours, theirs))
        values = ([a.suite.sign(arena) * x for x in arm.scores(metric)] for arm in (theirs, ours))
        method = "paired" if first == second else "Welch"
        test = difference_test(method.lower(), *values)
        before, after = (x.results.study.optimizers[optimizer].spec(arena, {}, 0) for x in (a, b))
        others = changes({"from": before.factory, **before.options}, {"from": after.factory, **after.options})
        note = "; ".join(filter(None, (test.reason, *map(str, others))))
    reference = a.suite.reference
    sides = _side(a, ours, metric, reference, "a") | _side(b, theirs, metric, reference, "b")
    difference, low, high, p = (getattr(test, x, None) for x in ("difference", "ci_low", "ci_high", "p"))
    return TwoArms(arena, optimizer, metric, a.suite.direction(arena), difference, low, high, p, method, note, **sides)


def _side(analyses: Analyses, arm: ArmResults, metric: str, reference: str, letter: str) -> dict[str, Any]:
    """What one study says about an arm, by the fields of `TwoArms` for this study."""
    steps = {cost.optimizer: cost.train_ms for cost in analyses.of(costs) if cost.arena == arm.arena}
    values, step, of_reference = arm.scores(metric), steps.get(arm.optimizer), steps.get(reference)
    return {
        f"mean_{letter}": fmean(values) if values else None,
        f"std_{letter}": stdev(values) if len(values) > 1 else None,
        f"n_{letter}": len(values),
        f"lr_{letter}": arm.selected.lr if arm.selected else None,
        f"step_ratio_{letter}": step / of_reference if step and of_reference else None,
    }


def _obstacle(a: Analyses, b: Analyses, ours: ArmResults, theirs: ArmResults) -> str:
    """Why an arm of two studies is not compared: other data, task or training, or seeds without a value."""
    found = [str(change) for change in changes(_measured(a, ours.arena), _measured(b, ours.arena))]
    for letter, analyses, arm in (("A", a, ours), ("B", b, theirs)):
        values = len(arm.scores(analyses.suite.arenas[arm.arena].metric))
        if values < max(len(arm.final), 1):
            found.append(f"{letter} has a value in {values} of {plural(len(arm.final), 'seed')}")
    return "; ".join(found)


def _measured(analyses: Analyses, arena: str) -> dict[str, Any]:
    """What the final value of an arena depends on, whichever optimizer trains it."""
    study = analyses.results.study
    plan = {key: x for key, x in asdict(study.suite.arenas[arena]).items() if key not in ELSEWHERE}
    training = {key: x for key, x in vars(study.suite.training).items() if key not in ELSEWHERE}
    return {
        **plan,
        **training,
        "schedule": plan["schedule"] or training["schedule"],
        "data’s sha256": study.arenas[arena].fingerprint[:12],
        "selection": study.suite.selection,
    }
