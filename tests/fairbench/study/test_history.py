"""Plans: the first declaration is kept, and every later change is reported."""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import fabricated
import pytest
from fabricated import EVERY_PAIR, Records, recorded, with_suite
from pages import printed

from fairbench.analysis.audit import audit
from fairbench.common.errors import UsageError
from fairbench.report.study import write_report
from fairbench.study.history import Change, History, changes, locked_settings, plan_digest, read_history, write_history
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.compare import Compare

pytestmark = pytest.mark.usefixtures("no_figures")
study = partial(fabricated.study, seeds=(1, 2, 3, 4))
"""The study, with as many seeds as a verdict needs."""
MORNING = "2026-11-22T08:00:00+00:00"
EARLY = "2026-11-22T09:00:00+00:00"
NOON = "2026-11-22T12:00:00+00:00"
NIGHT = "2026-11-22T22:00:00+00:00"


class Declared(NamedTuple):
    """A plan, when it was declared, and how many final trials had a record then."""

    when: str
    study: ResolvedSuite
    final_trials: int


class Ran(NamedTuple):
    """The plan under which the final trials ran, and when."""

    study: ResolvedSuite
    when: str


@dataclass
class Case:
    """Plans, and what the records of the final trials say of theirs; None if nothing."""

    name: str
    plans: list[Declared]
    ran: Ran | None = None


def report(folder, *plans, ran=None):
    """The report after plans were declared; `ran` is None for records that do not say it."""
    history = History()
    for plan in plans:
        history = history.declare(plan.study, plan.when, plan.final_trials)
    write_history(folder, history)
    assert read_history(folder) == history
    widest = plans[0].study
    scores = {
        "PsiLogic": [0.90, 0.92, 0.91, 0.90],
        "AdamW": [0.89, 0.90, 0.91, 0.91],
        "Lion": [0.50, 0.51, 0.52, 0.50],
    }
    signature = {}
    if ran:
        signature = {"plan": plan_digest(ran.study), "written": ran.when}
    return write_report(history, Records(widest, recorded(signature), **scores), folder)


def warned(result):
    return " ".join(flag.text for flag in result.source.of(audit) if flag.severity == "fail")


def verdicts(result):
    return {(c.arena, c.baseline): (c.verdict, c.declared) for c in result.source.comparisons}


def test_a_margin_that_was_widened_afterwards_is_a_warning_and_the_first_verdict_stays(tmp_path):
    first = Declared(MORNING, study(("vit",), margin=0.01), final_trials=0)
    wider = Declared(NOON, study(("vit",), margin=0.5), final_trials=4)
    result = report(tmp_path, first, wider)
    assert verdicts(result)["vit", "AdamW"] == ("equivalent", "inconclusive")
    assert warned(result).startswith(
        f"CHANGED AFTERWARDS: the plan that was declared {MORNING} was changed {NOON}, when 4 final"
    )
    assert "suite.arenas.vit.margin from 0.01 to 0.5" in warned(result)
    assert "vit against AdamW inconclusive (now equivalent)" in warned(result)
    assert "as declared: inconclusive)" in (tmp_path / "report.html").read_text()
    assert 'class="banner" role="alert">CHANGED AFTERWARDS' in (tmp_path / "report.html").read_text()
    assert ",inconclusive,TRUE,TRUE\n" in (tmp_path / "significance.csv").read_text()

    assert printed(result).startswith("CHANGED AFTERWARDS")


BENT = {
    "alpha": 0.2,
    "reference": "Lion",
    "final": replace(study().suite.final, seeds=[1, 2, 3, 4, 5]),
    "compare": EVERY_PAIR,
    "controls": ["AdamW", "PsiLogic"],
    "arenas": {name: replace(arena, margin=0.9) for name, arena in study().suite.arenas.items()},
}
"""Fields of a suite that touch verdicts."""


def cases_of_changed_plans():
    """Plans that were changed, before or after the first final trial."""
    at_first = Declared(MORNING, study(), final_trials=0)
    for field, value in BENT.items():
        bent = with_suite(study(), **{field: value})
        yield Case(f"another {field}", [at_first, Declared(NOON, bent, final_trials=1)])
    vit = study(("vit",))
    yield Case("comparisons left out", [at_first, Declared(NOON, vit, final_trials=18)])
    vit_at_first = Declared(MORNING, vit, final_trials=0)
    turned = with_suite(vit, compare=Compare(["AdamW"]))
    yield Case("a comparison the other way round", [vit_at_first, Declared(NOON, turned, final_trials=9)])
    further = with_suite(vit, compare=Compare(["PsiLogic", "Lion"], ["AdamW"]))
    yield Case("a further comparison", [vit_at_first, Declared(NOON, further, final_trials=9)])
    bent = study(alpha=0.2)
    free = [Declared(MORNING, bent, final_trials=0), Declared(NOON, study(), final_trials=0)]
    yield Case("free before the first final trial", free)
    taken_back = [at_first, Declared(NOON, bent, final_trials=1), Declared(NIGHT, study(), final_trials=2)]
    yield Case("taken back", taken_back)
    yield Case("final trials older than any plan", [Declared(MORNING, study(), final_trials=7)])


def cases_of_trials_that_say_their_plan():
    """Plans, and records that name the plan of their trial and the time."""
    vit = study(("vit",))
    first = study(("vit",), alpha=0.2)
    at_first = Declared(MORNING, first, final_trials=0)
    changed = [at_first, Declared(NOON, vit, final_trials=0)]
    alone = [Declared(NOON, vit, final_trials=0)]
    yield Case("ran as declared", changed, ran=Ran(vit, NIGHT))
    changed_late = [at_first, Declared(NOON, vit, final_trials=6)]
    yield Case("ran under an older plan of the history", changed_late, ran=Ran(first, EARLY))
    yield Case("ran by a clock that is a minute behind", alone, ran=Ran(vit, "2026-11-22T11:59:00+00:00"))
    yield Case("put aside while another plan was declared", changed, ran=Ran(first, EARLY))
    yield Case("ran before the history", alone, ran=Ran(vit, EARLY))
    yield Case("ran under a plan that is not there", alone, ran=Ran(first, NIGHT))
    older = [Declared(NOON, vit, final_trials=9)]
    yield Case("older than any plan, of another one", older, ran=Ran(first, MORNING))


def test_what_was_changed_or_ran_under_another_plan_is_named(tmp_path, check_files):
    said = []
    for case in (*cases_of_changed_plans(), *cases_of_trials_that_say_their_plan()):
        (tmp_path / case.name).mkdir()
        result = report(tmp_path / case.name, *case.plans, ran=case.ran)
        said += [f"== {case.name} ==", warned(result)]
        for comparison in result.source.comparisons:
            pair = f"{comparison.arena} {comparison.optimizer} {comparison.baseline}"
            said.append(f"{pair}: {comparison.verdict}, {comparison.declared}")
        said.append("")
    (tmp_path / "plans.txt").write_text("\n".join(said))
    check_files("report", tmp_path / "plans.txt")


def test_a_change_that_touches_no_verdict_makes_no_new_plan():
    first = History().declare(study(), MORNING, 0)
    reworded = with_suite(study(), description="other words")
    again = first.declare(replace(reworded, environment={"device": "x"}), NIGHT, 9)
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
    parse = History.from_json
    parsed = []

    def count(value, where):
        parsed.append(where)
        return parse(value, where)

    monkeypatch.setattr(History, "from_json", count)
    assert read_history(tmp_path) == read_history(tmp_path) == first
    second = first.declare(study(alpha=0.1), NOON, 0)
    write_history(tmp_path, second)
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
    old = {"a": {"x": 1, "y": [1]}, "b": 1}
    new = {"a": {"x": 1, "y": [2]}, "c": {"d": 1}}
    changed = Change("a.y", [1], [2])
    gone = Change("b", 1, "nothing")
    added = Change("c", "nothing", "a table")
    assert changes(old, new) == [changed, gone, added]
    assert changes(locked_settings(study()), locked_settings(study(alpha=0.1))) == [Change("suite.alpha", 0.05, 0.1)]
