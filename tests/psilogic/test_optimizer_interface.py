"""The interface that training loops use besides `step()`: closures, hooks, groups, copies."""

import copy
import pickle
from itertools import product

import pytest
import torch
from configurations import (
    ACTIVE,
    CONFIGURATIONS,
    PER_TENSOR,
    STEPS,
    TOGETHER,
    assert_same,
    build,
    represented,
    snapshot,
    trace,
)
from torch import nn
from trajectories import SHAPES, gradients, ones_for, parameters, params_of, watch

from psilogic import PsiLogic

# Closures


@pytest.mark.parametrize(
    ("name", "outside"),
    represented([*product(CONFIGURATIONS, [torch.no_grad]), *product(TOGETHER, [torch.enable_grad])]),
)
def test_closures(name, outside):
    """The closure computes gradients in any grad mode; its loss is returned, and the grad mode is restored."""
    options = CONFIGURATIONS[name]
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    twin = copy.deepcopy(model)
    x = torch.randn(5, 3)
    params = list(model.parameters())
    twins = list(twin.parameters())
    ours = build(params, **options)
    theirs = build(twins, **options)

    def loss_of(net, scale):
        return (net(x) ** 2).mean() * scale

    for t in range(16):
        scale = 80.0 if t % 8 == 7 else 1.0

        def closure(scale=scale):
            ours.zero_grad()
            loss = loss_of(model, scale)
            loss.backward()
            return loss

        theirs.zero_grad()
        expected = loss_of(twin, scale)
        expected.backward()
        assert theirs.step() is None
        with outside():
            loss = ours.step(closure)
            assert torch.is_grad_enabled() == (outside is torch.enable_grad)
        assert loss.requires_grad
        assert torch.equal(loss, expected)
        assert_same([snapshot(ours, params)], [snapshot(theirs, twins)])


# Hooks


def test_step_hooks():
    """The hook before sees, and may change, the gradients that the step takes; the hook after sees its result."""
    params = parameters()
    optimizer = build(params, **ACTIVE)
    twins = parameters()
    theirs = build(twins, **ACTIVE)
    calls = []

    def note(opt, args, kwargs):
        assert opt is optimizer
        calls.append([p.detach().clone() for p in params])

    def note_and_halve(opt, args, kwargs):
        note(opt, args, kwargs)
        for p in params:
            p.grad.mul_(0.5)

    hook_before = optimizer.register_step_pre_hook(note_and_halve)
    hook_after = optimizer.register_step_post_hook(note)
    ones = ones_for(params)
    halves = [g * 0.5 for g in ones]
    start = [p.detach().clone() for p in params]
    assert_same(trace(optimizer, params, [ones]), trace(theirs, twins, [halves]))
    torch.testing.assert_close(calls, [start, [p.detach() for p in params]], rtol=0, atol=0)
    hook_before.remove()
    hook_after.remove()
    assert_same(trace(optimizer, params, [ones]), trace(theirs, twins, [ones]))
    assert len(calls) == 2


def test_load_state_dict_hooks():
    """The result of the hook before loading is loaded, the detector's memory included; the one after it sees all."""
    params = parameters()
    source = build(params, **ACTIVE)
    others = parameters()
    target = build(others, **ACTIVE)
    calls = []
    trace(source, params, gradients(STEPS))

    def before(opt, state_dict):
        calls.append(("before", opt))
        state = {}
        for key, entry in state_dict["state"].items():
            state[key] = {name: value * 2 for name, value in entry.items()}
        return {**state_dict, "state": state}

    def after(opt):
        calls.append(("after", opt))
        assert list(opt.state) == others
        for state in opt.state.values():
            assert state.keys() == source.state[params[0]].keys()
        assert opt.param_groups[0].keys() == source.param_groups[0].keys()

    target.register_load_state_dict_pre_hook(before)
    target.register_load_state_dict_post_hook(after)
    target.load_state_dict(source.state_dict())
    assert calls == [("before", target), ("after", target)]
    for p, q in zip(params, others, strict=True):
        for name, value in source.state[p].items():
            assert torch.equal(target.state[q][name], value * 2), name


# Groups that change


INDEPENDENT_TOGETHER = [name for name in TOGETHER if name in PER_TENSOR]


@pytest.mark.parametrize(("name", "late"), [*product(PER_TENSOR, [12]), *product(INDEPENDENT_TOGETHER, [1, 18])])
def test_a_group_added_later_starts_its_own_clocks(name, late):
    """Bias correction, warm-up and schedule of the added parameters start with their first step."""
    options = PER_TENSOR[name]
    shapes = SHAPES[:2] + SHAPES[3:]
    params = parameters(shapes)
    script = gradients(STEPS, shapes, every=15)
    for grads in script:
        for i, g in enumerate(grads):
            if g is None:
                grads[i] = torch.ones_like(params[i])
    optimizer = PsiLogic(params[:2], **options)
    first = trace(optimizer, params, script[:late])
    for snapshot_of_later in first[-1][2:]:
        assert not snapshot_of_later.state
    optimizer.add_param_group({"params": params[2:], **options})
    together = trace(optimizer, params, script[late:])

    early_alone = parameters(shapes)[:2]
    expected = trace(PsiLogic(early_alone, **options), early_alone, [grads[:2] for grads in script])
    assert_same([snapshots[:2] for snapshots in first + together], expected)
    late_alone = parameters(shapes)[2:]
    expected = trace(PsiLogic(late_alone, **options), late_alone, [grads[2:] for grads in script[late:]])
    assert_same([snapshots[2:] for snapshots in together], expected)


# Copies


def pickled(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize(
    ("name", "copied"), represented([*product(CONFIGURATIONS, [pickled]), *product(TOGETHER, [copy.deepcopy])])
)
def test_copies_in_mid_run_continue_bit_by_bit(name, copied):
    options = CONFIGURATIONS[name]
    script = gradients(STEPS, every=15)
    params = parameters()
    optimizer = build(params, **options)
    watch(optimizer)  # observers are not copied
    trace(optimizer, params, script[:13])
    others, twin = copied((params, optimizer))
    assert list(map(id, others)) == list(map(id, params_of(twin)))
    assert repr(twin) == repr(optimizer)
    after = trace(twin, others, script[13:])
    assert_same(trace(optimizer, params, script[13:]), after)
    fresh = parameters()
    undisturbed = trace(build(fresh, **options), fresh, script)
    assert_same(after, undisturbed[13:])


# Forms of the argument `params`


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()


def as_list(model):
    return list(model.parameters())


def as_generator(model):
    return model.parameters()


def as_named(model):
    return model.named_parameters()


def as_groups(model):
    return [{"params": model[0].parameters()}, {"params": list(model[1].parameters())}]


def as_named_groups(model):
    return [{"params": layer.named_parameters()} for layer in model]


def as_one_group_each(model):
    return [{"params": p} for p in model.parameters()]


FORMS = [as_list, as_generator, as_named, as_groups, as_named_groups, as_one_group_each]


@pytest.mark.parametrize("options", [{}, PER_TENSOR["relative"]], ids=["defaults", "relative"])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_parameters(options, form):
    model = linear()
    params = list(model.parameters())
    script = gradients(STEPS, [p.shape for p in params], every=15)
    optimizer = PsiLogic(form(model), **options)
    expected = list(linear().parameters())
    assert_same(trace(optimizer, params, script), trace(PsiLogic(expected, **options), expected, script))
    if form is as_named:
        for groups in (optimizer.param_groups, optimizer.state_dict()["param_groups"]):
            assert groups[0]["param_names"] == [name for name, _ in model.named_parameters()]


# What a terminal shows


def test_the_text_of_an_optimizer_is_short():
    params = [nn.Parameter(torch.ones(3, 2)) for _ in range(12)]
    assert repr(PsiLogic(params[:2])) == "PsiLogic(lr=0.001, weight_decay=0.0001, 2 tensors of 12 elements)"
    layers = [{"params": [p], "lr": 0.01 * i} for i, p in enumerate(params)]
    layers[0] |= {"name": "head", "gamma": 0.0}
    lines = repr(PsiLogic(layers, weight_decay=0.1)).splitlines()
    assert lines[0] == "PsiLogic(weight_decay=0.1)"
    assert lines[1] == "  head: 1 tensor of 6 elements, lr=0, gamma=0.0"
    assert lines[2] == "  1: 1 tensor of 6 elements, lr=0.01, gamma=0.05"
    assert lines[-1] == "  and 4 more groups"
    assert len(lines) == 10


@pytest.mark.parametrize("lr", [None, "auto", torch.tensor(0.1, device="meta"), torch.tensor([0.1])], ids=str)
def test_the_text_of_groups_that_were_changed_by_hand(lr):
    """A text of the optimizer in a log or a debugger is no place for an error."""
    params = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = PsiLogic(params[:1])
    optimizer.param_groups[0]["lr"] = lr
    optimizer.param_groups.append({"params": params[1:]})
    assert "lr=" in repr(optimizer)
