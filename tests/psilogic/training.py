"""What the frameworks are compared with: a training loop written by hand."""

from contextlib import nullcontext

import torch


def bfloat16():
    return torch.autocast("cpu", torch.bfloat16)


def train(model, optimizer, scheduler, batches, loss_of, *, accumulate, max_norm, context=nullcontext):
    """One clipped step for every `accumulate` batches; `loss_of` takes a batch and returns its mean loss."""
    for first in range(0, len(batches), accumulate):
        for batch in batches[first : first + accumulate]:
            with context():
                loss = loss_of(batch)
            (loss / accumulate).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()


def classification_batches(count, size=6, seed=0):
    """Batches (features, labels); every fifth has features so large that its gradient is a spike."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, 8, generator=generator) * (50.0 if i % 5 == 4 else 1.0),
            torch.randint(3, (size,), generator=generator),
        )
        for i in range(count)
    ]


def classifier(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def assert_same(optimizer, other):
    """Parameters, the whole state and the hyperparameters of two optimizers are the same, bit by bit."""
    states = optimizer.state_dict(), other.state_dict()
    assert states[0]["param_groups"] == states[1]["param_groups"]
    assert states[0]["state"].keys() == states[1]["state"].keys()
    for key, state in states[0]["state"].items():
        assert state.keys() == states[1]["state"][key].keys()
        assert {"chaos_fast", "chaos_slow", "chaos_start"} <= state.keys()
        for name, value in state.items():
            assert torch.equal(value, states[1]["state"][key][name]), (key, name)
    groups = zip(optimizer.param_groups, other.param_groups, strict=True)
    for p, q in ((p, q) for a, b in groups for p, q in zip(a["params"], b["params"], strict=True)):
        assert torch.equal(p, q)
