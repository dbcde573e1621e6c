"""A plan on a device: whose stream it belongs to, and that launches which are repeated are those of their step."""

import pytest
import torch
from torch import nn
from triton_driver import install

from psilogic import PsiLogic
from psilogic.backends.triton import update as updates
from psilogic.plan import Plan
from psilogic.tensors import device_tables

PROCESSING = {"agc_clip": 0.1, "grad_centralize": True, "max_grad_norm": 1.0}
BEFORE = 9  # arguments of a launcher before those of the kernel


class Device:
    """Host memory that is treated as a GPU's: kernels are compiled, and their launches recorded."""

    def __init__(self, monkeypatch):
        self.stream = 1
        self.capturing = False
        self.launches = []  # the arguments of each kernel
        self.held = []  # for each step whether a plan held
        driver = install(monkeypatch)
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        monkeypatch.setattr(updates, "INTERPRETED", True)
        monkeypatch.setattr(device_tables, "GPU", "cpu")
        monkeypatch.setattr(device_tables, "pinned_memory", lambda size, dtype: torch.empty(size, dtype=dtype))
        monkeypatch.setattr(device_tables, "stream_of", lambda device: self.stream)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)
        monkeypatch.setattr(driver, "launcher_cls", lambda source, metadata: self._launch)
        recall = Plan.recall

        def noted(*arguments):
            works, recurs = recall(*arguments)
            self.held.append(works is not None)
            return works, recurs

        monkeypatch.setattr(Plan, "recall", noted)

    def _launch(self, *arguments):
        self.launches.append(arguments[BEFORE:])


def an_optimizer(**options):
    params = [nn.Parameter(torch.ones(shape)) for shape in ((6, 4), (5,))]
    for p in params:
        p.grad = torch.ones_like(p)
    return PsiLogic(params, fused=True, **options)


def params_of(optimizer):
    return optimizer.param_groups[0]["params"]


@pytest.mark.parametrize("options", [{}, PROCESSING], ids=["", "processing"])
def test_a_plan_belongs_to_a_stream_and_to_no_capture(monkeypatch, options):
    device = Device(monkeypatch)
    optimizer = an_optimizer(capturable=True, **options)
    for _ in range(5):
        optimizer.step()
    assert device.held == [False, False, True, True, True]
    device.stream = 2
    optimizer.step()
    optimizer.step()
    device.capturing = True
    optimizer.step()
    device.capturing = False
    optimizer.step()
    assert device.held[5:] == [False, True, False, False]


def numbers_of(launches):
    """The numbers that kernels were launched with, and which pointers there were."""
    return [[x if isinstance(x, int | float) else type(x) for x in arguments] for arguments in launches]


@pytest.mark.parametrize("options", [{}, PROCESSING, {"chaos_scope": "global"}], ids=["", "processing", "pooled"])
def test_repeated_launches_are_those_of_their_step(monkeypatch, options):
    launches = []
    for with_plan in (True, False):
        with monkeypatch.context() as patches:
            device = Device(patches)
            if not with_plan:
                patches.setattr(Plan, "recall", lambda *arguments: (None, False))
            optimizer = an_optimizer(**options)
            for t in range(7):
                optimizer.param_groups[0]["lr"] = 0.1 / (1 + t // 2)
                if t % 3 == 0:  # elsewhere
                    for p in params_of(optimizer):
                        p.grad = p.grad.clone()
                optimizer.step()
                updated = device.launches[-1]
                expected = [p.data_ptr() for p in params_of(optimizer)] + [
                    p.grad.data_ptr() for p in params_of(optimizer)
                ]
                assert updated[0][:4].tolist() == expected
            if with_plan:
                assert device.held == [False, False, True, True, True, True, True]
            launches.append(numbers_of(device.launches))
    assert launches[0] == launches[1]


def test_results_that_observers_got_are_not_overwritten(monkeypatch):
    Device(monkeypatch)
    optimizer = an_optimizer()
    decisions = []
    optimizer.observers.append(lambda params, decision: decisions.append(decision))
    for _ in range(5):
        optimizer.step()
    assert len({decision.gn.data_ptr() for decision in decisions}) == 5
