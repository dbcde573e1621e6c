"""A plan is used again exactly as long as a step would find the same: then, and after each change, all bits agree."""

import copy
import weakref

import pytest
import torch
from configurations import ACTIVE, PROCESSING, snapshot
from torch import nn

from psilogic import PsiLogic
from psilogic.plan import NOTHING, Plan
from psilogic.tensors import memory

pytestmark = pytest.mark.usefixtures("compiled_kernels")
SHAPES = [(6, 4), (5,), (3, 2)]


def two_groups(**options):
    """An optimizer with two groups, of which one has another learning rate."""
    params = [nn.Parameter(torch.ones(shape)) for shape in SHAPES]
    return PsiLogic([{"params": params[:2]}, {"params": params[2:], "lr": 0.25}], **ACTIVE, **options)


def params_of(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def step(optimizer, t):
    """A step with gradients that depend on t alone, where they are."""
    generator = torch.Generator().manual_seed(t)
    for p in params_of(optimizer):
        values = torch.randn(p.shape, generator=generator) * (100 if t % 3 == 0 else 1)
        if p.grad is None:
            p.grad = torch.empty_like(p)
        p.grad.copy_(values)
    optimizer.step()


def nothing(optimizer): ...


def learning_rate(optimizer):
    optimizer.param_groups[0]["lr"] = 0.01


def all_numbers(optimizer):
    for group in optimizer.param_groups:
        group.update(lr=0.02, weight_decay=0.3, gamma=1.0, tau_scale=1.5)


def gradients_elsewhere(optimizer):
    for p in params_of(optimizer):
        p.grad = p.grad.clone()


def gradients_freed(optimizer):
    optimizer.zero_grad()


def betas(optimizer):
    optimizer.param_groups[1]["betas"] = (0.5, 0.9)


def epsilon(optimizer):
    optimizer.param_groups[0]["eps"] = 1e-3


def switch(optimizer):
    for group in optimizer.param_groups:
        group["adaptive_tau"] = False


def array_for_betas(optimizer):
    optimizer.param_groups[1]["betas"] = torch.tensor([0.5, 0.9]).numpy()


def tensor_lr(optimizer):
    optimizer.param_groups[0]["lr"] = torch.tensor(0.01)


def parameter_frozen(optimizer):
    del optimizer.param_groups[0]["params"][1]


def group_changed(optimizer):
    moved = optimizer.param_groups[0]["params"].pop()
    optimizer.param_groups[1]["params"].insert(0, moved)


def group_added(optimizer):
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, 2))]})


def state_dict_loaded(optimizer):
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def state_emptied(optimizer):
    optimizer.state[params_of(optimizer)[0]].clear()


def moment_elsewhere(optimizer):
    state = optimizer.state[params_of(optimizer)[1]]
    state["exp_avg"] = state["exp_avg"].clone()


def scalar_in_float64(optimizer):
    state = optimizer.state[params_of(optimizer)[1]]
    state["chaos_slow"] = state["chaos_slow"].double()


def parameter_elsewhere(optimizer):
    p = params_of(optimizer)[2]
    p.data = p.data.clone()


def parameters_in_one_memory(optimizer):
    first, _, third = params_of(optimizer)
    third.data = first.data.view(-1)[:6].view(3, 2)


def transposed_gradient(optimizer):
    p = params_of(optimizer)[0]
    p.grad = p.grad.t().contiguous().t()


def gradient_in_a_parameter(optimizer):
    first, _, third = params_of(optimizer)
    third.grad = first.data.view(-1)[:6].view(3, 2)


def scaler(optimizer):
    optimizer.grad_scale = torch.tensor([4.0])
    optimizer.found_inf = torch.tensor([0.0])


def overflow_with_another_rate(optimizer):
    learning_rate(optimizer)
    optimizer.found_inf = torch.tensor([1.0])
    step(optimizer, 30)
    del optimizer.found_inf


def observer(optimizer):
    optimizer.observers.append(lambda params, decision: None)


STILL = [
    nothing,
    learning_rate,
    all_numbers,
    betas,
    epsilon,
    gradients_elsewhere,
    state_dict_loaded,
    moment_elsewhere,
    parameter_elsewhere,
]
NEW_PLAN = [
    switch,
    array_for_betas,
    tensor_lr,
    parameter_frozen,
    group_changed,
    group_added,
    state_emptied,
    scalar_in_float64,
    parameters_in_one_memory,
    transposed_gradient,
    gradient_in_a_parameter,
    scaler,
    overflow_with_another_rate,
    observer,
]


def nothing_recalled(*arguments):
    return NOTHING


@pytest.fixture
def held(monkeypatch):
    """For each step whether a plan held."""
    found = []
    recall = Plan.recall

    def noted(*arguments):
        recalled = recall(*arguments)
        found.append(recalled.works is not None or recalled.repeated is not None)
        return recalled

    monkeypatch.setattr(Plan, "recall", noted)
    return found


def trajectory(change, options):
    """Snapshots of the steps after a change, which comes after four steps."""
    optimizer = two_groups(**options)
    for t in range(4):
        step(optimizer, t)
    change(optimizer)
    snapshots = []
    for t in range(4, 9):
        step(optimizer, t)
        snapshots.append(snapshot(optimizer, params_of(optimizer)))
    return snapshots


@pytest.mark.parametrize("options", [{}, {**PROCESSING, "quantum_decay": 1.0, "gamma_T_max": 60}], ids=["", "all"])
@pytest.mark.parametrize("change", [*STILL, gradients_freed, *NEW_PLAN])
def test_a_plan_holds_until_something_changes(monkeypatch, held, change, options):
    ours = trajectory(change, options)
    if change is not gradients_freed:  # which may be allocated where they were
        assert held[:5] == [False, False, True, True, change in STILL]
    monkeypatch.setattr(Plan, "recall", nothing_recalled)
    for mine, truth in zip(ours, trajectory(change, options), strict=True):
        for tensor, expected in zip(mine, truth, strict=True):
            assert torch.equal(tensor.param, expected.param)
            assert tensor.state.keys() == expected.state.keys()
            for name, value in tensor.state.items():
                assert torch.equal(value, expected.state[name]), name


@pytest.mark.parametrize("change", [nothing, learning_rate, betas], ids=lambda change: change.__name__)
def test_a_step_without_gradients_changes_nothing_and_leaves_the_plan(monkeypatch, held, change):
    def without_gradients(optimizer):
        gradients = [p.grad for p in params_of(optimizer)]
        optimizer.zero_grad()
        change(optimizer)
        before = snapshot(optimizer, params_of(optimizer))
        optimizer.step()
        assert held[4:] in ([], [True])  # a step for which nothing is recalled is not noted
        for tensor, expected in zip(snapshot(optimizer, params_of(optimizer)), before, strict=True):
            assert torch.equal(tensor.param, expected.param)
        for p, gradient in zip(params_of(optimizer), gradients, strict=True):
            p.grad = gradient

    ours = trajectory(without_gradients, {})
    assert held[:6] == [False, False, True, True, True, change in STILL]
    monkeypatch.setattr(Plan, "recall", nothing_recalled)
    for mine, truth in zip(ours, trajectory(change, {}), strict=True):
        for tensor, expected in zip(mine, truth, strict=True):
            assert torch.equal(tensor.param, expected.param)


def assert_equal_without_plans(monkeypatch, train):
    """A training has the same bits if each step makes a new plan."""
    ours = train()
    monkeypatch.setattr(Plan, "recall", nothing_recalled)
    for p, expected in zip(ours, train(), strict=True):
        assert torch.equal(p, expected)


def params_after_turns(patterns):
    """The parameters after steps in which those of a pattern have gradients, pattern after pattern, at other rates."""
    optimizer = two_groups()
    for t in range(6 * len(patterns)):
        with_gradients = patterns[t % len(patterns)]
        for i, p in enumerate(params_of(optimizer)):
            p.grad = torch.full_like(p, 1.0 + t % 5) if i in with_gradients else None
        optimizer.param_groups[0]["lr"] = 0.01 * (1 + t // 5)
        optimizer.step()
    return params_of(optimizer)


@pytest.mark.parametrize("patterns", [[(0, 1), (2,)], [(0,), (1,), (2,), (0, 1, 2)]], ids=len)
def test_plans_hold_for_parameters_that_take_turns(monkeypatch, held, patterns):
    """As with two networks that are trained in turns, or heads for several tasks."""

    def train():
        return params_after_turns(patterns)

    assert_equal_without_plans(monkeypatch, train)
    new = 2 * len(patterns)
    assert held == [False] * new + [True] * (2 * new)


@pytest.mark.parametrize("name", ["lr", "weight_decay"])
def test_a_plan_reads_a_tensor_in_host_memory_in_each_step(monkeypatch, held, name):
    def train():
        optimizer = two_groups()
        number = torch.tensor(0.01)
        optimizer.param_groups[1][name] = number
        for t in range(8):
            number.mul_(1.5)
            step(optimizer, t)
        optimizer.param_groups[1][name] = 0.02
        step(optimizer, 8)
        return params_of(optimizer)

    assert_equal_without_plans(monkeypatch, train)
    assert held == [False, False, *[True] * 6, False]


def params_that_an_observer_moves():
    """The parameters after steps, each of which ends with the parameters in other memory."""
    optimizer = two_groups()
    before = []  # memory that is not freed, so that no new tensor is there

    def move(params, decision):
        for p in params:
            before.append(p.data)
            p.data = p.data.clone()

    optimizer.observers.append(move)
    for t in range(6):
        step(optimizer, t)
    return params_of(optimizer)


def test_a_plan_knows_where_the_tensors_of_its_step_were(monkeypatch):
    assert_equal_without_plans(monkeypatch, params_that_an_observer_moves)


def param_that_an_observer_transposes(after):
    """A square parameter after steps, one of which ends with its rows as columns of the same memory."""
    optimizer = PsiLogic([nn.Parameter(torch.arange(16.0).view(4, 4))], **ACTIVE)
    counted = []

    def transpose(params, decision):
        counted.append(decision)
        if len(counted) == after:
            params[0].data = params[0].data.t()

    optimizer.observers.append(transpose)
    for t in range(6):
        step(optimizer, t)
    return params_of(optimizer)[0]


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_plan_knows_the_strides_of_its_step(monkeypatch, after):
    ours = param_that_an_observer_transposes(after)
    monkeypatch.setattr(Plan, "recall", nothing_recalled)
    assert torch.equal(ours, param_that_an_observer_transposes(after))


def test_between_steps_a_plan_keeps_no_tensor(held):
    optimizer = two_groups()
    for t in range(4):
        step(optimizer, t)
    assert held[-1]
    gradients = [weakref.ref(p.grad) for p in params_of(optimizer)]
    moments = [weakref.ref(state["exp_avg"]) for state in optimizer.state.values()]
    params = [weakref.ref(p) for p in params_of(optimizer)]
    optimizer.zero_grad()
    assert not any(x() is not None for x in gradients)
    optimizer.state.clear()
    assert not any(x() is not None for x in moments)
    optimizer.param_groups = []
    assert not any(x() is not None for x in params)


def test_without_guards_each_plan_is_new(monkeypatch, held):
    monkeypatch.setattr(memory, "TensorGuards", None)
    optimizer = two_groups()
    for t in range(4):
        step(optimizer, t)
    assert not any(held)


def test_after_an_error_the_plan_is_new(monkeypatch, held):
    optimizer = two_groups()
    for t in range(4):
        step(optimizer, t)
    with monkeypatch.context() as broken:
        broken.setattr("psilogic.stages.take_steps", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            step(optimizer, 4)
    step(optimizer, 5)
    assert held[-2:] == [True, False]
