"""Shocks have their stated effect, at the stated steps; twins of arenas; the cost of shocks."""

from dataclasses import replace

import pytest
import torch
from fabricated import Records, analysed, recorded
from tiny import TINY, study_of, write_tiny

from fairbench.analysis.comparison.shocks import excess, recoveries, shock_costs
from fairbench.arenas.shocks.kinds import KINDS
from fairbench.arenas.shocks.registry import SHOCKS, disturbed_steps
from fairbench.study.plan import trial_spec
from fairbench.study.record import Series, encode
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("shocks")


def shock(kind, **options):
    return KINDS[kind](torch.Generator().manual_seed(3), **{**SHOCKS[kind].options, **options})


def batch():
    return torch.randn(64, 1, 2, 2), torch.arange(64)


@pytest.mark.parametrize(
    ("spec", "steps", "expected"),
    [
        ({}, 40, set()),
        ({"kind": "nan", "at": [0.5]}, 40, {21}),
        ({"kind": "loss", "at": [0.25, 0.5], "steps": 3}, 40, {11, 12, 13, 21, 22, 23}),
        ({"kind": "loss", "at": [0.99], "steps": 3}, 40, set()),
        ({"kind": "loss", "at": [0.95], "steps": 3}, 40, {39, 40}),
        ({"kind": "loss", "at": [0.0], "steps": 1}, 40, {1}),
    ],
)
def test_the_disturbed_steps(spec, steps, expected):
    assert disturbed_steps(spec, steps) == expected


def test_inputs_and_losses_are_multiplied():
    images, labels = batch()
    shown = shock("inputs", factor=7.0).examples((images, labels))
    assert torch.equal(shown[0], 7 * images)
    assert torch.equal(shown[1], labels)
    assert shock("loss").loss(torch.tensor(2.0)).item() == 200.0
    assert shock("nan").loss(torch.tensor(2.0)).isnan()


def test_labels_and_the_tokens_of_texts_are_shuffled():
    images, labels = batch()
    shown = shock("labels").examples((images, labels))
    assert torch.equal(shown[0], images)
    assert torch.equal(shown[1].sort().values, labels)
    assert (shown[1] != labels).sum() > 50
    texts = torch.arange(64)[:, None] * 100 + torch.arange(5)
    (torn,) = shock("labels").examples((texts,))
    assert torch.equal(torn.sort(dim=0).values, texts)
    assert len({tuple((row // 100).tolist()) for row in torn}) == 64
    assert all(len(set((row // 100).tolist())) > 1 for row in torn)


def test_heavy_tail_is_a_pareto_number():
    """P(X > x) = x^-tail."""
    tail = shock("heavy-tail", tail=1.5)
    drawn = torch.stack([tail.loss(torch.tensor(1.0)) for _ in range(4000)])
    assert drawn.min() >= 1
    for x in (2.0, 5.0, 10.0):
        assert (drawn > x).double().mean().item() == pytest.approx(x**-1.5, abs=0.02)


def test_a_gradient_keeps_only_a_multiple_of_its_norm():
    p, unused = torch.nn.Parameter(torch.zeros(50)), torch.nn.Parameter(torch.zeros(2))
    p.grad = before = torch.randn(50)
    kept = before.clone()
    shock("gradient", factor=3.0).gradients([p, unused])
    assert p.grad is not None
    assert p.grad.norm().item() == pytest.approx(3 * kept.norm().item(), rel=1e-5)
    assert abs(torch.cosine_similarity(p.grad, kept, dim=0).item()) < 0.5
    assert unused.grad is None


def disturbed(spec, **options):
    training = replace(spec.training, shock=options, steps=20, log_every=5, evaluations=1)
    return replace(spec, stage="final", training=training)


@pytest.fixture
def spec(tiny_study):
    return trial_spec(tiny_study, "vit", "PsiLogic", "final", 1e-3, 1)


@pytest.mark.parametrize("kind", SHOCKS)
def test_a_trial_is_the_calm_one_until_it_begins(spec, kind):
    calm = trial(disturbed(spec))
    shocked = trial(disturbed(spec, kind=kind, at=[0.5], steps=2))
    assert shocked.result.hashes.initial_weights == calm.result.hashes.initial_weights
    losses, calm_losses = (x.details.loss_curve.values["loss"] for x in (shocked, calm))
    assert losses[:2] == calm_losses[:2]
    assert losses[-1] != calm_losses[-1]
    encode(disturbed(spec), shocked)  # all numbers are finite, also of what diverged
    if kind == "nan":
        assert (shocked.status, shocked.result.steps) == ("diverged", 15)
        assert [*shocked.details.mechanism.course.steps] == [5, 10]
    else:
        assert shocked.status == "finished"
        assert shocked.result.hashes.batches == calm.result.hashes.batches


def test_the_loss_of_a_spoiled_step_is_left_out(spec):
    """Steps 6 to 10 are one window, which has no loss; a multiplied loss is recorded before the multiplication."""
    windows = {
        kind: [*trial(disturbed(spec, kind=kind, at=[0.25], steps=5)).details.loss_curve.steps]
        for kind in ("inputs", "loss")
    }
    assert windows == {"inputs": [5, 15, 20], "loss": [5, 10, 15, 20]}


SHOCKED = f"""
{TINY}
[shock.spike]
kind = "loss"
at = [0.5]
steps = 2

[shock.scaled]
kind = "inputs"
at = [0.5]
"""


def test_every_arena_gets_a_twin_for_each_shock(tmp_path):
    suite = load_suite(str(write_tiny(tmp_path, SHOCKED)))
    assert list(suite.arenas) == ["vit", "vit-spike", "vit-scaled"]
    twin = suite.arenas["vit-spike"]
    assert (suite.task("vit-spike"), twin.tuning_arena) == ("vit", "vit")
    assert twin.shock == {"kind": "loss", "at": [0.5], "steps": 2}
    assert parse_suite(suite.to_json(), "again") == suite


def test_excess_loss_by_hand():
    calm, disturbed_by = {5: 3.0, 10: 2.0, 15: 1.5, 20: 1.0}, {5: 3.0, 15: 4.5, 20: 1.0}
    assert excess(disturbed_by, calm, start=7) == (15 - 7) * 3.0
    assert excess({**disturbed_by, 10: 6.0}, calm, start=7) == 3 * 4.0 + 5 * 3.0


def test_recovery_by_hand():
    calm = dict.fromkeys((10, 20, 30, 40, 50, 60), 1.0)
    loss = {10: 1.0, 20: 9.0, 30: 1.04, 40: 3.0, 50: 2.0, 60: 1.06}
    assert recoveries(loss, calm, [15, 35]) == [(15, True), (25, False)]
    assert recoveries({**loss, 60: 1.0}, calm, [15, 35]) == [(15, True), (25, True)]
    assert recoveries({10: -2.0, 20: -1.0, 30: -1.95}, dict.fromkeys((10, 20, 30), -2.0), [10]) == [(20, True)]


def test_what_shocks_cost(tmp_path):
    """Relative to the undisturbed trial of the same seed; lost accuracy is positive if the shock is harmful."""
    study = study_of(load_suite(str(write_tiny(tmp_path, SHOCKED))))

    def edits(x):
        harm = bool(x.training.shock) * (0.2 * x.seed if x.optimizer.name == "AdamW" else 0.0)
        metrics = {"accuracy": 0.9 - harm, "loss": 1.0}
        curve = Series((10, 20, 30, 40), {"loss": (1.0, 0.8, 0.6 + harm, 0.5)})
        return {"result.final": {"val": metrics, "test": metrics}, "details.loss_curve": curve}

    analyses = analysed(study, Records(study, recorded(edits)))
    rows = {(x.arena, x.optimizer): x for x in shock_costs(analyses)}
    assert list(rows) == [(arena, name) for arena in ("vit-spike", "vit-scaled") for name in ("AdamW", "PsiLogic")]
    shocked = rows["vit-spike", "AdamW"]
    assert (shocked.calm, shocked.n, shocked.diverged, shocked.recovery, shocked.recovered) == ("vit", 2, 0, 20, 1.0)
    assert shocked.excess == pytest.approx(10 * (0.2 + 0.4) / 2)
    assert shocked.lost == pytest.approx(0.3)
    assert (shocked.lost_low, shocked.lost_high) == pytest.approx((0.3 - 12.706 * 0.1, 0.3 + 12.706 * 0.1), rel=1e-3)
    assert shocked.note == ""
    same = rows["vit-spike", "PsiLogic"]
    assert (same.lost, same.lost_low, same.lost_high, same.note) == (0.0, None, None, "no seed differs")
