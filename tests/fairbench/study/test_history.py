"""Plans: what was declared first cannot be lost, and what was changed afterwards is said."""

from dataclasses import replace
from pathlib import Path

import pytest
from fabricated import Records, finals, study
from rich.console import Console

from fairbench.common.errors import UsageError
from fairbench.report import Report, write_report
from fairbench.report.console import print_verdicts
from fairbench.study.history import Change, History, changes, promise, read_history, write_history

MORNING, NOON, NIGHT = "2026-11-22T08:00:00+00:00", "2026-11-22T12:00:00+00:00", "2026-11-22T22:00:00+00:00"


def changed(the_study, **fields):
    return replace(the_study, suite=replace(the_study.suite, **fields))


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    monkeypatch.setattr("fairbench.report.draw_figures", lambda *_: [])


def report(folder: Path, *plans) -> Report:
    """The report after plans were declared, each with a number of final trials on record."""
    history = History()
    for when, the_study, final_trials in plans:
        history = history.declare(the_study, when, final_trials)
    write_history(folder, history)
    assert read_history(folder) == history
    widest = plans[0][1]
    scores = finals(widest, PsiLogic=[0.90, 0.91, 0.92], AdamW=[0.89, 0.90, 0.91], Lion=[0.50, 0.51, 0.52])
    return write_report(history, Records(scores), folder)


def warned(result: Report) -> str:
    return " ".join(flag.text for flag in result.analyses.flags if flag.severity == "fail")


def verdicts(result: Report) -> dict[tuple[str, str], tuple[str, str]]:
    return {(c.arena, c.baseline): (c.verdict, c.declared) for c in result.analyses.comparisons}


def test_a_margin_that_was_widened_afterwards_is_a_warning_and_the_first_verdict_stays(tmp_path: Path) -> None:
    first, wider = study(("vit",), margin=0.01), study(("vit",), margin=0.5)
    result = report(tmp_path, (MORNING, first, 0), (NOON, wider, 4))
    assert verdicts(result)["vit", "AdamW"] == ("equivalent", "inconclusive")
    assert warned(result).startswith(
        f"CHANGED AFTERWARDS: the plan that was declared {MORNING} was changed {NOON}, when 4 final"
    )
    assert "suite.arenas.vit.margin from 0.01 to 0.5" in warned(result)
    assert "vit against AdamW inconclusive (now equivalent)" in warned(result)
    assert "equivalent (as declared: inconclusive)" in (tmp_path / "report.html").read_text()
    assert 'class="banner" role="alert">CHANGED AFTERWARDS' in (tmp_path / "report.html").read_text()
    assert ",inconclusive,\n" in (tmp_path / "significance.csv").read_text()

    console = Console(record=True, width=300)
    print_verdicts(result, tmp_path, console)
    assert console.export_text().startswith("CHANGED AFTERWARDS")


@pytest.mark.parametrize(
    ("bent", "named"),
    [
        ({"alpha": 0.2}, "suite.alpha from 0.05 to 0.2"),
        ({"reference": "Lion"}, "suite.reference from PsiLogic to Lion"),
        (
            {"final": replace(study().suite.final, seeds=[1, 2, 3, 4])},
            "suite.final.seeds from [1, 2, 3] to [1, 2, 3, 4]",
        ),
        ({"compare": "all"}, "suite.compare from reference to all"),
        ({"ladder": ["AdamW", "PsiLogic"]}, "suite.ladder from [] to ['AdamW', 'PsiLogic']"),
        (
            {"arenas": {name: replace(arena, target=0.9) for name, arena in study().suite.arenas.items()}},
            "suite.arenas.gpt.target from None to 0.9",
        ),
    ],
)
def test_every_change_that_touches_verdicts_is_named(tmp_path: Path, bent: dict[str, object], named: str) -> None:
    assert named in warned(report(tmp_path, (MORNING, study(), 0), (NOON, changed(study(), **bent), 1)))


def test_a_smaller_family_is_named_with_what_is_no_longer_compared(tmp_path: Path) -> None:
    result = report(tmp_path, (MORNING, study(), 0), (NOON, study(("vit",)), 18))
    assert "suite.arenas.gpt from a table to nothing" in warned(result)
    assert "gpt, PsiLogic against Lion better (no longer compared)" not in warned(result)  # lower is better there
    assert "gpt, PsiLogic against Lion worse (no longer compared)" in warned(result)


def test_a_comparison_that_was_not_declared_says_so(tmp_path: Path) -> None:
    more = study(("vit",))
    result = report(tmp_path, (MORNING, more, 0), (NOON, changed(more, reference="AdamW"), 9))
    assert set(verdicts(result)) == {("vit", "Lion"), ("vit", "PsiLogic")}
    assert {declared for _, declared in verdicts(result).values()} == {"not declared"}
    assert "Not declared then: vit against Lion, vit against PsiLogic." in warned(result)


def test_all_pairs_asked_for_afterwards_were_not_declared(tmp_path: Path) -> None:
    result = report(tmp_path, (MORNING, study(("vit",)), 0), (NOON, study(("vit",), compare="all"), 9))
    declared = {(c.reference, c.baseline): c.declared for c in result.analyses.comparisons}
    assert declared["AdamW", "Lion"] == "not declared"
    assert "not declared" not in {declared["PsiLogic", "AdamW"], declared["PsiLogic", "Lion"]}
    assert "Not declared then: vit, AdamW against Lion." in warned(result)


def test_before_the_first_final_trial_a_plan_is_free(tmp_path: Path) -> None:
    result = report(tmp_path, (MORNING, study(alpha=0.2), 0), (NOON, study(), 0))
    assert warned(result) == ""
    assert all(verdict == declared for verdict, declared in verdicts(result).values())


def test_what_touches_no_verdict_is_no_new_plan() -> None:
    first = History().declare(study(), MORNING, 0)
    again = first.declare(replace(changed(study(), description="other words"), environment={"device": "x"}), NIGHT, 9)
    assert [(plan.declared, plan.final_trials) for plan in again.plans] == [(MORNING, 0)]
    assert again.study.suite.description == "other words"


def test_a_change_that_was_taken_back_is_still_told_of(tmp_path: Path) -> None:
    result = report(tmp_path, (MORNING, study(), 0), (NOON, study(alpha=0.2), 1), (NIGHT, study(), 2))
    assert "alpha from 0.05 to 0.2" in warned(result)
    assert "alpha from 0.2 to 0.05" in warned(result)
    assert "the verdicts on its comparisons are the same" in warned(result)


def test_final_trials_older_than_any_plan_are_told_of(tmp_path: Path) -> None:
    result = report(tmp_path, (MORNING, study(), 7))
    assert "UNKNOWN PLAN: 7 final trials are older than the first plan on record" in warned(result)
    assert {declared for _, declared in verdicts(result).values()} == {""}


def test_a_frozen_plan_cannot_be_changed() -> None:
    frozen = History().declare(study(), MORNING, 0).freeze(0)
    assert frozen.declare(study(), NOON, 5).freeze(5) == frozen
    with pytest.raises(UsageError, match=r"frozen, but this run would change\n  suite.alpha: 0.05 -> 0.01\n"):
        frozen.declare(study(alpha=0.01), NOON, 0)
    with pytest.raises(UsageError, match="3 final trials have a record already"):
        History().declare(study(), MORNING, 0).freeze(3)


def test_a_frozen_plan_that_was_edited_is_noticed(tmp_path: Path) -> None:
    write_history(tmp_path, History().declare(study(), MORNING, 0).freeze(0))
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"alpha": 0.05', '"alpha": 0.5'))
    with pytest.raises(UsageError, match="its plan is not the one that was frozen"):
        read_history(tmp_path)


def test_changes_are_found_entry_by_entry() -> None:
    old, new = {"a": {"x": 1, "y": [1]}, "b": 1}, {"a": {"x": 1, "y": [2]}, "c": {"d": 1}}
    found = [Change("a.y", [1], [2]), Change("b", 1, "nothing"), Change("c", "nothing", "a table")]
    assert changes(old, new) == found
    assert changes(promise(study()), promise(study(alpha=0.1))) == [Change("suite.alpha", 0.05, 0.1)]
