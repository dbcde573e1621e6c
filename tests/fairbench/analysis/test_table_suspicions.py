"""What a table may have gotten wrong is said: runs that diverged or ended early, mixed units, and repeated seeds."""

import io

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError

ACCURACIES = {"Adam": (89.4, 90.2, 89.5), "Lion": (90.3, 90.9, 90.4), "Muon": (91.2, 91.5, 90.7)}


def curves(nan_from=99, short=99):
    """Curves over 20 epochs; one run has no finite loss from an epoch on, or ends before an epoch."""
    lines = ["optimizer,seed,epoch,val_loss"]
    for optimizer, higher in (("Adam", 0.1), ("Lion", 0.0)):
        for seed in range(3):
            for epoch in range(20):
                loss = 1 + higher + seed / 100 + 1 / (epoch + 1)
                is_special = optimizer == "Lion" and seed == 1
                if is_special and epoch >= short:
                    continue
                text = "NaN" if is_special and epoch >= nan_from else f"{loss:.4f}"
                lines.append(f"{optimizer},{seed},{epoch},{text}")
    return io.StringIO("\n".join(lines))


@pytest.mark.parametrize("at", ["last", "best"])
def test_a_curve_that_ends_without_a_finite_value_diverged(at):
    (c,) = fb.verdicts(curves(nan_from=9), metric="val_loss", at=at)
    assert (c.verdict, c.note, c.gain) == ("diverged", "Lion diverged 1/3", None)


@pytest.mark.parametrize("at", ["last", "best"])
def test_a_run_that_ends_before_the_others_is_named(at):
    verdicts = fb.verdicts(curves(short=7), metric="val_loss", at=at)
    assert verdicts.notes == ["the last steps of the runs differ, from 6 to 19; before 19 ends Lion seed 1"]
    assert "Lion seed 1 ends at step 6 of 19" in verdicts[0].note
    assert not fb.verdicts(curves(), metric="val_loss", at=at).notes


def rows(change=lambda optimizer, seed, accuracy: f"{accuracy}", metric="test_acc", loss="0.3"):
    lines = [f"dataset,optimizer,seed,{metric},val_loss"]
    for optimizer, accuracies in ACCURACIES.items():
        for seed, accuracy in enumerate(accuracies):
            lines.append(f"cifar10,{optimizer},{seed},{change(optimizer, seed, accuracy)},{loss}")
    return io.StringIO("\n".join(lines))


def test_another_metric_that_is_not_finite_is_noted():
    text = rows().getvalue().replace("cifar10,Lion,2,90.4,0.3", "cifar10,Lion,2,90.4,NaN")
    verdicts = fb.verdicts(io.StringIO(text), metric="test_acc")
    assert verdicts.notes == ["val_loss is not finite in cifar10 for Lion seed 2; only test_acc is judged"]
    assert not fb.verdicts(rows(), metric="test_acc").notes


def muon_in_fractions(optimizer, seed, accuracy):
    return f"{accuracy / 100:.4f}" if optimizer == "Muon" else f"{accuracy}"


def one_in_fractions(optimizer, seed, accuracy):
    return f"{accuracy / 100:.4f}" if (optimizer, seed) == ("Lion", 1) else f"{accuracy}"


def one_in_percentages(optimizer, seed, accuracy):
    return f"{accuracy}" if (optimizer, seed) == ("Lion", 1) else f"{accuracy / 100:.4f}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            muon_in_fractions,
            r"line 8: test_acc of Muon seed 0, Muon seed 1, Muon seed 2 in cifar10 is 0\.907 to 0\.915,",
        ),
        (one_in_fractions, r"line 6: test_acc of Lion seed 1 in cifar10 is 0\.909, others are 89\.4 to 91\.5"),
        (one_in_percentages, r"line 6: test_acc of Lion seed 1 in cifar10 is 90\.9, others are 0\.894 to 0\.915"),
    ],
)
def test_fractions_among_percentages_are_refused(change, words):
    with pytest.raises(UsageError, match=words):
        fb.verdicts(rows(change), metric="test_acc")


WIDE = "optimizer,seed0,seed1,seed2\nAdamW,0.912,0.915,0.909\nLion,90.77,91.1,90.2\nMuon,0.921,0.922,0.919\n"


def test_percentages_among_fractions_are_refused_in_a_table_without_the_name_of_its_metric():
    words = r"value of Lion seed 0, .* is 90\.2 to 91\.1, others are 0\.909 to 0\.922: percentages among fractions"
    with pytest.raises(UsageError, match=words):
        fb.verdicts(io.StringIO(WIDE), better="higher")
    assert fb.verdicts(io.StringIO(WIDE), better="lower").notes, "such as seconds"


def test_a_factor_of_a_hundred_in_a_metric_without_a_known_unit_is_noted():
    (note,) = fb.verdicts(rows(one_in_fractions, metric="quality"), metric="quality", better="higher").notes
    assert note.startswith("check the units: quality of Lion seed 1 in cifar10 is 0.909")


def test_small_values_are_no_mixed_units_where_all_have_a_percent_sign_or_they_are_losses():
    signed = rows(lambda optimizer, seed, accuracy: muon_in_fractions(optimizer, seed, accuracy) + "%")
    assert not fb.verdicts(signed, metric="test_acc").notes
    assert not fb.verdicts(rows(muon_in_fractions, metric="test_loss"), metric="test_loss").notes
    near = rows(lambda optimizer, seed, accuracy: f"{accuracy / 90 - 0.03:.4f}", metric="error_rate")
    assert not fb.verdicts(near, metric="error_rate", better="lower").notes


def test_a_repeated_seed_names_both_lines_and_the_data_set_and_no_result():
    text = rows().getvalue().replace("cifar10,Muon,2,90.7,0.3", "cifar10,Muon,1,90.7,0.4")
    with pytest.raises(UsageError) as raised:
        fb.verdicts(io.StringIO(text), metric="test_acc")
    said = "line 10: seed 1 of Muon in cifar10 has a value already, at the open file, line 9; keep one"
    assert str(raised.value) == f"the open file, {said}"


def test_the_one_percent_sign_is_named():
    text = rows().getvalue().replace("90.4,", "90.4%,")
    with pytest.raises(UsageError, match="line 7: has a percent sign, but the open file, line 2 has none"):
        fb.verdicts(io.StringIO(text), metric="test_acc")


def test_the_last_line_names_the_tests_that_were_computed(tmp_path, command):
    (tmp_path / "t.csv").write_text(rows().getvalue().replace(",Muon,2,90.7,", ",Muon,2,nan,"))
    line = command("verdicts", str(tmp_path / "t.csv"), "--metric", "test_acc", "--test", "welch")
    assert "Welch's test of the means, Holm's" in " ".join(line.split())
    assert "paired" not in line
    means = "optimizer,mnist,cifar10,svhn\nA,90.1,82.0,71\nB,90.4,82.6,71.5\nC,91.0,83.0,72.9\n"
    (tmp_path / "means.csv").write_text(means)
    line = command("verdicts", str(tmp_path / "means.csv"), "--better", "higher")
    assert "at 0.05: paired test over the arenas, Holm's" in " ".join(line.split())


def test_nothing_is_known_of_the_tuning_of_a_table():
    for row in fb.verdicts(rows(), metric="test_acc").to_json()["comparisons"]:
        assert (row["tuned_optimizer"], row["tuned_baseline"]) == (None, None)
        assert row["verdict"] in ("better", "worse", "inconclusive")


@pytest.mark.parametrize(("value", "noted"), [("1.23456", True), ("0.75", False), ("nan", False)])
def test_equal_values_of_all_seeds_are_noted(value, noted):
    table = "optimizer,seed,loss\n" + "".join(f"Adam,{seed},{value}\nLion,{seed},1.{seed}\n" for seed in (1, 2, 3))
    verdicts = fb.verdicts(io.StringIO(table))
    said = f"all 3 runs of Adam in loss have the value {value}: did the seed reach the program?"
    assert any(note.startswith(said) for note in verdicts.notes) == noted
