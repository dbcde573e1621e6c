"""Several threads on one optimizer: each step is counted."""

from threading import Thread

import pytest
import torch
from torch import nn

from psilogic import PsiLogic

THREADS = 4
STEPS = 200


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"max_grad_norm": 1.0}], ids=str)
def test_no_step_is_lost(options):
    params = [nn.Parameter(torch.ones(5)) for _ in range(3)]
    for p in params:
        p.grad = torch.ones(5)
    optimizer = PsiLogic(params, **options)

    def take_steps():
        for _ in range(STEPS // THREADS):
            optimizer.step()

    threads = [Thread(target=take_steps) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [int(optimizer.state[p]["step"]) for p in params] == [STEPS] * 3
