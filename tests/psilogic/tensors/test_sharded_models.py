"""Real models under the wrappers of torch: training, the monitor."""

import math

import pytest
from sharded_models import WRAPPERS, learn, watched

pytestmark = pytest.mark.xdist_group("processes")


def smaller(name):
    """Whether the same wrapper is there on more processes."""
    return name.endswith(" on 2") and name.replace(" on 2", " on 4") in WRAPPERS


# test_sharded.py has these wrappers with the same options.
SIMILAR = ["fully_shard on 4", "HSDP", "FSDP1, hybrid"]
CASES = [
    pytest.param(name, "everything, global", marks=pytest.mark.soak if smaller(name) or name in SIMILAR else ())
    for name in WRAPPERS
]
# test_sharded.py has more options, with tensors of the same wrappers.
OTHERS = [(name, "AGC and GC, group") for name in ("fully_shard on 4", "tensor parallel and fully_shard", "FSDP1 on 4")]
CASES += [pytest.param(*other, marks=pytest.mark.soak) for other in OTHERS]


@pytest.mark.parametrize(("name", "option"), CASES)
def test_training_is_that_of_the_model_alone(processes, name, option) -> None:
    for fired, rested in processes.run(WRAPPERS[name].world, learn, name, option):
        assert fired
        assert rested


# A mesh of two dimensions represents the others: the monitor reads what the trajectories compare.
MESHES = ["tensor parallel and fully_shard", *(pytest.param(x, marks=pytest.mark.soak) for x in ("HSDP", "DDP"))]


@pytest.mark.parametrize("name", MESHES)
def test_the_monitor_reads_what_it_reads_of_whole_tensors(processes, name) -> None:
    for (rows, totals, spikes), (rows_alone, totals_alone, spikes_alone) in processes.run(
        WRAPPERS[name].world, watched, name, "group"
    ):
        assert [row.name for row in rows] == [row.name for row in rows_alone]
        for row, alone in zip(rows, rows_alone, strict=True):
            for quantity, value in vars(alone).items():
                mine = getattr(row, quantity)
                close = mine == value if isinstance(value, str) else math.isclose(mine, value, rel_tol=1e-9)
                assert close, f"{row.name}, {quantity}: {mine} instead of {value}"
        assert totals == pytest.approx(totals_alone, rel=1e-9)
        assert [(spike.step, spike.name) for spike in spikes] == [(spike.step, spike.name) for spike in spikes_alone]
        assert spikes
