"""One optimizer per parameter, stepping as soon as its gradient is there, equals one step after the backward pass."""

import copy
from functools import partial
from itertools import product

import pytest
import torch
from configurations import PER_TENSOR, TOGETHER, assert_same, represented, snapshot
from torch import nn

from psilogic import PsiLogic

STEPS = 12


class Net(nn.Module):
    """Convolution, normalization, embedding, tied weights, and a layer that some batches do not reach."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.conv = nn.Conv1d(6, 6, 3, padding=1)
        self.norm = nn.LayerNorm(6)
        self.side = nn.Linear(6, 6)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens, with_side):
        x = self.embed(tokens)
        x = self.norm(x + torch.tanh(self.conv(x.mT).mT))
        if with_side:
            x = x + self.side(x)
        return self.head(x)


def losses():
    """For each step a function from the model to a loss; a few losses are so large that the detector fires."""
    generator = torch.Generator().manual_seed(3)
    for t in range(STEPS):
        tokens = torch.randint(7, (4, 5), generator=generator)
        scale = 60.0 if t % 9 == 8 else 1.0
        with_side = t % 4 != 2
        yield partial(loss_of, tokens=tokens, scale=scale, with_side=with_side)


def loss_of(model, tokens, scale, with_side):
    logits = model(tokens, with_side)
    targets = tokens.roll(1, 1)
    return scale * nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


INDEPENDENT_TOGETHER = [name for name in TOGETHER if name in PER_TENSOR]


@pytest.mark.parametrize(
    ("name", "dtype", "fused"),
    [
        *represented(product(PER_TENSOR, [torch.float32], [None])),
        *product(INDEPENDENT_TOGETHER, [torch.float64], [None]),
        *product(INDEPENDENT_TOGETHER, [torch.float32], [False]),
    ],
    ids=str,
)
def test_step_in_backward_equals_the_step_after_it(name, dtype, fused):
    torch.manual_seed(0)
    model = Net().to(dtype)
    twin = copy.deepcopy(model)
    options = {**PER_TENSOR[name], "fused": fused}

    after = PsiLogic(model.parameters(), **options)
    within = {p: PsiLogic([p], **options) for p in twin.parameters()}

    def step(p):
        within[p].step()
        within[p].zero_grad()

    for p in twin.parameters():
        p.register_post_accumulate_grad_hook(step)

    for loss in losses():
        loss(model).backward()
        after.step()
        after.zero_grad()
        loss(twin).backward()
        assert all(p.grad is None for p in twin.parameters()), "the gradients are freed during the backward pass"
        apart = []
        for p, optimizer in within.items():
            apart += snapshot(optimizer, [p])
        assert_same([apart], [snapshot(after, list(model.parameters()))])
    assert after.state[model.conv.weight]["step"] == STEPS
    assert after.state[model.side.weight]["step"] < STEPS
