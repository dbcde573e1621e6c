"""Checkpoints: nothing is lost, other optimizers' are continued, and unsupported ones are refused."""

import copy
import io
import itertools
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint
import trajectories
from configurations import assert_same, snapshot
from published import write
from torch import nn
from torch.distributed.checkpoint import state_dict as dcp_states
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner

from psilogic import PsiLogic, PsiLogicGPT, checkpoint
from psilogic.checkpoint import FROM_ADAMW
from psilogic.integrations.dcp import LoadPlanner

SHAPES = [(4, 3), (5,), ()]
ACTIVE: dict[str, Any] = {"lr": 1e-2, "chaos_warmup": 0, "gamma": 3.0, "quantum_decay": 0.1, "chaos_signal": "relative"}


parameters = partial(trajectories.parameters, SHAPES)


def train(optimizer: torch.optim.Optimizer, first: int, steps: int) -> None:
    """Steps with gradients that depend only on the number of the step."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for t in range(first, first + steps):
        generator = torch.Generator().manual_seed(t)
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype) * (30 if t % 7 == 6 else 1)
        optimizer.step()


def through_a_file(state_dict: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, weights_only=True)  # type: ignore[no-any-return]


def assert_bitwise(*optimizers: PsiLogic) -> None:
    assert_same(*([snapshot(optimizer, optimizer.param_groups[0]["params"])] for optimizer in optimizers))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64])
def test_a_saved_run_resumes_bit_by_bit(dtype: torch.dtype) -> None:
    undisturbed = PsiLogic(parameters(dtype), **ACTIVE)
    train(undisturbed, 0, 20)

    first = PsiLogic(parameters(dtype), **ACTIVE)
    train(first, 0, 11)
    saved = first.state_dict()
    before = copy.deepcopy(saved)
    second = PsiLogic([nn.Parameter(p.detach().clone()) for p in first.param_groups[0]["params"]], **ACTIVE)
    second.load_state_dict(through_a_file(saved))
    second.load_state_dict(saved)  # twice does no harm
    assert_bitwise(second, first)
    for key, entry in before["state"].items():
        assert all(torch.equal(value, saved["state"][key][name]) for name, value in entry.items())
    assert before["param_groups"] == saved["param_groups"]

    train(second, 11, 9)
    assert_bitwise(second, undisturbed)
    for p, entry in second.state.items():
        scalar = torch.float64 if dtype == torch.float64 else torch.float32
        assert {entry[name].dtype for name in ("chaos_fast", "chaos_slow", "chaos_ref")} == {scalar}
        assert entry["exp_avg"].dtype == p.dtype


@pytest.mark.parametrize("shape", [(50_000, 1), (5_000, 4)], ids=str)
def test_gaps_between_elements_change_no_sum(shape: tuple[int, int]) -> None:
    """A checkpoint's tensors have none; a sum over a stride would add in another order."""
    generator = torch.Generator().manual_seed(0)
    with_gaps = nn.Parameter(torch.randn(shape[0], 2 * shape[1], generator=generator, dtype=torch.float64)[:, ::2])
    dense = nn.Parameter(with_gaps.detach().contiguous())
    assert not with_gaps.is_contiguous()
    optimizers = [PsiLogic([p], foreach=True, **ACTIVE) for p in (with_gaps, dense)]
    for t in range(10):
        g = torch.randn(shape, generator=generator, dtype=torch.float64) * (30 if t % 7 == 6 else 1)
        with_gaps.grad = torch.empty_strided(shape, with_gaps.stride(), dtype=g.dtype).copy_(g)
        dense.grad = g
        for optimizer in optimizers:
            optimizer.step()
        assert_bitwise(*optimizers)


def test_scalars_may_be_numbers() -> None:
    """As torch before 1.12 wrote `step`, and as a state dict is that went through JSON."""
    first = PsiLogic(parameters(torch.float64), **ACTIVE)
    train(first, 0, 11)
    saved = copy.deepcopy(first.state_dict())
    saved["state"] = {
        key: {name: value.item() if value.ndim == 0 and "exp" not in name else value for name, value in entry.items()}
        for key, entry in saved["state"].items()
    }
    assert isinstance(saved["state"][0]["step"], float)
    second = PsiLogic([nn.Parameter(p.detach().clone()) for p in first.param_groups[0]["params"]], **ACTIVE)
    second.load_state_dict(saved)
    assert_bitwise(second, first)
    train(first, 11, 5)
    train(second, 11, 5)
    assert_bitwise(second, first)


@pytest.mark.parametrize("factory", [torch.optim.AdamW, torch.optim.Adam])
@pytest.mark.parametrize("flags", [{}, {"amsgrad": True}, {"fused": True}, {"foreach": True}])
def test_training_continues_from_adam(factory: Any, flags: dict[str, bool], caplog: pytest.LogCaptureFixture) -> None:
    theirs = factory(parameters(torch.float64), lr=3e-3, betas=(0.8, 0.9), weight_decay=0.0, **flags)
    train(theirs, 0, 10)
    mine = PsiLogic([nn.Parameter(p.detach().clone()) for p in theirs.param_groups[0]["params"]], gamma=0.0)
    with caplog.at_level(logging.WARNING, "psilogic"):
        mine.load_state_dict(through_a_file(theirs.state_dict()))
    assert "the chaos detector and its warm-up start now" in caplog.text
    assert mine.param_groups[0]["lr"] == 3e-3
    assert mine.param_groups[0]["betas"] in ((0.8, 0.9), [0.8, 0.9])
    if "amsgrad" not in flags:
        train(theirs, 10, 10)
        train(mine, 10, 10)
        for a, b in zip(mine.param_groups[0]["params"], theirs.param_groups[0]["params"], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=0)


def test_hyperparameters_of_the_groups_survive_an_adamw_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(5, 4), torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    mine = PsiLogicGPT(model, lr=1e-3)
    groups = [{"params": group["params"], "weight_decay": group["weight_decay"]} for group in mine.param_groups]
    theirs = torch.optim.AdamW(groups, lr=7e-3)
    gammas = [group["gamma"] for group in mine.param_groups]
    mine.load_state_dict(theirs.state_dict())
    assert len(caplog.records) == 1, "one line, not one for each group"
    assert [group["gamma"] for group in mine.param_groups] == gammas
    assert {group["lr"] for group in mine.param_groups} == {7e-3}
    assert all(group["fused"] is None and group["amsgrad"] is False for group in mine.param_groups)


class Net(nn.Module):
    """Two layers whose groups differ, and a parameter with the name of a hyperparameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.gamma = nn.Parameter(torch.rand(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gamma * self.second(torch.tanh(self.first(x)))

    def groups(self) -> list[dict[str, Any]]:
        rest = [*self.second.parameters(), self.gamma]
        return [{"params": [*self.first.parameters()], "weight_decay": 0.1}, {"params": rest, "lr": 3e-3}]

    def learn(self, optimizer: torch.optim.Optimizer, first: int, steps: int) -> None:
        for t in range(first, first + steps):
            optimizer.zero_grad()
            x = torch.randn(5, 3, generator=torch.Generator().manual_seed(t)) * (30 if t % 7 == 6 else 1)
            self(x).square().mean().backward()
            optimizer.step()


def state_of(net: Net, optimizer: Any, **how: bool) -> Any:
    """The state dict of torch.distributed.checkpoint's functions, or the optimizer's own after a step as they take."""
    if isinstance(optimizer, type):
        optimizer = optimizer(net.groups())
    if "own" not in how:
        return dcp_states.get_optimizer_state_dict(net, optimizer, options=dcp_states.StateDictOptions(**how))
    if not optimizer.state:
        dcp_states._init_optim_state(optimizer)
    return optimizer.state_dict()


def marked(saved: Any, own: Any, way: str) -> Any:
    """What torch completes from PsiLogic's own state, with the schema that says whose the moments are."""
    if "param_groups" not in saved:
        return {**own, **saved, **{key: FROM_ADAMW for key in own if key.endswith(".schema")}}
    if way == "full":
        saved["param_groups"] = [{**group, "schema": FROM_ADAMW} for group in saved["param_groups"]]
    return saved


WAYS = [{"own": True}, {}, {"flatten_optimizer_state_dict": True}]


@pytest.mark.parametrize("signal", ["raw", "relative"])
@pytest.mark.parametrize(
    ("how", "way"),
    # torch itself cannot load the full and flat one, and the optimizer's own in memory is what it is compared with.
    [*itertools.product(WAYS, ["planner"]), (WAYS[1], "memory"), (WAYS[2], "memory"), (WAYS[1], "full")],
    ids=str,
)
def test_training_continues_from_adamw_through_distributed_checkpoints(
    tmp_path: Any, caplog: pytest.LogCaptureFixture, how: dict[str, bool], way: str, signal: str
) -> None:
    """As from AdamW's own state dict: also the warm-up, which does not count AdamW's steps."""
    theirs = torch.optim.AdamW((net := Net()).groups(), lr=1e-2, fused=True)
    net.learn(theirs, 0, 7)
    nets = [copy.deepcopy(net) for _ in range(2)]
    options = {"lr": 5e-2, "gamma": 3.0, "chaos_warmup": 4, "chaos_signal": signal, "fused": False}
    expected, mine = (PsiLogic(x.groups(), **options) for x in nets)
    expected.load_state_dict(theirs.state_dict())
    saved = copy.deepcopy(state_of(net, theirs, **how))  # loading copies no tensors
    full = {"full_state_dict": True} if way == "full" else {}
    caplog.clear()
    if way == "planner":
        torch.distributed.checkpoint.save({"optimizer": saved}, checkpoint_id=tmp_path)
        content = {"optimizer": state_of(nets[1], mine, **how)}
        torch.distributed.checkpoint.load(content, checkpoint_id=tmp_path, planner=LoadPlanner())
        loaded = content["optimizer"]
    else:
        loaded = marked(saved, state_of(nets[1], mine, **how), way)
    if "own" in how:
        mine.load_state_dict(loaded)
    else:
        which = dcp_states.StateDictOptions(**how, **full)
        dcp_states.set_optimizer_state_dict(nets[1], mine, loaded, options=which)
    ours = [record.message for record in caplog.records if record.name == "psilogic"]
    assert [message.partition(":")[0] for message in ours] == ["loaded a checkpoint of Adam or AdamW"]
    for x, optimizer in zip(nets, (expected, mine), strict=True):
        x.learn(optimizer, 7, 12)
    assert_same(*([snapshot(o, [*x.parameters()])] for x, o in zip(nets, (expected, mine), strict=True)))
    assert [float(mine.state[p]["chaos_start"]) for p in nets[1].parameters()] == [7.0] * 5
    for group, other in zip(mine.param_groups, expected.param_groups, strict=True):
        assert {**group, "params": 0, "betas": tuple(group["betas"])} == {**other, "params": 0}


def test_the_planner_takes_no_other_checkpoint_with_a_gap(tmp_path: Any) -> None:
    net = Net()
    for optimizer in (PsiLogic(net.groups(), chaos_warmup=0), torch.optim.AdamW(net.groups())):
        net.learn(optimizer, 0, 3)
        saved = state_of(net, optimizer, flatten_optimizer_state_dict=True)
        content = {"model": net.state_dict(), "optimizer": dict(saved)}
        gap = "chaos_slow" if isinstance(optimizer, PsiLogic) else "exp_avg"
        del content["optimizer"][f"state.first.weight.{gap}"]
        torch.distributed.checkpoint.save(content, checkpoint_id=tmp_path / gap)
        content = {"model": net.state_dict(), "optimizer": state_of(Net(), PsiLogic, **WAYS[2])}
        with pytest.raises(CheckpointException, match=rf"Missing key in checkpoint state_dict: .*first.weight.{gap}"):
            torch.distributed.checkpoint.load(content, checkpoint_id=tmp_path / gap, planner=LoadPlanner())
    torch.distributed.checkpoint.save({"optimizer": saved}, checkpoint_id=tmp_path / "gamma")
    content = {"model": {"gamma": net.gamma.detach()}, "optimizer": state_of(Net(), PsiLogic, **WAYS[2])}
    with pytest.raises(CheckpointException, match=r"Missing key in checkpoint state_dict: model.gamma"):
        torch.distributed.checkpoint.load(content, checkpoint_id=tmp_path / "gamma", planner=LoadPlanner())


def test_a_detector_that_saw_nothing_is_loaded_as_it_was() -> None:
    """Only zeros, or nothing while gamma was 0: a run that is saved and loaded continues like one that is not."""
    net = Net()
    mine = PsiLogic(net.groups(), lr=1e-2, gamma=0.0, chaos_warmup=4)
    net.learn(mine, 0, 6)
    other = copy.deepcopy(net)
    loaded = PsiLogic(other.groups(), lr=1e-2, chaos_warmup=4)
    loaded.load_state_dict(through_a_file(mine.state_dict()))
    for x, optimizer in ((net, mine), (other, loaded)):
        for group in optimizer.param_groups:
            group["gamma"] = 3.0
        x.learn(optimizer, 6, 9)
    assert_same([snapshot(mine, [*net.parameters()])], [snapshot(loaded, [*other.parameters()])])


@pytest.mark.parametrize("kind", [torch.optim.NAdam, torch.optim.RAdam])
def test_checkpoints_of_other_adams_are_refused(kind: Any) -> None:
    train(theirs := kind(parameters(torch.float32)), 0, 2)
    with pytest.raises(ValueError, match=f"the state dict is of {kind.__name__}, whose moments mean other steps"):
        PsiLogic(parameters(torch.float32)).load_state_dict(theirs.state_dict())


def test_what_amsgrad_loses_is_said(caplog: pytest.LogCaptureFixture) -> None:
    train(theirs := torch.optim.AdamW(parameters(torch.float32), amsgrad=True), 0, 2)
    PsiLogic(parameters(torch.float32)).load_state_dict(theirs.state_dict())
    assert any("amsgrad=True has no counterpart here" in record.message for record in caplog.records)


def test_loaded_hyperparameters_are_checked_before_anything_changes() -> None:
    mine = PsiLogic(parameters(torch.float32))
    train(mine, 0, 1)
    for name, value in (("gamma", -3.0), ("agc_norm", "units"), ("max_grad_norm", -1.0)):
        saved = mine.state_dict()
        saved["param_groups"][0][name] = value
        with pytest.raises(ValueError, match=name):
            mine.load_state_dict(saved)
        assert mine.param_groups[0][name] == mine.defaults[name]


def published(relative: bool, **options: Any) -> dict[str, Any]:
    """A state dict in the form of the published package psilogic 0.3 to 0.6."""
    state = {
        i: {"t": 600, "m": torch.full(shape, 0.5), "v": torch.full(shape, 0.25), "fast": torch.tensor([1.5]),
            "slow": torch.tensor([1.25]), **({"gn_avg": torch.tensor([0.125])} if relative else {})}
        for i, shape in enumerate(SHAPES)
    }  # fmt: skip
    group = {"lr": 2e-3, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 1e-3, "gamma": 0.04, "tau_scale": 2.5,
             "agc_clip": 0.02, "grad_centralize": True, "use_foreach": True, "lion_mode": False, **options}  # fmt: skip
    return {"state": state, "param_groups": [{**group, "params": [0, 1, 2]}]}


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_published_packages_checkpoints_migrate(relative: bool, dtype: torch.dtype) -> None:
    mine = PsiLogic(parameters(dtype))
    mine.load_state_dict(published(relative))
    (group,) = mine.param_groups
    assert (group["lr"], group["gamma"], group["tau_scale"], group["agc_norm"]) == (2e-3, 0.04, 2.5, "tensor")
    assert group["chaos_signal"] == ("relative" if relative else "raw")
    assert not {"use_foreach", "lion_mode"} & group.keys()
    for p in group["params"]:
        entry = mine.state[p]
        assert (entry["step"], entry["chaos_start"], entry["chaos_fast"], entry["chaos_slow"]) == (600, 0, 1.5, 1.25)
        assert torch.equal(entry["exp_avg"], torch.full_like(p, 0.5))
        assert torch.equal(entry["exp_avg_sq"], torch.full_like(p, 0.25))
        assert ("chaos_ref" in entry) == relative
        assert not {"t", "m", "v", "fast", "slow", "gn_avg"} & entry.keys()
    train(mine, 0, 3)
    assert mine.state[group["params"][0]]["step"] == 603


def through_0_6_0(case: str, **options: Any) -> tuple[nn.Module, dict[str, Any], PsiLogic]:
    """The model that the published package trained to the middle, its file, and our optimizer after the rest."""
    content = torch.load(Path(write.__file__).with_name("psilogic-0.6.0.pt"), weights_only=True)[case]
    net = write.start(case)
    net.load_state_dict(content["model"])
    optimizer = PsiLogic(net.parameters(), **options)
    optimizer.load_state_dict(content["optimizer"])
    for key, p in enumerate(net.parameters()):
        entry, saved = optimizer.state[p], content["optimizer"]["state"][key]
        assert (entry["step"], entry["chaos_start"]) == (saved["t"], 0)
        for name, theirs in checkpoint.PUBLISHED.items():
            assert torch.equal(entry[theirs], saved[name].to(entry[theirs].dtype).reshape(entry[theirs].shape))
    if options:
        for group in optimizer.param_groups:
            group.update(options)
    write.train(net, optimizer, write.SAVED_AT + 1, write.END)
    return net, content, optimizer


@pytest.mark.parametrize(("case", "warmup"), [("default warm-up", 200), ("schedule", 60), ("automatic", 500)])
def test_a_training_of_0_6_0_continues(case: str, warmup: int) -> None:
    """The state to the bit, the steps as far as both round: 0.6.0 wrote the file and finished the training itself."""
    net, content, optimizer = through_0_6_0(case)
    assert optimizer.param_groups[0]["chaos_warmup"] == warmup
    for name, x in net.state_dict().items():
        torch.testing.assert_close(x, content["end"][name], rtol=1e-4, atol=1e-5)
    other = through_0_6_0(case, chaos_warmup=500 if warmup < 500 else 200)[0]
    differences = [(x - content["end"][name]).abs().max() for name, x in other.state_dict().items()]
    assert max(differences) > 0.05, "the warm-up must matter"


def test_what_of_0_6_0_is_not_continued_is_said(caplog: pytest.LogCaptureFixture) -> None:
    for case in ("bfloat16", "gamma_auto"):
        through_0_6_0(case)
    first = "loaded a checkpoint of the published package psilogic: chaos_signal='relative', chaos_warmup=200"
    assert [record.message for record in caplog.records if record.name == "psilogic"] == [
        first,
        "Adam's moments were torch.float32 and become torch.bfloat16, the dtype of their parameters: they are rounded",
        first,
        "gamma_auto=True has no counterpart here: gamma=6 is also that of small gradients",
    ]


def test_a_planner_stays_strict_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It allows gaps only while torch makes the plan, also if torch fails."""

    def fail(planner: DefaultLoadPlanner) -> None:
        assert planner.allow_partial_load
        raise OSError("the plan cannot be made")

    monkeypatch.setattr(DefaultLoadPlanner, "create_local_plan", fail)
    planner = LoadPlanner()
    with pytest.raises(OSError, match="the plan cannot be made"):
        planner.create_local_plan()
    assert not planner.allow_partial_load


def test_a_run_saved_on_another_device_resumes_on_that_of_the_parameters() -> None:
    """Also the detector's clock, and with parameters that join later."""
    saved = PsiLogic(parameters(torch.float32), capturable=True)
    train(saved, 0, 2)
    params = [nn.Parameter(p.detach().to("meta")) for p in parameters(torch.float32)]
    mine = PsiLogic([*params, nn.Parameter(torch.zeros(3, device="meta"))], capturable=True)
    late = mine.param_groups[0]["params"].pop()
    mine.load_state_dict(saved.state_dict())
    assert all(value.is_meta for p in params for value in mine.state[p].values())
    mine.param_groups[0]["params"].append(late)
    for p in mine.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    mine.step()
    assert mine.state[late]["chaos_start"].is_meta


def test_what_cannot_be_continued_is_refused_and_changes_nothing() -> None:
    mine = PsiLogic(parameters(torch.float32))
    train(mine, 0, 3)
    before = copy.deepcopy(mine.state_dict())
    future = mine.state_dict()
    future["param_groups"][0]["schema"] = 99
    momentum = torch.optim.SGD(parameters(torch.float32), momentum=0.9)
    train(momentum, 0, 1)
    turned, adamw = copy.deepcopy(mine.state_dict()), torch.optim.AdamW(parameters(torch.float32))
    train(adamw, 0, 1)
    turned_adamw = adamw.state_dict()
    for other in (turned, turned_adamw):
        key = next(key for key, entry in other["state"].items() if entry["exp_avg_sq"].ndim > 1)
        other["state"][key]["exp_avg_sq"] = other["state"][key]["exp_avg_sq"].flatten()
    shapes = rf"does not fit: exp_avg_sq of parameter {key} in group 0 has the shape \(\d+,\), the parameter \(\d+, "
    for state_dict, complaint in (
        (future, "schema 99, this psilogic reads up to 1: upgrade psilogic"),
        (momentum.state_dict(), "not of PsiLogic, Adam or AdamW: its state has the keys momentum_buffer"),
        (published(True, lion_mode=True), "lion_mode=True"),
        (turned, shapes),
        (turned_adamw, shapes),
        (torch.optim.AdamW(parameters(torch.float32)[:2]).state_dict(), "doesn't match the size"),
    ):
        with pytest.raises(ValueError, match=complaint):
            mine.load_state_dict(state_dict)
        after = mine.state_dict()
        assert after["param_groups"] == before["param_groups"]
        for key, entry in before["state"].items():
            assert all(torch.equal(value, after["state"][key][name]) for name, value in entry.items())
