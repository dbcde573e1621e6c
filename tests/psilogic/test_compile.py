"""torch.compile of `step`: one graph without a break, two compilations in a run, the results of the plain step."""

import pytest
import torch
from configurations import CONFIGURATIONS, snapshot
from torch._dynamo.backends.debugging import aot_eager
from trajectories import parameters, set_gradients

from psilogic import PsiLogic

SHAPES = [(), (5,), (4, 3), (2, 3, 2, 2)]
STEPS = 24
SPIKE_AT = 15
RUNS = [("defaults", False), ("everything", False), ("everything", True), ("AGC of tensors", True), ("group", True)]


def script():
    """Gradients for every tensor in every step: a graph belongs to one set of tensors."""
    generator = torch.Generator().manual_seed(1)
    return [
        [torch.randn(shape, generator=generator) * (80 if t == SPIKE_AT else 1) for shape in SHAPES]
        for t in range(STEPS)
    ]


def run(compiled_by, tensor_lr=False, schedule=True, **options):
    """A snapshot after every step, and how many graphs were compiled; a graph break raises."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return aot_eager(graph, inputs)

    params = parameters(SHAPES, torch.float32)
    optimizer = PsiLogic(params, **{"lr": 0.02, **options, **({"lr": torch.tensor(0.02)} if tensor_lr else {})})
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS) if schedule else None
    step = optimizer.step
    if compiled_by is not None:
        how = "inductor" if compiled_by == "inductor" else backend
        step = torch.compile(lambda: optimizer.step(), backend=how, fullgraph=True)
    snapshots = []
    for grads in script():
        set_gradients(params, grads)
        step()
        if scheduler is not None:
            scheduler.step()
        snapshots.append(snapshot(optimizer, params))
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"] if compiled_by == "inductor" else len(graphs)
    return snapshots, graphs


@pytest.fixture(autouse=True)
def forget_graphs():
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.filterwarnings("error:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(("name", "tensor_lr"), RUNS)
def test_a_compiled_step_is_one_graph_that_is_compiled_at_most_twice(name, tensor_lr):
    snapshots, graphs = run("aot_eager", tensor_lr, **CONFIGURATIONS[name])
    assert graphs <= 2
    expected, _ = run(None, tensor_lr, **CONFIGURATIONS[name])
    torch.testing.assert_close(snapshots, expected, rtol=1e-6, atol=1e-6)


def test_inductor_gives_the_same_results():
    options = {**CONFIGURATIONS["max_grad_norm"], "capturable": True}
    snapshots, graphs = run("inductor", **options)
    assert graphs <= 2
    torch.testing.assert_close(snapshots, run(None, **options)[0], rtol=1e-6, atol=1e-6)
