"""Checks of records that contradict themselves or each other, and of what the tests assume; records are made up."""

from dataclasses import replace

import pytest
from fabricated import Records, finals, flags_of, recorded, sha, study, with_suite

from fairbench.analysis.comparison.interim_analyses import judge_interim_analyses
from fairbench.study.record import Series

pytestmark = pytest.mark.xdist_group("audit_of_records")

FIRST_EVALUATION = Series([5], {"accuracy": [0.1], "loss": [1.5]})
HIGH = [0.90, 0.91, 0.92]
LOW = [0.10, 0.11, 0.12]


def in_one(path, value):
    """Another value at a path of AdamW's final record of seed 1."""
    return recorded({path: value}, stage="final", optimizer="AdamW", seed=1)


def same_weights(*seeds):
    """In these seeds all trials end with the same weights."""
    return [recorded({"result.hashes.final_weights": sha(f"same {seed}")}, seed=seed) for seed in seeds]


def changed(path, value):
    the_study = study(("vit",), ("AdamW", "PsiLogic"), margin=0.02)
    return flags_of(the_study, Records(the_study, in_one(path, value), PsiLogic=HIGH, AdamW=LOW))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("result.steps", 4, "finished after 4 of 10 steps"),
        ("result.final.val", {"accuracy": 0.9, "loss": 1.5}, "not those of its last evaluation"),
        ("details.evaluations", FIRST_EVALUATION, "not those of its last evaluation"),
        ("details.evaluations", Series(), "not those of its last evaluation"),
        ("result.final.test.accuracy", 1.7, "accuracy 1.7"),
        ("result.final.test.loss", -0.1, "loss -0.1"),
        ("result.clip_rate", 9.54, "clip rate 954%"),
        ("environment", {}, "no environment"),
        ("status", "diverged", "diverged with final metrics"),
    ],
)
def test_a_record_that_contradicts_itself(path, value, said):
    evidence = changed(path, value)["contradictory records"]
    assert evidence.startswith("vit AdamW final seed 1: ")
    assert evidence.endswith(said)


@pytest.mark.parametrize(("score", "raised"), [(0.999, True), (0.1 + 1e-9, False)])
def test_equal_weights_with_other_metrics(score, raised):
    """Two arms end with the same weights in seed 1, one of them with the metrics of a patched evaluation."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"), margin=0.02)
    scores = {"PsiLogic": [score, 0.11, 0.12], "AdamW": LOW}
    flags = flags_of(the_study, Records(the_study, *same_weights(1), **scores))
    assert "duplicate results" in flags
    if raised:
        assert flags["same weights, other metrics"] == (
            "vit AdamW final seed 1 and vit PsiLogic final seed 1: "
            "val accuracy 0.1 and 0.999, test accuracy 0.1 and 0.999"
        )
    else:
        assert "same weights, other metrics" not in flags
    other_machine = in_one("environment", {"device": "another"})
    elsewhere = Records(the_study, *same_weights(1), other_machine, **scores)
    assert "same weights, other metrics" not in flags_of(the_study, elsewhere), "machines may round differently"


def test_equal_weights_with_other_metrics_are_no_verdict():
    """All seeds end with the same weights, but one evaluation is patched."""
    the_study = study(("vit",), ("AdamW", "PsiLogic"), margin=0.02)
    for ours, verdict in ((LOW, "identical"), (HIGH, "inconclusive")):
        records = Records(the_study, *same_weights(1, 2, 3), PsiLogic=ours, AdamW=LOW)
        (comparison,) = judge_interim_analyses(the_study, records).comparisons
        assert comparison.verdict == verdict
    assert comparison.note == "a contradiction: the same weights in every seed, other values"


def test_a_modified_checkout():
    facts = {"git": "abc+changes", "changed files": "train.py, model.py"}
    assert changed("environment", facts)["modified checkout"] == "abc+changes in train.py, model.py"


def test_gradients_and_rates_are_treatments():
    flags = changed("result.gradients_per_step", 10.0)
    assert flags["unequal treatment"] == "vit: gradients per step 2.5 (AdamW), 1 (PsiLogic)"
    the_study = study(("vit",), ("AdamW", "PsiLogic", "SGD"))
    arms = {"AdamW": {}, "PsiLogic": {"lr_scale": 0.1}, "SGD": {"lr_scale": 100.0}}
    own = {name: replace(the_study.optimizers[name], **rates) for name, rates in arms.items()}
    the_study = replace(the_study, optimizers=own)
    flags = flags_of(the_study, Records(the_study))
    assert flags["unequal treatment"].startswith("vit: lr_scale default (AdamW, SGD), 0.1 instead of 1 (PsiLogic)")


def spreads(*scores, test="paired", seeded=True):
    """The evidence for PsiLogic, whose scores are given, against AdamW in one arena each."""
    arenas = ("vit", "gpt")[: len(scores)]
    the_study = study(arenas, ("AdamW", "PsiLogic"), seeds=(1, 2, 3, 4, 5), margin=0.02, test=test)
    if not seeded:
        unseeded = {name: replace(plan, model={"seeded": False}) for name, plan in the_study.suite.arenas.items()}
        the_study = with_suite(the_study, arenas=unseeded)
    base = [0.10, 0.11, 0.12, 0.14, 0.13]
    cases = []
    for arena, ours in zip(arenas, scores, strict=True):
        cases.append(finals(arena=arena, optimizer="PsiLogic", scores=ours))
    records = Records(the_study, *cases, AdamW=base)
    return flags_of(the_study, records).get("limits of the test", "")


def times(ratio, above=0.5):
    """AdamW's scores with another spread."""
    return [above + ratio * x for x in (0.0, 0.01, 0.02, 0.04, 0.03)]


def test_spreads_that_the_test_may_not_cover():
    """The fewer the arenas, the larger is the ratio that chance explains."""
    matters = "this matters where values are skewed"
    assert spreads(times(4)) == f"PsiLogic spreads 4 times as much as AdamW; {matters}"
    assert spreads(times(0.25)) == f"AdamW spreads 4 times as much as PsiLogic; {matters}"
    assert spreads(times(4, above=0.06)) == "", "no better or worse"
    assert spreads(times(2.5)) == ""
    both = spreads(times(2.5), times(2.5))
    assert both == f"PsiLogic spreads 2.5 times as much as AdamW, on average over the arenas; {matters}"


def test_negatively_correlated_seeds_are_a_limit_of_welchs_test_alone():
    assert spreads(times(-1)) == ""
    assert spreads(times(-1), test="welch") == (
        "the seeds of AdamW and PsiLogic have a correlation of -1.00; "
        "the paired test allows it (`--set 'final.test=\"paired\"'`)"
    )
    assert spreads(times(-1), times(1), test="welch") == ""
    assert spreads(times(-1), test="welch", seeded=False) == "", "their seeds have no meaning"


@pytest.mark.parametrize(
    ("values", "evidence"),
    [
        ([0.7312345] * 3, "the same values: vit AdamW accuracy 0.7312345 at 3 seeds."),
        ([0.75] * 3, None),
        ([0.7312345, 0.7312346, 0.7312345], None),
    ],
)
def test_a_seed_that_reaches_no_final_trial(values, evidence):
    the_study = study(("vit",), ("AdamW", "PsiLogic"), margin=0.02)
    without_hash = recorded({"result.hashes.final_weights": ""})
    flags = flags_of(the_study, Records(the_study, without_hash, PsiLogic=HIGH, AdamW=values))
    assert flags.get("seed without effect") == evidence
