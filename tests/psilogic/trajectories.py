"""Parameters and gradients for the tests: seeded, with spikes, and the loop that feeds them to an optimizer."""

import torch
from torch import nn

SHAPES = [(), (0,), (5,), (4, 3), (2, 0), (2, 3, 2, 2)]
SPIKE = 80.0  # the detector's fast EMA passes twice the slow one from a factor of 13.5 on


def parameters(shapes=SHAPES, dtype=torch.float64, seed=0):
    """Normal parameters; the last row of every matrix is so small that its norm is below AGC's floor."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    params = [torch.randn(shape, dtype=wide, generator=generator) for shape in shapes]
    for p in params:
        if p.ndim > 1 and len(p):
            p[-1] *= 1e-5
    return [nn.Parameter(p.to(dtype)) for p in params]


def gradients(steps, shapes=SHAPES, dtype=torch.float64, seed=1, every=45):
    """One list of gradients per step: each tensor on a different scale, spikes every `every` steps and sometimes none.

    Tensor 2 is frozen for the first 50 steps, or 12 where these are all, tensor 3 misses every third step, and the even
    and the odd tensors spike at different times.
    """
    frozen = 12 if steps <= 50 else 50
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    script = []
    for t in range(1, steps + 1):
        grads = []
        for i, shape in enumerate(shapes):
            spike = SPIKE if t > 5 and (t + i % 2 * 20) % every == 0 else 1.0
            g = torch.randn(shape, dtype=wide, generator=generator) * spike * 0.3 ** (i % 3)
            absent = (i == 2 and t <= frozen) or (i == 3 and t % 3 == 0)
            grads.append(None if absent else g.to(dtype))
        script.append(grads)
    return script


def set_gradients(params, grads):
    """Copies of the gradients, with their strides."""
    for p, g in zip(params, grads, strict=True):
        p.grad = g if g is None else torch.empty_strided(g.shape, g.stride(), dtype=g.dtype, device=g.device).copy_(g)


def train(optimizer, params, script):
    """Take one step per entry of the script; returns the parameters after the last one."""
    for grads in script:
        set_gradients(params, grads)
        optimizer.step()
    return [p.detach() for p in params]


def watch(optimizer):
    """A list that fills with (params, decision) while the optimizer steps."""
    seen = []
    optimizer._observers.append(lambda *observation: seen.append(observation))
    return seen
