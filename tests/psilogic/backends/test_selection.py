"""The execution that is selected for a group's flags, dtypes and layouts, as `executed` records it."""

import pytest
import torch
from torch import nn
from trajectories import gradients, parameters, set_gradients, train

from psilogic import PsiLogic

PICKED = [
    ({}, "fused"), ({"fused": True}, "fused"), ({"fused": True, "foreach": False}, "fused"),
    ({"fused": False}, "foreach"), ({"foreach": True}, "foreach"), ({"foreach": False}, "foreach"),
    ({"bf16_update": "kahan"}, "foreach"), ({"bf16_update": "stochastic"}, "foreach"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "picked"), PICKED, ids=str)
def test_what_runs_is_recorded(execution, flags, picked):
    picked = execution if picked == "fused" else picked
    params = parameters(dtype=torch.bfloat16)
    optimizer = PsiLogic(params, **flags)
    assert not optimizer.executed
    train(optimizer, params, gradients(1, dtype=torch.bfloat16))
    assert optimizer.executed == {picked: 5}  # the first step of the script leaves one tensor out


@pytest.mark.parametrize(
    ("options", "picked"),
    [({}, "fused"), ({"agc_clip": 0.1, "agc_norm": "tensor"}, "fused"), ({"grad_centralize": True}, "foreach")],
    ids=str,
)
def test_complex_rows_are_left_to_foreach(execution, options, picked):
    params = parameters(dtype=torch.complex64)
    optimizer = PsiLogic(params, **options)
    train(optimizer, params, gradients(1, dtype=torch.complex64))
    assert set(optimizer.executed) == {execution if picked == "fused" else picked}


def test_both_run_where_layouts_differ(execution):
    dense, strided = torch.zeros(4, 3), torch.zeros(4, 6)[:, ::2]
    params = [nn.Parameter(x) for x in (dense, strided)]
    groups = [{"params": [p]} for p in params]
    optimizer = PsiLogic(groups)
    set_gradients(params, [torch.ones(4, 3)] * 2)
    optimizer.step()
    assert optimizer.executed == {execution: 1, "foreach": 1}
