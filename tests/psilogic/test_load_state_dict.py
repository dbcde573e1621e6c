"""Loading: what a state contains gets the dtype and the device that AdamW gives it, and no failure changes anything."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from psilogic import PsiLogic

NUMEL = 3
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.complex64]
FLAGS: list[dict[str, bool]] = [{}, {"capturable": True}, {"fused": True}]


class Unmovable(Tensor):
    """A tensor for which another device has no memory."""

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        raise RuntimeError("out of memory")


def parameter(dtype: torch.dtype, device: str) -> nn.Parameter:
    return nn.Parameter(torch.ones(NUMEL, dtype=dtype, device=device))


def kind_of(value: Any) -> Any:
    """The dtype and the device of tensors, in a state or in a part of one; other values themselves."""
    if isinstance(value, Tensor):
        return value.dtype, value.device
    if isinstance(value, dict):
        return {name: kind_of(part) for name, part in value.items()}
    return value


def of_adamw(dtype: torch.dtype, flags: dict[str, bool]) -> dict[str, Any]:
    """A state dict of AdamW in host memory, with things that only its writer knows."""
    state_dict = AdamW([parameter(dtype, "cpu")], **flags).state_dict()
    moments = torch.ones(NUMEL, dtype=dtype)
    entry = {
        "step": torch.tensor(3.0, dtype=torch.float64),
        "exp_avg": moments,
        "exp_avg_sq": moments + 1,
        "number": 7,
        "nested": {"tensor": torch.ones(2, dtype=torch.float64)},
    }
    state_dict["state"] = {0: entry, "of no parameter": {"exp_avg": moments, "exp_avg_sq": moments}}
    return state_dict


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("saved_dtype", [torch.float64, torch.float32], ids=str)
def test_tensors_are_cast_and_moved_as_by_adamw(
    saved_dtype: torch.dtype, dtype: torch.dtype, device: str, flags: dict[str, bool]
) -> None:
    saved = of_adamw(saved_dtype, flags)
    mine = PsiLogic([parameter(dtype, device)], **flags)
    theirs = AdamW([parameter(dtype, device)], **flags)
    mine.load_state_dict(saved)
    theirs.load_state_dict(saved)
    loaded = mine.state_dict()["state"]
    expected = theirs.state_dict()["state"]
    assert kind_of(loaded) == kind_of(expected)
    if device == "cpu":
        for name in ("step", "exp_avg", "exp_avg_sq"):
            assert torch.equal(loaded[0][name], expected[0][name])


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_detector_keeps_its_precision_on_the_device_of_its_parameter(
    dtype: torch.dtype, flags: dict[str, bool]
) -> None:
    source = parameter(torch.float32, "cpu")
    writer = PsiLogic([source], chaos_signal="relative", capturable=flags.get("capturable", False))
    source.grad = torch.ones_like(source)
    writer.step()
    saved = writer.state_dict()
    saved["param_groups"][0].update(flags)

    param = parameter(dtype, "meta")
    reader = PsiLogic([param])
    reader.load_state_dict(saved)
    entry = reader.state[param]
    memory_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    for name in ("chaos_fast", "chaos_slow", "chaos_ref"):
        assert kind_of(entry[name]) == (memory_dtype, param.device)
    clock_device = param.device if flags else torch.device("cpu")
    for name in ("step", "chaos_start"):
        assert kind_of(entry[name]) == (torch.float32, clock_device)


def test_a_state_without_values_is_loaded() -> None:
    """As a training on the meta device saves it, to see what fits."""
    weight = nn.Parameter(torch.ones(3, device="meta"))
    optimizer = PsiLogic([weight])
    weight.grad = torch.ones_like(weight)
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.step()
    assert optimizer.state[weight]["exp_avg"].is_meta


def test_nothing_changes_if_a_tensor_cannot_be_moved() -> None:
    param = parameter(torch.float32, "meta")
    optimizer = PsiLogic([param], lr=0.5)
    saved = of_adamw(torch.float32, {})
    saved["state"][0]["exp_avg_sq"] = torch.ones(NUMEL).as_subclass(Unmovable)
    with pytest.raises(RuntimeError, match="out of memory"):
        optimizer.load_state_dict(saved)
    assert not optimizer.state
    assert optimizer.param_groups[0]["lr"] == 0.5
