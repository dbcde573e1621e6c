"""Tests on a GPU: results, waits, launches, graphs, overflows, sizes, devices, streams.

`make gpu-test` runs it and keeps the results; elsewhere it is skipped.
"""

from functools import cache
from typing import NamedTuple

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, assert_same, build, snapshot, trace
from torch import nn
from torch.profiler import ProfilerActivity, profile
from trajectories import SHAPES, changed, gradients, ones_for, parameters, set_gradients

from psilogic import PsiLogic, monitor

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda", 0)
SIZES = [*SHAPES, (33, 64), (3, 700), (2, 16385), (50000,), (7,)]
EXECUTIONS = {
    "triton": {"fused": True},
    "foreach": {"fused": False},
    "capturable": {"fused": False, "capturable": True},
}
TOLERANCES = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 4e-2, torch.float16: 2e-2}
BY_FOREACH = {**TOLERANCES, torch.bfloat16: 1e-1}  # as on a CPU it rounds after every operation, not once in a step
EPS = {torch.bfloat16: {"eps": 1e-3}, torch.float16: {"eps": 0.1}}  # second moments below 6e-8 are 0 in float16
STEPS = 30
EACH = pytest.mark.parametrize("flags", [{"fused": True}, {"fused": False}], ids=str)


@pytest.fixture
def never_waits():
    """Set to True, a step that waits for the GPU is an error."""

    def watch(on):
        torch.cuda.set_sync_debug_mode("error" if on else "default")

    yield watch
    watch(False)


def on_gpu(params, dtype=None, device=CUDA):
    return [nn.Parameter(p.detach().to(device=device, dtype=dtype, copy=True)) for p in params]


def grads_of(params, grads):
    """Gradients on the devices and in the dtypes of the parameters."""
    for p, g in zip(params, grads, strict=True):
        p.grad = None if g is None else g.to(p)


def compare(actual, expected, dtype, tolerance, what):
    """Element by element; in half precision, where single elements may round far off, by their mean difference."""
    actual = actual.detach().double().cpu()
    expected = expected.detach().double()
    if dtype.itemsize == 2:
        difference = (actual - expected).abs().sum()
        size = expected.abs().sum()
        smallest = 1e-6 * expected.numel()  # the sum of STEPS roundings to multiples of 6e-8, float16's smallest
        assert difference <= tolerance * size + smallest, f"{what}: {difference} of {size}"
    else:
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}: {text}")


class Truth(NamedTuple):
    """Options, parameters and gradients that a dtype can represent, and the result in float64 on the CPU."""

    options: dict
    start: list
    script: list
    end: list


@cache
def truth_of(name, dtype):
    def representable(x):
        return x.detach().to(dtype).double()

    options = {**CONFIGURATIONS[name], **EPS.get(dtype, {})}
    start = [representable(p) for p in parameters(SIZES)]
    script = changed(gradients(STEPS, SIZES, every=9), representable)
    params = on_gpu(start, device=torch.device("cpu"))
    snapshots = trace(build(params, **options, fused=False), params, script)
    return Truth(options, start, script, end=snapshots[-1])


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_truth_and_no_step_waits(name, dtype, execution, never_waits):
    truth = truth_of(name, dtype)
    params = on_gpu(truth.start, dtype)
    optimizer = build(params, **truth.options, **EXECUTIONS[execution])
    executed = "triton" if execution == "triton" else "foreach"
    for t, grads in enumerate(truth.script):
        grads_of(params, grads)
        never_waits(t >= 2)
        optimizer.step()
        never_waits(False)
        assert set(optimizer.executed) == {executed}
    tolerances = TOLERANCES if execution == "triton" else BY_FOREACH
    tolerance = tolerances[dtype]
    for i, (p, expected) in enumerate(zip(params, truth.end, strict=True)):
        compare(p, expected.param, dtype, tolerance, f"parameter {i}")
        for key, value in expected.state.items():
            compare(optimizer.state[p][key], value, dtype, tolerance, f"{key} of {i}")


def test_no_step_waits_with_a_monitor_or_new_gradients(never_waits):
    for options in ({"fused": True}, {"fused": False}):
        params = on_gpu(parameters(SIZES, torch.float32))
        optimizer = PsiLogic(params, max_grad_norm=1.0, chaos_warmup=0, **options)
        watching = monitor(optimizer)
        for t in range(5):
            for p in params:
                p.grad = torch.ones_like(p)
            never_waits(t >= 2)
            optimizer.step()
            never_waits(False)
        assert watching.totals()["tensor_steps"] == 5 * len(params)


LAUNCHES = {"plain": {}, "clipping": {"max_grad_norm": 1.0}, "rows": {"agc_clip": 0.01, "grad_centralize": True}}


@pytest.mark.parametrize("options", LAUNCHES.values(), ids=LAUNCHES)
def test_launches_of_triton(options):
    """Three kernels, one more for clipping and one for rows; addresses of gradients that moved are also copied."""
    params = on_gpu(parameters([(768, 2304), (768,), (50257, 768), (33, 65), (), (7,)] * 4, torch.float32))
    optimizer = PsiLogic(params, 1e-7, fused=True, **options)
    set_gradients(params, [torch.randn_like(p) for p in params])
    for _ in range(3):
        optimizer.step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        optimizer.step()
        torch.cuda.synchronize()
    others = ("memcpy", "memset", "optimizer.step")  # copies; the range in which torch marks a step
    kernels = []
    for event in profiled.events():
        is_on_gpu = event.device_type == torch.autograd.DeviceType.CUDA
        if is_on_gpu and not event.name.lower().startswith(others):
            kernels.append(event.name)
    assert len(kernels) == (4 if options else 3), kernels


BY_VECTORS = {"grad_centralize": True, "agc_clip": 0.01, "agc_norm": "tensor"}  # no kernel decides for these


@pytest.mark.parametrize(("flags", "more"), [({}, {}), ({}, BY_VECTORS), ({"fused": False}, {})])
def test_groups_that_differ_in_numbers(flags, more, never_waits):
    """Without flags they share the launches of Triton's kernels; a schedule changes one of them."""
    script = gradients(12, SIZES, torch.float64, every=5)
    options = {**ACTIVE, "chaos_warmup": 0, "quantum_decay": 0.1, "max_grad_norm": 1.0, **more}

    def groups(params):
        return [{"params": [p], "lr": 1e-2 * 0.9**i, "weight_decay": 0.1 * (i % 2)} for i, p in enumerate(params)]

    params = on_gpu(parameters(SIZES))
    ours = PsiLogic(groups(params), **options, **flags)
    truth = on_gpu(parameters(SIZES), device=torch.device("cpu"))
    theirs = PsiLogic(groups(truth), **options, fused=False)
    executed = "foreach" if flags else "triton"
    for t, grads in enumerate(script):
        lr = 1e-2 / (t + 1)
        grads_of(params, grads)
        ours.param_groups[1]["lr"] = lr
        never_waits(t >= 2)
        ours.step()
        never_waits(False)
        assert set(ours.executed) == {executed}
        grads_of(truth, grads)
        theirs.param_groups[1]["lr"] = lr
        theirs.step()
    for p, q in zip(params, truth, strict=True):
        compare(p, q, torch.float64, TOLERANCES[torch.float64], "parameter")


def captured(optimizer):
    """A graph of the next step, after steps without it."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    return graph


@pytest.mark.parametrize("flags", [{"fused": True}, {"fused": False, "capturable": True}], ids=str)
def test_replays_are_steps(flags):
    """With a learning rate that changes, spikes, and a step without the graph between replays; the monitor counts."""
    options = {"chaos_warmup": 0, "gamma": 5.0, "max_grad_norm": 1.0, "gamma_T_max": 20, "quantum_decay": 0.1}

    def start():
        params = on_gpu(parameters([*SIZES, (768, 768)], torch.float32))
        rate = torch.tensor(1e-3, device=CUDA)
        optimizer = PsiLogic(params, rate, **options, **flags)
        set_gradients(params, [torch.zeros_like(p) for p in params])
        return params, rate, optimizer

    params, rate, ours = start()
    twins, twin_rate, theirs = start()

    def step_without_graph():
        ours.step()
        theirs.step()

    watching = monitor(ours)
    for _ in range(3):
        step_without_graph()
    graph = captured(ours)
    generator = torch.Generator(CUDA).manual_seed(0)
    for t in range(8):
        scale = 100.0 if t == 4 else 1.0
        for p, twin in zip(params, twins, strict=True):
            fresh = torch.randn(p.shape, device=CUDA, generator=generator) * scale
            p.grad.copy_(fresh)
            twin.grad.copy_(fresh)
        rate.fill_(1e-3 / (t + 1))
        twin_rate.fill_(1e-3 / (t + 1))
        graph.replay()
        theirs.step()
        if t == 5:
            step_without_graph()
        if t == 2:  # a step in which a tensor has no gradient must not move what the graph writes to
            grad = params[0].grad
            twin_grad = twins[0].grad
            params[0].grad = None
            twins[0].grad = None
            step_without_graph()
            params[0].grad = grad
            twins[0].grad = twin_grad
    assert_same([snapshot(ours, params)], [snapshot(theirs, twins)])
    assert watching.totals()["tensor_steps"] == (3 + 8 + 2) * len(params) - 1


def test_a_graph_that_keeps_the_learning_rate_is_warned_of():
    params = on_gpu(parameters([(5, 3)], torch.float32))
    optimizer = PsiLogic(params, 1e-3, fused=True)
    set_gradients(params, ones_for(params))
    optimizer.step()
    with pytest.warns(UserWarning, match=r"the CUDA graph keeps lr=0\.001"):
        captured(optimizer)


@EACH
def test_an_overflow_changes_nothing(flags, never_waits):
    params = on_gpu(parameters(SIZES, torch.float32))
    optimizer = PsiLogic(params, 1e-3, chaos_warmup=0, **flags)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**12)
    scaler.scale(torch.ones((), device=CUDA))
    for t in range(6):
        set_gradients(params, [torch.randn_like(p) * 2.0**12 for p in params])
        if t == 3:
            params[-1].grad[0] = float("inf")
        before = snapshot(optimizer, params)
        never_waits(t > 1 and "fused" in flags)
        scaler.step(optimizer)
        never_waits(False)
        scaler.update()
        after = snapshot(optimizer, params)
        if t == 3:
            assert_same([after], [before])
        else:
            assert not torch.equal(after[-1].param, before[-1].param)


@EACH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_factors_are_not_rounded_to_half_precision(dtype, flags):
    """A clip factor that half precision does not hold: the sum over many elements shows what one element hides."""
    grad = torch.randn(200_000).to(dtype)
    (p,) = on_gpu([torch.zeros(200_000, dtype=dtype)])
    p.grad = grad.to(CUDA)
    optimizer = PsiLogic([p], 1e-3, max_grad_norm=5.55, **flags)
    optimizer.step()
    factor = 5.55 / (grad.double().norm() + 1e-6)
    expected = (grad.double() * factor * 0.1).abs().sum()
    actual = optimizer.state[p]["exp_avg"].double().abs().sum().cpu()
    assert abs(actual / expected - 1) < 1e-4


@pytest.mark.parametrize(("shape", "by_rows"), [((2**31 + 5003,), False), ((3, 2**30 + 5), True)], ids=["flat", "rows"])
@EACH
def test_more_than_two_to_the_31_elements(shape, by_rows, flags):
    copies = 5 if "fused" in flags else 7
    needed = 4 * torch.Size(shape).numel() * copies
    if torch.cuda.get_device_properties(CUDA).total_memory < needed:
        pytest.skip(f"needs {needed >> 30} GB on the GPU")
    p = nn.Parameter(torch.zeros(shape, device=CUDA))
    p.grad = torch.ones(shape, device=CUDA)
    p.grad.view(-1)[-5000:] = torch.randn(5000, device=CUDA)
    optimizer = PsiLogic([p], 1e-2, gamma=0.0, weight_decay=0.0, grad_centralize=by_rows, **flags)
    optimizer.step()
    g = p.grad.view(-1)[-5000:].double()
    if by_rows:
        g = g - p.grad[-1].double().mean()
    actual = p.detach().view(-1)[-5000:].double()
    expected = -1e-2 * g / (g.abs() + 1e-8)
    torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-6)
    if not by_rows:
        norm = torch.linalg.vector_norm(p.grad, dtype=torch.float64) / p.numel() ** 0.5
        torch.testing.assert_close(optimizer.state[p]["chaos_fast"].double(), 0.1 * norm, rtol=1e-5, atol=0.0)


@EACH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("options", [{}, {"agc_clip": 0.01, "grad_centralize": True, "quantum_decay": 0.1}], ids=str)
def test_copies_take_no_more_than_the_parameters(options, dtype, flags):
    params = on_gpu([torch.randn(1024, 1024) for _ in range(16)], dtype)
    set_gradients(params, [torch.randn_like(p) for p in params])
    optimizer = PsiLogic(params, max_grad_norm=1.0, **options, **flags)
    optimizer.step()
    optimizer.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    optimizer.step()
    assert torch.cuda.max_memory_allocated() - before <= sum(p.nbytes for p in params)


@EACH
def test_two_devices_in_one_group(flags):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    script = gradients(12, dtype=torch.float32, every=5)
    options = {**ACTIVE, "quantum_decay": 1.0, "chaos_warmup": 0}
    start = parameters(dtype=torch.float32)
    first = on_gpu(start)
    second = on_gpu(start, device=torch.device("cuda", 1))
    together = PsiLogic([*first, *second], **options, **flags)
    alone = on_gpu(start)
    reference = PsiLogic(alone, **options, **flags)
    for grads in script:
        grads_of([*first, *second], [*grads, *grads])
        together.step()
        grads_of(alone, grads)
        reference.step()
    for p, q, r in zip(first, second, alone, strict=True):
        assert torch.equal(p, r)
        assert torch.equal(q.to(CUDA), r)


@EACH
def test_steps_on_other_streams(flags):
    """Gradients are made and steps are taken on a stream that changes, behind work that keeps the GPU busy."""
    script = gradients(12, SIZES, torch.float32, every=5)
    params = on_gpu(parameters(SIZES, torch.float32))
    ours = PsiLogic(params, **ACTIVE, max_grad_norm=1.0, **flags)
    current = torch.cuda.Stream(CUDA)
    other = torch.cuda.Stream(CUDA)
    load = torch.ones(4096, 4096, device=CUDA)
    for grads in script:
        current, other = other, current
        with torch.cuda.stream(current):
            current.wait_stream(other)
            load = load @ load / 4096
            grads_of(params, grads)
            ours.step()
    torch.cuda.synchronize()
    twins = on_gpu(parameters(SIZES, torch.float32))
    expected = PsiLogic(twins, **ACTIVE, max_grad_norm=1.0, **flags)
    trace(expected, twins, changed(script, lambda g: g.to(CUDA)))
    assert_same([snapshot(ours, params)], [snapshot(expected, twins)])
