"""Calls as the published package psilogic 0.3 to 0.6 took them: they are refused here, with what to write instead."""

import warnings
from collections.abc import Callable, Container, Iterable, Sequence
from functools import wraps
from inspect import Parameter, signature
from numbers import Real
from typing import Any, ParamSpec

from psilogic.misspelled import refuse_unknown
from psilogic.options import OPTIONS

P = ParamSpec("P")

GONE = {
    "use_foreach": "write foreach=True or foreach=False, or leave the choice to PsiLogic",
    "use_fused_cuda": "write fused=True for Triton's kernels on CUDA, otherwise leave it out",
    "lion_mode": "take an optimizer that is Lion, for example pytorch_optimizer.Lion",
    "lion_blocks": "put those blocks into an optimizer that is Lion, for example pytorch_optimizer.Lion",
    "gamma_auto": "leave it out; gamma is the same for gradients of every size",
    "sync_chaos_ddp": "leave it out; DDP gives every process the same gradients, so their detectors agree",
    "profile_step_time": "leave it out, and measure the step with torch.profiler",
}
"""Arguments of the package that have no counterpart of the same name, and what to do instead."""

MAYBE_DECAY = 1e-5
"""From this value on a fourth positional argument may be an eps or a weight decay, and so may 0."""
SURELY_DECAY = 1e-3
"""A fourth positional argument above this is a weight decay."""


def refuse_gone(names: Container[str]) -> None:
    """Raise TypeError for an argument that only the published package has."""
    for name, advice in GONE.items():
        if name in names:
            raise TypeError(f"psilogic has no argument {name}, unlike psilogic 0.3 to 0.6: {advice}")


def refusing(check: Callable[[Sequence[Any], Iterable[str]], None]) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Decorate a constructor: check what a call gives by position and by name, since its arguments do not show that.

    `check` gets the positional arguments without `self`, and the names of the others. Arguments that are gone raise
    TypeError too.
    """

    def decorate(constructor: Callable[P, None]) -> Callable[P, None]:
        known = _names_of_arguments(constructor)

        @wraps(constructor)
        def checked(*positional: P.args, **named: P.kwargs) -> None:
            refuse_gone(named)
            optimizer, *others = positional
            refuse_unknown(type(optimizer).__name__, named, known)
            check(others, named.keys())
            constructor(*positional, **named)

        return checked

    return decorate


def _names_of_arguments(constructor: Callable[..., None]) -> list[str]:
    """The names that a constructor takes. One that passes further arguments on takes every option."""
    parameters = signature(constructor).parameters.values()
    names = [parameter.name for parameter in parameters]
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        names += [*OPTIONS, "amsgrad"]
    return names


def check_order(positional: Sequence[Any], names: Iterable[str]) -> None:
    """Refuse the published package's order params, lr, betas, weight_decay, gamma, p_ext, quantum_decay, eps, ...

    TypeError if a call can only be of that order; a warning if its fourth value may be an eps or a weight decay, which
    is taken as eps, as in `torch.optim.AdamW`.
    """
    if len(positional) < 4 or "weight_decay" in names:
        return
    fourth = positional[3]
    text = "the fourth positional argument is eps, as in torch.optim.AdamW; in psilogic 0.3 to 0.6 it was weight_decay"
    advice = f"write weight_decay={fourth!r} or eps={fourth!r}"
    if _is_published_order(positional, names):
        if len(positional) > 4:
            advice += ", and name all arguments after it"
        raise TypeError(f"{text}: {advice}")
    if _is_number(fourth) and (fourth == 0 or fourth >= MAYBE_DECAY):
        warnings.warn(f"eps is {fourth!r}: {text}; {advice}", stacklevel=3)


def _is_published_order(positional: Sequence[Any], names: Iterable[str]) -> bool:
    """Whether a call with at least four positional arguments can only be of the published package's order."""
    if len(positional) > 6 or "eps" in names:
        return True
    if len(positional) == 6 and not isinstance(positional[5], bool):  # here the sixth is amsgrad
        return True
    return bool(_is_number(positional[3]) and positional[3] > SURELY_DECAY)


def _is_number(value: Any) -> bool:
    """Whether a value is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_preset_order(positional: Sequence[Any], names: Iterable[str]) -> None:
    """Refuse the order of the published presets, params, lr, gamma_T_max: TypeError if the third value is a number."""
    if len(positional) > 2 and isinstance(positional[2], Real):
        text = "the third positional argument is betas; in the presets of psilogic 0.3 to 0.6 it was gamma_T_max"
        raise TypeError(f"{text}: write gamma_T_max={positional[2]!r}")
