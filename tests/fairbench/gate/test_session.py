"""What follows from the runs of a session, step by step."""

import pytest
from sessions import Script, begun, step

from fairbench.gate.session import Run
from fairbench.gate.verdicts import end_of, finish_step, most_runs_left, next_batch


@pytest.fixture
def ledger(tmp_path):
    return begun(tmp_path / "1")


def keep(ledger, commit, *values):
    assert step(ledger, "try", {"try": commit}, *values) == "keep"


def certify(ledger, *values):
    session = ledger.session
    return step(ledger, "certificate", {"base": session.base, "head": session.head}, *values)


def test_the_calibration_gives_mean_and_standard_deviation(ledger):
    session = ledger.session
    assert session.std == pytest.approx(0.92195, rel=1e-4)
    assert (session.base, session.head, session.runs, session.seconds) == ("base", "base", 6, 2.0)
    assert session.head_values == session.base_values == [10.0, 8.75, 11.25, 10.0, 9.25, 10.75]


def test_a_program_without_a_seed_is_not_calibrated(tmp_path):
    ledger = begun(tmp_path / "1")
    assert step(ledger, "calibration", {"base": "base"}, *[1.0] * 6) == "failed"
    assert "seed" in ledger.entries[-1]["reason"]


def test_a_try_is_dropped_after_one_or_two_runs(ledger):
    assert step(ledger, "try", {"try": "a"}, 9.6) == "drop"
    assert step(ledger, "try", {"try": "b"}, 9.0, 10.2) == "drop"
    assert ledger.session.head == "base"
    assert (ledger.session.tries, ledger.session.runs) == (0, 9)


def test_the_first_run_of_a_keep_does_not_count_for_head(ledger):
    keep(ledger, "a", 5.0, 9.0, 9.5)
    session = ledger.session
    assert (session.head, session.base, session.head_values) == ("a", "base", [9.0, 9.5])
    assert step(ledger, "try", {"try": "b"}, 8.8) == "drop"
    keep(ledger, "b", 8.7, 8.7, 8.7)
    assert [tuple(kept) for kept in ledger.session.pending] == [("a", "base"), ("b", "a")]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([10.0, 1.1, 10.1, 1.0, 10.2, 1.2, 9.9, 1.1], "certified"), ([1.0, 1.1, 1.2, 1.1, 1.0, 1.2, 1.1, 1.0], "back")],
)
def test_a_certificate_may_end_after_four_pairs(ledger, values, verdict):
    keep(ledger, "a", 5.0, 5.0, 5.0)
    assert certify(ledger, *values) == verdict
    session = ledger.session
    assert session.base == session.head == ("a" if verdict == "certified" else "base")
    assert session.pending == ()
    assert len(session.certified) == (verdict == "certified")


def test_a_gain_that_is_not_certified_after_eight_pairs_stays_pending(ledger):
    keep(ledger, "a", 5.0, 5.0, 5.0)
    assert certify(ledger, 2.0, 1.0, 1.0, 1.5, *[2.0, 1.0, 1.0, 1.9] * 3) == "open"
    session = ledger.session
    assert (session.base, session.head, session.keeps, session.tries, session.certificates) == ("base", "a", 0, 0, 1)
    assert session.head_values == [5.0, 5.0, 1.0, 1.5, *[1.0, 1.9] * 3]
    assert len(session.base_values) == 6 + 8


def test_the_second_look_continues_the_first(ledger):
    keep(ledger, "a", 5.0, 5.0, 5.0)
    assert certify(ledger, 2.0, 1.0, 2.0, 1.9, 2.0, 1.3, 2.0, 1.6, *[2.0, 1.0, 2.0, 1.1] * 2) == "certified"
    end = ledger.entries[-1]
    assert end["pairs"] == 8
    assert end["p"] <= end["level"] == pytest.approx(0.0075)


def test_five_keeps_or_25_tries_with_one_pending_are_due(ledger):
    keep(ledger, "a", 5.0, 9.0, 9.0)
    for number in range(24):
        assert step(ledger, "try", {"try": f"n{number}"}, 12.0) == "drop"
        assert not ledger.session.is_due
    step(ledger, "try", {"try": "last"}, 12.0)
    assert ledger.session.is_due
    assert certify(ledger, *[1.0, 2.0, 1.0, 2.1] * 2) == "back"
    for number in range(5):
        assert not ledger.session.is_due
        low = 1.0 - number
        keep(ledger, f"k{number}", low, low, low)
    assert ledger.session.is_due


def ended(ledger, kind, arms, *runs):
    """Begin a step, and end it with runs of which one has not finished."""
    ledger.append({"event": "begin", "kind": kind, "arms": arms, "subject": ""})
    batch = next_batch(ledger.session)
    values = zip(ledger.next_seeds(batch.seeds), runs, strict=False)
    entries = [Run(arm, seed, status, value)._asdict() for seed, (arm, status, value) in values]
    ledger.append({"event": "runs", "runs": entries})
    return finish_step(ledger, Script())["verdict"]


def test_a_program_that_fails_or_diverges_keeps_and_certifies_nothing(ledger):
    assert ended(ledger, "try", {"try": "a"}, ("try", "failed", None)) == "failed"
    assert ended(ledger, "try", {"try": "a"}, ("try", "diverged", None)) == "drop"
    keep(ledger, "a", 5.0, 5.0, 5.0)
    arms = {"base": "base", "head": "a"}
    assert ended(ledger, "certificate", arms, ("base", "finished", 1.0), ("head", "diverged", None)) == "back"
    assert ledger.session.head == "base"
    assert ledger.session.certificates == 1


def test_the_most_runs_that_are_left(ledger):
    assert most_runs_left(ledger.session) == 3
    keep(ledger, "a", 5.0, 5.0, 5.0)
    ledger.append({"event": "begin", "kind": "certificate", "arms": {"base": "base", "head": "a"}, "subject": ""})
    assert most_runs_left(ledger.session) == 16
    runs = Script(*[1.0, 2.0] * 4)(next_batch(ledger.session), ledger.next_seeds(4))
    ledger.append({"event": "runs", "runs": [run._asdict() for run in runs]})
    assert most_runs_left(ledger.session) == 8
    assert end_of(ledger.session)["verdict"] == "back"
