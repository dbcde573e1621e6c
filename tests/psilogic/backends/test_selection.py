"""The execution that is selected for a group's flags, dtypes and layouts, as `executed` records it."""

from itertools import product

import pytest
import torch
from torch import nn
from trajectories import gradients, parameters, set_gradients, train

from psilogic import PsiLogic

TAKES_FUSED = [{}, {"fused": True}, {"fused": True, "foreach": False}]
TAKES_FOREACH = [
    {"fused": False},
    {"foreach": True},
    {"foreach": False},
    {"bf16_update": "kahan"},
    {"bf16_update": "stochastic"},
]


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


def test_both_run_where_layouts_differ(execution):
    dense = nn.Parameter(torch.zeros(4, 3))
    strided = nn.Parameter(torch.zeros(4, 6)[:, ::2])
    optimizer = PsiLogic([{"params": [dense]}, {"params": [strided]}])
    set_gradients([dense, strided], [torch.ones(4, 3), torch.ones(4, 3)])
    optimizer.step()
    assert optimizer.executed == {execution: 1, "foreach": 1}
