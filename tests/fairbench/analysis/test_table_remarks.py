"""A column of remarks tells no arms apart: it is left out, or says which runs are lost, and is never an arena."""

import io

import pytest

import fairbench as fb
from fairbench.common.errors import UsageError

ACCURACIES = {"AdamW": (60.7, 62.3, 62.4, 64.6, 61.1), "Muon": (64.6, 64.3, 61.8, 62.7, 63.7)}


def spreadsheet(remark, value="", column="Anmerkung"):
    """What a German spreadsheet saves: semicolons, decimal commas, and a remark on one run of Muon."""
    lines = [f"Methode;Datensatz;Seed;Genauigkeit (%);{column}"]
    for optimizer, values in ACCURACIES.items():
        for seed, accuracy in enumerate(values, 1):
            is_remarked = (optimizer, seed) == ("Muon", 3)
            cells = [value or f"{accuracy:.2f}", remark] if is_remarked else [f"{accuracy:.2f}", ""]
            lines.append(f"{optimizer};cifar10;{seed};{cells[0]};{cells[1]}".replace(".", ","))
    return io.StringIO("\n".join(lines))


def judge(table, **asked):
    (c,) = fb.verdicts(table, better="higher", **asked)
    return c


@pytest.mark.parametrize("column", ["Anmerkung", "Auffällig"])
def test_a_remark_on_one_run_is_left_out_with_a_note(column):
    verdicts = fb.verdicts(spreadsheet("neue GPU", column=column), better="higher")
    assert (verdicts[0].n_optimizer, verdicts[0].n_baseline, verdicts[0].verdict) == (5, 5, "inconclusive")
    (note,) = verdicts.notes
    assert note.startswith(f"{column} has a remark in 1 of 10 rows ('neue GPU') and is left out; give --columns state")


@pytest.mark.parametrize("word", ["abgestürzt", "crashed", "échec", "falló"])
@pytest.mark.parametrize("column", ["Anmerkung", "comment", "remarque"])
def test_remarks_that_runs_are_lost_are_their_states(word, column):
    c = judge(spreadsheet(word, column=column))
    assert (c.verdict, c.note) == ("incomplete", "Muon without a value 1/5")


@pytest.mark.parametrize("empty", ["", "-"])
def test_an_empty_state_says_nothing(empty):
    text = spreadsheet("crashed", column="Auffällig").getvalue().replace(";\n", f";{empty}\n")
    c = judge(io.StringIO(text), columns={"state": "Auffällig"})
    assert (c.verdict, c.note) == ("incomplete", "Muon without a value 1/5")
    assert judge(spreadsheet("", column="Auffällig"), columns={"state": "Auffällig"}).verdict == "inconclusive"


def test_an_unknown_state_is_named():
    verdicts = fb.verdicts(spreadsheet("seltsam"), better="higher", columns={"state": "Anmerkung"})
    assert "1 run with a value and the state 'seltsam' counted as finished" in verdicts.notes


def test_a_remark_is_no_arena_where_the_runs_must_be_told_apart():
    """Without seeds, remarks may be a setting: they are asked for, and an arena of one run is not offered."""
    lines = ["optimizer,loss,what"]
    for optimizer in ("AdamW", "Lion"):
        lines += [f"{optimizer},1.{number},{'again' if number in (1, 2) else ''}" for number in (3, 1, 4, 2, 5)]
    with pytest.raises(UsageError, match="differ in what; give --columns ignore") as raised:
        fb.verdicts(io.StringIO("\n".join(lines)))
    assert "arena" not in str(raised.value)
    assert 'ignore="what", or state="what" if it says that runs are lost' in str(raised.value)


def test_a_repeated_seed_with_a_remark_is_a_repeated_seed():
    text = spreadsheet("wiederholt", column="Auffällig").getvalue()
    with pytest.raises(UsageError, match="seed 3 of Muon has a value already") as raised:
        judge(io.StringIO(f"{text}\nMuon;cifar10;3;61,9;"))
    assert "arena" not in str(raised.value)
