"""Each check at its threshold, with invented records; `test_audit_of_trials.py` has trials that really ran."""

import io
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fabricated import (
    Records,
    analysed,
    finals,
    flags_of,
    history,
    recorded,
    saved,
    study,
    sweep,
    timing,
    with_suite,
)
from rich.console import Console, Group
from scipy import stats

from fairbench.analysis.audit import AUDIT_CHECKS, audit
from fairbench.analysis.audit.drift import drift
from fairbench.arenas.base import ArenaFacts
from fairbench.common.checks import SEVERITIES, Flag
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.report.render.terminal import audit_view, flag_lines
from fairbench.study.history import write_history
from fairbench.study.record import Series
from fairbench.study.records import Store
from fairbench.study.trial_queue import TrialQueue

pytestmark = pytest.mark.xdist_group("audit")

PAGE = Path(__file__).parents[3] / "docs" / "audit.md"


TWO = ("AdamW", "PsiLogic")
SEEDS = (1, 2, 3, 4)
FLAT = {5: 0.5, 8: 0.5, 10: 0.5}


def shaped(ours, theirs=FLAT, margin=0.02):
    """The flags of two arms with these validation curves, whose seeds and pairs differ a little."""

    def edits(spec):
        if spec.stage != "final":
            return {}
        is_theirs = spec.optimizer.name == "AdamW"
        curve = theirs if is_theirs else ours
        noise = 1e-5 * spec.seed
        if is_theirs:
            noise += 1e-8 * spec.seed**2
        accuracy = [value + step * noise for step, value in curve.items()]
        return {"details.evaluations": Series([*curve], {"accuracy": accuracy, "loss": [1.5] * len(curve)})}

    the_study = study(("vit",), TWO, margin=margin)
    return flags_of(the_study, Records(the_study, recorded(edits)))


@pytest.mark.parametrize(
    ("before", "after", "raised"), [(0.54, 0.499, True), (0.501, 0.54, False), (0.51, 0.49, False), (0.501, 0.47, True)]
)
def test_an_order_that_flips_at_the_end(before, after, raised):
    """The arm that leads at the end led before, or both were within the margin of 0.02."""
    flags = shaped({5: 0.3, 8: before, 10: after})
    assert ("order not settled" in flags) == raised
    if raised:
        assert f"against AdamW {before - 0.5:+.3g} at step 8" in flags["order not settled"]


def test_a_gain_that_both_share_is_the_schedules():
    both = {5: 0.5, 10: 0.6}
    assert "gap still changes" not in shaped(both, both)
    assert shaped(both, both)["still improving"] == "vit: in the last third AdamW by 0.1, PsiLogic by 0.1 (margin 0.02)"
    one = shaped(both)
    told = "vit: in the last third PsiLogic improved by 0.1 more than AdamW (margin 0.02)"
    assert one["gap still changes"] == told
    assert one["still improving"] == "vit: in the last third PsiLogic by 0.1 (margin 0.02)"
    reversed_roles = shaped({5: 0.5, 10: 0.5}, both)
    assert "in the last third AdamW improved by 0.1 more than PsiLogic" in reversed_roles["gap still changes"]
    within_the_margin = shaped(both, margin=0.2)
    one_evaluation = shaped({10: 0.6}, {10: 0.5})  # which has no gain
    printed_without_a_step = shaped({0: 0.6}, {0: 0.5})
    for flags in (within_the_margin, one_evaluation, printed_without_a_step):
        assert "gap still changes" not in flags
        assert "still improving" not in flags


@pytest.mark.parametrize(("last", "raised"), [(0.6, False), (0.605, False), (0.62, True)])
def test_a_curve_that_is_flat_at_its_end_is_not_still_improving(last, raised):
    """From step 5 all gain more than the margin of 0.02; a third of the training would, at the pace after step 8."""
    assert ("still improving" in shaped({5: 0.5, 8: 0.6, 10: last})) == raised


def timed(milliseconds, margin=0.02):
    """The flags of two arms of a program, one of which has these step times in the order of its seeds."""
    the_study = study(("vit",), TWO, seeds=[*range(len(milliseconds))], margin=margin)

    def edits(spec):
        if spec.stage != "final":
            return {}
        took = 5.0
        if spec.optimizer.name == "PsiLogic":
            took = milliseconds[spec.seed]
        return {"cost.data_on": "program", "cost.steps": 1000, "cost.seconds.total": took}

    return flags_of(the_study, Records(the_study, recorded(edits)))


NOISE = [0.0, 0.02, -0.01, 0.01, -0.02, 0.0]


def test_a_step_time_that_drifts():
    rising = [5 + 0.1 * position + noise for position, noise in enumerate(NOISE)]
    assert timed(rising)["step time drifts"] == "vit: PsiLogic from 5.01 ms to 5.49 ms for a step (9.7%)"
    assert "step time drifts" not in timed([5 + noise for noise in NOISE])
    slightly = [5 + 0.01 * position + noise / 100 for position, noise in enumerate(NOISE)]  # by 1%
    assert "step time drifts" not in timed(slightly)
    assert "step time drifts" not in timed(rising, margin=1.0)  # a difference of the metric that large does not matter


def test_unequal_load_and_throttling():
    the_study = study(("vit",), TWO)

    def flag(**of_psilogic):
        def edits(spec):
            others = {"cost.other_load": 0.25, "cost.throttled": 0}
            if spec.optimizer.name == "PsiLogic":
                others |= {f"cost.{name}": value for name, value in of_psilogic.items()}
            return {"cost.data_on": "program", **others}

        return flags_of(the_study, Records(the_study, recorded(edits))).get("throttled or loaded")

    assert flag() is None
    assert flag(other_load=1.5) == "vit: other processes used this many cores: AdamW 0.2, PsiLogic 1.5"
    assert flag(throttled=3) == "vit: PsiLogic 3 of 3 trials throttled"


def test_the_test_of_a_drift_is_that_of_a_straight_line():
    values = [1.0, 1.2, 0.9, 1.4, 1.3]
    expected = stats.linregress(range(5), values)
    found = drift(values)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.first, found.last) == pytest.approx((expected.intercept, expected.intercept + 4 * expected.slope))


def two_horizons(short, long, **changed):
    """Two arenas of one task; `changed` are entries of the longer one."""
    base = study(("vit",), TWO, SEEDS, margin=0.02)
    arena = base.suite.arenas["vit"]
    plans = {"vit": replace(arena, task="vit"), "vit-4x": replace(arena, task="vit", steps=40, **changed)}
    the_study = with_suite(base, arenas=plans)
    theirs = [0.50, 0.51, 0.52, 0.50]
    records = Records(
        the_study,
        finals(arena="vit", optimizer="PsiLogic", scores=short),
        finals(arena="vit-4x", optimizer="PsiLogic", scores=long),
        AdamW=theirs,
    )
    return flags_of(the_study, records)


HIGH = [0.90, 0.92, 0.91, 0.90]
LOW = [0.10, 0.11, 0.12, 0.11]
NOISY = [0.40, 0.5, 0.60, 0.5]


@pytest.mark.parametrize(
    ("short", "long", "raised"),
    [
        (HIGH, LOW, True),  # better, then worse
        (HIGH, [0.499, 0.510, 0.518, 0.501], True),  # better, then equivalent
        (HIGH, HIGH, False),
        (HIGH, [0.4, 0.55, 0.7, 0.6], False),  # better, then inconclusive
        ([0.4, 0.55, 0.7, 0.6], [0.3, 0.45, 0.6, 0.5], True),  # the order, by more than the margin
        ([0.4, 0.51, 0.63, 0.5], [0.4, 0.51, 0.60, 0.5], False),  # the order, by less
    ],
)
def test_what_flips_between_horizons(short, long, raised):
    flags = two_horizons(short, long)
    assert ("flip between horizons" in flags) == raised
    if raised:
        said = r"vit against AdamW \w+ \(\+.*\), vit-4x against AdamW \w+ \(-.*\)"
        assert re.match(said, flags["flip between horizons"])


def test_a_different_model_is_no_horizon():
    other = two_horizons(HIGH, LOW, model={"hidden_size": 9, "layers": 1, "heads": 1})
    assert "flip between horizons" not in other


def three_settings(*cases, ours=HIGH, theirs=(0.10, 0.113, 0.12, 0.11)):
    """The flags of two arms, in which other settings than a rate of 1e-3 are clearly worse."""
    the_study = study(("vit",), TWO, SEEDS, margin=0.02, settings=3)
    records = Records(
        the_study,
        finals(optimizer="PsiLogic", scores=worse(ours)),
        finals(optimizer="PsiLogic", lr=1e-3, scores=ours),
        finals(optimizer="AdamW", scores=worse(theirs)),
        finals(optimizer="AdamW", lr=1e-3, scores=theirs),
        *cases,
    )
    return flags_of(the_study, records)


def worse(scores):
    """Scores that are lower by about 0.05."""
    drops = [0.055, 0.05, 0.055, 0.05]
    return [score - drop for score, drop in zip(scores, drops, strict=True)]


def test_a_complete_study_of_good_practice_raises_nothing():
    assert three_settings() == {}


@pytest.mark.parametrize(
    ("unused", "severity"), [(["state 'h' stays 0", "h() is never called"], "warn"), (["h"], "note")]
)
def test_parts_that_took_no_part_and_readings_that_are_not_finite(unused, severity):
    the_study = study(("vit",), TWO, SEEDS, margin=0.02, settings=3)
    found = {"details.unused": unused, "details.mechanism.not_finite": {"share": 2}}
    in_psilogic = recorded(found, stage="final", optimizer="PsiLogic")
    records = Records(the_study, in_psilogic, PsiLogic=HIGH, AdamW=LOW)
    flags = {flag.name: flag for flag in analysed(the_study, records).of(audit)}
    assert flags["unused parts"].severity == severity
    expected = [f"vit: PsiLogic {words}" for words in unused]
    assert flags["unused parts"].evidence == "; ".join(expected)
    assert flags["mechanism not finite"].evidence == "vit: PsiLogic share in 8 readings"


def test_few_seeds_that_cannot_tell():
    flags = three_settings(ours=NOISY, theirs=[0.40, 0.53, 0.60, 0.5])
    limit = "at least 2.1 standard deviations of a pair's difference (a single comparison at 0.05)."
    assert limit in flags["low power"]
    assert (
        "vit against AdamW (0.032, margin 0.02" in flags["low power"]
    )  # 2.128 times the deviation of 0, 0.03, 0 and 0


def test_one_seed_that_decides_is_named():
    theirs = [0.10, 0.11, 0.12, 0.11]
    flags = three_settings(ours=[0.60, 0.61, 0.61, 0.09], theirs=theirs)
    words = "vit against AdamW: without seed 4, far from the others, the interval would exclude 0"
    assert flags["one seed decides"] == words
    assert "one seed decides" not in three_settings(ours=[0.60, 0.62, 0.63, 0.40], theirs=theirs)
    # Grubbs' statistic of 0.5, 0.55, 0.5 and -0.01 is 1.4940, his two-sided critical values 1.496 (1%) and 1.481 (5%)
    assert "one seed decides" not in three_settings(ours=[0.60, 0.66, 0.62, 0.10], theirs=theirs)


@pytest.mark.parametrize(("own_length", "steps", "named"), [(True, 7, True), (True, 8, False), (False, 8, True)])
def test_a_program_that_ended_early_is_named(own_length, steps, named):
    """In 7 of the 10 steps of the other seeds if it trains as long as it always does, otherwise in any fewer."""
    the_study = study(("vit",), TWO, seeds=SEEDS)
    facts = ArenaFacts("a program", the_study.suite.facts("vit").metrics, kind="program")
    program = replace(the_study.suite.arenas["vit"], facts=facts, model={"program": "", "own_length": own_length})
    the_study = with_suite(the_study, arenas={"vit": program})
    short = recorded({"result.steps": steps}, stage="final", optimizer="PsiLogic", seed=3)
    evidence = flags_of(the_study, Records(the_study, short)).get("trials that ended early", "")
    assert (f"PsiLogic final seed 3 after {steps} of 10" in evidence) == named


def test_arms_without_final_trials_are_named():
    flags = three_settings(sweep(optimizer="AdamW", outcome="diverged"))
    assert "no final trial was run: vit AdamW." in flags["diverged trials"]
    flags = three_settings(sweep(optimizer="AdamW", lr=1e-3, outcome="failed"))
    assert "1 failed. No learning rate is selected yet for vit AdamW." in flags["incomplete"]


def test_data_bound_timing():
    flags = three_settings(
        timing(),
        recorded({"cost.seconds.data": 0.0}),
        recorded({"cost.seconds.data": 0.06}, stage="timing", optimizer="AdamW"),
    )
    assert flags["data-bound timing"] == "vit: AdamW 40% of the step"


def test_an_option_that_a_plan_gets_later_is_compared_too():
    @dataclass(frozen=True)
    class Wider(OptimizerPlan):
        wrapped: dict[str, float] = field(default_factory=dict)

    the_study = study(("vit",), TWO)
    clipped = {"AdamW": OptimizerPlan(), "PsiLogic": OptimizerPlan(clip_norm=0.5)}
    own = with_suite(the_study, optimizers=clipped)
    assert flags_of(own, Records(own))["unequal treatment"] == ("vit: clip_norm 1 (AdamW), 0.5 (PsiLogic)")
    plans = {"AdamW": Wider(), "PsiLogic": Wider(wrapped={"ema": 0.5})}
    grouped = with_suite(the_study, optimizers=plans)
    flags = flags_of(grouped, Records(grouped))
    assert flags["unequal treatment"] == "vit: wrapped off (AdamW), {'ema': 0.5} (PsiLogic)"


def test_given_groups_and_a_schedule_of_the_registry_are_unequal_treatment():
    the_study = study(("vit",), TWO)
    known = {"groups": "fairbench.optimizers.matrix_groups:norms", "needs": ("modes", "constant_lr")}
    own = dict(the_study.optimizers)
    own["AdamW"] = replace(own["AdamW"], **known)
    the_study = replace(the_study, optimizers=own)
    assert flags_of(the_study, Records(the_study))["unequal treatment"] == (
        "vit: groups fairbench.optimizers.matrix_groups:norms (AdamW), default (PsiLogic); "
        "vit: schedule warm-up only (AdamW), warm-up and cosine (PsiLogic)"
    )


def test_the_groups_that_belong_to_an_optimizer_are_no_unequal_treatment():
    the_study = study(("vit",), TWO)
    muon = replace(resolve_optimizer("Muon", OptimizerPlan()), name="PsiLogic")
    assert muon.groups.endswith("hidden_and_rest")
    the_study = replace(the_study, optimizers={**the_study.optimizers, "PsiLogic": muon})
    assert "groups" not in flags_of(the_study, Records(the_study)).get("unequal treatment", "")


def test_a_schedule_of_its_own_is_unequal_treatment():
    the_study = study(("vit",), TWO)
    own = {"AdamW": OptimizerPlan(), "PsiLogic": OptimizerPlan(schedule="linear", min_lr=0.1)}
    the_study = with_suite(the_study, optimizers=own)
    assert flags_of(the_study, Records(the_study))["unequal treatment"] == (
        "vit: schedule warm-up and cosine (AdamW), warm-up and linear decay to 0.1 of the peak (PsiLogic)"
    )


def test_flags_come_by_severity():
    order = [SEVERITIES.index(check.severity) for check in AUDIT_CHECKS]
    assert order == sorted(order)
    assert len({check.name for check in AUDIT_CHECKS}) == len(AUDIT_CHECKS)


def test_the_table_of_the_docs_is_the_code():
    rows = re.findall(r"^\| ([^|]+) \| (fail|warn|note) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(check.name, check.severity, check.judge.__doc__, check.advice) for check in AUDIT_CHECKS]


def test_the_command(tmp_path, command):
    """0 for warnings, 1 for a fail; nothing is written."""
    the_study = study(("vit",), TWO)
    records = Records(the_study, PsiLogic=[0.3, 0.5, 0.9], AdamW=[0.4, 0.5, 0.7])
    write_history(tmp_path, history(the_study))
    store = Store(tmp_path)
    queue = TrialQueue(the_study, lambda spec: None)
    while spec := queue.next():
        store.write(spec, records(spec))
    assert "fail  INCOMPLETE: of 12 trials" in command("audit", str(tmp_path), code=1)
    saved(tmp_path, the_study, records)
    before = sorted(tmp_path.rglob("*"))
    shown = command("audit", str(tmp_path))
    assert "warn  Low power: With 3 seeds" in shown
    assert "Take more seeds (`--seeds N`) in a new study" in shown
    assert shown.endswith("0 fail, 2 warn, 0 note\n")
    assert sorted(tmp_path.rglob("*")) == before


def test_terminal():
    flags = [Flag("at odds", severity, f"says {severity}", "do something") for severity in SEVERITIES[:3]]
    console = Console(record=True, width=80, force_terminal=True, file=io.StringIO())
    console.print(Group(*flag_lines(flags)))
    assert console.export_text(clear=False) == "AT ODDS: says fail\nAt odds: says warn\n"
    styled = console.export_text(styles=True)
    assert "\x1b[1;31mAT ODDS" in styled
    assert "\x1b[33mAt odds" in styled
    console.print(audit_view(flags))
    shown = console.export_text()
    assert "note  At odds: says note\n      do something\n" in shown
    assert shown.endswith("1 fail, 1 warn, 1 note\n")
