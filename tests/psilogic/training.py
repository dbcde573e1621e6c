"""What the frameworks are compared with: a training loop written by hand."""

from functools import partial

import configurations
import torch
from configurations import snapshot


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


def classification_batches(count, size=6, seed=0):
    """Batches (features, labels); every fifth has features so large that its gradient is a spike."""
    generator = torch.Generator().manual_seed(seed)
    scales = [50.0 if i % 5 == 4 else 1.0 for i in range(count)]
    draw = partial(torch.randint, 3, (size,), generator=generator)
    return [(torch.randn(size, 8, generator=generator) * x, draw()) for x in scales]


def classifier(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def assert_same(optimizer, other):
    """Parameters, the whole state and the hyperparameters of two optimizers are the same, bit by bit."""
    assert optimizer.state_dict()["param_groups"] == other.state_dict()["param_groups"]
    params = [[p for group in each.param_groups for p in group["params"]] for each in (optimizer, other)]
    assert all({"chaos_fast", "chaos_slow", "chaos_start"} <= optimizer.state[p].keys() for p in params[0])
    configurations.assert_same([snapshot(optimizer, params[0])], [snapshot(other, params[1])])
