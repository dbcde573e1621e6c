"""torch.compile of `step`: one graph without a break, two compilations in a run, the results of the plain step."""

import pytest
import torch
from configurations import CONFIGURATIONS, snapshot
from torch import nn

from psilogic import PsiLogic
from psilogic.monitor import monitor

pytestmark = pytest.mark.slow
STEPS = 24
SPIKE_AT = 15
FORMS = {
    "the method": lambda optimizer, **how: torch.compile(optimizer.step, **how),
    "a function": lambda optimizer, **how: torch.compile(lambda: optimizer.step(), **how),
}


class Model(nn.Module):
    """Every kind of tensor that is treated differently, in a module as users have them."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(2, 3, 2)
        self.norm = nn.LayerNorm(3)
        self.head = nn.Linear(3, 4)
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return self.head(self.norm(self.patch(x).mean((2, 3)))) * self.temperature


def run(compiled_as, backend, tensor_lr=False, schedule=True, model=Model, watchers=None, **options):
    """A snapshot after every step, and how many graphs were compiled; a graph break raises.

    A monitor is added to a list of watchers.
    """
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, generator = model(), torch.Generator().manual_seed(1)
    params = list(model.parameters())
    optimizer = PsiLogic(params, **{"lr": 0.02, **options, **({"lr": torch.tensor(0.02)} if tensor_lr else {})})
    if watchers is not None:
        watchers.append(monitor(optimizer))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS) if schedule else None
    step = optimizer.step if compiled_as is None else FORMS[compiled_as](optimizer, backend=backend, fullgraph=True)
    snapshots = []
    for t in range(STEPS):
        for p in params:  # a gradient for each in every step: a graph belongs to one set of tensors
            p.grad = torch.randn(p.shape, generator=generator) * (80 if t == SPIKE_AT else 1)
        step()
        if scheduler is not None:
            scheduler.step()
        snapshots.append(snapshot(optimizer, params))
    return snapshots, torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.fixture(autouse=True)
def forget_graphs():
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.filterwarnings("error:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(
    ("name", "compiled_as", "tensor_lr"),
    [pytest.param("everything", "a function", False, marks=pytest.mark.soak), ("group", "the method", True)],
)
def test_a_compiled_step_is_one_graph_that_is_compiled_at_most_twice(name, compiled_as, tensor_lr):
    snapshots, graphs = run(compiled_as, "aot_eager", tensor_lr, **CONFIGURATIONS[name])
    assert 1 <= graphs <= 2
    expected, _ = run(None, None, tensor_lr, **CONFIGURATIONS[name])
    torch.testing.assert_close(snapshots, expected, rtol=1e-6, atol=1e-6)


def test_a_step_that_is_watched_stays_compiled_and_counts():
    watchers = []
    options = {**CONFIGURATIONS["everything"], "watchers": watchers}
    snapshots, graphs = run("the method", "eager", **options)  # what follows the graph is the same as above
    assert 1 <= graphs <= 3  # the first watched step creates the sums
    expected, _ = run(None, None, **options)
    torch.testing.assert_close(snapshots, expected, rtol=1e-6, atol=1e-6)
    compiled, plain = watchers
    assert compiled.totals() == pytest.approx(plain.totals())
    assert plain.totals()["gate_share"] > 0
    for row, other in zip(compiled.read(), plain.read(), strict=True):
        numbers, others = ([x for x in vars(each).values() if not isinstance(x, str)] for each in (row, other))
        assert numbers == pytest.approx(others, rel=1e-5)


@pytest.mark.soak  # a C++ compiler's half a minute; that there are one graph and two compilations is shown above
def test_inductor_gives_the_same_results():
    options = {**CONFIGURATIONS["max_grad_norm"], "capturable": True, "model": lambda: nn.Linear(3, 2, bias=False)}
    snapshots, graphs = run("the method", "inductor", **options)
    assert 1 <= graphs <= 2
    torch.testing.assert_close(snapshots, run(None, None, **options)[0], rtol=1e-6, atol=1e-6)
