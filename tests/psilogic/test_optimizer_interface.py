"""The interface that training loops use besides `step()`: closures, hooks, groups, copies."""

import copy
import pickle

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, PER_TENSOR, STEPS, TOGETHER, assert_same, build, snapshot, trace
from torch import nn
from trajectories import SHAPES, gradients, parameters, watch

from psilogic import PsiLogic

# Closures


@pytest.mark.parametrize(
    ("name", "outside"),
    [(name, torch.no_grad) for name in CONFIGURATIONS] + [(name, torch.enable_grad) for name in TOGETHER],
)
def test_closures(name, outside):
    """The closure computes gradients in any grad mode; its loss is returned, and the grad mode is restored."""
    options = CONFIGURATIONS[name]
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    twin, x = copy.deepcopy(model), torch.randn(5, 3)
    ours, theirs = build(list(model.parameters()), **options), build(list(twin.parameters()), **options)
    for t in range(16):

        def closure(scale=80.0 if t % 8 == 7 else 1.0):
            ours.zero_grad()
            loss = (model(x) ** 2).mean() * scale
            loss.backward()
            return loss

        theirs.zero_grad()
        expected = (twin(x) ** 2).mean() * closure.__defaults__[0]
        expected.backward()
        assert theirs.step() is None
        with outside():
            loss = ours.step(closure)
            assert torch.is_grad_enabled() == (outside is torch.enable_grad)
        assert loss.requires_grad
        assert torch.equal(loss, expected)
        assert_same([snapshot(ours, list(model.parameters()))], [snapshot(theirs, list(twin.parameters()))])


# Hooks


def test_step_hooks():
    """The hook before sees, and may change, the gradients that the step takes; the hook after sees its result."""
    params, twins = parameters(), parameters()
    optimizer, theirs, calls = build(params, **ACTIVE), build(twins, **ACTIVE), []

    def before(opt, args, kwargs):
        after(opt, args, kwargs)
        for p in params:
            p.grad.mul_(0.5)

    def after(opt, args, kwargs):
        assert opt is optimizer
        calls.append([p.detach().clone() for p in params])

    handles = [optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)]
    grads, start = [torch.ones_like(p) for p in params], [p.detach().clone() for p in params]
    assert_same(trace(optimizer, params, [grads]), trace(theirs, twins, [[g * 0.5 for g in grads]]))
    torch.testing.assert_close(calls, [start, [p.detach() for p in params]], rtol=0, atol=0)
    for handle in handles:
        handle.remove()
    assert_same(trace(optimizer, params, [grads]), trace(theirs, twins, [grads]))
    assert len(calls) == 2


def test_load_state_dict_hooks():
    """The result of the hook before loading is loaded, the detector's memory included."""
    params, others = parameters(), parameters()
    source, target, calls = build(params, **ACTIVE), build(others, **ACTIVE), []
    trace(source, params, gradients(STEPS))

    def before(opt, state_dict):
        calls.append(("before", opt))
        state = {i: {k: v * 2 if v.is_floating_point() else v for k, v in s.items()} for i, s in saved.items()}
        return {**state_dict, "state": state}

    saved = source.state_dict()["state"]
    target.register_load_state_dict_pre_hook(before)
    target.register_load_state_dict_post_hook(lambda opt: calls.append(("after", opt)))
    target.load_state_dict(source.state_dict())
    assert calls == [("before", target), ("after", target)]
    for p, q in zip(params, others, strict=True):
        for name, value in source.state[p].items():
            torch.testing.assert_close(target.state[q][name], value * 2, msg=lambda m, name=name: f"{name}: {m}")


# Groups that change


@pytest.mark.parametrize(
    ("name", "late"),
    [(name, 12) for name in PER_TENSOR] + [(name, late) for name in TOGETHER if name in PER_TENSOR for late in (1, 18)],
)
def test_a_group_added_later_starts_its_own_clocks(name, late):
    """Bias correction, warm-up and schedule of the added parameters start with their first step."""
    options = PER_TENSOR[name]
    shapes = SHAPES[:2] + SHAPES[3:]
    script = [[torch.ones(s, dtype=torch.float64) if g is None else g for s, g in zip(shapes, gs, strict=True)]
              for gs in gradients(STEPS, shapes, every=15)]  # fmt: skip
    params, alone = parameters(shapes), parameters(shapes)
    optimizer = PsiLogic(params[:2], **options)
    first = trace(optimizer, params, script[:late])
    assert all(not state for _, state in first[-1][2:])
    optimizer.add_param_group({"params": params[2:], **options})
    together = trace(optimizer, params, script[late:])
    apart = trace(PsiLogic(alone[2:], **options), alone[2:], [grads[2:] for grads in script[late:]])
    assert_same([snapshots[2:] for snapshots in together], apart)
    start = trace(PsiLogic(alone[:2], **options), alone[:2], [grads[:2] for grads in script])
    assert_same([snapshots[:2] for snapshots in first + together], start)


# Copies


def pickled(x):
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize(
    ("name", "copied"), [(name, pickled) for name in CONFIGURATIONS] + [(name, copy.deepcopy) for name in TOGETHER]
)
def test_copies_in_mid_run_continue_bit_by_bit(name, copied):
    options = CONFIGURATIONS[name]
    script, params = gradients(STEPS, every=15), parameters()
    optimizer = build(params, **options)
    watch(optimizer)  # observers are not copied
    trace(optimizer, params, script[:13])
    others, twin = copied((params, optimizer))
    assert all(a is b for a, b in zip(others, (p for g in twin.param_groups for p in g["params"]), strict=True))
    assert repr(twin) == repr(optimizer)
    after = trace(twin, others, script[13:])
    assert_same(trace(optimizer, params, script[13:]), after)
    assert_same(after, trace(build(fresh := parameters(), **options), fresh, script)[13:])


# Forms of the argument `params`


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).double()


FORMS = {
    "list": lambda m: list(m.parameters()),
    "generator": lambda m: m.parameters(),
    "named": lambda m: m.named_parameters(),
    "groups": lambda m: [{"params": m[0].parameters()}, {"params": list(m[1].parameters())}],
    "named groups": lambda m: [{"params": m[0].named_parameters()}, {"params": m[1].named_parameters()}],
    "one tensor each": lambda m: [{"params": p} for p in m.parameters()],
}


@pytest.mark.parametrize("options", [{}, PER_TENSOR["relative"]], ids=["defaults", "relative"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms_of_parameters(options, form):
    model, twin = linear(), linear()
    script = gradients(STEPS, [p.shape for p in model.parameters()], every=15)
    optimizer = PsiLogic(form(model), **options)
    params, expected = list(model.parameters()), list(twin.parameters())
    assert_same(trace(optimizer, params, script), trace(PsiLogic(expected, **options), expected, script))
    if form is FORMS["named"]:
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
