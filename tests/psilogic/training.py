"""What the frameworks are compared with: a training loop written by hand."""

from typing import NamedTuple

import configurations
import torch
from configurations import snapshot
from trajectories import params_of


def train(model, optimizer, scheduler, batches, loss_of, *, accumulate, max_norm, bf16=False):
    """One clipped step for every `accumulate` batches; `loss_of` takes a batch and returns its mean loss."""
    for first in range(0, len(batches), accumulate):
        for batch in batches[first : first + accumulate]:
            with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                loss = loss_of(batch)
            (loss / accumulate).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


class Batch(NamedTuple):
    """Features and their classes."""

    features: torch.Tensor
    labels: torch.Tensor


def classification_batches(count, size=6, seed=0):
    """Batches; every fifth has features so large that its gradient is a spike."""
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for i in range(count):
        scale = 50.0 if i % 5 == 4 else 1.0
        features = torch.randn(size, 8, generator=generator) * scale
        labels = torch.randint(3, (size,), generator=generator)
        batches.append(Batch(features, labels))
    return batches


def classifier(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def assert_same(optimizer, other):
    """Parameters, the whole state and the hyperparameters of two optimizers are the same, bit by bit."""
    assert optimizer.state_dict()["param_groups"] == other.state_dict()["param_groups"]
    params = params_of(optimizer)
    for p in params:
        assert {"chaos_fast", "chaos_slow", "chaos_start"} <= optimizer.state[p].keys()
    ours = snapshot(optimizer, params)
    theirs = snapshot(other, params_of(other))
    configurations.assert_same([ours], [theirs])
