"""The execution that is selected for a group's flags, dtypes and layouts, as `executed` records it."""

from itertools import product

import pytest
import torch
from torch import nn
from trajectories import gradients, parameters, set_gradients, train

from psilogic import PsiLogic

TAKES_FUSED = [{}, {"fused": True}, {"fused": True, "foreach": False}, {"foreach": True}, {"foreach": False}]
TAKES_FOREACH = [{"fused": False}, {"fused": False, "foreach": True}, {"fused": False, "foreach": False}]


@pytest.mark.parametrize(
    ("flags", "is_fused"), [*product(TAKES_FUSED, [True]), *product(TAKES_FOREACH, [False])], ids=str
)
def test_what_runs_is_recorded(execution, flags, is_fused):
    params = parameters(dtype=torch.bfloat16)
    optimizer = PsiLogic(params, **flags)
    assert not optimizer.executed
    train(optimizer, params, gradients(1, dtype=torch.bfloat16))
    picked = execution if is_fused else "foreach"
    assert optimizer.executed == {picked: 5}  # the first step of the script leaves one tensor out


@pytest.mark.parametrize("rounding", ["kahan", "stochastic"])
def test_only_the_compiled_kernels_round_in_other_ways(execution, rounding):
    params = parameters(dtype=torch.bfloat16)
    optimizer = PsiLogic(params, bf16_update=rounding)
    train(optimizer, params, gradients(1, dtype=torch.bfloat16))
    picked = "native" if execution == "native" else "foreach"
    assert optimizer.executed == {picked: 5}


@pytest.mark.parametrize(
    ("options", "is_fused"),
    [({}, True), ({"agc_clip": 0.1, "agc_norm": "tensor"}, True), ({"grad_centralize": True}, False)],
    ids=str,
)
def test_complex_rows_are_left_to_foreach(execution, options, is_fused):
    params = parameters(dtype=torch.complex64)
    optimizer = PsiLogic(params, **options)
    train(optimizer, params, gradients(1, dtype=torch.complex64))
    picked = execution if is_fused else "foreach"
    assert set(optimizer.executed) == {picked}


def test_torch_leaves_what_has_gaps_to_foreach(execution):
    dense = nn.Parameter(torch.zeros(4, 3))
    strided = nn.Parameter(torch.zeros(4, 6)[:, ::2])
    optimizer = PsiLogic([{"params": [dense]}, {"params": [strided]}])
    set_gradients([dense, strided], [torch.ones(4, 3), torch.ones(4, 3)])
    optimizer.step()
    assert optimizer.executed == {"native": {"native": 2}, "fused": {"fused": 1, "foreach": 1}}[execution]


@pytest.mark.parametrize("odd", ["gaps", "gradient", "shared"])
def test_an_unusual_tensor_leaves_the_kernels_alone(execution, odd):
    shape = (6, 4)
    params = [nn.Parameter(torch.ones(shape)) for _ in range(6)]
    grads = [torch.ones(shape) for _ in params]
    if odd == "gaps":
        params[2] = nn.Parameter(torch.ones(6, 8)[:, :4])
    elif odd == "gradient":
        grads[2] = torch.ones(4, 6).t()
    else:
        params[3].data = params[2].data
    optimizer = PsiLogic(params, max_grad_norm=1.0, chaos_scope="group")
    for _ in range(3):
        set_gradients(params, grads)
        optimizer.step()
        if odd == "shared":
            assert optimizer.executed == {"native": {"native": 6}, "fused": {"fused": 6}}[execution]
        else:
            assert optimizer.executed == {"native": {"native": 6}, "fused": {"fused": 5, "foreach": 1}}[execution]
    twins = [nn.Parameter(torch.ones(shape)) for _ in range(6)]
    if odd == "shared":
        twins[3].data = twins[2].data
    twin = PsiLogic(twins, max_grad_norm=1.0, chaos_scope="group", foreach=False, fused=False)
    for _ in range(3):
        set_gradients(twins, grads)
        twin.step()
    torch.testing.assert_close(params, twins)
