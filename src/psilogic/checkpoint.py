"""State dicts: their schema, the migration of other optimizers' checkpoints, and dtypes that survive loading."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product, repeat
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _get_scalar_dtype

from psilogic.tensors.sharding import is_dtensor
from psilogic.tensors.state import CLOCKS, detector_dtype, join

log = logging.getLogger("psilogic")

SCHEMA = 1
"""Version of the state dict, in every parameter group; increased when an older psilogic could not read it."""
FROM_ADAMW = 0
"""The schema of groups that are PsiLogic's in form, but whose moments AdamW wrote: their detectors start now."""
DETECTOR = ("chaos_fast", "chaos_slow", "chaos_ref", "chaos_start")
"""Per-parameter scalars of the chaos detector."""
OWN_STATE = (*DETECTOR, "compensation")
"""Per-parameter state that AdamW does not have."""
PUBLISHED = {"m": "exp_avg", "v": "exp_avg_sq", "fast": "chaos_fast", "slow": "chaos_slow", "gn_avg": "chaos_ref"}
"""State keys of the published package psilogic 0.3 to 0.6, and those of this version."""
OTHERS_ONLY = ("amsgrad", "decoupled_weight_decay", "fused", "use_foreach", "use_fused_cuda", "lion_mode", "gamma_auto")

FROM_ADAM = "loaded a checkpoint of Adam or AdamW: the chaos detector and its warm-up start now"

UNMARKED = (
    "the chaos detector of some tensors has seen nothing, but their moments have; if AdamW wrote these, set schema in "
    "the groups of the state dict to psilogic.checkpoint.FROM_ADAMW, so that the detector and its warm-up start now"
)

StateDict = dict[str, Any]


def migrate(state_dict: Mapping[str, Any], groups: list[dict[str, Any]]) -> StateDict:
    """Make a state dict of this version from one of PsiLogic, torch's Adam or AdamW, or the published package.

    Args:
        state_dict: the result of some optimizer's `state_dict()`; it is not changed.
        groups: the groups of the loading optimizer, for hyperparameters that the state dict does not contain.

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
    if any(group.get("schema") == FROM_ADAMW for group in saved_groups):
        entries = {key: {k: x for k, x in entry.items() if k not in OWN_STATE} for key, entry in entries.items()}
    if all(schemas):
        _check_shapes(entries, saved_groups, groups)
        if any(map(_saw_nothing, entries.values())):
            log.warning(UNMARKED)
        return {**state_dict, "state": entries}
    values, adams = state_dict["state"].values(), "whose moments mean other steps than those of Adam or AdamW"
    if any("mu_product" in entry for entry in values):
        raise ValueError(f"the state dict is of NAdam, {adams}")
    if any("decoupled_weight_decay" in group and "amsgrad" not in group for group in saved_groups):
        raise ValueError(f"the state dict is of RAdam, {adams}")
    if any("exp_avg" not in entry or "exp_avg_sq" not in entry for entry in entries.values() if entry):
        keys = sorted(set(chain.from_iterable(map(str, entry) for entry in state_dict["state"].values())))
        raise ValueError(f"the state dict is not of PsiLogic, Adam or AdamW: its state has the keys {', '.join(keys)}")
    _check_shapes(entries, saved_groups, groups)
    pairs = list(zip(saved_groups, chain(groups, repeat({})), strict=False))  # torch checks their numbers later
    for notice in dict.fromkeys(notice for pair in pairs for notice in _notices(*pair, entries)):
        log.warning(notice)
    return {**state_dict, "state": entries, "param_groups": [_group(*pair, entries) for pair in pairs]}


def _saw_nothing(entry: StateDict) -> bool:
    """Whether the detector of a parameter is at zero, while Adam's second moment is not."""
    memory = [entry.get("chaos_fast"), entry.get("chaos_slow")]
    if "exp_avg_sq" not in entry or any(x is None or x != 0 for x in memory):
        return False
    norm = entry["exp_avg_sq"].norm()
    return bool((norm.full_tensor() if is_dtensor(norm) else norm) != 0)


def _check_shapes(entries: Mapping[Any, StateDict], saved_groups: list[StateDict], groups: list[StateDict]) -> None:
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
    kept = {name: value for name, value in saved.items() if name not in OTHERS_ONLY}
    group = {**mine, **kept, "schema": SCHEMA}
    if "use_foreach" in saved:
        group |= {**_published(saved, entries), "agc_norm": "tensor", "chaos_scope": "tensor"}
    return group


def _published(saved: Mapping[str, Any], entries: Mapping[Any, StateDict]) -> StateDict:
    """Signal and warm-up of a group of the published package, whose gn was relative to its average where it had one.

    Its automatic warm-up was not that of this version, and its rule changed with 0.4, which added `gamma_auto`.
    """
    relative = any("chaos_ref" in entries.get(key, {}) for key in saved["params"])
    warmup, T_max = int(saved.get("chaos_warmup", -1)), int(saved.get("gamma_T_max", 0))
    if warmup < 0:
        automatic = max(500, T_max // 20) if "gamma_auto" in saved else max(50, T_max // 10)
        warmup = automatic if T_max else 200
    return {"chaos_signal": "relative" if relative else "raw", "chaos_warmup": warmup}


def _notices(saved: Mapping[str, Any], mine: Mapping[str, Any], entries: Mapping[Any, StateDict]) -> Iterator[str]:
    """What the user should know about the migration of a group, for the log."""
    if "use_foreach" in saved:
        how = ", ".join(f"{name}={value!r}" for name, value in _published(saved, entries).items())
        yield f"loaded a checkpoint of the published package psilogic: {how}"
        if saved.get("gamma_auto"):
            yield f"gamma_auto=True has no counterpart here: gamma={saved['gamma']:g} is also that of small gradients"
        if saved.get("grad_centralize") and saved.get("quantum_decay"):
            yield "quantum decay read gradients before their centralization in the package, here it reads them after it"
        moments = [entries.get(key, {}).get("exp_avg") for key in saved["params"]]
        pairs = {(m.dtype, p.dtype) for m, p in zip(moments, mine.get("params", ()), strict=False) if m is not None}
        for wide, narrow in sorted(((a, b) for a, b in pairs if a.itemsize > b.itemsize), key=str):
            yield f"Adam's moments were {wide} and become {narrow}, the dtype of their parameters: they are rounded"
        return
    yield FROM_ADAM
    if saved.get("amsgrad"):
        yield "amsgrad=True has no counterpart here: its running maximum is dropped, and the next steps may be larger"
    if saved.get("decoupled_weight_decay") is False and saved.get("weight_decay"):
        yield f"weight_decay={saved['weight_decay']:g} was coupled (L2) in Adam and is decoupled from now on"


def restore_scalars(
    params: Sequence[Tensor],
    saved_ids: Iterable[Any],
    saved: Mapping[Any, StateDict],
    state: Mapping[Tensor, StateDict],
) -> None:
    """Restore the saved values of the detector's scalars, which torch has cast to the parameter's dtype; join all.

    `saved_ids` are the parameters' keys in `saved`, the `state` of a state dict; `state` is changed in place.
    """
    for (param, key), name in product(zip(params, saved_ids, strict=True), DETECTOR):
        value = saved.get(key, {}).get(name)
        if value is not None:
            counts = name == "chaos_start"
            keep = value.dtype if counts else detector_dtype(param)
            device = state[param]["step"].device if counts else param.device
            state[param][name] = value.detach().to(device=device, dtype=keep, copy=True)
    join([state[p] for p in params if p in state], ("step", *DETECTOR))
