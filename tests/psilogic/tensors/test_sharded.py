"""Sharded parameters follow the trajectory of whole ones: parameters and state, every third step."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from sharded_cases import (
    OPTIONS,
    alone,
    count,
    faults,
    flat_partitions,
    follow,
    made_over_hidden_tensors,
    overflow,
    without_gradients,
)
from sharded_layouts import SCHEMES

from psilogic.tensors import sharding

# One worker of pytest-xdist then starts the processes, and only one.
pytestmark = pytest.mark.xdist_group("processes")

# One DTensor with all options that read rows; every other scheme with the option that reads
# most from other processes, on four processes if the scheme also exists on two.
TOGETHER = ["AGC and GC, group", "everything, global"]
CHOSEN = {"Shard(1) on 4": [*TOGETHER, "everything, tensor"]}


# Other schemes have the same placements, or test_sharded_models.py trains under the wrapper.
SIMILAR = ["Shard(0) on 4", "Shard(0), Shard(0)", "Replicate, Shard(0)", "Replicate, Shard(1)"]
SIMILAR += ["HSDP", "tensor parallel", "Shard(0), Shard(1)", "Shard(0), Replicate"]


def weight(name, option):
    """The marker soak, if other cases represent it."""
    smaller = name.endswith(" on 2") and name.replace(" on 2", " on 4") in SCHEMES
    chosen = CHOSEN.get(name, [] if smaller or name in SIMILAR else ["everything, global"])
    return () if option in chosen else pytest.mark.soak


CASES = [pytest.param(name, option, marks=weight(name, option)) for name in SCHEMES for option in OPTIONS]


@pytest.mark.parametrize(("name", "option"), CASES)
def test_the_trajectory_is_that_of_whole_tensors(processes, name, option) -> None:
    for fired, rested in processes.run(SCHEMES[name].world, follow, name, option):
        assert fired, "cancellation never acted: the comparison shows nothing of it"
        assert rested, "the gate never closed"


FAULTS = [(name, "AGC and GC, group") for name in ("fully_shard on 4", "Shard(1) on 4")]
FAULTS += [("Shard(0), Shard(1)", "AGC of tensors")]


@pytest.mark.parametrize(
    ("name", "option"), [pytest.param(*x, marks=pytest.mark.soak if x[0] == "Shard(1) on 4" else ()) for x in FAULTS]
)
def test_faults_in_gradients_do_what_they_do_to_whole_tensors(processes, name, option) -> None:
    processes.run(SCHEMES[name].world, follow, name, option, change=faults)


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        ("Shard(1) on 2", torch.float32, 1e-5),
        pytest.param("Shard(1) on 2", torch.bfloat16, 2e-2, marks=pytest.mark.soak),
        ("fully_shard on 4", torch.bfloat16, 2e-2),
    ],
)
def test_lower_precision(processes, name, dtype, tolerance) -> None:
    processes.run(SCHEMES[name].world, follow, name, "AGC and GC, group", dtype, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["Shard(0), Shard(1)", "fully_shard on 4"])
def test_an_overflow_on_one_process_stops_the_step_on_all(processes, name) -> None:
    assert processes.run(4, overflow, name) == [True] * 4


@pytest.mark.parametrize("missing", [([1], []), ([1], [2]), ([0, 1, 2], []), ([1], [1])], ids=str)
def test_processes_may_lack_gradients(processes, missing) -> None:
    """Each the others' or all of them: the norm is that of the shares that have one, of no other tensor."""
    for rank, found in enumerate(processes.run(2, without_gradients, missing, "tensor")):
        assert found == {i: [10.0**i] * 2 for i in range(3) if i not in missing[rank]}


def test_a_pool_counts_the_gradients_that_exist(processes) -> None:
    """Tensors without a gradient on any process do not dilute it: 12 elements of 1 and 2 of 100."""
    expected = round(((12 + 2 * 100**2) / 14) ** 0.5, 4)
    first, second = processes.run(2, without_gradients, ([1, 2], [1]), "global")
    assert first == {0: [expected] * 2}
    assert second == {0: [expected] * 2, 2: [expected] * 2}


# Collectives of a step.

SPLIT_ONCE = [
    "Shard(0) on 4", "Shard(1) on 4", "Shard(0), Shard(1)", "Shard(0), Replicate", "all placements of a mesh",
    "with plain tensors", "fully_shard on 4", "HSDP", "tensor parallel",
]  # fmt: skip
BUDGET = (
    [(name, "everything, global", 1) for name in SPLIT_ONCE]
    + [(name, "everything, global", 2) for name in ("two meshes", "tensor parallel and fully_shard")]
    + [(name, option, 0) for name in ("Replicate on 2", "DDP") for option in TOGETHER]
)


# Others have the same placements.
COUNTED_IN_SOAK = ("Shard(0) on 4", "Shard(1) on 4", "Shard(0), Replicate", "HSDP", "tensor parallel")


@pytest.mark.parametrize(
    ("name", "option", "most"),
    [pytest.param(*x, marks=pytest.mark.soak if x[0] in COUNTED_IN_SOAK else ()) for x in BUDGET],
)
def test_collectives_beyond_those_of_adamw(processes, name, option, most) -> None:
    for mine in processes.run(SCHEMES[name].world, count, name, option):
        assert max(mine) == most


def test_an_optimizer_of_one_process_uses_no_collective(processes) -> None:
    assert processes.run(2, alone) == [{}, {}]


def test_sums_move_to_where_their_ranks_can_add_them(monkeypatch) -> None:
    """As with CPU offload under NCCL, which has no backend for the CPU."""
    reduced = []
    monkeypatch.setattr(sharding.dist, "all_reduce", lambda buffer, group: reduced.append(buffer.device.type))
    for device in ("cpu", "meta"):
        ranks = SimpleNamespace(_device_types=[torch.device(device)])
        with nullcontext() if device == "cpu" else pytest.raises(NotImplementedError, match="meta"):  # has no values
            sharding._all_reduced([torch.ones(2)], ranks)
    assert reduced == ["cpu", "meta"]


# Errors.


@pytest.mark.parametrize("how", ["original", "flat", "added", "ZeRO"])
def test_wrappers_that_hide_tensors_are_refused(processes, how) -> None:
    for message in processes.run(2, made_over_hidden_tensors, how):
        assert "fully_shard (FSDP2)" in message
        assert ("ZeroRedundancyOptimizer" if how == "ZeRO" else "FullyShardedDataParallel (FSDP1)") in message


def test_flat_partitions_of_other_libraries_are_refused(processes) -> None:
    for message in processes.run(2, flat_partitions, False):
        assert "flat partition apart, which another library (DeepSpeed's ZeRO, for example)" in message
    assert processes.run(2, flat_partitions, True) == ["no error"] * 2
