"""Interim analyses: studies that give more seeds to the undecided comparisons alone."""

from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fabricated import Records, analysed, finals, flags_of, study, with_suite
from scipy import stats

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.analysis.comparison.interim_analyses import design_of, judge_interim_analyses
from fairbench.analysis.seeds import seeds_needed
from fairbench.analysis.statistics.power import minimum_detectable_effect
from fairbench.analysis.statistics.sequential import Design
from fairbench.report.study import study_report
from fairbench.study.history import DeclaredPlan, History
from fairbench.study.trial_queue import TrialQueue

INTERIM_ANALYSES = [4, 8, 12]
SEEDS = tuple(range(1, INTERIM_ANALYSES[-1] + 1))
UNSEARCHED = "at learning rates that only short trials selected"
"""The note of a study whose final trials have one setting."""


def with_interim_analyses(arenas=("vit",), **fields):
    the_study = study(arenas, seeds=SEEDS, **fields)
    return with_suite(the_study, final=replace(the_study.suite.final, interim_analyses=INTERIM_ANALYSES))


def normal(seed, mean, spread=0.01):
    drawn = np.random.default_rng(seed).standard_normal(len(SEEDS))
    return (mean + spread * drawn).tolist()


OURS = normal(0, 0.9)
LOSS = normal(1, 0.4, 1e-5)
EASY = {
    "PsiLogic": OURS,
    "AdamW": [ours - loss for ours, loss in zip(OURS, LOSS, strict=True)],
    "Lion": normal(2, 0.88),
}
"""AdamW, which shares the noise of the seeds, is decided at the first interim analysis, Lion later."""


def first(trials):
    return trials[0]


def run(the_study, scores, order=first, stop=10**6):
    """Run a study of scores, or of records, in an order of its trials; stop after some."""
    records = scores
    if isinstance(scores, dict):
        records = Records(the_study, **scores)
    given = []
    finished = []
    known = {}

    def lookup(spec):
        return known.get(spec.id)

    queue = TrialQueue(the_study, lookup, seeds_needed=lambda: seeds_needed(the_study, lookup))
    while len(finished) < stop:
        while spec := queue.next():
            given.append(spec)
        if not given:
            break
        spec = order(given)
        given.remove(spec)
        known[spec.id] = records(spec)
        queue.ended(spec)
        finished.append(spec)
    return lookup, finished


COMPARED = {"paired": stats.ttest_rel, "welch": partial(stats.ttest_ind, equal_var=False)}


def rejected_by_holm(p_values, shares, alpha):
    """The names that Holm's steps reject, each at its share of the level of the step."""
    rejected = []
    for step in range(len(p_values)):
        level = alpha / (len(p_values) - step)
        passing = []
        for name, p in p_values.items():
            if name not in rejected and p <= shares[name] * level:
                passing.append(name)
        if not passing:
            break
        rejected.append(min(passing, key=p_values.get))
    return rejected


def reference_verdicts(compared, scores, margin):
    """Holm's steps at each interim analysis with their nominal levels, written independently of the package."""
    alpha = 0.05
    names = ["AdamW", "Lion"]
    design = Design(tuple(INTERIM_ANALYSES), "obrien-fleming", alpha)
    found = {}
    seeds = dict.fromkeys(["PsiLogic", *names], INTERIM_ANALYSES[0])
    last_look = dict.fromkeys(names, 0)
    for number, n in enumerate(INTERIM_ANALYSES):
        seeds["PsiLogic"] = n
        for name in names:
            if name not in found:
                last_look[name] = number
                seeds[name] = n
        tests = {}
        p_of_difference = {}
        p_of_equivalence = {}
        shares = {}
        for name in names:
            lookup = last_look[name]
            shares[name] = design.shares[lookup]
            ours = np.array(scores["PsiLogic"][: INTERIM_ANALYSES[lookup]])
            theirs = np.array(scores[name][: INTERIM_ANALYSES[lookup]])
            tests[name] = compared(ours, theirs)
            p_of_difference[name] = tests[name].pvalue
            lower = compared(ours + margin, theirs, alternative="greater").pvalue
            upper = compared(ours - margin, theirs, alternative="less").pvalue
            p_of_equivalence[name] = max(lower, upper)
        different = rejected_by_holm(p_of_difference, shares, alpha)
        equivalent = rejected_by_holm(p_of_equivalence, shares, alpha)
        for name in names:
            if name in found:
                continue
            if name in equivalent:
                found[name] = "equivalent"
            elif name in different and tests[name].statistic > 0:
                found[name] = "better"
            elif name in different:
                found[name] = "worse"
        if len(found) == len(names):
            break
    verdicts = {name: found.get(name, "inconclusive") for name in names}
    return verdicts, seeds


@pytest.mark.parametrize("test", COMPARED)
@pytest.mark.parametrize("seed", range(12))
def test_verdicts_and_seeds_are_those_of_nominal_levels(seed, test):
    gap = 0.01 * (seed % 4)
    generator = np.random.default_rng(seed)
    scores = {
        "PsiLogic": normal(generator, 0.9),
        "AdamW": normal(generator, 0.9 - gap),
        "Lion": normal(generator, 0.9),
    }
    if seed > 5:
        scores["Lion"] = normal(generator, 0.9, 0.001)
    the_study = with_interim_analyses(margin=0.02, test=test)
    lookup, _ = run(the_study, scores)
    judged = judge_interim_analyses(the_study, lookup)
    verdicts, seeds = reference_verdicts(COMPARED[test], scores, margin=0.02)
    assert {c.baseline: c.verdict for c in judged.comparisons} == verdicts
    assert {name: n for (_, name), n in judged.seeds.items()} == seeds


def test_decided_arms_get_no_more_seeds_and_the_reference_as_many_as_the_longest():
    the_study = with_interim_analyses()
    lookup, finished = run(the_study, EASY)
    count = Counter(spec.optimizer.name for spec in finished if spec.stage == "final")
    assert count["AdamW"] == 4
    assert count["Lion"] == count["PsiLogic"] > 4
    adamw, lion = analysed(the_study, lookup).comparisons
    assert (adamw.verdict, adamw.note) == ("better", f"{UNSEARCHED}, after 4 of 12 seeds")
    assert (adamw.seeds, adamw.n_optimizer) == (4, 4)
    assert (lion.verdict, lion.seeds) == ("better", count["Lion"])
    raw = stats.ttest_rel(EASY["PsiLogic"][:4], EASY["AdamW"][:4]).pvalue
    assert raw < adamw.p < adamw.p_holm
    assert Design(tuple(INTERIM_ANALYSES), "obrien-fleming", 0.05).shares[0] * adamw.p == pytest.approx(raw)


def test_a_decided_comparison_keeps_the_correction_that_decided_it():
    """AdamW is decided at first, as the smaller of two p-values. Later that of Lion is smaller still."""
    to_adamw = [0.1075, 0.0925] * 6
    to_lion = [0.01, 0.03, 0.01, 0.03, *[0.0199, 0.0201] * 4]
    scores = {"PsiLogic": OURS}
    for name, losses in (("AdamW", to_adamw), ("Lion", to_lion)):
        scores[name] = [ours - loss for ours, loss in zip(OURS, losses, strict=True)]
    the_study = with_interim_analyses()
    lookup, _ = run(the_study, scores)
    adamw, lion = judge_interim_analyses(the_study, lookup).comparisons
    assert (adamw.verdict, lion.verdict) == ("better", "better")
    assert (adamw.seeds, lion.seeds) == (4, 8)
    assert lion.p < adamw.p
    assert adamw.p_holm == 2 * adamw.p < 0.05
    first_t = stats.ttest_1samp(to_adamw[:4], 0)
    outside = (1 - adamw.ci_level) * 2  # of the first of two steps, at the share of this analysis
    share = Design(tuple(INTERIM_ANALYSES), "obrien-fleming", 0.05).shares[0]
    assert outside == pytest.approx(0.05 * share)
    assert adamw.ci_low == pytest.approx(first_t.confidence_interval(1 - outside / 2).low)


def last(trials):
    return trials[-1]


def lowest_id(trials):
    return min(trials, key=lambda spec: spec.id)


@pytest.mark.parametrize("order", [last, lowest_id])
def test_nothing_depends_on_the_order_of_the_trials(order):
    the_study = with_interim_analyses(("gpt", "vit"))
    lookup, finished = run(the_study, EASY)
    other_look, others = run(the_study, EASY, order)
    assert {spec.id for spec in finished} == {spec.id for spec in others}
    found = judge_interim_analyses(the_study, lookup)
    again = judge_interim_analyses(the_study, other_look)
    assert found.comparisons == again.comparisons
    assert found.seeds == again.seeds


def test_a_study_that_was_stopped_between_interim_analyses_says_what_it_may():
    the_study = with_interim_analyses()
    _, finished = run(the_study, EASY)
    later = [i for i, spec in enumerate(finished) if spec.stage == "final" and spec.seed > INTERIM_ANALYSES[0]]
    first_analysis = later[0]
    lookup, _ = run(the_study, EASY, stop=first_analysis + 1)
    adamw, lion = judge_interim_analyses(the_study, lookup).comparisons
    assert (adamw.verdict, adamw.seeds) == ("better", 4)
    assert (lion.verdict, lion.seeds) == ("inconclusive", 4)
    assert lion.note == f"{UNSEARCHED}, after 4 of 12 seeds, to be continued"
    before, _ = run(the_study, EASY, stop=first_analysis - 1)
    assert {c.verdict for c in judge_interim_analyses(the_study, before).comparisons} == {"incomplete"}


def test_a_failed_trial_keeps_nobody_waiting():
    the_study = with_interim_analyses()
    scores = {**EASY, "AdamW": ["failed", *EASY["AdamW"][1:]]}
    lookup, _ = run(the_study, scores)
    adamw, lion = judge_interim_analyses(the_study, lookup).comparisons
    assert (adamw.verdict, lion.verdict) == ("incomplete", "better")


class Moving(Records):
    """The best rate is 1e-3 by the first four seeds, 1e-2 by all."""

    def outcome(self, spec):
        score = super().outcome(spec)
        if spec.stage != "final":
            return score
        late = spec.seed > INTERIM_ANALYSES[0]
        if spec.lr == 1e-2:
            return score + (0.1 if late else 0.05)
        if spec.lr == 1e-3 and not late:
            return score + 0.05
        return score


def test_an_arena_that_is_tuned_on_another_uses_what_that_one_selects_at_each_look():
    the_study = with_interim_analyses(optimizers=("Lion", "PsiLogic"), settings=3)
    (plan,) = the_study.suite.arenas.values()
    the_study = with_suite(the_study, arenas={"vit": plan, "twin": replace(plan, task="vit", tuning_arena="vit")})
    scores = {"PsiLogic": normal(0, 0.9), "Lion": normal(2, 0.5)}
    near = finals(arena="twin", optimizer="Lion", scores=normal(3, 0.9))
    records = Moving(the_study, near, **scores)
    judged = judge_interim_analyses(the_study, records)
    assert [(c.arena, c.seeds) for c in judged.comparisons] == [("vit", 4), ("twin", 12)]
    assert set(judged.seeds.values()) == {12}  # vit continues, since the twin is tuned on it
    assert judged.comparisons[1].finer_optimizer == 0  # not the twin's own trials searched
    twin = judged.results.arm("twin", "PsiLogic")
    assert [(run.lr, run.seed) for run in twin.final] == [(1e-2, seed) for seed in SEEDS]
    assert [(run.lr, run.seed) for run in twin.others] == [(1e-3, seed) for seed in SEEDS[: INTERIM_ANALYSES[0]]]
    ended = {spec.id for spec in run(the_study, records)[1]}
    assert ended == {run.spec.id for arm in judged.results.arms for run in arm.trials}


def test_a_declared_look_is_no_flag_and_one_that_was_not_declared_is():
    the_study = with_interim_analyses()
    lookup, _ = run(the_study, EASY)
    assert "changed afterwards" not in flags_of(the_study, lookup)
    fixed = study(("vit",), seeds=SEEDS[:3])
    changed = History(
        (DeclaredPlan(fixed, "2026-11-22T10:00:00+00:00", 0), DeclaredPlan(the_study, "2026-11-22T11:00:00+00:00", 9))
    )
    (flag,) = [x for x in Analyses(changed, lookup).of(audit) if x.name == "changed afterwards"]
    assert flag.severity == "fail"
    assert "interim_analyses" in flag.evidence


def test_the_report_and_the_plan_name_the_interim_analyses():
    the_study = with_interim_analyses()
    lookup, _ = run(the_study, EASY)
    findings = study_report(analysed(the_study, lookup)).findings
    assert "An arm has 4, 8 or 12 seeds" in findings["Meaning of the verdicts"]


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
@pytest.mark.parametrize("test", COMPARED)
def test_expected_seeds_are_those_of_a_loop(spending, test):
    design = Design(tuple(INTERIM_ANALYSES), spending, 0.05)
    level = 0.05 / 3
    generator = np.random.default_rng(7)
    counts = []
    for _ in range(150):
        own = generator.standard_normal((2, INTERIM_ANALYSES[-1]))
        shared = generator.standard_normal(INTERIM_ANALYSES[-1])
        a, b = own
        if test == "paired":  # pairs differ with a standard deviation of 1
            a, b = np.sqrt(0.5) * own + shared
        count = INTERIM_ANALYSES[-1]
        for n, share in zip(INTERIM_ANALYSES, design.shares, strict=True):
            if COMPARED[test](a[:n] + 2, b[:n]).pvalue <= share * level:
                count = n
                break
        counts.append(count)
    error = np.std(counts) / np.sqrt(len(counts))
    assert design.expected_seeds(2.0, level, test) == pytest.approx(np.mean(counts), abs=4 * error)


def test_the_power_of_a_study_with_interim_analyses_is_that_of_its_last_look():
    design = design_of(with_interim_analyses().suite)
    assert 0.03 < design.shares[-1] * 0.05 < 0.05
    effect = minimum_detectable_effect(12, design.shares[-1] * 0.05, "paired")
    assert effect > minimum_detectable_effect(12, 0.05, "paired")
