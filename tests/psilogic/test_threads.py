"""Several threads on one optimizer: each step is counted, and none waits for a thread that does not exist."""

import os
import select
from threading import Event, Thread

import pytest
import torch
from torch import nn

from psilogic import PsiLogic

THREADS = 4
STEPS = 200


@pytest.mark.parametrize("options", [{}, {"fused": False}, {"max_grad_norm": 1.0}], ids=str)
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_process_that_was_forked_during_a_step_takes_steps():
    """As data loaders and servers fork; in the new process the thread that took the step does not exist."""
    weight = nn.Parameter(torch.ones(5))
    weight.grad = torch.ones(5)
    optimizer = PsiLogic([weight])
    in_step = Event()
    may_end = Event()

    def observe(params, decision):
        in_step.set()
        may_end.wait()

    optimizer.observers.append(observe)
    thread = Thread(target=optimizer.step)
    thread.start()
    in_step.wait()
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        optimizer.observers.clear()
        optimizer.step()
        os.write(writing, b"done")
        os._exit(0)
    is_done, _, _ = select.select([reading], [], [], 20)
    may_end.set()
    thread.join()
    if not is_done:
        os.kill(process, 9)
    os.waitpid(process, 0)
    assert is_done
