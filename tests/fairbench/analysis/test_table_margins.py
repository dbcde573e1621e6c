"""What is printed and written of a table: its margin with the seeds that detect it, who is better, and LaTeX."""

import pytest

import fairbench as fb

ACCURACIES = {
    "cifar10": {"AdamW": (0.623, 0.618, 0.629), "Lion": (0.611, 0.622, 0.604), "Muon": (0.640, 0.628, 0.643)},
    "svhn": {"AdamW": (0.854, 0.849, 0.860), "Lion": (0.853, 0.841, 0.858), "Muon": (0.884, 0.880, 0.889)},
}


@pytest.fixture
def table(tmp_path):
    lines = ["dataset,optimizer,seed,test.accuracy"]
    for arena, arms in ACCURACIES.items():
        for optimizer, values in arms.items():
            lines += [f"{arena},{optimizer},{seed},{value}" for seed, value in enumerate(values)]
    file = tmp_path / "t.csv"
    file.write_text("\n".join(lines))
    return file


def shown(command, table, *options):
    return " ".join(command("verdicts", str(table), "--baselines", "AdamW", *options).split())


def test_the_margin_is_printed_with_the_seeds_that_would_detect_it(table, command):
    text = shown(command, table, "--margin", "0.01")
    needed = [c.seeds_needed for c in fb.verdicts(table, baselines="AdamW", margin=0.01) if c.verdict == "inconclusive"]
    assert len(needed) > 1
    assert f"Margin: 0.01; where inconclusive, {min(needed)} to {max(needed)} seeds would detect such a diff" in text
    assert "nothing can be equivalent" not in text
    without = shown(command, table)
    assert "Margin:" not in without
    assert "without --margin nothing can be equivalent, and the seeds needed are unknown." in without


def test_margins_of_arenas(table, command):
    head, *lines = table.read_text().splitlines()
    rows = [f"{line},{0.01 if line.startswith('svhn') else 0.02}" for line in lines]
    table.write_text("\n".join([f"{head},margin", *rows]))
    assert "Margin: 0.02 in cifar10, 0.01 in svhn;" in shown(command, table)


def test_the_optimizers_that_are_better_are_named(table, command):
    assert " 1 of 4 comparisons better (Muon in 1) at 0.05: paired test by seed" in shown(command, table)
    assert " 0 of 4 comparisons better at 0.05: paired test" in shown(command, table, "--baselines", "Muon")
    assert " Lion is better in 0 of 2 comparisons at 0.05" in shown(command, table, "--optimizer", "Lion")


@pytest.mark.parametrize(
    ("margin", "note"),
    [
        (0.5, "the margin 0.5 is larger than the range of all values, 0.048: is it in their unit?"),
        (0.000005, "the margin 5e-06 is far below the scatter over the seeds, 0.0067: is it in their unit?"),
    ],
)
def test_a_margin_that_cannot_be_meant_has_a_note(table, command, margin, note):
    assert fb.verdicts(table, margin=margin).notes == [note]
    assert f" {note} Margin:" in shown(command, table, "--margin", f"{margin}")


def test_other_margins_have_no_note(table):
    assert not fb.verdicts(table, margin=0.01).notes
    assert not fb.verdicts(table, margin=0.001).notes


def test_a_decimal_comma_of_an_option_is_pointed_out(table, command):
    text = command("verdicts", str(table), "--margin", "0,5", code=2)
    assert "--margin: must be a number, got '0,5'; write 0.5 with a decimal point" in text


def test_the_verdicts_are_written_for_latex_by_the_writer_of_reports(table, command, tmp_path):
    folder = tmp_path / "paper"
    shown(command, table, "--margin", "0.01", "-o", str(folder))
    verdicts = fb.verdicts(table, baselines="AdamW", margin=0.01)
    source = (folder / "verdicts.tex").read_text()
    assert source == verdicts.to_latex()
    rows = [line for line in source.splitlines() if line.startswith(("cifar10 &", "svhn &"))]
    assert [row.count(r"\textbf{better}") for row in rows] == [c.verdict == "better" for c in verdicts]
    assert r"alpha 0.05, margin 0.01." in source
    assert "Holm TOST $p$" in source
    assert (folder / "verdicts.csv").read_text() == "".join(verdicts.to_csv())


def test_means_over_data_sets_are_a_second_table_in_latex(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("optimizer,mnist,cifar10,svhn\nA,90.1,82.0,71\nB,90.4,82.6,71.5\n")
    assert fb.verdicts(file, better="higher").to_latex().count(r"\begin{longtable}") == 2
