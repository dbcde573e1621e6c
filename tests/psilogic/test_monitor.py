"""The monitor: its numbers are the optimizer's, and its log names the tensors that spiked."""

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from configurations import CONFIGURATIONS, STEPS, assert_same, trace
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from trajectories import gradients, ones_for, parameters, train, watch

from psilogic import PsiLogic, monitor, monitor_record

NAMES = ["scalar", "empty", "vector", "matrix", "hollow", "kernel"]


@pytest.mark.parametrize("name", ["defaults", "absolute gate", "relative", "everything but clipping", "max_grad_norm"])
def test_watching_changes_no_bit(name: str) -> None:
    """Without a monitor, a step in which nothing fires decides no more than it needs; some steps have spikes."""
    script = gradients(STEPS, every=15)
    unwatched_params = parameters()
    unwatched = trace(PsiLogic(unwatched_params, **CONFIGURATIONS[name]), unwatched_params, script)
    params = parameters()
    optimizer = PsiLogic(params, **CONFIGURATIONS[name])
    seen = watch(optimizer)
    assert_same(trace(optimizer, params, script), unwatched)
    firing = [d for _, d in seen if (d.gate & (d.warmup > 0)).any()]
    if name != "defaults":
        assert 0 < len(firing) < len(seen)


def test_sums_are_those_of_the_decisions() -> None:
    params = parameters()
    groups = [{"params": params[:3], "name": "first"}, {"params": params[3:], "gamma": 0.5}]
    optimizer = PsiLogic(groups, lr=0.05, chaos_warmup=30)
    seen = watch(optimizer)
    watching = monitor(optimizer, zip(NAMES, params, strict=True))
    train(optimizer, params, gradients(200))
    rows = watching.read()
    assert [row.name for row in rows] == NAMES
    for row, p in zip(rows, params, strict=True):
        decisions = decisions_about(p, seen)
        assert row.steps == len(decisions)
        assert row.gate_steps == sum(d.gate for d in decisions)
        assert row.active_steps == sum(d.cancellation > 0 for d in decisions)
        assert row.total_cancellation == pytest.approx(sum(d.cancellation for d in decisions), rel=1e-12)
        assert row.total_weight_decay == pytest.approx(0.05 * 1e-4 * len(decisions), rel=1e-9)
        for quantity, value in vars(decisions[-1]).items():
            assert getattr(row, quantity) == value, quantity
    assert {row.group for row in rows} == {"first", "1"}
    totals = watching.totals()
    assert totals["tensor_steps"] == sum(row.steps for row in rows)
    assert totals["cancellation"] == pytest.approx(sum(row.total_cancellation for row in rows), rel=1e-12)
    active = sum(row.active_steps for row in rows)
    assert totals["active_share"] == pytest.approx(active / totals["tensor_steps"])


def decisions_about(p: torch.Tensor, seen: list[Any]) -> list[SimpleNamespace]:
    """The numbers of all decisions about a tensor, with the names of a monitor's row."""
    decisions = []
    for tensors, decision in seen:
        for i, tensor in enumerate(tensors):
            if tensor is p:
                decisions.append(numbers_of(decision, i))
    return decisions


def numbers_of(decision: Any, i: int) -> SimpleNamespace:
    """A decision about the i-th tensor of its bucket."""
    return SimpleNamespace(
        gn=decision.gn[i].item(),
        fast=decision.memory.fast[i].item(),
        slow=decision.memory.slow[i].item(),
        ratio=decision.ratio[i].item(),
        chaos=decision.chaos[i].item(),
        gate=decision.gate[i].item(),
        warmup=decision.warmup[i].item(),
        cancellation=decision.cancellation[i].item(),
    )


def test_the_spike_log_names_tensor_and_step() -> None:
    params = {name: nn.Parameter(torch.ones(3)) for name in ("a", "b", "c")}
    spike_at = {"a": 100, "b": 300, "c": 350}
    optimizer = PsiLogic(params.items(), chaos_warmup=200)
    watching = monitor(optimizer)
    for t in range(1, 401):
        for name, p in params.items():
            p.grad = torch.full_like(p, 100.0 if t == spike_at[name] else 1.0)
        optimizer.step()
    first: dict[str, Any] = {}
    for spike in watching.spikes():
        first.setdefault(spike.name, spike)
    assert first.keys() == {"b", "c"}  # a spiked before the warm-up was over
    assert first["b"].step == 300
    assert first["b"].ratio > 2
    assert first["c"].step == 350


def test_the_spike_log_covers_the_last_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_record, "SPIKE_LOG_STEPS", 5)
    p = nn.Parameter(torch.ones(3))
    optimizer = PsiLogic([p], chaos_warmup=0)
    watching = monitor(optimizer)
    for t in range(1, 121):
        p.grad = torch.full_like(p, 100.0 if t == 110 else 1.0)
        optimizer.step()
        if t == 109:  # the averages start at zero, so the gate was open at first
            assert watching.read()[0].gate_steps == 68
            assert watching.spikes() == []
    assert [spike.step for spike in watching.spikes()] == [116, 117, 118, 119, 120]


def test_a_spike_is_told_of_a_tensor_that_lacks_gradients_later() -> None:
    """The start of the averages is counted in the tensor's own steps: an expert is not used in each step."""
    expert = nn.Parameter(torch.ones(3))
    other = nn.Parameter(torch.ones(3))
    optimizer = PsiLogic([("expert", expert), ("other", other)], chaos_warmup=0)
    watching = monitor(optimizer)
    for t in range(1, 301):
        other.grad = torch.ones(3)
        expert.grad = torch.full((3,), 100.0 if t == 90 else 1.0) if t <= 90 else None
        optimizer.step()
    assert [(spike.name, spike.step) for spike in watching.spikes()] == [("expert", 90)]


def test_watching_can_stop() -> None:
    params = parameters()
    optimizer = PsiLogic(params, lr=0.05, chaos_warmup=0)
    watching = monitor(optimizer)
    trace(optimizer, params, gradients(30))
    watching.detach()
    trace(optimizer, params, gradients(5))
    assert max(row.steps for row in watching.read()) == 30
    assert not copy.deepcopy(optimizer).observers


def test_replays_of_a_graph_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay repeats only the captured operations on tensors."""
    params = parameters()
    optimizer = PsiLogic(params, lr=torch.tensor(0.1), chaos_warmup=0, capturable=True, fused=False)
    watching = monitor(optimizer)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    capture = {"now": False}
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capture["now"])
    train(optimizer, params, [ones_for(params)])
    before = watching.totals()
    spikes = watching.spikes()
    capture["now"] = True
    with Recorded() as graph:
        optimizer.step()
    graph.replay()
    capture["now"] = False
    after = watching.totals()
    assert after["tensor_steps"] == 3 * before["tensor_steps"]
    assert [row.steps for row in watching.read()] == [3] * len(params)
    assert after["weight_decay"] == pytest.approx(3 * before["weight_decay"])
    assert watching.spikes() == spikes


def test_a_graph_is_watched_after_a_step_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    p = nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    optimizer = PsiLogic([p], lr=torch.tensor(0.1), capturable=True)
    optimizer.step()
    watching = monitor(optimizer)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="take a monitored step without a graph first"):
        optimizer.step()
    assert watching.read() == []


class Recorded(TorchDispatchMode):
    """The operations on tensors that a graph would repeat, with the results in the same memory."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self.calls.append((func, args, kwargs, result))
        return result

    def replay(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, result in self.calls:
                again = func(*args, **kwargs)
                for mine, fresh in zip(tree_leaves(result), tree_leaves(again), strict=True):
                    if isinstance(mine, torch.Tensor) and mine.data_ptr() != fresh.data_ptr():
                        mine.copy_(fresh)


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    p = nn.Parameter(torch.ones(4))
    optimizer = PsiLogic([p], chaos_warmup=0)
    watching = monitor(optimizer, [("weights", p)])
    with SummaryWriter(str(tmp_path)) as writer:
        for step in (1, 2):
            p.grad = torch.full_like(p, float(step))
            optimizer.step()
            watching.write(writer, step)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("chaos/gn/weights")] == [(1, 1.0), (2, 2.0)]
    tags = set(events.Tags()["scalars"])
    assert {"chaos/gate/weights", "chaos/ratio/weights", "chaos/total_cancellation/weights"} <= tags


def test_only_a_psilogic_can_be_watched():
    with pytest.raises(TypeError, match="monitor needs a PsiLogic, got SGD"):
        monitor(torch.optim.SGD([nn.Parameter(torch.ones(1))]))


@pytest.mark.parametrize(
    ("names", "got"),
    [
        (lambda model: model, "got the Linear itself"),
        (lambda model: model.parameters(), "got an item of type Parameter"),
        (lambda model: ["weight", "bias"], "got an item of type str"),
    ],
    ids=["model", "parameters", "texts"],
)
def test_names_that_are_no_pairs_are_refused(names, got):
    model = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=rf"pairs of a name and a parameter, such as model.named_parameters\(\); {got}"):
        monitor(PsiLogic(model.parameters()), names(model))


def test_names_of_another_model_are_said():
    model = nn.Linear(2, 2)
    optimizer = PsiLogic(model.parameters())
    with pytest.warns(UserWarning, match="none of the 2 names given to psilogic.monitor is that") as said:
        monitor(optimizer, nn.Linear(2, 2).named_parameters())
    assert said[0].filename == __file__
    monitor(optimizer, [*model.named_parameters(), *nn.Linear(1, 1).named_parameters()])
