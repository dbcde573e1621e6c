"""Wrote psilogic-0.6.0.pt with the published package: `pip install psilogic==0.6.0 && python write.py`."""

from pathlib import Path

import torch
from torch import nn

SAVED_AT, END = 230, 310
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
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)


def start(case):
    """The model before the training."""
    torch.manual_seed(0)
    return Net().to(torch.bfloat16 if case == "bfloat16" else torch.float32)


def train(net, optimizer, first, last):
    """Steps first to last, with gradients that depend only on the number of the step, and spike."""
    for t in range(first, last + 1):
        generator = torch.Generator().manual_seed(t)
        for p in net.parameters():
            p.grad = (torch.randn(p.shape, generator=generator) * (30 if t % 40 > 36 else 1)).to(p.dtype)
        optimizer.step()


def main():
    """Save weights and state in the middle, and the weights at the end."""
    from psilogic import PsiLogic

    content = {}
    for case, options in CASES.items():
        net = start(case)
        optimizer = PsiLogic(net.parameters(), lr=0.02, **options)
        train(net, optimizer, 1, SAVED_AT)
        saved = {name: x.clone() for name, x in net.state_dict().items()}
        state = {k: {n: x.clone() if torch.is_tensor(x) else x for n, x in v.items()}
                 for k, v in optimizer.state_dict()["state"].items()}  # fmt: skip
        content[case] = {"model": saved, "optimizer": {**optimizer.state_dict(), "state": state}}
        train(net, optimizer, SAVED_AT + 1, END)
        content[case]["end"] = net.state_dict()
    torch.save(content, Path(__file__).with_name("psilogic-0.6.0.pt"))


if __name__ == "__main__":
    main()
