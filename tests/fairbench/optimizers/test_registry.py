"""The registry's facts, each measured on a model with all kinds of tensors; groups, hypergradients, packages."""

import sys
from pathlib import Path

import fabricated
import pytest
import torch
from tiny import install
from torch import Tensor, nn

from fairbench.common.errors import UsageError
from fairbench.optimizers.building import build_optimizer
from fairbench.optimizers.factories import load_factory
from fairbench.optimizers.needs import METHODS, NEEDS
from fairbench.optimizers.registry import OPTIMIZERS, known_optimizers
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.optimizers.treatments import decay_kind
from fairbench.suites.loader import load_suite
from fairbench.training.optimizer_needs import OptimizerNeeds

pytestmark = pytest.mark.xdist_group("registry")
TRAINING = fabricated.training()
SLOW = ("Kron", "RAdam")
"""Optimizers that are slow in the first 30 steps at the middle of their grid."""


class Net(nn.Module):
    """An embedding, a convolution, norms, attention, a hidden matrix and a head."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 8)
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.LayerNorm(8)
        self.attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.hidden = nn.Linear(8, 12, bias=False)
        self.head = nn.Linear(12, 4)

    def forward(self, tokens, images):
        mixed = self.table(tokens) + self.conv(images).flatten(2).mT
        attended = self.attention(self.norm(mixed))
        return self.head(self.hidden(attended.mean(1)))


def built(name, model, lr, **options):
    resolved = resolve_optimizer(name, OptimizerPlan(options=options))
    optimizer = build_optimizer(resolved.spec("vit", {"lr": lr}, 40), model)
    return optimizer, OptimizerNeeds(optimizer, resolved.needs, TRAINING)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_trains_and_has_the_stated_state(name):
    torch.manual_seed(0)
    facts = OPTIMIZERS[name]
    model = Net()
    tokens = torch.randint(0, 16, (32, 16))
    images = torch.randn(32, 1, 4, 4)
    optimizer, needs = built(name, model, rate_of(name))
    losses = []
    for _ in range(30):
        needs.switch("train")
        with needs.kernels():
            loss = nn.functional.cross_entropy(model(tokens, images), tokens[:, 0] % 4)
        loss.backward(create_graph=needs.create_graph)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if facts.lr is None:  # an estimate of the rate takes longer
        assert losses[-1] < losses[0] - 0.01
    assert torch.tensor(losses).isfinite().all()

    hidden = list(tensors(optimizer.state[model.hidden.weight]))
    head = list(tensors(optimizer.state[model.head.weight]))
    assert numbers_for_each_weight(hidden, model.hidden.weight) == facts.state
    has_factors = any(x.numel() not in (1, 96) or x.dtype == torch.bool for x in hidden)
    differs = numbers_for_each_weight(head, model.head.weight) != facts.state
    assert (has_factors or differs) == bool(facts.factors)


def rate_of(name):
    """A learning rate at which an optimizer trains the small model in a few steps."""
    facts = OPTIMIZERS[name]
    if facts.lr:
        return facts.lr
    if name in SLOW:
        return 1e-2
    return 1e-3 * facts.lr_scale


def numbers_for_each_weight(state, p):
    """The number of floating-point tensors in a state that have the size of the parameter."""
    return sum(x.numel() == p.numel() and x.is_floating_point() for x in state)


def tensors(value):
    """The tensors in a state, at any depth."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)
    elif hasattr(value, "__dict__"):
        yield from tensors(vars(value))


def relative_change(name, scale, decay):
    """The relative decrease of a weight in its first step, at a rate so small that only the decay matters."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).double()
    weight = model[0].weight
    curvature = torch.rand(4, 4, dtype=torch.float64) + 0.5
    options = {"weight_decay": decay}
    if OPTIMIZERS[name].lr:  # it estimates the rate from this one
        options["d0"] = 1.0
    optimizer, needs = built(name, model, 1e-9, **options)
    needs.switch("train")
    start = weight.detach().clone()
    for _ in range(2):  # some only create their state in the first step
        optimizer.zero_grad()
        squares = []
        for p in model.parameters():
            factor = curvature if p is weight else 1
            squares.append((p**2 * factor).sum())
        loss = scale * sum(squares)
        loss.backward(create_graph=needs.create_graph)
        optimizer.step()
        if not torch.equal(weight, start):
            break
    return ((start - weight) / start).detach()


@pytest.mark.parametrize("name", [name for name, facts in OPTIMIZERS.items() if facts.decay != "none"])
def test_a_decoupled_decay_is_lr_times_decay_for_any_gradient(name):
    torch.manual_seed(0)
    changes = torch.stack([relative_change(name, scale, 5e5) for scale in (1e-3, 3.0)])
    is_decoupled = torch.allclose(changes, torch.full_like(changes, 5e-4), rtol=0.02)
    assert OPTIMIZERS[name].decay == ("decoupled" if is_decoupled else "coupled")
    resolved = resolve_optimizer(name, OptimizerPlan())
    assert decay_kind(resolved.factory, resolved.options) == OPTIMIZERS[name].decay


@pytest.mark.parametrize("name", [name for name, facts in OPTIMIZERS.items() if facts.options])
def test_options_of_the_registry_are_not_the_defaults(name):
    import inspect

    facts = OPTIMIZERS[name]
    defaults = inspect.signature(load_factory(facts.factory)).parameters
    assert all(defaults[option].default != value for option, value in facts.options.items())


def test_hidden_matrices_are_those_between_embedding_and_head():
    """SCION's step for the head is 60 signs over the number of inputs."""
    from fairbench.optimizers.matrix_groups import hidden_and_rest, norms  # which loads pytorch_optimizer

    model = Net()
    group = hidden_and_rest(model)[0]
    assert group["use_muon"] is True
    hidden = {id(p) for p in group["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in hidden}
    assert names == {
        "conv.weight",
        "hidden.weight",
        "attention.self_attn.in_proj_weight",
        "attention.self_attn.out_proj.weight",
        "attention.linear1.weight",
        "attention.linear2.weight",
    }

    scion = load_factory(OPTIMIZERS["SCION"].factory)(norms(model), lr=0.1)
    start = model.head.weight.detach().clone()
    model.head.weight.grad = torch.randn_like(start)
    scion.step()
    signs = model.head.weight.grad.sign()
    torch.testing.assert_close(start - model.head.weight, 0.1 * 60 / 12 * signs)


def test_muon_is_torch_s_on_hidden_matrices_and_adamw_on_the_rest():
    """Equal up to bfloat16, in which both orthogonalize."""
    torch.manual_seed(0)
    ours = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    theirs = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    theirs.load_state_dict(ours.state_dict())
    optimizer, _ = built("Muon", ours, 1e-2, weight_decay=0.1)
    scheduled = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    hidden = torch.optim.Muon([theirs[0].weight], 1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    rest = torch.optim.AdamW([theirs[0].bias, *theirs[1].parameters()], 1e-2, weight_decay=0.1, eps=1e-10)
    for step in range(4):
        x = torch.randn(8, 8)
        for model in (ours, theirs):
            model.zero_grad()
            model(x).square().mean().backward()
        for group in (*hidden.param_groups, *rest.param_groups):
            group["lr"] = 1e-2 / (step + 1)
        for each in (optimizer, hidden, rest, scheduled):
            each.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-2, atol=2e-4)


def test_adam_hd_by_hand():
    """The rate grows by hyper_lr times the gradient along the last direction."""
    torch.manual_seed(0)
    start = torch.randn(5, dtype=torch.float64)
    gradients = torch.randn(6, 5, dtype=torch.float64)
    weights = nn.Parameter(start.clone())
    optimizer = load_factory(OPTIMIZERS["AdamHD"].factory)([weights], lr=0.01, hyper_lr=1e-3)
    expected = start.clone()
    rate = 0.01
    first = torch.zeros(5, dtype=torch.float64)
    second = torch.zeros(5, dtype=torch.float64)
    direction = torch.zeros(5, dtype=torch.float64)
    for t, grad in enumerate(gradients, start=1):
        weights.grad = grad.clone()
        optimizer.step()
        rate += 1e-3 * float(grad @ direction)
        first = 0.9 * first + 0.1 * grad
        second = 0.999 * second + 0.001 * grad**2
        unbiased_first = first / (1 - 0.9**t)
        unbiased_second = second / (1 - 0.999**t)
        direction = unbiased_first / (unbiased_second**0.5 + 1e-8)
        expected = expected - rate * direction
    torch.testing.assert_close(weights.detach(), expected)
    assert abs(rate - 0.01) > 1e-4


def test_the_suite_has_every_optimizer_with_the_same_decay_in_a_step():
    suite = load_suite("zoo")
    assert suite.optimizers.keys() == OPTIMIZERS.keys()
    for name, plan in suite.optimizers.items():
        resolved = resolve_optimizer(name, plan)
        if OPTIMIZERS[name].decay == "decoupled":
            assert resolved.options["weight_decay"] * resolved.lr_scale == pytest.approx(0.01, rel=1e-5)


@pytest.mark.usefixtures("forgetful")
def test_an_installed_package_registers_optimizers(tmp_path, monkeypatch, capsys):
    from fairbench.cli.main import main

    install(tmp_path, "theirs", "fairbench.optimizers", Theirs="torch.optim:Adamax", AdamW="torch.optim:SGD")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with pytest.warns(UserWarning, match="'AdamW' of theirs is ignored, since it is torch.optim:AdamW already"):
        known = known_optimizers()
    assert known["Theirs"].factory == "torch.optim:Adamax"
    assert known["AdamW"] == OPTIMIZERS["AdamW"]
    assert resolve_optimizer("Theirs", OptimizerPlan()).options["betas"] == [0.9, 0.999]
    main(["list"])
    assert "Theirs" in capsys.readouterr().out


def test_a_missing_library_is_named_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "schedulefree", None)
    with pytest.raises(UsageError, match=r"schedulefree.*pip install '.\[zoo\]'"):
        resolve_optimizer("ScheduleFree", OptimizerPlan())


PAGE = Path(__file__).parents[3] / "docs/optimizers.md"


def row(name):
    """An optimizer's row in docs/optimizers.md."""
    facts = OPTIMIZERS[name]
    options = ", ".join(f"`{key}={value}`" for key, value in facts.options.items())
    rate = "its own" if facts.lr else f"x {facts.lr_scale:g}"
    needs = ", ".join(f"`{need}`" for need in facts.needs)
    state = str(facts.state)
    if facts.factors:
        state = f"{facts.state}, {facts.factors}"
    cells = [name, f"`{facts.factory}`", facts.decay, options, rate, needs, state, facts.reference]
    return f"| {' | '.join(cells)} |"


def test_the_document_has_the_registry():
    lines = PAGE.read_text().splitlines()
    head = next(line for line in lines if line.startswith("| name |"))
    first = lines.index(head) + 2
    assert lines[first : first + len(OPTIMIZERS)] == [row(name) for name in OPTIMIZERS]
    for need, words in {**NEEDS, **METHODS}.items():
        assert f"| `{need}` | {words} |" in lines
