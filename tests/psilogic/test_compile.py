"""torch.compile of `step`: one graph without a break, two compilations in a run, the results of the plain step."""

from functools import partial
from typing import NamedTuple

import pytest
import torch
from configurations import CONFIGURATIONS, snapshot
from torch import nn

from psilogic import PsiLogic
from psilogic.monitor import monitor

pytestmark = pytest.mark.slow
STEPS = 24
SPIKE_AT = 15


def the_method(optimizer):
    """What is compiled: the method itself."""
    return optimizer.step


def a_function(optimizer):
    """What is compiled: a function of the user that calls the method."""

    def step():
        optimizer.step()

    return step


class Run(NamedTuple):
    """Snapshots after every step, and how many graphs were compiled."""

    snapshots: list
    graphs: int


class Model(nn.Module):
    """Every kind of tensor that is treated differently, in a module as users have them."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(2, 3, 2)
        self.norm = nn.LayerNorm(3)
        self.head = nn.Linear(3, 4)
        self.temperature = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        x = self.patch(x).mean((2, 3))
        return self.head(self.norm(x)) * self.temperature


def run(compiled_as, backend, model=Model, watchers=None, **options):
    """Take steps, compiled in one of the forms, or plain if there is none; a graph break raises.

    A monitor is added to a list of watchers.
    """
    torch._dynamo.reset()
    torch.manual_seed(0)
    params = list(model().parameters())
    generator = torch.Generator().manual_seed(1)
    optimizer = PsiLogic(params, **{"lr": 0.02, **options})
    if watchers is not None:
        watchers.append(monitor(optimizer))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    step = optimizer.step
    if compiled_as is not None:
        step = torch.compile(compiled_as(optimizer), backend=backend, fullgraph=True)
    snapshots = []
    for t in range(STEPS):
        for p in params:  # a gradient for each in every step: a graph belongs to one set of tensors
            scale = 80 if t == SPIKE_AT else 1
            p.grad = torch.randn(p.shape, generator=generator) * scale
        step()
        scheduler.step()
        snapshots.append(snapshot(optimizer, params))
    return Run(snapshots, graphs=torch._dynamo.utils.counters["stats"]["unique_graphs"])


def assert_close(mine, theirs):
    torch.testing.assert_close(mine.snapshots, theirs.snapshots, rtol=1e-6, atol=1e-6)


@pytest.fixture(autouse=True)
def forget_graphs():
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


@pytest.mark.soak  # the step below has all options, and a monitor besides
@pytest.mark.filterwarnings("error:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(
    ("name", "compiled_as", "tensor_lr"),
    [("everything", a_function, False), ("group", the_method, True)],
)
def test_a_compiled_step_is_one_graph_that_is_compiled_at_most_twice(name, compiled_as, tensor_lr):
    def options():
        """A tensor is new for each run, because the schedule changes it."""
        if not tensor_lr:
            return CONFIGURATIONS[name]
        return {**CONFIGURATIONS[name], "lr": torch.tensor(0.02)}

    compiled = run(compiled_as, "aot_eager", **options())
    assert 1 <= compiled.graphs <= 2
    assert_close(compiled, run(None, None, **options()))


@pytest.mark.filterwarnings("error:Detected call of `lr_scheduler.step")
def test_a_step_that_is_watched_stays_compiled_and_counts():
    """With a tensor as learning rate, which the schedule changes."""
    watchers = []

    def options():
        return {**CONFIGURATIONS["everything"], "watchers": watchers, "lr": torch.tensor(0.02)}

    compiled = run(the_method, "aot_eager", **options())
    assert 1 <= compiled.graphs <= 3  # the first watched step creates the sums
    assert_close(compiled, run(None, None, **options()))
    of_compiled, of_plain = watchers
    assert of_compiled.totals() == pytest.approx(of_plain.totals())
    assert of_plain.totals()["gate_share"] > 0
    for row, other in zip(of_compiled.read(), of_plain.read(), strict=True):
        for quantity, value in vars(other).items():
            if not isinstance(value, str):
                assert getattr(row, quantity) == pytest.approx(value, rel=1e-5), quantity


@pytest.mark.soak  # a C++ compiler's half a minute; that there are one graph and two compilations is shown above
def test_inductor_gives_the_same_results():
    model = partial(nn.Linear, 3, 2, bias=False)
    options = {**CONFIGURATIONS["max_grad_norm"], "capturable": True, "model": model}
    compiled = run(the_method, "inductor", **options)
    assert 1 <= compiled.graphs <= 2
    assert_close(compiled, run(None, None, **options))
