"""A cell or a heading that may mean two things never gives a verdict: it is refused, or a mark in it decides."""

import io

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError


def judged(heading, better=""):
    """The verdict on the smaller values of a metric, which differ clearly."""
    lines = [f"optimizer,seed,{heading}"]
    for optimizer, mean in (("Mine", 1.0), ("AdamW", 2.0)):
        for seed in range(4):
            lines.append(f"{optimizer},{seed},{mean * (1 + 0.01 * seed**2)}")
    (comparison,) = fb.verdicts(io.StringIO("\n".join(lines)), better=better, metric=heading)
    return comparison.verdict


@pytest.mark.parametrize(
    "metric",
    [
        "neg_log_loss",
        "negative loss",
        "inverse_perplexity",
        "minus loss",
        "time_to_accuracy",
        "steps_to_acc_90",
        "accuracy_gap",
        "acc_drop",
        "loss_reduction",
        "error improvement",
        "error_free_rate",
        "1 - accuracy",
        "1/loss",
        "-loss",
        "loss_at_best_acc",
        "Zeit bis Genauigkeit",
        "perte de précision",
        "Standardfehler",
    ],
)
def test_a_word_that_may_turn_the_metric_around_is_asked_for(metric):
    with pytest.raises(UsageError, match="which values are better"):
        judged(metric)
    assert judged(metric, better="lower") == "better"


@pytest.mark.parametrize(
    ("heading", "verdict"),
    [
        ("val_loss", "better"),
        ("test acc", "worse"),
        ("score ↓", "better"),
        ("score ↑", "worse"),
        ("loss reduction ↑", "worse"),
        ("Time to accuracy ($\\downarrow$)", "better"),
        ("Quality (higher is better)", "worse"),
        ("Genauigkeit (%)", "worse"),
        ("Testgenauigkeit", "worse"),
        ("Fehlerrate [%]", "better"),
        ("Validierungsverlust", "better"),
        ("Exactitude (%)", "worse"),
        ("perte de validation", "better"),
        ("Taux d'erreur", "better"),
        ("Précision", "worse"),
        ("Pérdida", "better"),
        ("exactitud", "worse"),
    ],
)
def test_the_name_of_a_metric_or_an_arrow_in_it_tells_which_values_are_better(heading, verdict):
    assert judged(heading) == verdict


def with_cell(cell):
    text = f"dataset;AdamW;SGD\nmnist;0.91 ± 0.01;0.90 ± 0.01\nsvhn;{cell};0.80 ± 0.02"
    return fb.verdicts(io.StringIO(text), better="higher", columns={"n": "5"})


@pytest.mark.parametrize(
    "cell",
    ["0.912 (+0.020)", "0.91 (-0.01)", "0.91 (1)", "0.912(3)", "97 (2)", "0.91 (2%)", "0.763 (0.931)", "0.91 (12.5)"],
)
def test_parentheses_are_a_standard_deviation_only_if_they_look_like_one(cell):
    with pytest.raises(UsageError, match=r"line 3.*in parentheses"):
        with_cell(cell)


@pytest.mark.parametrize("cell", ["0.91 (0.01)", "91.2% (0.4%)", "3200 (150)", "−301.9 (2.5)"])
def test_a_standard_deviation_in_parentheses(cell):
    (c,) = fb.verdicts(io.StringIO(f"optimizer;score\na;{cell}\nb;{cell}"), better="lower", columns={"n": "5"})
    assert c.std_optimizer == pytest.approx(float(cell.strip("%)").rpartition("(")[2].rstrip("%)")))


@pytest.mark.parametrize(
    "cell", ["0.912†", "0.91 [0.90, 0.92]", "0.91 ± 0.01 (n=5)", "94.6m", "<0.01", "0.91<sub>±1</sub>"]
)
def test_a_cell_that_is_no_number_is_named_with_its_line(cell):
    with pytest.raises(UsageError, match="line 3: must be a number"):
        with_cell(cell)


@pytest.mark.parametrize("cell", ["nan ± nan", "nan (nan)", "NaN±0.1", "inf ± nan"])
def test_a_mean_of_nan_diverged(cell):
    mnist, svhn = with_cell(cell)
    assert (mnist.n_optimizer, svhn.verdict) == (5, "diverged")
