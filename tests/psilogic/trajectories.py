"""Parameters and gradients for the tests: seeded, with spikes, and the loop that feeds them to an optimizer."""

from typing import NamedTuple

import torch
from torch import nn

SHAPES = [(), (0,), (5,), (4, 3), (2, 0), (2, 3, 2, 2)]
SPIKE = 80.0  # the detector's fast EMA passes twice the slow one from a factor of 13.5 on


def parameters(shapes=SHAPES, dtype=torch.float64, seed=0):
    """Normal parameters; the last row of every matrix is so small that its norm is below AGC's floor."""
    generator = torch.Generator().manual_seed(seed)
    params = []
    for shape in shapes:
        values = torch.randn(shape, dtype=_widest(dtype), generator=generator)
        if values.ndim > 1 and len(values):
            values[-1] *= 1e-5
        params.append(nn.Parameter(values.to(dtype)))
    return params


def gradients(steps, shapes=SHAPES, dtype=torch.float64, seed=1, every=45):
    """One list of gradients per step: each tensor on a different scale, spikes every `every` steps and sometimes none.

    Tensor 2 is frozen for the first 50 steps, or 12 where these are all, tensor 3 misses every third step, and the even
    and the odd tensors spike at different times.
    """
    frozen = 12 if steps <= 50 else 50
    generator = torch.Generator().manual_seed(seed)
    script = []
    for t in range(1, steps + 1):
        grads = []
        for i, shape in enumerate(shapes):
            odd = i % 2
            is_spike = t > 5 and (t + 20 * odd) % every == 0
            spike = SPIKE if is_spike else 1.0
            g = torch.randn(shape, dtype=_widest(dtype), generator=generator) * spike * 0.3 ** (i % 3)
            if (i == 2 and t <= frozen) or (i == 3 and t % 3 == 0):
                grads.append(None)
            else:
                grads.append(g.to(dtype))
        script.append(grads)
    return script


def _widest(dtype):
    """The dtype in which numbers are drawn, so that they are the same in all dtypes."""
    return torch.complex128 if dtype.is_complex else torch.float64


def changed(script, change):
    """The script with a function of every gradient; what has no gradient still has none."""
    return [changed_step(grads, change) for grads in script]


def changed_step(grads, change):
    """One step of a script with a function of every gradient."""
    return [None if g is None else change(g) for g in grads]


def ones_for(params):
    """A gradient of ones for each parameter."""
    return [torch.ones_like(p) for p in params]


def params_of(optimizer):
    """All parameters of an optimizer, in the order of its groups."""
    params = []
    for group in optimizer.param_groups:
        params += group["params"]
    return params


def duplicates(params):
    """New parameters with the same values."""
    return [nn.Parameter(p.detach().clone()) for p in params]


def set_gradients(params, grads):
    """Copies of the gradients, with their strides."""
    for p, g in zip(params, grads, strict=True):
        if g is None:
            p.grad = None
        else:
            copy = torch.empty_strided(g.shape, g.stride(), dtype=g.dtype, device=g.device)
            p.grad = copy.copy_(g)


def train(optimizer, params, script):
    """Take one step per entry of the script; returns the parameters after the last one."""
    for grads in script:
        set_gradients(params, grads)
        optimizer.step()
    return [p.detach() for p in params]


class Observation(NamedTuple):
    """What an observer sees: the tensors of a bucket and the decision about them."""

    params: list
    decision: tuple


def watch(optimizer):
    """A list that fills with an `Observation` for each bucket while the optimizer steps."""
    seen = []

    def observe(params, decision):
        seen.append(Observation(params, decision))

    optimizer.observers.append(observe)
    return seen
