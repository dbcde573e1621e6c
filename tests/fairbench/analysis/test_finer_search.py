"""What a finer search could gain, for curves whose true optimum is known."""

import math
from dataclasses import replace
from itertools import product

import pytest
from fabricated import Records, study, with_suite

from fairbench.analysis.comparison.finer_search import FinerSearch, changes_of_gain
from fairbench.analysis.comparison.interim_analyses import judge_interim_analyses
from fairbench.analysis.comparison.judge import FINER, WIDER

BEST = {"vit": 0.9, "gpt": -3.0}
"""The best value of each arena, where higher is better."""
SHARED = [0.0, 0.013, -0.008, 0.004, 0.021]
"""What a seed adds to the trials of all optimizers."""


class Curves(Records):
    """Trials that score by the place of their rate on the grid: 0 is the lowest of three; NaN is a divergence.

    Their own noise is far smaller than what the seeds add to all trials.
    """

    def __init__(self, the_study, **curves):
        super().__init__(the_study)
        self.study = the_study
        self.curves = curves

    def outcome(self, spec):
        if spec.stage == "timing":
            return None
        place = self.study.search(spec.optimizer.name).index(spec.lr)
        value = self.curves[spec.optimizer.name](place)
        if spec.optimizer.options.get("momentum") == 0.5:
            value -= 0.001
        if math.isnan(value):
            return "diverged"
        if spec.stage == "final":
            value += SHARED[spec.seed] + 1e-7 * math.sin(9 * spec.seed + place + len(spec.optimizer.name))
        return abs(BEST[spec.arena.task] + value)


def parabola(vertex, curvature=0.02, height=0.0):
    return lambda place: height - curvature * (place - vertex) ** 2


def judged(arena="vit", settings=3, margin=1e-6, budget=7, **curves):
    """The comparison of PsiLogic with AdamW."""
    the_study = study((arena,), ("AdamW", "PsiLogic"), range(5), margin=margin, budget=budget, settings=settings)
    (c,) = judge_interim_analyses(the_study, Curves(the_study, **curves)).comparisons
    return c


@pytest.mark.parametrize("arena", BEST)
@pytest.mark.parametrize("vertex", [0.6, 1.0, 1.25, 1.45])
def test_at_a_parabola_the_gain_is_what_its_vertex_has_more(arena, vertex):
    c = judged(arena, AdamW=parabola(1.0), PsiLogic=parabola(vertex))
    distance = vertex - 1.0
    assert c.finer_optimizer == pytest.approx(0.02 * distance**2, abs=1e-6)
    assert c.finer_baseline == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("skew", [-0.3, -0.1, 0.05, 0.3])
def test_at_a_cubic_curve_the_gain_is_at_least_the_true_one(skew):
    def cubic(place):
        x = place - 1.3
        return -0.02 * (x**2 + skew * x**3)

    places = [0.001 * step for step in range(2001)]
    true_gain = max(map(cubic, places)) - cubic(1)
    c = judged(AdamW=parabola(1.0), PsiLogic=cubic)
    allowance = 0.02 * abs(skew) * 2 / (3 * math.sqrt(3))  # the largest of |skew (x^3 - x)| between the rates
    assert true_gain < c.finer_optimizer + 1e-6
    assert c.finer_optimizer < true_gain + 2 * allowance + 1e-6


def test_in_front_of_a_divergence_the_gain_is_that_of_the_slope_on_the_other_side():
    def cliff(place):
        return 0.03 * place if place < 1.5 else math.nan

    c = judged(AdamW=parabola(1.0), PsiLogic=cliff)
    assert c.finer_optimizer == pytest.approx(0.03, abs=1e-6)

    def ridge(place):
        return 0.0 if 0.5 < place < 1.5 else math.nan

    assert judged(AdamW=parabola(1.0), PsiLogic=ridge).finer_optimizer is None


def test_what_the_curves_of_both_have_in_common_cancels():
    def steep(place):
        return 0.03 * place if place < 1.2 else -0.3 - 0.15 * place

    alone = judged(AdamW=parabola(1.0), PsiLogic=steep)
    assert alone.finer_optimizer > 0.05
    both = judged(AdamW=steep, PsiLogic=lambda place: steep(place) + 0.001, margin=0.01)
    assert both.finer_optimizer == pytest.approx(0.0, abs=1e-6)
    assert both.finer_baseline == pytest.approx(0.0, abs=1e-6)
    assert both.verdict == "equivalent"
    sooner = judged(AdamW=steep, PsiLogic=parabola(1.3))
    assert sooner.finer_baseline > 0.05


def test_at_the_edge_of_the_rates_the_gain_is_unknown_and_withholds_only_what_it_may_change():
    def rising(place):
        return 0.05 * place

    at_edge = judged(AdamW=parabola(1.0, height=1.0), PsiLogic=rising)
    assert at_edge.finer_optimizer is None
    assert (at_edge.verdict, at_edge.note) == ("inconclusive", WIDER)
    assert (at_edge.p, at_edge.p_holm) == (1, 1)
    better = judged(AdamW=parabola(1.0, height=-0.5), PsiLogic=rising)
    assert (better.finer_optimizer, better.verdict, better.note) == (None, "better", "")


def test_equally_good_optimizers_with_their_own_optima_are_not_told_apart():
    """Each pair of seeds has the same difference, so that without the parabola the p-value is tiny."""
    between = parabola(1.45)
    c = judged(AdamW=parabola(1.0), PsiLogic=between)
    assert c.gain < -0.003
    assert abs(c.t) > 1000
    assert (c.verdict, c.note) == ("inconclusive", FINER)
    other = judged(AdamW=between, PsiLogic=parabola(1.0))
    assert (other.verdict, other.note) == ("inconclusive", FINER)
    really_worse = judged(AdamW=parabola(1.0), PsiLogic=parabola(1.45, height=-0.01))
    assert really_worse.verdict == "worse"
    assert really_worse.ci_high == pytest.approx(-0.01, abs=1e-4)  # the true difference of the two optima
    hardly = judged(AdamW=parabola(1.0), PsiLogic=parabola(1.2), margin=0.01)
    assert hardly.verdict == "equivalent"


def test_where_only_short_trials_or_another_arena_select_the_verdict_says_so():
    c = judged(settings=1, AdamW=parabola(1.0, height=-0.5), PsiLogic=parabola(1.45))
    assert (c.finer_optimizer, c.finer_baseline) == (0, 0)
    assert c.statement == "better (at learning rates that only short trials selected)"
    the_study = study(("vit",), ("AdamW", "PsiLogic"), range(5), budget=7, settings=3)
    (plan,) = the_study.suite.arenas.values()
    twin = replace(plan, task="vit", tuning_arena="vit")
    the_study = with_suite(the_study, arenas={"vit": plan, "twin": twin})
    curves = Curves(the_study, AdamW=parabola(1.0, height=-0.5), PsiLogic=parabola(1.45))
    of_vit, of_twin = judge_interim_analyses(the_study, curves).comparisons
    assert of_vit.statement == "better"
    assert of_twin.statement == "better (at learning rates selected in vit)"
    assert of_vit.finer_optimizer > of_twin.finer_optimizer == 0


def test_neighbors_with_another_value_of_another_hyperparameter_do_not_count():
    the_study = study(("vit",), ("AdamW", "PsiLogic"), range(5), settings=3)
    sweep = replace(the_study.suite.sweep, budget=7, extra={"momentum": [0.5, 0.9]})
    the_study = with_suite(the_study, sweep=sweep)
    curves = Curves(the_study, AdamW=parabola(1.0), PsiLogic=parabola(1.25))
    (c,) = judge_interim_analyses(the_study, curves).comparisons
    assert c.finer_optimizer == pytest.approx(0.02 * 0.25**2, abs=1e-6)


@pytest.mark.parametrize("place", [0.0, 1.0])
def test_what_both_optimizers_would_gain_cancels(place):
    """Both optima lie as far from a rate, the same one or the next: then only the heights differ."""
    c = judged(AdamW=parabola(1.4), PsiLogic=parabola(1.4 + place, height=-0.001))
    assert (c.finer_optimizer, c.finer_baseline) == pytest.approx((0, 0), abs=1e-6)
    assert c.verdict == "worse"
    nearer = judged(AdamW=parabola(1.4), PsiLogic=parabola(1.2 + place))
    assert nearer.finer_optimizer == pytest.approx(0, abs=1e-6)
    assert nearer.finer_baseline == pytest.approx(0.02 * (0.4**2 - 0.2**2), abs=1e-6)


def test_exchanged_arms_exchange_what_a_finer_search_could_change():
    found = []
    for vertex in (1.1, 1.4, 2.3):
        found.append(FinerSearch(1e-3 * vertex, vertex / 100, {2: vertex}, vertex / 1000))
    found += [FinerSearch(found[0].lr, 0.02, {-2: 0.3, 2: 0.4}, 0.01), FinerSearch(1e-3), None]
    for ours, theirs in product(found, repeat=2):
        in_our_favor, in_their_favor = changes_of_gain(ours, theirs)
        assert changes_of_gain(theirs, ours) == (in_their_favor, in_our_favor)
        assert (in_our_favor is None) == (ours is None)
    # the same rate: the difference of the third differences; another one: the own error
    assert changes_of_gain(found[0], found[3]) == pytest.approx((0.7 / 9 / 3**0.5, 0.009 + 0.7 / 9 / 3**0.5))
    assert changes_of_gain(found[0], found[1]) == pytest.approx((0.0011, 0.003 + 0.0014))
