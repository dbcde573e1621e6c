"""Trends of a speed-up over size, from fabricated studies with a known law."""

from dataclasses import replace

import numpy as np
import pytest
from fabricated import Records, analysed, finals, study, with_ladder, with_suite

from fairbench.analysis.audit import audit
from fairbench.analysis.comparison.size_trends import judge_ladders, ladder_laws, ladders, size_trends
from fairbench.analysis.comparison.speedups import speedups
from fairbench.analysis.results import collect
from fairbench.analysis.statistics import trend
from fairbench.common.errors import UsageError
from fairbench.report.sections.speedup import speed_up
from fairbench.report.study import draw_figures, study_report

SEEDS = range(1, 6)
TRUE = {"AdamW": (1.0, 0.0), "Lion": (1.5, -0.25), "PsiLogic": (1.2, 0.0)}
CENTER = np.sqrt(1000 * 8000)


def true_loss(optimizer, size, steps):
    """The loss of the known law, in which an optimizer has the `speedup` at the center and its `trend` over size."""
    speedup, trend = TRUE[optimizer]
    faster = speedup * (size / CENTER) ** trend
    return 1.5 + 20 * size**-0.4 + 8 * (faster * steps) ** -0.35


def with_law(lost=(), **ladder):
    """Analyses of a ladder whose losses follow a law; `lost`: arms of which a seed diverged."""
    asked = with_ladder(study(("gpt",), (*TRUE,), SEEDS, reference="AdamW"), **ladder)
    rng = np.random.default_rng(0)
    cases = []
    for name, plan in asked.suite.arenas.items():
        for optimizer in TRUE:
            loss = true_loss(optimizer, plan.ladder_point.parameters, plan.steps)
            scores = [loss + 0.002 * rng.normal() for _ in SEEDS]
            cases.append(finals(arena=name, optimizer=optimizer, scores=scores))
            if (name, optimizer) in lost:
                cases.append(finals(arena=name, optimizer=optimizer, seed=3, outcome="diverged"))
    return analysed(asked, Records(asked, *cases))


@pytest.fixture(scope="module")
def known():
    return with_law()


def test_the_law_and_the_trends_are_found(known):
    (law,) = known.of(ladder_laws)
    assert (law.arena, law.cells, law.n, law.largest) == ("gpt", 36, 5, 8000)
    assert law.center == pytest.approx(CENTER)
    assert law.alpha == pytest.approx(0.4, abs=0.1)
    assert law.beta == pytest.approx(0.35, abs=0.1)
    assert law.left_out_error < 0.01
    lion, psilogic = known.of(size_trends)
    assert (lion.optimizer, lion.verdict) == ("Lion", "shrinks")
    assert (psilogic.optimizer, psilogic.verdict) == ("PsiLogic", "holds")
    for row in (lion, psilogic):
        speedup, trend = TRUE[row.optimizer]
        assert row.ci_low < speedup < row.ci_high
        assert row.trend_low < trend < row.trend_high
    assert lion.smallest > lion.speedup > lion.largest
    assert lion.largest == pytest.approx(lion.speedup * (8000 / CENTER) ** lion.trend)


def test_single_speedups_agree_with_the_law(known):
    """Each is between horizons of its own size, without any law."""
    single = []
    for row in known.of(speedups):
        if row.optimizer == "PsiLogic" and row.speedup:
            single.append(row.speedup)
    assert len(single) >= 6
    assert np.median(single) == pytest.approx(1.2, rel=0.05)


def test_report_and_figure_have_it(known):
    tables = study_report(known).tables
    assert [row[-2].text for row in tables["size_trends"].rows] == ["shrinks", "holds"]
    assert tables["ladder_laws"].rows[0][0].text == "gpt"
    (drawing,) = draw_figures(known, name="size_trends")
    (panel,) = drawing.parts
    assert "Lion: " in " ".join(panel.said)
    assert "shrinks" in " ".join(panel.said)
    assert "With size the speed-up of Lion shrinks" in speed_up(known)


def test_an_optimizer_with_a_lost_seed_has_no_trend():
    lion, psilogic = with_law(lost={("gpt-2-x1", "Lion")}).of(size_trends)
    assert (lion.verdict, lion.note, lion.trend) == ("cannot be told", "not all trials finished", None)
    assert psilogic.verdict == "holds"
    nothing = with_law(lost={("gpt-2-x1", "AdamW")})
    assert not nothing.of(ladder_laws)
    assert {row.note for row in nothing.of(size_trends)} == {"not all trials of AdamW finished"}


def test_two_sizes_determine_no_trend():
    few = with_law(parameters=(1000, 4000))
    lion, psilogic = few.of(size_trends)
    assert lion.verdict == "cannot be told"
    assert psilogic.verdict == "cannot be told"
    assert "2 of 3 sizes" in lion.note
    assert psilogic.note == lion.note
    assert "too few sizes" in {flag.name for flag in few.of(audit)}


def test_several_ladders_share_alpha(monkeypatch):
    """Two schedules of one ladder: each is judged at half of alpha."""
    levels = []

    def judge_trends(*args, alpha, margin):
        levels.append(alpha)
        return trend.judge_trends(*args, alpha=alpha, margin=margin)

    monkeypatch.setattr("fairbench.analysis.comparison.size_trends.judge_trends", judge_trends)
    asked = with_ladder(study(("gpt",), (*TRUE,), SEEDS), (1000, 2000, 4000), (1, 2))
    arenas = {}
    for name, plan in asked.suite.arenas.items():
        for schedule in ("cosine", "linear"):
            arenas[f"{name}-{schedule}"] = replace(plan, schedule=schedule)
    asked = with_suite(asked, arenas=arenas)
    rng = np.random.default_rng(0)
    cases = []
    for arena, optimizer in asked.suite.arms:
        scores = [2 + rng.random() for _ in SEEDS]
        cases.append(finals(arena=arena, optimizer=optimizer, scores=scores))
    rows = analysed(asked, Records(asked, *cases)).of(size_trends)
    assert {row.arena for row in rows} == {"gpt-cosine", "gpt-linear"}
    assert levels == [0.025, 0.025]


def test_the_law_predicts_near_its_sizes_and_refuses_far_ones(known):
    law = known.of(ladders)["gpt"].law
    for optimizer in TRUE:
        near = law.predict(12000, 900, optimizer)
        assert near.loss == pytest.approx(true_loss(optimizer, size=12000, steps=900), rel=0.005)
        assert near.flagged is False
        far = law.predict(30000, 900, optimizer)
        assert far.flagged is True
    with pytest.raises(UsageError, match="beyond 4 times the largest size"):
        law.predict(33000, 900, "Lion")


def test_arms_with_more_seeds_than_others_share_the_first_ones(known):
    """As interim analyses leave them."""
    seeds = dict.fromkeys(known.results.study.suite.arms, 5)
    seeds["gpt-1-x1", "Lion"] = 3
    results = collect(known.history.study, known.lookup, seeds)
    law = judge_ladders(results)["gpt"].law
    assert (law.cells, law.n) == (36, 3)
