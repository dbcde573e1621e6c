"""A plan on a device: whose stream it belongs to, and that launches which are repeated are those of their step."""

import pytest
import torch
from torch import nn
from triton.compiler import CompiledKernel
from triton_driver import install

from psilogic import PsiLogic
from psilogic.backends.triton import launch
from psilogic.backends.triton import update as updates
from psilogic.plan import NOTHING, Plan
from psilogic.tensors import device_tables

PROCESSING = {"agc_clip": 0.1, "grad_centralize": True, "max_grad_norm": 1.0}
BEFORE = 9  # arguments of a launcher before those of the kernel


class Device:
    """Host memory that is treated as a GPU's: kernels are compiled, and their launches recorded."""

    def __init__(self, monkeypatch):
        self.stream = 1
        self.capturing = False
        self.launches = []  # the arguments of each kernel
        self.taken = 0  # how many of them are those of earlier steps
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
            recalled = recall(*arguments)
            self.held.append(recalled.works is not None or recalled.repeated is not None)
            return recalled

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


def assert_current_addresses(device, optimizer):
    """The launches of the last step that take addresses of parameters take those of the gradients too."""
    params = params_of(optimizer)
    expected = [p.data_ptr() for p in params] + [p.grad.data_ptr() for p in params]
    found = 0
    for arguments in device.launches[device.taken :]:
        for x in arguments:
            if isinstance(x, torch.Tensor) and x.dtype == torch.int64 and params[0].data_ptr() in x:
                assert x[: len(expected)].tolist() == expected
                found += 1
    assert found == 2  # sums and update


def numbers_of(launches):
    """The numbers that kernels were launched with, and which pointers there were."""
    return [[x if isinstance(x, int | float) else type(x) for x in arguments] for arguments in launches]


def devices(monkeypatch):
    """Whether the device keeps a plan, and the device: first one that keeps it, then one that plans each step."""
    for with_plan in (True, False):
        with monkeypatch.context() as patches:
            device = Device(patches)
            if not with_plan:
                patches.setattr(Plan, "recall", lambda *arguments: NOTHING)
            yield with_plan, device


@pytest.mark.parametrize("options", [{}, PROCESSING, {"chaos_scope": "global"}], ids=["", "processing", "pooled"])
def test_repeated_launches_are_those_of_their_step(monkeypatch, options):
    launches = []
    for with_plan, device in devices(monkeypatch):
        optimizer = an_optimizer(**options)
        for t in range(7):
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + t // 2)
            if t % 3 == 0:  # elsewhere
                for p in params_of(optimizer):
                    p.grad = p.grad.clone()
            optimizer.step()
            assert_current_addresses(device, optimizer)
            device.taken = len(device.launches)
        if with_plan:
            assert device.held == [False, False, True, True, True, True, True]
        launches.append(numbers_of(device.launches))
    assert launches[0] == launches[1]


def an_optimizer_of_two_dtypes(**options):
    optimizer = an_optimizer(**options)
    p = nn.Parameter(torch.ones(3, 2, dtype=torch.float64))
    p.grad = torch.ones_like(p)
    optimizer.add_param_group({"params": [p], "lr": 0.5})
    return optimizer


def change_of(optimizer, t):
    """What differs between the steps: numbers, where gradients are, and at last the options of a plan."""
    for group in optimizer.param_groups:
        group["lr"] = 0.1 / (1 + t // 3)
        for p in group["params"]:
            if t % 4 == 0 and p.grad is not None:
                p.grad = p.grad.clone()
    if t == 7:
        optimizer.param_groups[0]["weight_decay"] = 0.25
        optimizer.param_groups[0]["betas"] = (0.5, 0.75)
    if t == 9:
        optimizer.param_groups[1]["params"][0].grad = None


@pytest.mark.parametrize("options", [{}, PROCESSING], ids=["", "processing"])
def test_steps_of_several_buckets_are_repeated(monkeypatch, options):
    launches = []
    for with_plan, device in devices(monkeypatch):
        optimizer = an_optimizer_of_two_dtypes(**options)
        for t in range(13):
            change_of(optimizer, t)
            optimizer.step()
            assert optimizer.executed == {"triton": 2 if t >= 9 else 3}
        launches.append(numbers_of(device.launches))
        if with_plan:
            assert device.held == [t not in (0, 1, 7, 8, 9, 10) for t in range(13)]
    assert launches[0] == launches[1]


def test_the_norm_of_all_gradients_is_summed_in_each_step(monkeypatch):
    device = Device(monkeypatch)
    optimizer = an_optimizer_of_two_dtypes(max_grad_norm=1.0)
    for t in range(6):
        device.launches.clear()
        optimizer.step()
        if t > 1:  # the sums are where they were in the step before
            totals = [x for x in device.launches[-1 - 2] if isinstance(x, torch.Tensor) and x.ndim == 0]
            assert [float(total) for total in totals] == [30.0 * t]
        for sums in (arguments[0] for arguments in device.launches[:2]):
            sums[0].fill_(10.0 * (t + 1))


def test_hooks_that_come_later_observe_repeated_launches(monkeypatch):
    Device(monkeypatch)
    optimizer = an_optimizer()
    for _ in range(4):
        optimizer.step()
    described = []
    monkeypatch.setattr(launch, "has_hooks", lambda chain: True)
    monkeypatch.setattr(
        CompiledKernel,
        "launch_metadata",
        lambda self, grid, stream, *arguments: described.append(self.name),
    )
    optimizer.step()
    assert len(described) == 3
    monkeypatch.setattr(launch, "has_hooks", lambda chain: False)
    optimizer.step()
    assert len(described) == 3


def test_autograd_knows_what_a_repeated_step_has_changed(monkeypatch):
    Device(monkeypatch)
    optimizer = an_optimizer()
    for _ in range(4):
        optimizer.step()
    changed = params_of(optimizer) + [state["exp_avg"] for state in optimizer.state.values()]
    before = [x._version for x in changed]
    optimizer.step()
    assert [x._version for x in changed] == [version + 1 for version in before]


def test_results_that_observers_got_are_not_overwritten(monkeypatch):
    Device(monkeypatch)
    optimizer = an_optimizer()
    decisions = []
    optimizer.observers.append(lambda params, decision: decisions.append(decision))
    for _ in range(5):
        optimizer.step()
    assert len({decision.gn.data_ptr() for decision in decisions}) == 5
