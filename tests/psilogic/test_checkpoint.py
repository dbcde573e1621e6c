"""Checkpoints: nothing is lost, other optimizers' are continued, and unsupported ones are refused."""

import copy
import io
import itertools
import logging
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from psilogic.optimizer import DEFAULTS

SHAPES = [(4, 3), (5,), ()]
ACTIVE: dict[str, Any] = {"lr": 1e-2, "chaos_warmup": 0, "gamma": 3.0, "quantum_decay": 0.1, "chaos_signal": "relative"}


parameters = partial(trajectories.parameters, SHAPES)


def train(optimizer: torch.optim.Optimizer, first: int, steps: int) -> None:
    """Steps with gradients that depend only on the number of the step."""
    for t in range(first, first + steps):
        generator = torch.Generator().manual_seed(t)
        for p in trajectories.params_of(optimizer):
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype) * scale_of(t)
        optimizer.step()


def scale_of(t: int) -> int:
    """The scale of the gradients in a step: every seventh is a spike."""
    return 30 if t % 7 == 6 else 1


def through_a_file(state_dict: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, weights_only=True)  # type: ignore[no-any-return]


def assert_bitwise(mine: PsiLogic, other: PsiLogic) -> None:
    """Parameters and states are the same."""
    ours = snapshot(mine, mine.param_groups[0]["params"])
    theirs = snapshot(other, other.param_groups[0]["params"])
    assert_same([ours], [theirs])


def copies_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """New parameters with the values of an optimizer's."""
    return trajectories.duplicates(trajectories.params_of(optimizer))


def assert_same_state(actual: dict[Any, Any], expected: dict[Any, Any]) -> None:
    """The states of all parameters, of two state dicts, are the same."""
    for key, entry in expected.items():
        for name, value in entry.items():
            assert torch.equal(value, actual[key][name]), (key, name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64])
def test_a_saved_run_resumes_bit_by_bit(dtype: torch.dtype) -> None:
    undisturbed = PsiLogic(parameters(dtype), **ACTIVE)
    train(undisturbed, 0, 20)

    first = PsiLogic(parameters(dtype), **ACTIVE)
    train(first, 0, 11)
    saved = first.state_dict()
    before = copy.deepcopy(saved)
    second = PsiLogic(copies_of(first), **ACTIVE)
    second.load_state_dict(through_a_file(saved))
    second.load_state_dict(saved)  # twice does no harm
    assert_bitwise(second, first)
    assert_same_state(saved["state"], before["state"])
    assert before["param_groups"] == saved["param_groups"]

    train(second, 11, 9)
    assert_bitwise(second, undisturbed)
    scalar_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    for p, entry in second.state.items():
        assert entry["exp_avg"].dtype == p.dtype
        for name in ("chaos_fast", "chaos_slow", "chaos_ref"):
            assert entry[name].dtype == scalar_dtype


@pytest.mark.parametrize("shape", [(50_000, 1), (5_000, 4)], ids=str)
def test_gaps_between_elements_change_no_sum(shape: tuple[int, int]) -> None:
    """A checkpoint's tensors have none; a sum over a stride would add in another order."""
    generator = torch.Generator().manual_seed(0)
    rows, columns = shape
    room = torch.randn(rows, 2 * columns, generator=generator, dtype=torch.float64)
    with_gaps = nn.Parameter(room[:, ::2])
    dense = nn.Parameter(with_gaps.detach().contiguous())
    assert not with_gaps.is_contiguous()
    ours = PsiLogic([with_gaps], fused=False, **ACTIVE)
    theirs = PsiLogic([dense], fused=False, **ACTIVE)
    for t in range(10):
        g = torch.randn(shape, generator=generator, dtype=torch.float64) * scale_of(t)
        with_gaps.grad = torch.empty_strided(shape, with_gaps.stride(), dtype=g.dtype).copy_(g)
        ours.step()
        dense.grad = g
        theirs.step()
        assert_bitwise(ours, theirs)


def test_scalars_may_be_numbers() -> None:
    """As torch before 1.12 wrote `step`, and as a state dict is that went through JSON."""
    first = PsiLogic(parameters(torch.float64), **ACTIVE)
    train(first, 0, 11)
    saved = copy.deepcopy(first.state_dict())
    for entry in saved["state"].values():
        for name, value in entry.items():
            if value.ndim == 0 and not name.startswith("exp_avg"):
                entry[name] = value.item()
    assert isinstance(saved["state"][0]["step"], float)
    second = PsiLogic(copies_of(first), **ACTIVE)
    second.load_state_dict(saved)
    assert_bitwise(second, first)
    train(first, 11, 5)
    train(second, 11, 5)
    assert_bitwise(second, first)


@pytest.mark.parametrize(("steps", "warned"), [(510, 1), (511, 0)])
def test_a_rest_in_which_the_term_only_waits_is_said(steps: int, warned: int) -> None:
    theirs = torch.optim.AdamW(parameters())
    train(theirs, 0, 10)
    mine = PsiLogic(copies_of(theirs), total_steps=steps)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        mine.load_state_dict(theirs.state_dict())
    assert len(said) == warned
    for warning in said:
        assert warning.filename == __file__
        assert "its detector starts at step 10 and waits for 500 steps" in str(warning.message)
    train(mine, 10, 1)
    with warnings.catch_warnings(record=True) as said_again:
        warnings.simplefilter("always")
        PsiLogic(copies_of(mine), total_steps=steps).load_state_dict(mine.state_dict())
    assert len(said_again) == len(said)


@pytest.mark.parametrize("factory", [torch.optim.AdamW, torch.optim.Adam])
@pytest.mark.parametrize("flags", [{}, {"amsgrad": True}, {"fused": True}, {"foreach": True}])
def test_training_continues_from_adam(factory: Any, flags: dict[str, bool], caplog: pytest.LogCaptureFixture) -> None:
    theirs = factory(parameters(torch.float64), lr=3e-3, betas=(0.8, 0.9), weight_decay=0.0, **flags)
    train(theirs, 0, 10)
    mine = PsiLogic(copies_of(theirs), gamma=0.0)
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
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4))
    mine = PsiLogicGPT(model, lr=1e-3)
    groups = []
    for group in mine.param_groups:
        groups.append({"params": group["params"], "weight_decay": group["weight_decay"]})
    theirs = torch.optim.AdamW(groups, lr=7e-3)
    gammas = [group["gamma"] for group in mine.param_groups]
    mine.load_state_dict(theirs.state_dict())
    assert len(caplog.records) == 1, "one line, not one for each group"
    assert [group["gamma"] for group in mine.param_groups] == gammas
    for group in mine.param_groups:
        assert group["lr"] == 7e-3
        assert group["fused"] is None
        assert group["amsgrad"] is False


class Net(nn.Module):
    """Two layers whose groups differ, and a parameter with the name of a hyperparameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.gamma = nn.Parameter(torch.rand(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gamma * self.second(torch.tanh(self.first(x)))

    def groups(self) -> list[dict[str, Any]]:
        first = {"params": list(self.first.parameters()), "weight_decay": 0.1}
        rest = {"params": [*self.second.parameters(), self.gamma], "lr": 3e-3}
        return [first, rest]

    def learn(self, optimizer: torch.optim.Optimizer, first: int, steps: int) -> None:
        for t in range(first, first + steps):
            optimizer.zero_grad()
            x = torch.randn(5, 3, generator=torch.Generator().manual_seed(t)) * scale_of(t)
            loss = self(x).square().mean()
            loss.backward()
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
    if "param_groups" not in saved:  # it is flat
        completed = {**own, **saved}
        for key in own:
            if key.endswith(".schema"):
                completed[key] = FROM_ADAMW
        return completed
    if way == "full":
        for group in saved["param_groups"]:
            group["schema"] = FROM_ADAMW
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
    net = Net()
    theirs = torch.optim.AdamW(net.groups(), lr=1e-2, fused=True)
    net.learn(theirs, 0, 7)
    options = {"lr": 5e-2, "gamma": 3.0, "chaos_warmup": 4, "chaos_signal": signal, "fused": False}
    expected_net = copy.deepcopy(net)
    expected = PsiLogic(expected_net.groups(), **options)
    expected.load_state_dict(theirs.state_dict())
    my_net = copy.deepcopy(net)
    mine = PsiLogic(my_net.groups(), **options)
    saved = copy.deepcopy(state_of(net, theirs, **how))  # loading copies no tensors
    caplog.clear()
    if way == "planner":
        torch.distributed.checkpoint.save({"optimizer": saved}, checkpoint_id=tmp_path)
        content = {"optimizer": state_of(my_net, mine, **how)}
        torch.distributed.checkpoint.load(content, checkpoint_id=tmp_path, planner=LoadPlanner())
        loaded = content["optimizer"]
    else:
        loaded = marked(saved, state_of(my_net, mine, **how), way)
    if "own" in how:
        mine.load_state_dict(loaded)
    else:
        which = dcp_states.StateDictOptions(**how, full_state_dict=way == "full")
        dcp_states.set_optimizer_state_dict(my_net, mine, loaded, options=which)
    (notice,) = [record.message for record in caplog.records if record.name == "psilogic"]
    assert notice.startswith("loaded a checkpoint of Adam or AdamW:")
    expected_net.learn(expected, 7, 12)
    my_net.learn(mine, 7, 12)
    my_params = list(my_net.parameters())
    assert_same([snapshot(mine, my_params)], [snapshot(expected, list(expected_net.parameters()))])
    for p in my_params:
        assert float(mine.state[p]["chaos_start"]) == 7.0
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
    for model, optimizer in ((net, mine), (other, loaded)):
        for group in optimizer.param_groups:
            group["gamma"] = 3.0
        model.learn(optimizer, 6, 9)
    assert_same([snapshot(mine, list(net.parameters()))], [snapshot(loaded, list(other.parameters()))])


@pytest.mark.parametrize("kind", [torch.optim.AdamW, PsiLogic])
def test_what_users_and_wrappers_keep_in_the_state_is_loaded_as_it_was(kind: Any) -> None:
    """Under keys that are no parameters, and under names of their own, also those that the published package had."""
    params = parameters()
    optimizer = kind(params)
    train(optimizer, 0, 2)
    optimizer.state["episodes"] = 7
    optimizer.state["curriculum"] = {"level": 3}
    slow = {}
    for i, p in enumerate(params):
        slow[i] = p.detach() + 1.0
        optimizer.state[p]["slow"] = slow[i]
    loaded = PsiLogic(parameters())
    loaded.load_state_dict(through_a_file(optimizer.state_dict()))
    assert loaded.state["episodes"] == 7
    assert loaded.state["curriculum"] == {"level": 3}
    for i, p in enumerate(loaded.param_groups[0]["params"]):
        assert torch.equal(loaded.state[p]["slow"], slow[i])
    train(loaded, 2, 4)


def test_a_step_count_of_the_group_is_that_of_its_parameters() -> None:
    """Where apex's and DeepSpeed's FusedAdam keep it; without one anywhere, bias correction has no number."""
    params = parameters()
    adamw = torch.optim.AdamW(params)
    train(adamw, 0, 3)
    saved = adamw.state_dict()
    for entry in saved["state"].values():
        del entry["step"]
    optimizer = PsiLogic(parameters())
    with pytest.raises(ValueError, match=r"parameter 0 has exp_avg, but no step"):
        optimizer.load_state_dict(saved)
    assert not optimizer.state
    saved["param_groups"][0]["step"] = 3
    optimizer.load_state_dict(saved)
    assert [float(entry["step"]) for entry in optimizer.state.values()] == [3.0] * len(params)


@pytest.mark.parametrize("kind", [torch.optim.NAdam, torch.optim.RAdam])
def test_checkpoints_of_other_adams_are_refused(kind: Any) -> None:
    theirs = kind(parameters(torch.float32))
    train(theirs, 0, 2)
    with pytest.raises(ValueError, match=f"the state dict is of {kind.__name__}, whose moments mean other steps"):
        PsiLogic(parameters(torch.float32)).load_state_dict(theirs.state_dict())


def test_what_amsgrad_loses_is_said(caplog: pytest.LogCaptureFixture) -> None:
    theirs = torch.optim.AdamW(parameters(torch.float32), amsgrad=True)
    train(theirs, 0, 2)
    PsiLogic(parameters(torch.float32)).load_state_dict(theirs.state_dict())
    assert any("amsgrad=True has no counterpart here" in record.message for record in caplog.records)


@pytest.mark.parametrize("name", sorted(set(DEFAULTS) - {"amsgrad"}))
def test_a_group_that_lacks_an_option_gets_the_default_of_the_optimizer(name: str) -> None:
    """The state dict of a version before the option, or one from which a tool removed it; and the same as a pickle."""
    params = [nn.Parameter(torch.ones(3))]
    optimizer = PsiLogic(params, lr=1e-2)
    params[0].grad = torch.ones(3)
    optimizer.step()
    older = optimizer.state_dict()
    del older["param_groups"][0][name]
    optimizer.load_state_dict(older)
    assert optimizer.param_groups[0][name] == optimizer.defaults[name]
    optimizer.step()

    del optimizer.defaults[name]
    del optimizer.param_groups[0][name]
    copied = copy.deepcopy(optimizer)
    assert copied.param_groups[0][name] == DEFAULTS[name]


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
    state = {}
    for i, shape in enumerate(SHAPES):
        state[i] = {
            "t": 600,
            "m": torch.full(shape, 0.5),
            "v": torch.full(shape, 0.25),
            "fast": torch.tensor([1.5]),
            "slow": torch.tensor([1.25]),
        }
        if relative:
            state[i]["gn_avg"] = torch.tensor([0.125])
    group = {
        "params": list(state),
        "lr": 2e-3,
        "betas": (0.9, 0.99),
        "eps": 1e-8,
        "weight_decay": 1e-3,
        "gamma": 0.04,
        "tau_scale": 2.5,
        "agc_clip": 0.02,
        "grad_centralize": True,
        "use_foreach": True,
        "lion_mode": False,
        **options,
    }
    return {"state": state, "param_groups": [group]}


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_published_packages_checkpoints_migrate(relative: bool, dtype: torch.dtype) -> None:
    mine = PsiLogic(parameters(dtype))
    mine.load_state_dict(published(relative))
    (group,) = mine.param_groups
    assert group["lr"] == 2e-3
    assert group["gamma"] == 0.04
    assert group["tau_scale"] == 2.5
    assert group["agc_norm"] == "tensor"
    assert group["chaos_signal"] == ("relative" if relative else "raw")
    assert not {"use_foreach", "lion_mode"} & group.keys()
    for p in group["params"]:
        entry = mine.state[p]
        assert entry["step"] == 600
        assert entry["chaos_start"] == 0
        assert entry["chaos_fast"] == 1.5
        assert entry["chaos_slow"] == 1.25
        assert torch.equal(entry["exp_avg"], torch.full_like(p, 0.5))
        assert torch.equal(entry["exp_avg_sq"], torch.full_like(p, 0.25))
        assert ("chaos_ref" in entry) == relative
        assert not {"t", "m", "v", "fast", "slow", "gn_avg"} & entry.keys()
    train(mine, 0, 3)
    assert mine.state[group["params"][0]]["step"] == 603


class Continued(NamedTuple):
    """A training that the published package began and this one ended."""

    weights: dict[str, torch.Tensor]  # at the end
    expected: dict[str, torch.Tensor]  # at the end of the published package's own training
    optimizer: PsiLogic


def through_0_6_0(case: str, **options: Any) -> Continued:
    """Continue a training from the file that the published package wrote in its middle."""
    file = Path(write.__file__).with_name("psilogic-0.6.0.pt")
    content = torch.load(file, weights_only=True)[case]
    net = write.start(case)
    net.load_state_dict(content["model"])
    optimizer = PsiLogic(net.parameters(), **options)
    optimizer.load_state_dict(content["optimizer"])
    for key, p in enumerate(net.parameters()):
        entry = optimizer.state[p]
        saved = content["optimizer"]["state"][key]
        assert entry["step"] == saved["t"]
        assert entry["chaos_start"] == 0
        for their_name, our_name in checkpoint.PUBLISHED.items():
            value = entry[our_name]
            assert torch.equal(value, saved[their_name].to(value.dtype).reshape(value.shape))
    for group in optimizer.param_groups:
        group.update(options)
    write.train(net, optimizer, write.SAVED_AT + 1, write.END)
    return Continued(net.state_dict(), content["end"], optimizer)


@pytest.mark.parametrize(("case", "warmup"), [("default warm-up", 200), ("schedule", 60), ("automatic", 500)])
def test_a_training_of_0_6_0_continues(case: str, warmup: int) -> None:
    """The state to the bit, the steps as far as both round: 0.6.0 wrote the file and finished the training itself."""
    continued = through_0_6_0(case)
    assert continued.optimizer.param_groups[0]["chaos_warmup"] == warmup
    torch.testing.assert_close(dict(continued.weights), dict(continued.expected), rtol=1e-4, atol=1e-5)
    other_warmup = 500 if warmup < 500 else 200
    other = through_0_6_0(case, chaos_warmup=other_warmup)
    differences = [(value - other.expected[name]).abs().max() for name, value in other.weights.items()]
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
    for p in params:
        assert all(value.is_meta for value in mine.state[p].values())
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
    flattened = copy.deepcopy(mine.state_dict())
    flatten_a_moment(flattened)
    adamw = torch.optim.AdamW(parameters(torch.float32))
    train(adamw, 0, 1)
    flattened_adamw = adamw.state_dict()
    flatten_a_moment(flattened_adamw)
    params = parameters(torch.float32)
    in_two_groups = torch.optim.AdamW([{"params": params[:1]}, {"params": params[1:3]}])
    shapes = r"does not fit parameter 0 in group 0: exp_avg_sq has the shape \(\d+,\), the parameter has \(\d+, "
    for state_dict, complaint in (
        (
            {"model": {}, "optimizer": future},
            "state and param_groups; it has model, optimizer. Give the optimizer's entry",
        ),
        (future, "schema 99, this psilogic reads up to 1: upgrade psilogic"),
        (momentum.state_dict(), "not of PsiLogic, Adam or AdamW: its state has the keys momentum_buffer"),
        (published(True, lion_mode=True), "lion_mode=True"),
        (flattened, shapes),
        (flattened_adamw, shapes),
        (torch.optim.AdamW(parameters(torch.float32)[:2]).state_dict(), "other groups: 1 with 2 parameters"),
        (in_two_groups.state_dict(), "other groups: 2 with 1, 2 parameters, and this optimizer has 1 with 3"),
    ):
        with pytest.raises(ValueError, match=complaint):
            mine.load_state_dict(state_dict)
        after = mine.state_dict()
        assert after["param_groups"] == before["param_groups"]
        assert_same_state(after["state"], before["state"])


def flatten_a_moment(state_dict: dict[str, Any]) -> None:
    """Change the shape of the first parameter's second moment, which is a matrix."""
    entry = state_dict["state"][0]
    assert entry["exp_avg_sq"].ndim == 2
    entry["exp_avg_sq"] = entry["exp_avg_sq"].flatten()
