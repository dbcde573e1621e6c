"""Shocks have their stated effect, at the stated steps; twins of arenas; the cost of shocks."""

from dataclasses import replace

import pytest
import torch
from fabricated import Records, analysed, recorded
from tiny import TINY, study_of, write_tiny

from fairbench.analysis.comparison.shocks import excess, recoveries, shock_costs
from fairbench.arenas.shocks.kinds import KINDS
from fairbench.arenas.shocks.registry import SHOCKS, disturbed_steps
from fairbench.study.planned_trial import trial_spec
from fairbench.study.record import Series, encode
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("shocks")


def shock(kind, **options):
    every_option = {**SHOCKS[kind].options, **options}
    return KINDS[kind](torch.Generator().manual_seed(3), **every_option)


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
    shown_images, shown_labels = shock("inputs", factor=7.0).examples((images, labels))
    assert torch.equal(shown_images, 7 * images)
    assert torch.equal(shown_labels, labels)
    assert shock("loss").loss(torch.tensor(2.0)).item() == 200.0
    assert shock("nan").loss(torch.tensor(2.0)).isnan()


def test_labels_are_shuffled():
    images, labels = batch()
    shown_images, shown_labels = shock("labels").examples((images, labels))
    assert torch.equal(shown_images, images)
    assert torch.equal(shown_labels.sort().values, labels)
    assert (shown_labels != labels).sum() > 50


def test_the_tokens_of_texts_are_shuffled_at_each_position():
    texts = torch.arange(64)[:, None] * 100 + torch.arange(5)
    (shuffled,) = shock("labels").examples((texts,))
    assert torch.equal(shuffled.sort(dim=0).values, texts)
    origins = [tuple(row) for row in (shuffled // 100).tolist()]
    assert len(set(origins)) == 64
    assert all(len(set(row)) > 1 for row in origins)


def test_heavy_tail_is_a_pareto_number():
    """P(X > x) = x^-tail."""
    tail = shock("heavy-tail", tail=1.5)
    drawn = torch.stack([tail.loss(torch.tensor(1.0)) for _ in range(4000)])
    assert drawn.min() >= 1
    for x in (2.0, 5.0, 10.0):
        share = (drawn > x).double().mean().item()
        assert share == pytest.approx(x**-1.5, abs=0.02)


def test_a_gradient_keeps_only_a_multiple_of_its_norm():
    p = torch.nn.Parameter(torch.zeros(50))
    unused = torch.nn.Parameter(torch.zeros(2))
    p.grad = torch.randn(50)
    kept = p.grad.clone()
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
    losses = shocked.details.loss_curve.values["loss"]
    calm_losses = calm.details.loss_curve.values["loss"]
    assert losses[:2] == calm_losses[:2]
    assert losses[-1] != calm_losses[-1]
    encode(disturbed(spec), shocked)  # all numbers are finite, also of what diverged
    if kind == "nan":
        assert shocked.status == "diverged"
        assert shocked.result.steps == 15
        assert [*shocked.details.mechanism.course.steps] == [5, 10]
    else:
        assert shocked.status == "finished"
        assert shocked.result.hashes.batches == calm.result.hashes.batches


def test_the_loss_of_a_spoiled_step_is_left_out(spec):
    """Steps 6 to 10 are one window, which has no loss; a multiplied loss is recorded before the multiplication."""
    inputs = trial(disturbed(spec, kind="inputs", at=[0.25], steps=5))
    assert [*inputs.details.loss_curve.steps] == [5, 15, 20]
    loss = trial(disturbed(spec, kind="loss", at=[0.25], steps=5))
    assert [*loss.details.loss_curve.steps] == [5, 10, 15, 20]


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
    assert suite.task("vit-spike") == "vit"
    assert twin.tuning_arena == "vit"
    assert twin.shock == {"kind": "loss", "at": [0.5], "steps": 2}
    assert parse_suite(suite.to_json(), "again") == suite


def test_excess_loss_by_hand():
    calm = {5: 3.0, 10: 2.0, 15: 1.5, 20: 1.0}
    shocked = {5: 3.0, 15: 4.5, 20: 1.0}
    assert excess(shocked, calm, start=7) == (15 - 7) * 3.0
    assert excess({**shocked, 10: 6.0}, calm, start=7) == 3 * 4.0 + 5 * 3.0


def test_recovery_by_hand():
    calm = dict.fromkeys((10, 20, 30, 40, 50, 60), 1.0)
    loss = {10: 1.0, 20: 9.0, 30: 1.04, 40: 3.0, 50: 2.0, 60: 1.06}
    assert recoveries(loss, calm, [15, 35]) == [(15, True), (25, False)]
    assert recoveries({**loss, 60: 1.0}, calm, [15, 35]) == [(15, True), (25, True)]
    negative = {10: -2.0, 20: -1.0, 30: -1.95}
    assert recoveries(negative, dict.fromkeys(negative, -2.0), [10]) == [(20, True)]


def test_what_shocks_cost(tmp_path):
    """Relative to the undisturbed trial of the same seed; lost accuracy is positive if the shock is harmful."""
    study = study_of(load_suite(str(write_tiny(tmp_path, SHOCKED))))

    def edits(spec):
        harm = 0.0
        if spec.training.shock and spec.optimizer.name == "AdamW":
            harm = 0.2 * spec.seed
        metrics = {"accuracy": 0.9 - harm, "loss": 1.0}
        curve = Series((10, 20, 30, 40), {"loss": (1.0, 0.8, 0.6 + harm, 0.5)})
        return {"result.final": {"val": metrics, "test": metrics}, "details.loss_curve": curve}

    analyses = analysed(study, Records(study, recorded(edits)))
    costs = {(cost.arena, cost.optimizer): cost for cost in shock_costs(analyses)}
    assert list(costs) == [
        ("vit-spike", "AdamW"),
        ("vit-spike", "PsiLogic"),
        ("vit-scaled", "AdamW"),
        ("vit-scaled", "PsiLogic"),
    ]
    shocked = costs["vit-spike", "AdamW"]
    assert shocked.undisturbed == "vit"
    assert shocked.n == 2
    assert shocked.diverged == 0
    assert shocked.recovery == 20
    assert shocked.recovered == 1.0
    assert shocked.excess == pytest.approx(10 * (0.2 + 0.4) / 2)
    assert shocked.lost == pytest.approx(0.3)
    assert shocked.lost_low == pytest.approx(0.3 - 12.706 * 0.1, rel=1e-3)
    assert shocked.lost_high == pytest.approx(0.3 + 12.706 * 0.1, rel=1e-3)
    assert shocked.note == ""

    same = costs["vit-spike", "PsiLogic"]
    assert same.lost == 0.0
    assert same.lost_low is None
    assert same.lost_high is None
    assert same.note == "no seed differs"
