"""The paper's own tables, judged as a study's own records."""

import pytest
from scipy import stats

from fairbench.analysis.published.publication import load_publication
from fairbench.analysis.published.verdicts import published_comparisons
from fairbench.cli.main import main
from fairbench.common.errors import UsageError

PAPER = load_publication("paper")


def test_no_win_over_adamw_survives_holms_correction():
    judged = published_comparisons(PAPER, 0.05, ["AdamW"])
    assert {row.comparison.arena: row.comparison.verdict for row in judged} == dict.fromkeys(
        ("gpt", "vit", "resnet", "ddpm"), "inconclusive"
    )
    # the p-values that the paper prints, of values with more digits than it prints
    printed = {row.comparison.arena: (row.printed_p, row.printed_p_holm) for row in judged}
    assert printed["vit"] == (0.015, pytest.approx(0.060))
    assert printed["gpt"] == (0.049, pytest.approx(0.147))
    assert [row.comparison.metric for row in judged] == ["perplexity", "accuracy", "accuracy", "mse"]


def test_the_tests_are_welchs_on_the_printed_numbers():
    (vit,) = (row.comparison for row in published_comparisons(PAPER, 0.05, ["AdamW"]) if row.comparison.arena == "vit")
    reference = stats.ttest_ind_from_stats(0.244, 0.006, 3, 0.223, 0.002, 3, equal_var=False)
    assert (vit.t, vit.p) == pytest.approx(tuple(reference))
    assert vit.p_holm == pytest.approx(4 * vit.p)
    assert (vit.n_reference, vit.seeds, vit.margin, vit.p_equivalence, vit.p_paired) == (3, 3, None, None, None)


def test_all_baselines_are_one_family_of_twelve():
    judged = published_comparisons(PAPER, 0.05)
    assert len(judged) == 12
    wins = {(row.comparison.arena, row.comparison.baseline) for row in judged if row.comparison.is_win}
    assert wins == {("gpt", "Adam"), ("gpt", "Lion"), ("vit", "Adam"), ("resnet", "Adam")}
    assert {row.printed_p_holm for row in judged} == {None}  # not all twelve are printed


def test_an_unknown_baseline_is_named(capsys):
    with pytest.raises(UsageError, match="unknown baseline 'Adma'; did you mean 'Adam'"):
        published_comparisons(PAPER, 0.05, ["Adma"])
    assert main(["verdicts", "papr"]) == 2
    assert "unknown publication 'papr'" in capsys.readouterr().err
