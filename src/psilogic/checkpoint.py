"""State dicts: their schema, and the migration of other optimizers' checkpoints."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from psilogic.tensors.norms import has_value
from psilogic.tensors.scalars import CLOCKS
from psilogic.tensors.sharding import is_dtensor

log = logging.getLogger("psilogic")

SCHEMA = 1
"""Version of the state dict, in every parameter group; increased when an older psilogic could not read it."""
FROM_ADAMW = 0
"""The schema of groups that are PsiLogic's in form, but whose moments AdamW wrote: their detectors start now."""
DETECTOR = ("chaos_fast", "chaos_slow", "chaos_ref", "chaos_start")
"""Per-parameter scalars of the chaos detector."""
SCALARS = ("step", *DETECTOR)
"""All per-parameter scalars."""
MOMENTS = ("exp_avg", "exp_avg_sq", "compensation")
"""Per-parameter tensors of the parameter's shape."""
OWN_STATE = (*DETECTOR, "compensation")
"""Per-parameter state that AdamW does not have."""
PUBLISHED = {"m": "exp_avg", "v": "exp_avg_sq", "fast": "chaos_fast", "slow": "chaos_slow", "gn_avg": "chaos_ref"}
"""State keys of the published package psilogic 0.3 to 0.6, and those of this version."""
OTHERS_ONLY = ("amsgrad", "decoupled_weight_decay", "fused", "use_foreach", "use_fused_cuda", "lion_mode", "gamma_auto")
MOST_KEYS = 5
"""The most keys of a wrong state dict that an error names."""

FROM_ADAM = "loaded a checkpoint of Adam or AdamW: the chaos detector and its warm-up start now"

UNMARKED = (
    "the chaos detector of some tensors has seen nothing, but their moments have; if AdamW wrote these, set schema in "
    "the groups of the state dict to psilogic.checkpoint.FROM_ADAMW, so that the detector and its warm-up start now"
)

StateDict = dict[str, Any]


def mark(group: StateDict) -> None:
    """Set in a group of this psilogic what its state dict is known by."""
    group.setdefault("schema", SCHEMA)
    group.setdefault("decoupled_weight_decay", True)  # torch maps AdamW's groups to these by their keys


def _check_keys(state_dict: Mapping[str, Any]) -> None:
    """Raise ValueError unless the keys are those of a state dict of an optimizer."""
    if "state" in state_dict and "param_groups" in state_dict:
        return
    keys = [str(key) for key in state_dict]
    shown = ", ".join(keys[:MOST_KEYS])
    raise ValueError(
        f"this is no state dict of an optimizer, which has the keys state and param_groups; it has {shown}. "
        "Give the optimizer's entry of a checkpoint"
    )


def _check_sizes(saved_groups: Sequence[StateDict], groups: Sequence[StateDict]) -> None:
    """Raise ValueError unless the saved groups have as many parameters as those of the loading optimizer."""
    saved_sizes = [len(group["params"]) for group in saved_groups]
    sizes = [len(group["params"]) for group in groups]
    if saved_sizes == sizes:
        return
    saved = ", ".join(map(str, saved_sizes))
    own = ", ".join(map(str, sizes))
    raise ValueError(
        f"the state dict has other groups: {len(saved_sizes)} with {saved} parameters, and this optimizer has "
        f"{len(sizes)} with {own}. Make the same groups before you load"
    )


def migrate(state_dict: Mapping[str, Any], groups: list[dict[str, Any]]) -> StateDict:
    """Make a state dict of this version from one of PsiLogic, torch's Adam or AdamW, or the published package.

    Args:
        state_dict: the result of some optimizer's `state_dict()`; it is not changed.
        groups: the groups of the loading optimizer, for hyperparameters that the state dict does not contain.

    Raises:
        ValueError: a newer psilogic wrote it, it belongs to an unsupported optimizer, it has other groups, or the
            shapes of Adam's moments differ from those of the parameters; or it is no state dict of an optimizer.
    """
    _check_keys(state_dict)
    saved_groups = state_dict["param_groups"]
    schemas = [group.get("schema") for group in saved_groups]  # None for other optimizers
    newest = max(filter(None, schemas), default=SCHEMA)
    if newest > SCHEMA:
        raise ValueError(
            f"the state dict has schema {newest}, this psilogic reads up to {SCHEMA}: upgrade psilogic to load it"
        )
    _check_sizes(saved_groups, groups)
    states, others = _states_of_params(state_dict)
    entries = {key: _entry(saved) for key, saved in states.items()}
    if FROM_ADAMW in schemas:
        entries = {key: _without_own_state(entry) for key, entry in entries.items()}
    is_of_psilogic = all(schemas)
    if is_of_psilogic:
        if any(map(_saw_nothing, entries.values())):
            log.warning(UNMARKED)
        return {**state_dict, "state": {**entries, **others}}
    _check_origin(states, saved_groups, entries)
    _take_counts_of_groups(entries, saved_groups)
    migrated = _migrated_groups(saved_groups, groups, entries)
    return {**state_dict, "state": {**entries, **others}, "param_groups": migrated}


def _states_of_params(state_dict: Mapping[str, Any]) -> tuple[StateDict, StateDict]:
    """The states of the parameters, and what a user keeps under other keys in `optimizer.state`."""
    keys: set[Any] = set()
    for group in state_dict["param_groups"]:
        keys.update(group["params"])
    states = {}
    others = {}
    for key, saved in state_dict["state"].items():
        if key in keys:
            states[key] = saved
        else:
            others[key] = saved
    return states, others


def _without_own_state(entry: StateDict) -> StateDict:
    """The state of one parameter without what AdamW does not have."""
    return {name: value for name, value in entry.items() if name not in OWN_STATE}


def _saw_nothing(entry: StateDict) -> bool:
    """Whether the detector of a parameter is at zero, while Adam's second moment is not."""
    if "exp_avg_sq" not in entry:
        return False
    for name in ("chaos_fast", "chaos_slow"):
        average = entry.get(name)
        if average is None or not has_value(average) or average.item() != 0:
            return False
    norm = entry["exp_avg_sq"].norm()
    if is_dtensor(norm):
        norm = norm.full_tensor()
    return bool(norm != 0)


def _check_origin(
    states: Mapping[Any, Mapping[str, Any]], saved_groups: Sequence[StateDict], entries: Mapping[Any, StateDict]
) -> None:
    """Refuse a state dict that is neither of Adam or AdamW nor of the published package."""
    saved_states = states.values()
    other_moments = "whose moments mean other steps than those of Adam or AdamW"
    if any("mu_product" in saved for saved in saved_states):
        raise ValueError(f"the state dict is of NAdam, {other_moments}")
    if any("decoupled_weight_decay" in group and "amsgrad" not in group for group in saved_groups):
        raise ValueError(f"the state dict is of RAdam, {other_moments}")
    for entry in entries.values():
        if entry and not ("exp_avg" in entry and "exp_avg_sq" in entry):
            keys: set[str] = set()
            for saved in saved_states:
                keys.update(map(str, saved))
            found = ", ".join(sorted(keys))
            raise ValueError(f"the state dict is not of PsiLogic, Adam or AdamW: its state has the keys {found}")


def _take_counts_of_groups(entries: Mapping[Any, StateDict], saved_groups: Sequence[StateDict]) -> None:
    """Give a state without a step count that of its group, where apex and DeepSpeed keep it.

    Raises:
        ValueError: the group has none either.
    """
    for group in saved_groups:
        for key in group["params"]:
            entry = entries.get(key)
            if not entry or "step" in entry:
                continue
            if "step" not in group:
                raise ValueError(
                    f"the state of parameter {key} has exp_avg, but no step: add the number of steps that it has taken"
                )
            entry["step"] = _scalar("step", group["step"])


def _entry(saved: Mapping[str, Any]) -> StateDict:
    """The state of one parameter under psilogic's names; the running maximum of AMSGrad has no counterpart."""
    entry = dict(saved)
    entry.pop("max_exp_avg_sq", None)
    if entry.keys() >= {"t", "m", "v"}:  # a wrapper of another optimizer may use one of the names
        for published, name in PUBLISHED.items():
            if published in entry:
                entry[name] = entry.pop(published)
        entry["step"] = entry.pop("t")
        entry["chaos_start"] = 0.0
    for name in SCALARS:
        value = entry.get(name)
        if value is not None and not (isinstance(value, Tensor) and value.ndim == 0):
            entry[name] = _scalar(name, value)
    return entry


def _scalar(name: str, value: Any) -> Tensor:
    """A scalar of the state as a 0-dim tensor; torch before 1.12 and perhaps other programs wrote numbers."""
    if isinstance(value, Tensor):
        return value.reshape(())
    dtype = _get_scalar_dtype() if name in CLOCKS else torch.float64
    return torch.tensor(float(value), dtype=dtype)


def _migrated_groups(
    saved_groups: Sequence[StateDict], groups: Sequence[StateDict], entries: Mapping[Any, StateDict]
) -> list[StateDict]:
    """The saved groups as groups of this version; what the user should know is logged once, not for each group."""
    # There may be more saved groups than groups, or fewer: torch refuses that later.
    pairs = []
    for number, saved in enumerate(saved_groups):
        mine = groups[number] if number < len(groups) else {}
        pairs.append((saved, mine))
    notices: dict[str, None] = {}
    for saved, mine in pairs:
        notices.update(dict.fromkeys(_notices(saved, mine, entries)))
    for notice in notices:
        log.warning(notice)
    return [_group(saved, mine, entries) for saved, mine in pairs]


def _group(saved: Mapping[str, Any], mine: Mapping[str, Any], entries: Mapping[Any, StateDict]) -> StateDict:
    """A parameter group with the saved hyperparameters, completed by those of the loading optimizer."""
    if saved.get("lion_mode"):
        raise ValueError("the state dict was written with lion_mode=True, which has no counterpart here")
    kept = {name: value for name, value in saved.items() if name not in OTHERS_ONLY}
    group = {**mine, **kept, "schema": SCHEMA}
    if "use_foreach" in saved:
        group.update(_published_detector(saved, entries))
        group["agc_norm"] = "tensor"
        group["chaos_scope"] = "tensor"
    return group


def _published_detector(saved: Mapping[str, Any], entries: Mapping[Any, StateDict]) -> StateDict:
    """The signal and the warm-up with which the published package trained a group.

    The signal was relative where the state has an average of gn. The automatic warm-up had another rule than here;
    version 0.4, which added `gamma_auto`, changed it.
    """
    relative = any("chaos_ref" in entries.get(key, {}) for key in saved["params"])
    signal = "relative" if relative else "raw"
    warmup = int(saved.get("chaos_warmup", -1))
    if warmup < 0:
        T_max = int(saved.get("gamma_T_max", 0))
        if not T_max:
            warmup = 200
        elif "gamma_auto" in saved:
            warmup = max(500, T_max // 20)
        else:
            warmup = max(50, T_max // 10)
    return {"chaos_signal": signal, "chaos_warmup": warmup}


def _notices(saved: Mapping[str, Any], mine: Mapping[str, Any], entries: Mapping[Any, StateDict]) -> Iterator[str]:
    """What the user should know about the migration of a group, for the log."""
    if "use_foreach" in saved:
        yield from _published_notices(saved, mine, entries)
        return
    yield FROM_ADAM
    if saved.get("amsgrad"):
        yield "amsgrad=True has no counterpart here: its running maximum is dropped, and the next steps may be larger"
    if saved.get("decoupled_weight_decay") is False and saved.get("weight_decay"):
        yield f"weight_decay={saved['weight_decay']:g} was coupled (L2) in Adam and is decoupled from now on"


def _published_notices(
    saved: Mapping[str, Any], mine: Mapping[str, Any], entries: Mapping[Any, StateDict]
) -> Iterator[str]:
    """The notices for a group of the published package."""
    detector = _published_detector(saved, entries)
    options = ", ".join(f"{name}={value!r}" for name, value in detector.items())
    yield f"loaded a checkpoint of the published package psilogic: {options}"
    if saved.get("gamma_auto"):
        yield f"gamma_auto=True has no counterpart here: gamma={saved['gamma']:g} is also that of small gradients"
    if saved.get("grad_centralize") and saved.get("quantum_decay"):
        yield "quantum decay read gradients before their centralization in the package, here it reads them after it"
    rounded = set()
    for key, param in zip(saved["params"], mine.get("params", ()), strict=False):
        moment = entries.get(key, {}).get("exp_avg")
        if moment is not None and moment.dtype.itemsize > param.dtype.itemsize:
            rounded.add((moment.dtype, param.dtype))
    for wide, narrow in sorted(rounded, key=str):
        yield f"Adam's moments were {wide} and become {narrow}, the dtype of their parameters: they are rounded"
