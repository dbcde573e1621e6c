"""What --require asks of every comparison."""

from dataclasses import replace

import pytest
from scipy import stats

from fairbench.analysis.comparison.judge import judge
from fairbench.analysis.comparison.requirement import met, unmet
from fairbench.analysis.comparison.two_arms import of_values
from fairbench.analysis.comparison.verdicts import Comparison

BASE = [0.50, 0.61, 0.73, 0.45, 0.58]
NOISE = [0.001, -0.002, 0.0, 0.003, -0.001]
MARGIN = 0.01


def compared(*gains, margin=MARGIN, test="paired"):
    """A family of comparisons with the same baseline. Each has a mean gain; lower values are better."""
    family = []
    for number, gain in enumerate(gains):
        comparison = Comparison("mine", "loss", "min", f"v{number}", "base", margin=margin, seeds=5, test=test)
        ours = [value - gain + noise for value, noise in zip(BASE, NOISE, strict=True)]
        family.append(of_values(comparison, ours, BASE))
    return judge(family, 0.05)


@pytest.mark.parametrize("gain", [-0.008, -0.0002, 0.003])
def test_no_worse_is_the_one_sided_test_against_the_margin(gain):
    (paired,) = compared(gain)
    ours = [value - gain + noise for value, noise in zip(BASE, NOISE, strict=True)]
    differences = [theirs - own for own, theirs in zip(ours, BASE, strict=True)]
    assert paired.p_no_worse == pytest.approx(stats.ttest_1samp(differences, -MARGIN, alternative="greater").pvalue)
    (by_mean,) = compared(gain, test="welch")
    shifted = [value + MARGIN for value in BASE]
    expected = stats.ttest_ind(shifted, ours, equal_var=False, alternative="greater").pvalue
    assert by_mean.p_no_worse == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gains", "better", "no_worse", "equivalent"),
    [
        ((0.1,), True, True, False),
        ((-0.1,), False, False, False),
        ((0.0005,), False, True, True),
        ((-0.0085,), False, False, False),
        ((0.1, 0.0005), False, True, False),
        ((0.1, -0.1), False, False, False),
    ],
)
def test_a_requirement_holds_only_if_it_holds_for_every_pair(gains, better, no_worse, equivalent):
    family = compared(*gains)
    holds = [not unmet(family, requirement, 0.05) for requirement in ("better", "no-worse", "equivalent")]
    assert holds == [better, no_worse, equivalent]


def test_what_holds_is_said_with_its_interval_and_margin():
    (comparison,) = compared(0.0005)
    c = comparison
    sentence = met([comparison], "no-worse", 0.05)
    begin = "no-worse holds at 0.05: mine, v0 against base: equivalent, "
    interval = f"90% interval from {c.ci_low:+.3g} to {c.ci_high:+.3g}, margin 0.01"
    assert sentence == f"{begin}gain {c.gain:+.3g}, {interval}"


def test_equal_values_are_said_to_prove_little():
    equal = of_values(Comparison("mine", "acc", "max", "new", "base", margin=MARGIN, seeds=5), BASE, BASE)
    sentence = met(judge([equal], 0.05), "no-worse", 0.05)
    assert "the metric is too coarse, or the change has no effect" in sentence


def test_no_worse_is_corrected_for_the_number_of_pairs():
    (alone,) = compared(-0.0076)
    assert alone.p_no_worse < 0.05 < 3 * alone.p_no_worse
    assert not unmet([alone], "no-worse", 0.05)
    assert unmet(compared(-0.0076, -0.0076, -0.0076), "no-worse", 0.05)


def test_the_sentence_says_why():
    sentence = unmet(compared(-0.0085), "no-worse", 0.05)
    assert sentence.startswith("no-worse is required, and does not hold at 0.05: mine, v0 against base: ")
    assert "for no worse than by the margin 0.01" in sentence
    assert "no margin is declared" in unmet(compared(0.0005, margin=None), "no-worse", 0.05)
    assert unmet([], "better", 0.05) == "better is required, and nothing is compared"


def test_a_pair_without_all_trials_meets_nothing_and_equal_ones_are_no_worse():
    (whole,) = compared(0.1)
    lost = replace(whole, verdict="incomplete", note="v0 missing 1/5")
    equal = replace(whole, verdict="identical values", p_no_worse=None)
    for requirement in ("better", "no-worse", "equivalent"):
        assert "incomplete" in unmet([lost], requirement, 0.05)
    assert not unmet([equal], "no-worse", 0.05)
    assert not unmet([equal], "equivalent", 0.05)


@pytest.mark.parametrize("requirement", ["better", "no-worse", "equivalent"])
def test_a_requirement_must_also_hold_by_the_plan_before_the_first_results(requirement):
    gain = 0.0005 if requirement == "equivalent" else 0.1
    now = compared(gain)
    (open_then,) = compared(-0.0085)
    assert not unmet(now, requirement, 0.05, declared=now)
    sentence = unmet(now, requirement, 0.05, declared=[open_then])
    assert "by the plan that was declared before the first final trial: mine, v0 against base: " in sentence
