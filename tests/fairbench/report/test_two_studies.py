"""Two studies side by side: differences by hand and by scipy, what is not compared, the page and the command."""

from dataclasses import replace

import pytest
from csv_columns import column, rows_of
from fabricated import Records, analysed, recorded, saved, sha, study, with_suite
from pages import Page
from scipy import stats

from fairbench.analysis.plan_changes import plan_changes
from fairbench.analysis.two_studies import two_arms, two_verdicts
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.suites.compare import Compare

pytestmark = pytest.mark.xdist_group("two_studies")

HIGH = [0.90, 0.91, 0.92]
LOW = [0.50, 0.51, 0.53]
NOISY = [0.8, 0.9, 1.0]


def arm(a, b, arena="vit"):
    """PsiLogic in an arena of both studies."""
    (found,) = [arm for arm in two_arms(a, b) if arm.arena == arena and arm.optimizer == "PsiLogic"]
    return found


def changed(the_study, arena="vit", **fields):
    """The study with other settings of an arena."""
    arenas = {**the_study.suite.arenas, arena: replace(the_study.suite.arenas[arena], **fields)}
    return with_suite(the_study, arenas=arenas)


@pytest.mark.parametrize(("arena", "sign"), [("vit", 1), ("gpt", -1)])
def test_the_same_seeds_are_paired_and_others_are_not(arena, sign):
    values = [0.88, 0.91, 0.95]
    paired = study()
    other = study(seeds=(4, 5, 6))
    found = arm(analysed(paired, PsiLogic=HIGH), analysed(paired, PsiLogic=values), arena)
    assert found.method == "paired"
    check_difference(found, sign, stats.ttest_rel(values, HIGH))
    found = arm(analysed(paired, PsiLogic=HIGH), analysed(other, PsiLogic=values), arena)
    assert found.method == "Welch"
    check_difference(found, sign, stats.ttest_ind(values, HIGH, equal_var=False))


def check_difference(found, sign, by_scipy):
    """A difference of 0.01 / 3 with the p-value and the interval of scipy; the sign is that of a gain."""
    interval = sorted(sign * end for end in by_scipy.confidence_interval())
    assert found.gain == pytest.approx(sign * 0.01 / 3)
    assert found.p == pytest.approx(by_scipy.pvalue)
    assert [found.ci_low, found.ci_high] == pytest.approx(interval)


def test_other_batches_in_one_seed_are_no_pairs():
    a = analysed(study(), PsiLogic=HIGH)
    others = recorded({"result.hashes.batches": sha("others")}, optimizer="PsiLogic", seed=3)
    b = analysed(study(), Records(study(), others, PsiLogic=HIGH))
    same = arm(a, a)
    assert (same.method, same.note, same.gain) == ("paired", "no seed differs", 0)
    other = arm(a, b)
    assert (other.method, other.note, other.p) == ("Welch", "", pytest.approx(1))


@pytest.mark.parametrize(
    ("fields", "scores", "note"),
    [
        ({"steps": 20}, HIGH, "steps: 10 -> 20"),
        ({"metric": "loss"}, HIGH, "metric: accuracy -> loss"),
        ({"schedule": "wsd"}, HIGH, "schedule: cosine -> wsd"),
        ({"shock": {"kind": "batch"}}, HIGH, "shock.kind: nothing -> batch"),
        ({"margin": 0.5, "sweep_steps": 5}, ["diverged", 0.5, None], "B has a value in 1 of 3 seeds"),
    ],
)
def test_what_is_not_compared(fields, scores, note):
    a = analysed(study(), PsiLogic=HIGH)
    b = analysed(study(), PsiLogic=scores)
    b.results = replace(b.results, study=changed(study(), **fields))
    found = arm(a, b)
    assert (found.method, found.gain, found.p, found.note) == ("", None, None, note)
    assert found.mean_a == pytest.approx(0.91)


def test_other_data_and_another_training_are_not_compared_and_other_options_are():
    a = analysed(study(), PsiLogic=HIGH)
    plan = study()
    with_other_data = {}
    for name, arena in plan.arenas.items():
        with_other_data[name] = replace(arena, fingerprint="1")
    data = replace(plan, arenas=with_other_data)
    training = with_suite(plan, training=replace(plan.suite.training, clip_norm=0.0))
    decay = replace(plan.optimizers["PsiLogic"], options={"weight_decay": 0.1})
    options = replace(plan, optimizers={**plan.optimizers, "PsiLogic": decay})
    for other, method, note in (
        (data, "", "data’s sha256: 0 -> 1"),
        (training, "", "clip_norm: 1.0 -> 0.0"),
        (options, "paired", "no seed differs; weight_decay: nothing -> 0.1"),
    ):
        b = analysed(plan, PsiLogic=HIGH)
        b.results = replace(b.results, study=other)
        found = arm(a, b)
        assert (found.method, found.note) == (method, note)


def test_plans():
    plan = study(("gpt", "vit"), ("AdamW", "Lion", "PsiLogic"))
    assert plan_changes(analysed(plan), analysed(plan)) == []
    other = study(("vit",), ("AdamW", "PsiLogic"), seeds=(1, 2))
    other_code = replace(other.arenas["vit"], code={"vit.py": "1"})
    other = replace(other, arenas={"vit": other_code})
    found = {}
    for change in plan_changes(analysed(plan), analysed(other)):
        found[change.path] = (change.before, change.after)
    assert found.pop("arenas.vit.code")[0] == sha("{}")[:12]
    assert found == {
        "arenas that only one has": ("gpt", "nothing"),
        "optimizers that only one has": ("Lion", "nothing"),
        "suite.final.seeds": ([1, 2, 3], [1, 2]),
    }


def test_an_option_that_differs_is_named_once():
    """By the value that the trials get; the suite's own table of the optimizer says it too."""
    plan = study(("vit",), ("AdamW", "PsiLogic"))
    planned = OptimizerPlan("", {"weight_decay": 0.1}, clip_norm=0.5, schedule="linear", min_lr=0.1)
    resolved = replace(plan.optimizers["AdamW"], options={"weight_decay": 0.1})
    other = with_suite(plan, optimizers={**plan.suite.optimizers, "AdamW": planned})
    other = replace(other, optimizers={**plan.optimizers, "AdamW": resolved})
    changes = plan_changes(analysed(plan), analysed(other))
    assert [(change.path, change.before, change.after) for change in changes] == [
        ("optimizers.AdamW.options.weight_decay", "nothing", 0.1),
        ("optimizers.AdamW.clip_norm", None, 0.5),
        ("optimizers.AdamW.schedule", None, "linear"),
        ("optimizers.AdamW.min_lr", None, 0.1),
    ]


def test_a_pair_in_the_other_direction_is_the_same_pair():
    seeds = (1, 2, 3, 4)
    scores = {"PsiLogic": [*HIGH, 0.91], "AdamW": [*LOW, 0.52]}
    a = analysed(study(seeds=seeds, compare=Compare(["PsiLogic"], ["AdamW"])), **scores)
    b = analysed(study(seeds=seeds, compare=Compare(["AdamW"], ["PsiLogic"])), **scores)
    (found,) = [pair for pair in two_verdicts(a, b) if pair.a.arena == "vit"]
    assert found.a.optimizer == "PsiLogic"
    assert found.a.verdict == "better"
    assert found.b == replace(found.a, p_no_worse=None)  # whose margin lies on the other side
    assert not found.changed
    assert b.comparisons[-1].verdict == "worse"


def test_the_command(tmp_path, command):
    plan = study(seeds=(1, 2, 3, 4))
    scores = {"PsiLogic": [*HIGH, 0.91], "AdamW": [*LOW, 0.52]}
    noisy = Records(plan, Lion=[*NOISY, 0.7], **scores)
    incomplete = Records(plan, Lion=[0.70, 0.71, "diverged", 0.70], **scores)
    a = saved(tmp_path / "a", plan, noisy)
    b = saved(tmp_path / "b", plan, incomplete)
    shown = command("compare", a, b, "--output-dir", str(tmp_path / "out"))
    assert "The studies differ in: nothing." in shown
    assert "; in 4 no seed has another value." in " ".join(shown.split())
    text = (tmp_path / "out" / "compare.html").read_text()
    page = Page(text)
    assert page.headings[0] == (1, "FairBench: a and b")
    for link in page.links:
        assert link.startswith(("#", "data:"))
    pairs = [row[0] for row in page.tables["verdicts"]]
    assert pairs[3:] == ["vit: PsiLogic against AdamW", "vit: PsiLogic against Lion (changed)"]
    better = "better (at learning rates that only short trials selected)"
    assert page.bold == [better] * 2  # AdamW in vit, as A and as B judged it
    assert text.count(' changed" data-value') == 2 * 2  # both cells of Lion, in two arenas
    (lion,) = [row for row in page.tables["values"] if row[:2] == ["vit", "Lion"]]
    assert lion[4].split() == ["0.7033", "±", "0.0058"]
    assert lion[5:] == ["–", "not compared", "B has a value in 3 of 4 seeds"]
    assert page.tables["costs"][1] == ["gpt", "AdamW", "0.001", "0.001", "–", "–"]
    plans = rows_of((tmp_path / "out/compare_plans.csv").read_text())
    verdicts = rows_of((tmp_path / "out/compare_verdicts.csv").read_text())
    arms = rows_of((tmp_path / "out/compare_arms.csv").read_text())
    assert plans == []
    assert column(verdicts, "changed") == ["FALSE", "TRUE"] * 2
    assert column(arms, "method") == ["paired", "", "paired"] * 2


def test_mistakes_are_named(tmp_path, command):
    nadam = study(("vit",), ("NAdam",), reference="NAdam", compare=Compare())
    a = saved(tmp_path / "a", study(), Records(study()))
    b = saved(tmp_path / "b", nadam, Records(nadam))
    for other, message in (
        (b, "no optimizer in the same arena: a has AdamW, Lion, PsiLogic in gpt, vit; b has NAdam in vit"),
        (str(tmp_path), "holds no study"),
        ("papers", "unknown directory or publication 'papers'"),
    ):
        shown = command("compare", a, other, code=2)
        assert message in " ".join(shown.split())
