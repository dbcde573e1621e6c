"""State dicts: their schema, the migration of other optimizers' checkpoints, and dtypes that survive loading."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from psilogic.tensors.state import detector_dtype

log = logging.getLogger("psilogic")

SCHEMA = 1
"""Version of the state dict, in every parameter group; increased when an older psilogic could not read it."""

DETECTOR = ("chaos_fast", "chaos_slow", "chaos_ref", "chaos_start")
"""Per-parameter scalars of the chaos detector."""

CLOCKS = ("step", "chaos_start")
"""Per-parameter counts of steps: of the parameter, and at the start of the detector."""

PUBLISHED = {"m": "exp_avg", "v": "exp_avg_sq", "fast": "chaos_fast", "slow": "chaos_slow", "gn_avg": "chaos_ref"}
"""State keys of the published package psilogic 0.3 to 0.6, and those of this version."""

ADAM_ONLY = ("amsgrad", "decoupled_weight_decay", "fused")
PUBLISHED_ONLY = ("use_foreach", "lion_mode", "gamma_auto")

StateDict = dict[str, Any]


def migrate(state_dict: Mapping[str, Any], groups: list[dict[str, Any]]) -> StateDict:
    """Make a state dict of this version from one of PsiLogic, torch's Adam or AdamW, or the published package.

    Args:
        state_dict: the result of some optimizer's `state_dict()`; it is not changed.
        groups: the groups of the loading optimizer, for hyperparameters that the state dict does not contain.

    Returns:
        A state dict that `torch.optim.Optimizer.load_state_dict` takes.

    Raises:
        ValueError: a newer psilogic wrote it, it belongs to an unsupported optimizer, or the shapes of Adam's moments
            differ from those of the parameters.
    """
    saved_groups = state_dict["param_groups"]
    schemas = [group.get("schema", 0) for group in saved_groups]
    if max(schemas, default=SCHEMA) > SCHEMA:
        raise ValueError(
            f"the state dict has schema {max(schemas)}, this psilogic reads up to {SCHEMA}: upgrade psilogic to load it"
        )
    entries = {key: _entry(entry) for key, entry in state_dict["state"].items()}
    if all(schemas):
        _check_shapes(entries, saved_groups, groups)
        return {**state_dict, "state": entries}
    if any("exp_avg" not in entry or "exp_avg_sq" not in entry for entry in entries.values() if entry):
        keys = sorted(set(chain.from_iterable(map(str, entry) for entry in state_dict["state"].values())))
        raise ValueError(f"the state dict is not of PsiLogic, Adam or AdamW: its state has the keys {', '.join(keys)}")
    _check_shapes(entries, saved_groups, groups)
    # torch checks the number of groups.
    own = [*groups, *[{}] * (len(saved_groups) - len(groups))]
    for notice in dict.fromkeys(notice for group in saved_groups for notice in _notices(group, entries)):
        log.warning(notice)
    return {
        **state_dict,
        "state": entries,
        "param_groups": [_group(saved, mine, entries) for saved, mine in zip(saved_groups, own, strict=False)],
    }


def _check_shapes(
    entries: Mapping[Any, StateDict], saved_groups: list[dict[str, Any]], groups: list[dict[str, Any]]
) -> None:
    """Refuse moments of other shapes; torch checks the numbers of groups and parameters."""
    for i, (saved, mine) in enumerate(zip(saved_groups, groups, strict=False)):
        for j, (key, p) in enumerate(zip(saved["params"], mine["params"], strict=False)):
            for name in ("exp_avg", "exp_avg_sq"):
                moment = entries.get(key, {}).get(name)
                if moment is not None and moment.shape != p.shape:
                    raise ValueError(
                        f"the state dict does not fit: {name} of parameter {j} in group {i} has the shape "
                        f"{tuple(moment.shape)}, the parameter {tuple(p.shape)}; was it saved with other parameters?"
                    )


def _entry(saved: Mapping[str, Any]) -> StateDict:
    """The state of one parameter under psilogic's names; the running maximum of AMSGrad has no counterpart."""
    entry = {PUBLISHED.get(name, name): value for name, value in saved.items() if name != "max_exp_avg_sq"}
    if "t" in entry:
        entry |= {"step": entry.pop("t"), "chaos_start": 0.0}
    return {name: _scalar(name, value) if name in CLOCKS + DETECTOR else value for name, value in entry.items()}


def _scalar(name: str, value: Any) -> Tensor:
    """A scalar of the state as a 0-dim tensor; torch before 1.12 and perhaps other programs wrote numbers."""
    if isinstance(value, Tensor):
        return value.reshape(())
    return torch.tensor(float(value), dtype=_get_scalar_dtype() if name in CLOCKS else torch.float64)


def _group(saved: Mapping[str, Any], mine: Mapping[str, Any], entries: Mapping[Any, StateDict]) -> StateDict:
    """A parameter group with the saved hyperparameters, completed by those of the loading optimizer."""
    if saved.get("lion_mode"):
        raise ValueError("the state dict was written with lion_mode=True, which has no counterpart here")
    kept = {name: value for name, value in saved.items() if name not in ADAM_ONLY + PUBLISHED_ONLY}
    group = {**mine, **kept, "schema": SCHEMA}
    if "use_foreach" in saved:  # the published package: gn relative to its average, AGC of whole tensors
        group |= {"chaos_signal": _published_signal(saved, entries), "agc_norm": "tensor", "chaos_scope": "tensor"}
    return group


def _published_signal(saved: Mapping[str, Any], entries: Mapping[Any, StateDict]) -> str:
    """The detector's input in a group of the published package: versions without a reference had the raw one."""
    return "relative" if any("chaos_ref" in entries.get(key, {}) for key in saved["params"]) else "raw"


def _notices(saved: Mapping[str, Any], entries: Mapping[Any, StateDict]) -> Iterator[str]:
    """What the user should know about the migration of a group, for the log."""
    if "use_foreach" in saved:
        signal = _published_signal(saved, entries)
        yield f"loaded a checkpoint of the published package psilogic: chaos_signal={signal!r}"
        return
    yield "loaded a checkpoint of Adam or AdamW: the chaos detector and its warm-up start now"
    if saved.get("decoupled_weight_decay") is False and saved.get("weight_decay"):
        yield f"weight_decay={saved['weight_decay']:g} was coupled (L2) in Adam and is decoupled from now on"


def restore_scalars(
    params: Iterable[Tensor],
    saved_ids: Iterable[Any],
    saved: Mapping[Any, StateDict],
    state: Mapping[Tensor, StateDict],
) -> None:
    """Restore the saved values of the detector's scalars, which torch has cast to the parameter's dtype.

    Args:
        params: parameters of the optimizer, in the order of its groups.
        saved_ids: their keys in the state dict, in the same order.
        saved: the `state` of the state dict.
        state: the optimizer's state; changed in place.
    """
    for param, key in zip(params, saved_ids, strict=True):
        for name in DETECTOR:
            value = saved.get(key, {}).get(name)
            if value is not None:
                keep = value.dtype if name == "chaos_start" else detector_dtype(param)
                device = state[param]["step"].device if name == "chaos_start" else param.device
                state[param][name] = value.detach().to(device=device, dtype=keep, copy=True)
