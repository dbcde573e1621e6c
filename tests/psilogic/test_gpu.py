"""Tests on a GPU: results, waits, launches, graphs, overflows, sizes, devices, streams.

`make gpu-test` runs it and keeps the results; elsewhere it is skipped.
"""

from collections import Counter
from functools import cache

import pytest
import torch
from configurations import ACTIVE, CONFIGURATIONS, assert_same, build, snapshot, trace
from torch import nn
from torch.profiler import ProfilerActivity, profile
from trajectories import SHAPES, gradients, parameters, set_gradients

from psilogic import PsiLogic, monitor

pytestmark = pytest.mark.gpu

CUDA = torch.device("cuda", 0)
SIZES = [*SHAPES, (33, 64), (3, 700), (2, 16385), (50000,), (7,)]
EXECUTIONS = {"triton": {"fused": True}, "foreach": {"foreach": True}}
EXECUTIONS["capturable"] = {"foreach": True, "capturable": True}
TOLERANCES = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 4e-2, torch.float16: 2e-2}
BY_FOREACH = {**TOLERANCES, torch.bfloat16: 1e-1}  # as on a CPU it rounds after every operation, not once in a step
EPS = {torch.bfloat16: {"eps": 1e-3}, torch.float16: {"eps": 0.1}}  # second moments below 6e-8 are 0 in float16
STEPS = 30
EACH = pytest.mark.parametrize("flags", [{"fused": True}, {"foreach": True}], ids=str)


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
    actual, expected = actual.detach().double().cpu(), expected.detach().double()
    if dtype.itemsize == 2:
        difference, size = (actual - expected).abs().sum(), expected.abs().sum()
        smallest = 1e-6 * expected.numel()  # the sum of STEPS roundings to multiples of 6e-8, float16's smallest
        assert difference <= tolerance * size + smallest, f"{what}: {difference} of {size}"
    else:
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}: {text}")


@cache
def truth_of(name, dtype):
    """Options, parameters and gradients that the dtype can represent, and the result in float64 on the CPU."""
    options = {**CONFIGURATIONS[name], **EPS.get(dtype, {})}
    start = [p.detach().to(dtype).double() for p in parameters(SIZES)]
    script = [[None if g is None else g.to(dtype).double() for g in gs] for gs in gradients(STEPS, SIZES, every=9)]
    params = on_gpu(start, device=torch.device("cpu"))
    return options, start, script, trace(build(params, **options, foreach=True), params, script)[-1]


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_truth_and_no_step_waits(name, dtype, execution, never_waits):
    options, start, script, expected = truth_of(name, dtype)
    params = on_gpu(start, dtype)
    optimizer = build(params, **options, **EXECUTIONS[execution])
    for t, grads in enumerate(script):
        grads_of(params, grads)
        never_waits(t >= 2)
        optimizer.step()
        never_waits(False)
        assert set(optimizer.executed) == {"triton" if execution == "triton" else "foreach"}
    tolerance = (TOLERANCES if execution == "triton" else BY_FOREACH)[dtype]
    for i, (p, (q, state)) in enumerate(zip(params, expected, strict=True)):
        compare(p, q, dtype, tolerance, f"parameter {i}")
        for key, value in state.items():
            compare(optimizer.state[p][key], value, dtype, tolerance, f"{key} of {i}")


def test_no_step_waits_with_a_monitor_or_new_gradients(never_waits):
    for options in ({"fused": True}, {"foreach": True}):
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
    names = Counter(e.name for e in profiled.events() if e.device_type == torch.autograd.DeviceType.CUDA)
    others = ("memcpy", "memset", "optimizer.step")  # copies; the range in which torch marks a step
    kernels = {name: n for name, n in names.items() if not name.lower().startswith(others)}
    assert sum(kernels.values()) == 3 + ("max_grad_norm" in options) + ("agc_clip" in options), names


BY_VECTORS = {"grad_centralize": True, "agc_clip": 0.01, "agc_norm": "tensor"}  # no kernel decides for these


@pytest.mark.parametrize(("flags", "more"), [({}, {}), ({}, BY_VECTORS), ({"foreach": True}, {})])
def test_groups_that_differ_in_numbers(flags, more, never_waits):
    """Without flags they share the launches of Triton's kernels; a schedule changes one of them."""
    script = gradients(12, SIZES, torch.float64, every=5)
    options = {**ACTIVE, "chaos_warmup": 0, "quantum_decay": 0.1, "max_grad_norm": 1.0, **more}

    def groups(params):
        return [{"params": [p], "lr": 1e-2 * 0.9**i, "weight_decay": 0.1 * (i % 2)} for i, p in enumerate(params)]

    ours, truth = on_gpu(parameters(SIZES)), on_gpu(parameters(SIZES), device=torch.device("cpu"))
    optimizers = PsiLogic(groups(ours), **options, **flags), PsiLogic(groups(truth), **options, foreach=True)
    for t, grads in enumerate(script):
        grads_of(ours, grads), grads_of(truth, grads)
        for optimizer in optimizers:
            optimizer.param_groups[1]["lr"] = 1e-2 / (t + 1)
        never_waits(t >= 2)
        optimizers[0].step()
        never_waits(False)
        optimizers[1].step()
        assert set(optimizers[0].executed) == {"foreach" if flags else "triton"}
    for p, q in zip(ours, truth, strict=True):
        compare(p, q, torch.float64, TOLERANCES[torch.float64], "parameter")


def captured(optimizer):
    """A graph of the next step, after steps without it."""
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    return graph


@pytest.mark.parametrize("flags", [{"fused": True}, {"foreach": True, "capturable": True}], ids=str)
def test_replays_are_steps(flags):
    """With a learning rate that changes, spikes, and a step without the graph between replays; the monitor counts."""
    shapes, options = [*SIZES, (768, 768)], {"chaos_warmup": 0, "gamma": 5.0, "max_grad_norm": 1.0, "gamma_T_max": 20}
    both, rates, optimizers = [], [], []
    for _ in range(2):
        both.append(on_gpu(parameters(shapes, torch.float32)))
        rates.append(torch.tensor(1e-3, device=CUDA))
        optimizers.append(PsiLogic(both[-1], rates[-1], quantum_decay=0.1, **options, **flags))
        set_gradients(both[-1], [torch.zeros_like(p) for p in both[-1]])
    watching = monitor(optimizers[0])
    for _ in range(3):
        optimizers[0].step(), optimizers[1].step()
    graph = captured(optimizers[0])
    generator = torch.Generator(CUDA).manual_seed(0)
    for t in range(8):
        for p, q in zip(*both, strict=True):
            fresh = torch.randn(p.shape, device=CUDA, generator=generator) * (100.0 if t == 4 else 1.0)
            p.grad.copy_(fresh), q.grad.copy_(fresh)
        for rate in rates:
            rate.fill_(1e-3 / (t + 1))
        graph.replay(), optimizers[1].step()
        if t == 5:
            optimizers[0].step(), optimizers[1].step()
        if t == 2:  # a step in which a tensor has no gradient must not move what the graph writes to
            kept = [params[0].grad for params in both]
            both[0][0].grad = both[1][0].grad = None
            optimizers[0].step(), optimizers[1].step()
            both[0][0].grad, both[1][0].grad = kept
    assert_same(*([snapshot(o, ps)] for o, ps in zip(optimizers, both, strict=True)))
    assert watching.totals()["tensor_steps"] == (3 + 8 + 2) * len(both[0]) - 1


def test_a_graph_that_keeps_the_learning_rate_is_warned_of():
    params = on_gpu(parameters([(5, 3)], torch.float32))
    optimizer = PsiLogic(params, 1e-3, fused=True)
    set_gradients(params, [torch.ones_like(p) for p in params])
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
            assert not torch.equal(after[-1][0], before[-1][0])


@EACH
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_factors_are_not_rounded_to_half_precision(dtype, flags):
    """A clip factor that half precision does not hold: the sum over many elements shows what one element hides."""
    start, grad = torch.zeros(200_000, dtype=dtype), torch.randn(200_000).to(dtype)
    (p,) = on_gpu([start])
    p.grad = grad.to(CUDA)
    optimizer = PsiLogic([p], 1e-3, max_grad_norm=5.55, **flags)
    optimizer.step()
    factor = 5.55 / (grad.double().norm() + 1e-6)
    expected = (grad.double() * factor * 0.1).abs().sum()
    assert abs(optimizer.state[p]["exp_avg"].double().abs().sum().cpu() / expected - 1) < 1e-4


@pytest.mark.parametrize(("shape", "by_rows"), [((2**31 + 5003,), False), ((3, 2**30 + 5), True)], ids=["flat", "rows"])
@EACH
def test_more_than_two_to_the_31_elements(shape, by_rows, flags):
    needed = 4 * torch.Size(shape).numel() * (5 if "fused" in flags else 7)
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
    torch.testing.assert_close(p.detach().view(-1)[-5000:].double(), -1e-2 * g / (g.abs() + 1e-8), rtol=1e-3, atol=1e-6)
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
    optimizer.step(), optimizer.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    optimizer.step()
    assert torch.cuda.max_memory_allocated() - before <= sum(p.nbytes for p in params)


@EACH
def test_two_devices_in_one_group(flags):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    script, options = gradients(12, dtype=torch.float32, every=5), {**ACTIVE, "quantum_decay": 1.0, "chaos_warmup": 0}
    start = parameters(dtype=torch.float32)
    first, second = (on_gpu(start, device=torch.device("cuda", i)) for i in (0, 1))
    together, alone = PsiLogic([*first, *second], **options, **flags), on_gpu(start)
    reference = PsiLogic(alone, **options, **flags)
    for grads in script:
        grads_of([*first, *second], [*grads, *grads]), grads_of(alone, grads)
        together.step(), reference.step()
    for p, q, r in zip(first, second, alone, strict=True):
        assert torch.equal(p, r)
        assert torch.equal(q.to(CUDA), r)


@EACH
def test_steps_on_other_streams(flags):
    """Gradients are made and steps are taken on a stream that changes, behind work that keeps the GPU busy."""
    script, streams = gradients(12, SIZES, torch.float32, every=5), [torch.cuda.Stream(CUDA) for _ in range(2)]
    params, others = (on_gpu(parameters(SIZES, torch.float32)) for _ in range(2))
    ours, expected = (PsiLogic(ps, **ACTIVE, max_grad_norm=1.0, **flags) for ps in (params, others))
    load = torch.ones(4096, 4096, device=CUDA)
    for t, grads in enumerate(script):
        with torch.cuda.stream(streams[t % 2]):
            streams[t % 2].wait_stream(streams[1 - t % 2])
            load = load @ load / 4096
            grads_of(params, grads)
            ours.step()
    torch.cuda.synchronize()
    trace(expected, others, [[None if g is None else g.to(CUDA) for g in grads] for grads in script])
    assert_same([snapshot(ours, params)], [snapshot(expected, others)])
