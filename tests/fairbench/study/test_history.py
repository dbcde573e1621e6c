"""Plans: the first declaration is kept, and every later change is reported."""

from dataclasses import replace

import pytest
from fabricated import EVERY_PAIR, Records, recorded, study, with_suite
from pages import printed

from fairbench.analysis.audit import audit
from fairbench.common.errors import UsageError
from fairbench.report.study import write_report
from fairbench.study.history import Change, History, changes, locked_settings, plan_digest, read_history, write_history
from fairbench.suites.schema import Compare

pytestmark = pytest.mark.usefixtures("no_figures")
MORNING, NOON, NIGHT = "2026-11-22T08:00:00+00:00", "2026-11-22T12:00:00+00:00", "2026-11-22T22:00:00+00:00"


def report(folder, *plans, ran=None):
    """The report after plans were declared, each with a number of final trials on record.

    Args:
        ran: the plan under which the final trials ran, and when; None for records that do not say it.
    """
    history = History()
    for when, the_study, final_trials in plans:
        history = history.declare(the_study, when, final_trials)
    write_history(folder, history)
    assert read_history(folder) == history
    widest = plans[0][1]
    scores = {"PsiLogic": [0.90, 0.92, 0.91], "AdamW": [0.89, 0.90, 0.91], "Lion": [0.50, 0.51, 0.52]}
    signature = {"plan": plan_digest(ran[0]), "written": ran[1]} if ran else {}
    return write_report(history, Records(widest, recorded(signature), **scores), folder)


def warned(result):
    return " ".join(flag.text for flag in result.source.of(audit) if flag.severity == "fail")


def verdicts(result):
    return {(c.arena, c.baseline): (c.verdict, c.declared) for c in result.source.comparisons}


def test_a_margin_that_was_widened_afterwards_is_a_warning_and_the_first_verdict_stays(tmp_path):
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
    assert ",inconclusive,TRUE,TRUE\n" in (tmp_path / "significance.csv").read_text()

    assert printed(result).startswith("CHANGED AFTERWARDS")


VIT = study(("vit",))
FIRST = study(("vit",), alpha=0.2)
BENT = {
    "alpha": 0.2,
    "reference": "Lion",
    "final": replace(study().suite.final, seeds=[1, 2, 3, 4]),
    "compare": EVERY_PAIR,
    "controls": ["AdamW", "PsiLogic"],
    "arenas": {name: replace(arena, margin=0.9) for name, arena in study().suite.arenas.items()},
}
"""Fields of a suite that touch verdicts."""
EARLY = "2026-11-22T09:00:00+00:00"
WARNED = {
    **{f"another {x}": ([(MORNING, study(), 0), (NOON, with_suite(study(), **{x: y}), 1)],) for x, y in BENT.items()},
    "comparisons left out": ([(MORNING, study(), 0), (NOON, VIT, 18)],),
    "a comparison the other way round": ([(MORNING, VIT, 0), (NOON, with_suite(VIT, compare=Compare(["AdamW"])), 9)],),
    "a further comparison": (
        [(MORNING, VIT, 0), (NOON, with_suite(VIT, compare=Compare(["PsiLogic", "Lion"], ["AdamW"])), 9)],
    ),
    "free before the first final trial": ([(MORNING, study(alpha=0.2), 0), (NOON, study(), 0)],),
    "taken back": ([(MORNING, study(), 0), (NOON, study(alpha=0.2), 1), (NIGHT, study(), 2)],),
    "final trials older than any plan": ([(MORNING, study(), 7)],),
    "ran as declared": ([(MORNING, FIRST, 0), (NOON, VIT, 0)], (VIT, NIGHT)),
    "ran under an older plan of the history": ([(MORNING, FIRST, 0), (NOON, VIT, 6)], (FIRST, EARLY)),
    "ran by a clock that is a minute behind": ([(NOON, VIT, 0)], (VIT, "2026-11-22T11:59:00+00:00")),
    "put aside while another plan was declared": ([(MORNING, FIRST, 0), (NOON, VIT, 0)], (FIRST, EARLY)),
    "ran before the history": ([(NOON, VIT, 0)], (VIT, EARLY)),
    "ran under a plan that is not there": ([(NOON, VIT, 0)], (FIRST, NIGHT)),
    "older than any plan, of another one": ([(NOON, VIT, 9)], (FIRST, MORNING)),
}
"""Plans, each with the final trials on record at its declaration; the plan and time of the trials, if they say it."""


def test_what_was_changed_or_ran_under_another_plan_is_named(tmp_path, check_files):
    said = []
    for name, (plans, *ran) in WARNED.items():
        (tmp_path / name).mkdir()
        result = report(tmp_path / name, *plans, ran=ran[0] if ran else None)
        judged = [f"{c.arena} {c.optimizer} {c.baseline}: {c.verdict}, {c.declared}" for c in result.source.comparisons]
        said += [f"== {name} ==", warned(result), *judged, ""]
    (tmp_path / "plans.txt").write_text("\n".join(said))
    check_files("report", tmp_path / "plans.txt")


def test_a_change_that_touches_no_verdict_makes_no_new_plan():
    first = History().declare(study(), MORNING, 0)
    again = first.declare(
        replace(with_suite(study(), description="other words"), environment={"device": "x"}), NIGHT, 9
    )
    assert [(plan.declared, plan.final_trials) for plan in again.plans] == [(MORNING, 0)]
    assert again.study.suite.description == "other words"


def test_a_frozen_plan_cannot_be_changed():
    frozen = History().declare(study(), MORNING, 0).freeze(0)
    assert frozen.declare(study(), NOON, 5).freeze(5) == frozen
    with pytest.raises(UsageError, match=r"frozen, but this run would change\n  suite.alpha: 0.05 -> 0.01\n"):
        frozen.declare(study(alpha=0.01), NOON, 0)
    with pytest.raises(UsageError, match="3 final trials have a record already"):
        History().declare(study(), MORNING, 0).freeze(3)


def test_a_frozen_plan_that_was_edited_is_noticed(tmp_path):
    write_history(tmp_path, History().declare(study(), MORNING, 0).freeze(0))
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"alpha": 0.05', '"alpha": 0.5'))
    with pytest.raises(UsageError, match="its plan is not the one that was frozen"):
        read_history(tmp_path)


def test_a_plan_without_a_time_of_its_declaration_is_damaged(tmp_path):
    write_history(tmp_path, History().declare(study(), MORNING, 0))
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace(MORNING, "this morning"))
    with pytest.raises(UsageError, match=r"damaged .*config\.json .*Invalid isoformat string: 'this morning'"):
        read_history(tmp_path)


def test_a_history_is_parsed_again_once_its_file_has_changed(tmp_path, monkeypatch):
    first = History().declare(study(), MORNING, 0)
    write_history(tmp_path, first)
    parse, parsed = History.from_json, list[str]()
    monkeypatch.setattr(History, "from_json", lambda value, where: parsed.append(where) or parse(value, where))
    assert read_history(tmp_path) == read_history(tmp_path) == first
    write_history(tmp_path, second := first.declare(study(alpha=0.1), NOON, 0))
    assert read_history(tmp_path) == second
    assert len(parsed) == 2
    (tmp_path / "config.json").unlink()
    assert not read_history(tmp_path).plans


def test_the_digest_of_a_plan_stays_when_a_suite_gets_another_key(tmp_path):
    """What has its default is no part of it; it is the same after the plan was written and read."""
    write_history(tmp_path, History().declare(study(), MORNING, 0))
    assert plan_digest(read_history(tmp_path).study) == plan_digest(study()) != plan_digest(study(alpha=0.1))
    assert plan_digest(study(compare=EVERY_PAIR)) != plan_digest(study()) == plan_digest(study(controls=[]))
    assert "compare" in locked_settings(study())["suite"]


def test_changes_are_found_entry_by_entry():
    old, new = {"a": {"x": 1, "y": [1]}, "b": 1}, {"a": {"x": 1, "y": [2]}, "c": {"d": 1}}
    assert changes(old, new) == [Change("a.y", [1], [2]), Change("b", 1, "nothing"), Change("c", "nothing", "a table")]
    assert changes(locked_settings(study()), locked_settings(study(alpha=0.1))) == [Change("suite.alpha", 0.05, 0.1)]
