"""Which optimizers of a table are compared, by which test, and what is said of how the table was read."""

import io
from itertools import combinations

import pytest
from scipy import stats

import fairbench as fb
from fairbench.common.errors import UsageError

LOSSES = {"Lion": (1.52, 1.60, 1.49, 1.55), "AdamW": (1.61, 1.64, 1.58, 1.66), "SGD": (1.91, 1.83, 1.87, 1.96)}


def rows_of(losses):
    rows = []
    for optimizer, values in losses.items():
        for seed, loss in enumerate(values):
            rows.append({"optimizer": optimizer, "seed": seed, "lr": 0.1, "val_loss": loss})
    return rows


def pairs(judged):
    return [(c.optimizer, c.baseline) for c in judged]


def renamed(old, new):
    return rows_of({name.replace(old, new): values for name, values in LOSSES.items()})


def test_every_pair_is_compared_where_no_optimizer_is_the_natural_one():
    assert pairs(fb.verdicts(rows_of(LOSSES))) == [*combinations(LOSSES, 2)]
    assert pairs(fb.verdicts(renamed("AdamW", "Ours"))) == [("Ours", "Lion"), ("Ours", "SGD")]
    assert pairs(fb.verdicts(renamed("AdamW", "baseline"))) == [("Lion", "baseline"), ("SGD", "baseline")]
    assert pairs(fb.verdicts(rows_of(LOSSES), "AdamW")) == [("AdamW", "Lion"), ("AdamW", "SGD")]
    assert pairs(fb.verdicts(rows_of(LOSSES), baselines="AdamW")) == [("Lion", "AdamW"), ("SGD", "AdamW")]


def test_the_first_line_says_how_the_table_was_read(tmp_path, command):
    judged = fb.verdicts(rows_of(LOSSES), "AdamW")
    assert judged.read_as == (
        "Read as: optimizer = optimizer, seed = seed, value = val_loss; 4 runs of Lion, AdamW, SGD; "
        "lower is better by the name val_loss; left out: lr; AdamW is compared with Lion, SGD."
    )
    assert judged.to_json()["read_as"] == judged.read_as
    wide = fb.verdicts(io.StringIO("seed,AdamW,SGD ± \n0,1,2\n1,1.5,2.1\nAvg.,1.2,2"), better="higher")
    assert wide.read_as == (
        "Read as: optimizer = the columns AdamW, SGD ±, seed = seed; 2 runs of AdamW, SGD ±; "
        "higher is better by --better; left out: 1 row of summaries (Avg.); AdamW is compared with SGD ±."
    )
    file = tmp_path / "t.csv"
    file.write_text("optimizer,seed,loss\nAdamW,0,1\nSGD,0,2\n")
    assert command("verdicts", str(file)).startswith("Read as: optimizer = optimizer, seed = seed, value = loss;")


def test_a_direction_against_the_name_of_the_metric_is_pointed_out():
    against = fb.verdicts(rows_of(LOSSES), "AdamW", better="higher")
    assert "; higher is better by --better, although the name val_loss says lower; " in against.read_as
    agreeing = fb.verdicts(rows_of(LOSSES), "AdamW", better="lower")
    assert "; lower is better by --better; " in agreeing.read_as


def test_two_seeds_give_no_verdict_unless_the_user_says_so():
    losses = {"a": (1.0, 1.001), "b": (2.0, 2.0015)}
    (c,) = fb.verdicts(rows_of(losses))
    assert (c.verdict, c.note) == ("inconclusive", "2 seeds decide nothing, 3 are needed")
    (c,) = fb.verdicts(rows_of(losses), min_seeds=2)
    assert c.verdict == "better"
    with pytest.raises(UsageError, match="--min-seeds must be at least 2, got 1"):
        fb.verdicts(rows_of(losses), min_seeds=1)


def by_seed(**values_by_seed):
    rows = []
    for optimizer, values in values_by_seed.items():
        for seed, loss in values.items():
            rows.append({"optimizer": optimizer, "seed": seed, "loss": loss})
    return rows


FIRST = {seed: 1.0 + 0.03 * (seed * 7 % 10) for seed in range(10)}
SECOND = {seed: 1.1 + 0.03 * (seed * 3 % 10) for seed in range(8, 18)}


def test_two_seeds_in_common_of_ten_are_not_paired():
    rows = by_seed(a=FIRST, b=SECOND)
    (c,) = fb.verdicts(rows)
    expected = stats.ttest_ind([*FIRST.values()], [*SECOND.values()], equal_var=False)
    assert (c.test, c.n_optimizer, c.note) == ("welch", 10, "Welch's test, 2 seeds in common")
    assert c.p == pytest.approx(expected.pvalue)
    (c,) = fb.verdicts(rows, test="paired", min_seeds=2)
    expected = stats.ttest_rel([FIRST[8], FIRST[9]], [SECOND[8], SECOND[9]])
    assert c.p == pytest.approx(expected.pvalue)
    (c,) = fb.verdicts(rows_of({"a": LOSSES["Lion"], "b": LOSSES["SGD"]}), test="welch")
    assert c.p == pytest.approx(stats.ttest_ind(LOSSES["Lion"], LOSSES["SGD"], equal_var=False).pvalue)
    with pytest.raises(UsageError, match="--test paired: a and b have fewer than two seeds in common"):
        fb.verdicts(by_seed(a={1: 1.0, 2: 1.1, 3: 1.2}, b={4: 1.0, 5: 1.3, 6: 1.2}), test="paired")


def test_welchs_test_of_very_unequal_arms_has_a_warning():
    few = {100: 1.5, 101: 1.7}
    (c,) = fb.verdicts(by_seed(a=FIRST, b=few))
    assert "2 against 10 runs: Welch's test finds too many differences" in c.note
    spread = {100: 1.5, 101: 1.7, 102: 3.1, 103: 2.2}
    (c,) = fb.verdicts(by_seed(a={seed: FIRST[seed] for seed in range(8)}, b=spread))
    assert "unequal spreads of few runs" in c.note


def test_means_alone_are_compared_over_the_data_sets():
    values = {
        "Ours": (91.2, 88.1, 75.0, 60.3, 97.1),
        "SGD": (90.1, 87.5, 73.8, 60.9, 96.0),
        "Adam": (90.0, 87.9, 73, 59, 95),
    }
    lines = ["Method,MNIST,SVHN,CIFAR-10,CIFAR-100,STL-10,Avg."]
    for name, means in values.items():
        lines.append(f"{name},{','.join(map(str, means))},{sum(means) / 5}")
    judged = fb.verdicts(io.StringIO("\n".join(lines)), better="higher")
    assert len(judged) == 10
    assert {c.verdict for c in judged} == {"inconclusive"}
    ps = [stats.ttest_rel(values["Ours"], values[name]).pvalue for name in ("SGD", "Adam")]
    assert [c.p for c in judged.across] == pytest.approx(ps)
    assert [c.arena for c in judged.across] == ["all 5 arenas"] * 2
    smallest = min(judged.across, key=lambda c: c.p)
    assert smallest.p_holm == pytest.approx(2 * smallest.p)
    assert "mean ranks, 1 is best: Ours 1.2, SGD 2, Adam 2.8" in judged.notes
    assert any("Demsar (2006)" in note for note in judged.notes)


def test_an_open_file_is_read_once_for_all_questions():
    table = io.StringIO("optimizer,seed,foo,bar\nA,0,1,3\nA,1,2,4\nB,0,3,5\nB,1,4,7\n")
    with pytest.raises(UsageError, match=r"which metric is judged.*which values are better"):
        fb.verdicts(table)
