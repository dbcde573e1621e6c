"""Wrote psilogic-0.6.0.pt with the published package: `pip install psilogic==0.6.0 && python write.py`."""

import copy
from pathlib import Path

import torch
from torch import nn

SAVED_AT = 230
END = 310
CASES = {
    "default warm-up": {"gamma": 6.0, "quantum_decay": 0.5, "agc_clip": 2.0},
    "bfloat16": {"gamma": 6.0},
    "gamma_auto": {"gamma": 6.0, "gamma_auto": True},
    "schedule": {"gamma": 6.0, "gamma_T_max": 4010, "chaos_warmup": 60},
    "automatic": {"gamma": 6.0, "gamma_T_max": 4010},
}
"""Options for each optimizer whose training is saved."""


class Net(nn.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)


def start(case):
    """The model before the training."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if case == "bfloat16" else torch.float32
    return Net().to(dtype)


def train(net, optimizer, first, last):
    """Steps first to last, with gradients that depend only on the number of the step, and spike."""
    for t in range(first, last + 1):
        generator = torch.Generator().manual_seed(t)
        scale = 30 if t % 40 > 36 else 1
        for p in net.parameters():
            grad = torch.randn(p.shape, generator=generator) * scale
            p.grad = grad.to(p.dtype)
        optimizer.step()


def main():
    """Save weights and state in the middle, and the weights at the end."""
    from psilogic import PsiLogic

    content = {}
    for case, options in CASES.items():
        net = start(case)
        optimizer = PsiLogic(net.parameters(), lr=0.02, **options)
        train(net, optimizer, 1, SAVED_AT)
        content[case] = copy.deepcopy({"model": net.state_dict(), "optimizer": optimizer.state_dict()})
        train(net, optimizer, SAVED_AT + 1, END)
        content[case]["end"] = net.state_dict()
    torch.save(content, Path(__file__).with_name("psilogic-0.6.0.pt"))


if __name__ == "__main__":
    main()
