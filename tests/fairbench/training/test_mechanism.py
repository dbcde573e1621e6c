"""What a mechanism reports, and what of an optimizer takes no part."""

from math import inf, nan
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fairbench.training.mechanism import SHARE, MechanismLog
from fairbench.training.unused import marks, unused


@pytest.mark.parametrize("unit", ["1", SHARE])
def test_a_reading_that_is_not_finite_counts_as_no_increase(unit):
    readings = iter([nan, 0.5, ZeroDivisionError(), inf, torch.tensor(0.75)])

    def quantities():
        value = next(readings)
        if isinstance(value, Exception):
            raise value
        return {"share": (unit, {"w": value})}

    optimizer = SimpleNamespace(mechanism=lambda named: SimpleNamespace(quantities=quantities))
    log = MechanismLog(optimizer, [("w", nn.Parameter(torch.tensor([3.0, 4.0])))])
    for step in range(1, 6):
        log.read(step)
    found = log.recorded()
    assert found.totals == {"share": 0.75}
    assert found.not_finite == {"share": 3}
    assert [*found.course.points("share")] == [(1, 0), (2, 0.5), (3, 0), (4, 0), (5, 0.25)]
    expected = {"share": 3.75} if unit == SHARE else {}
    assert found.path_length == expected


class Idle(torch.optim.SGD):
    def step(self):
        (p,) = self.param_groups[0]["params"]
        self.state[p].setdefault("same", torch.full_like(p, 2.0))
        self.state[p].setdefault("average", torch.zeros_like(p)).add_(self.gradient(p))

    def gradient(self, p):
        return p.grad

    def update_basis(self):
        pass


def test_state_that_never_changes_and_methods_that_nobody_calls():
    p = nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    optimizer = Idle([p])
    optimizer.step()
    first = marks(optimizer)
    optimizer.step()
    state = "state 'same' stays the same in 2 steps"
    assert unused(optimizer, set(), first, 2) == [state, "update_basis() is never called"]
    assert unused(optimizer, {"update_basis"}, first, 2) == [state]
