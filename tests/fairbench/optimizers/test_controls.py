"""Control arms against their formulas; clipping and groups of a single arm."""

from dataclasses import replace

import pytest
import torch
from tiny import TINY, study_of, write_tiny
from torch import nn

from fairbench.arenas.registry import ARENAS, load_arena
from fairbench.data.loading import load_source
from fairbench.optimizers.controls import Mirror, SlowNormClip, field_groups
from fairbench.study.planned_trial import trial_spec
from fairbench.suites.loader import load_suite
from fairbench.training.trial import trial
from psilogic import PsiLogic

pytestmark = pytest.mark.xdist_group("controls")


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double()


def spiking(model, step):
    """Set gradients in which single tensors have spikes of a hundred times the usual size."""
    generator = torch.Generator().manual_seed(step)
    for i, p in enumerate(model.parameters()):
        p.grad = torch.randn(p.shape, generator=generator, dtype=p.dtype)
        if (step + i) % 7 == 0:
            p.grad *= 100.0


def test_mirror_spreads_the_same_sum_evenly():
    """In each step from the same weights, PsiLogic's cancellation is replaced by its mean over tensors."""
    options = {"lr": 0.01, "gamma": 3.0, "chaos_warmup": 0, "weight_decay": 0.1}
    model = net()
    plain = PsiLogic(model.parameters(), **options)
    mirrored = net()
    mirror = Mirror(mirrored.parameters(), **options)
    watch = plain.mechanism(model.named_parameters())
    names = [name for name, _ in model.named_parameters()]
    total = dict.fromkeys(names, 0.0)
    steps_with_a_choice = 0
    for step in range(1, 30):
        start = [p.detach().clone() for p in mirrored.parameters()]
        with torch.no_grad():
            for p, weights in zip(model.parameters(), start, strict=True):
                p.copy_(weights)
        spiking(mirrored, step)
        mirror.step()
        spiking(model, step)
        plain.step()

        _, new_total = watch.quantities()["cancellation"]
        cancelled = [new_total[name] - total[name] for name in total]
        mean = sum(cancelled) / len(cancelled)
        total = dict(new_total)
        if len(set(cancelled)) > 1:
            steps_with_a_choice += 1
        parts = zip(mirrored.parameters(), model.parameters(), start, cancelled, strict=True)
        for p, q, weights, share in parts:
            expected = q.detach() + (share - mean) * weights
            torch.testing.assert_close(p.detach(), expected, rtol=1e-12, atol=1e-14)
    assert steps_with_a_choice > 10


def test_slow_norm_clip_by_hand():
    p = nn.Parameter(torch.zeros(4))
    clip = SlowNormClip([p], lr=0.1, ratio=2.0)
    slow = 1.0  # the first norm
    watch = clip.mechanism([("p", p)])
    for i, norm in enumerate([1.0, 1.0, 50.0, 0.0, 1.5]):
        p.grad = torch.tensor([norm, 0.0, 0.0, 0.0])
        clip.step()
        allowed = min(norm, 2.0 * slow)
        slow = 0.99 * slow + 0.01 * allowed
        assert p.grad.norm().item() == pytest.approx(allowed), i
    assert watch.quantities()["acted"] == ("tensor steps", {"p": 1.0})
    p.grad = torch.tensor([float("inf"), 0.0, 0.0, 0.0])
    clip.step()
    p.grad = torch.tensor([100.0, 0.0, 0.0, 0.0])
    clip.step()
    assert p.grad.norm().item() == pytest.approx(2 * slow)
    with pytest.raises(ValueError, match="ratio must be positive, got 0"):
        SlowNormClip([p], ratio=0.0)


def number_of_weights(parameters):
    return sum(p.numel() for p in parameters)


@pytest.mark.parametrize("arena", ARENAS)
def test_every_arena_has_groups_of_its_field(arena, tmp_path):
    plan = load_suite("mini").arenas[arena]
    model = load_arena(arena).build_model(load_source(plan.data, tmp_path), **plan.model)
    groups = field_groups(model)
    grouped = 0
    for group in groups:
        grouped += number_of_weights(group["params"])
        assert "gamma" not in group  # otherwise an arm with gamma = 0 would have the chaos term
    assert grouped == number_of_weights(model.parameters())
    assert {group.get("weight_decay") for group in groups} == {0.0, None}


def suite_with(tmp_path, more):
    return load_suite(str(write_tiny(tmp_path, f"{TINY}\n{more}")))


def test_an_arm_has_its_own_clipping_and_groups(tmp_path):
    suite = suite_with(
        tmp_path,
        """
        [optimizers.Tight]
        factory = "torch.optim:AdamW"
        clip_norm = 0.001
        [optimizers.Grouped]
        factory = "torch.optim:AdamW"
        groups = "fairbench.optimizers.controls:field_groups"
        options = { weight_decay = 0.01 }
        [optimizers.Mirror]
        factory = "fairbench.optimizers.controls:Mirror"
        """,
    )
    study = study_of(suite)
    found = {}
    for name in suite.optimizers:
        spec = trial_spec(study, "vit", name, "final", 1e-2, 1)
        training = replace(spec.training, steps=6, evaluations=1)
        found[name] = trial(replace(spec, training=training)).result
    assert found["Tight"].clip_rate == 1.0
    assert found["AdamW"].clip_rate == 0.0
    weights = {result.hashes.final_weights for result in found.values()}
    assert len(weights) == len(found)
    assert "fairbench.optimizers.controls" in study.optimizers["Mirror"].code
    assert "psilogic.models.groups" in study.optimizers["Grouped"].code
    assert "psilogic.models.groups" not in study.optimizers["AdamW"].code
