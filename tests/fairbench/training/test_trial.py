"""A trial against a bare training loop that shares no code with it, and its record."""

import copy
import hashlib
import math
from dataclasses import replace
from functools import partial

import msgspec
import pytest
import torch
from tiny import study_of

from fairbench.arenas.registry import ARENAS
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.study.plan import arms
from fairbench.study.planned_trial import trial_spec
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trainer import Trainer
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("trial")


@pytest.fixture
def specs(tiny_study):
    """The sweep's trials: AdamW and PsiLogic at 1e-3 and 1e-2."""
    planned = []
    for arm in arms(tiny_study, lambda spec: None):
        planned += arm.sweep
    return planned


def as_final(spec):
    return replace(spec, stage="final", seed=1, training=replace(spec.training, steps=40, evaluations=2))


def bare_loop(spec):
    """The same training, written by hand."""
    from sklearn.datasets import load_digits
    from transformers import ViTConfig, ViTForImageClassification

    images, labels = load_digits(return_X_y=True)
    inputs = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 8 - 1
    order = torch.randperm(1797, generator=torch.Generator().manual_seed(20_260_101))[2 * 449 :]
    inputs = inputs[order]
    labels = torch.tensor(labels)[order]

    torch.manual_seed(spec.seed)
    config = ViTConfig(
        image_size=8,
        patch_size=4,
        num_channels=1,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=10,
    )
    model = ViTForImageClassification(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=spec.lr, weight_decay=0.01)
    shuffled = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(spec.seed))
    batches = shuffled.split(16)
    steps = spec.training.steps
    losses = []
    for step in range(steps):
        factor = 0.5 * (1 + math.cos(math.pi * (step - 2) / (steps - 2)))
        if step < 2:  # the warm-up
            factor = (step + 1) / 2
        optimizer.param_groups[0]["lr"] = spec.lr * factor
        batch = batches[step]
        with torch.autocast("cpu", torch.bfloat16, enabled=spec.training.precision == "bfloat16"):
            logits = model(inputs[batch]).logits
            loss = torch.nn.functional.cross_entropy(logits, labels[batch])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return model, losses


def sha_of(model):
    sha = hashlib.sha256()
    for name, value in model.state_dict().items():
        sha.update(name.encode() + value.numpy().tobytes())
    return sha.hexdigest()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_trial_is_the_bare_training_loop_bit_by_bit(specs, precision):
    spec = as_final(specs[0])
    spec = replace(spec, training=replace(spec.training, precision=precision))
    record = trial(spec)
    model, losses = bare_loop(spec)
    assert record.result.hashes.final_weights == sha_of(model)
    windows = torch.tensor(losses).view(-1, 5).mean(dim=1).tolist()
    last_steps = range(5, len(losses) + 1, 5)
    assert [*record.details.loss_curve.points("loss")] == [*zip(last_steps, windows, strict=True)]


def test_optimizers_get_identical_weights_batches_and_noise(specs):
    adamw, psilogic = (trial(spec).result.hashes for spec in specs if spec.lr == 1e-3)
    assert adamw.final_weights != psilogic.final_weights
    assert msgspec.structs.replace(adamw, final_weights=psilogic.final_weights) == psilogic
    other_seed = trial(replace(specs[0], seed=9)).result.hashes
    assert not {*msgspec.structs.astuple(adamw)} & {*msgspec.structs.astuple(other_seed)}


def test_only_a_final_trial_reads_the_test_split(specs):
    assert set(trial(specs[0]).result.final) == {"val"}
    whole = trial(as_final(specs[0]))
    final = whole.result.final
    evaluations = whole.details.evaluations
    assert set(final) == {"val", "test"}
    assert [*evaluations.steps] == [20, 40]
    assert {name: values[-1] for name, values in evaluations.values.items()} == final["val"]
    assert final["val"] != final["test"]


def with_optimizer(spec, factory):
    resolved = resolve_optimizer("Own", OptimizerPlan(factory=factory))
    return replace(spec, optimizer=resolved.spec("vit", {"lr": spec.lr}, spec.training.steps))


def test_divergence_is_a_result(specs, monkeypatch, tiny_file):
    monkeypatch.syspath_prepend(tiny_file.parent)
    record = trial(with_optimizer(specs[0], "own_optimizers:Explodes"))
    assert record.status == "diverged"
    assert record.result.final is None
    assert record.result.steps == 5
    assert not record.details.loss_curve.steps


def test_the_mechanism_is_recorded(specs):
    spec = as_final(next(spec for spec in specs if spec.optimizer.name == "PsiLogic"))
    record = trial(spec)
    mechanism = record.details.mechanism
    totals = mechanism.totals
    tensors = len(mechanism.tensors["acted"])
    # EMAs from zero keep the gate open for 68 steps
    assert totals["tensor_steps"] == tensors * spec.training.steps
    assert totals["acted"] == totals["tensor_steps"]
    assert totals["fired"] == totals["tensor_steps"]
    assert 0 < totals["cancellation"] < totals["weight_decay"]
    assert mechanism.course.steps == record.details.loss_curve.steps
    for name, total in totals.items():
        assert sum(mechanism.course.values[name]) == pytest.approx(total)
        assert sum(mechanism.tensors[name].values()) == pytest.approx(total)
    asleep = copy.deepcopy(spec.to_json())
    asleep["optimizer"]["options"]["chaos_warmup"] = -1
    totals = trial(TrialSpec.from_json(asleep)).details.mechanism.totals
    assert totals["acted"] == totals["cancellation"] == 0.0
    adamw = trial(as_final(specs[0]))
    assert adamw.details.mechanism is None
    assert adamw.result.path_length > 0


def test_the_path_length_of_the_weights_by_hand(specs):
    """Sampled in every step, it is the sum of the lengths of all changes."""
    sgd = with_optimizer(as_final(specs[0]), "torch.optim:SGD")
    spec = replace(sgd, training=replace(sgd.training, log_every=1, steps=6, evaluations=1, warmup_steps=1))
    training = Trainer(spec, DeviceSlot())
    length = 0.0
    for step in range(1, 7):
        before = [p.detach().clone() for p in training.params]
        training.train_one_step(step)
        for p, earlier in zip(training.params, before, strict=True):
            length += float((p.detach() - earlier).norm())
    assert trial(spec).result.path_length == pytest.approx(length, rel=1e-5)


@pytest.mark.soak  # psilogic/test_compile.py compiles a step in every run
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_compiled_trials_compile_model_and_step_and_train_alike(specs, monkeypatch, backend):
    """The graphs that `torch.compile` captures run uncompiled, in seconds; compiled code takes half a minute."""
    operations = set()

    def compile(graph, inputs):
        operations.update(str(node.target) for node in graph.graph.nodes)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    spec = replace(specs[0], training=replace(specs[0].training, steps=2, log_every=1))
    plain = trial(spec)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=compile))
    try:
        compiled = trial(replace(spec, training=replace(spec.training, compile=True)))
    finally:
        torch._dynamo.reset()
    assert any("scaled_dot_product_attention" in name for name in operations)
    assert any("addcdiv" in name for name in operations)
    losses = compiled.details.loss_curve.values["loss"]
    expected = plain.details.loss_curve.values["loss"]
    assert [*losses] == pytest.approx([*expected], rel=1e-5)
    assert compiled.result.final["val"] == pytest.approx(plain.result.final["val"], rel=1e-5)
    assert compiled.result.hashes.batches == plain.result.hashes.batches


LARGER = ("resnet", "ddpm")
"""The other two learn by the same loop, and these models are compared with the libraries' bit by bit."""


@pytest.mark.parametrize(
    "arena", [pytest.param(arena, marks=pytest.mark.soak if arena in LARGER else ()) for arena in ARENAS]
)
def test_mini_learns_in_every_arena(arena):
    overrides = Overrides(arenas=[arena], optimizers=["PsiLogic"], reference="PsiLogic")
    suite = load_suite("mini", overrides)
    spec = trial_spec(study_of(suite), arena, "PsiLogic", "sweep", 1e-3, seed=0)
    record = trial(replace(spec, training=replace(spec.training, steps=16, log_every=8)))
    assert record.status == "finished"
    (_, early), (_, late) = record.details.loss_curve.points("loss")
    assert late < early
