"""Sharded parameters follow the trajectory of whole ones: parameters and state, every third step."""

from itertools import product
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
    with_zero,
    without_gradients,
)
from sharded_layouts import SCHEMES

from psilogic.tensors import reduction

# One worker of pytest-xdist then starts the processes, and only one.
pytestmark = pytest.mark.xdist_group("processes")

# One DTensor with all options that read rows; every other scheme with the option that reads
# most from other processes, on four processes if the scheme also exists on two.
TOGETHER = ["AGC and GC, group", "everything, global"]
CHOSEN = {"Shard(1) on 4": ["AGC and GC, group"]}


SIMILAR = [
    "Shard(0) on 4",
    "Shard(0), Shard(0)",
    "Replicate, Shard(0)",
    "Replicate, Shard(1)",
    "HSDP",
    "tensor parallel",
    "Shard(0), Shard(1)",
    "Shard(0), Replicate",
]
"""Other schemes have the same placements, or test_sharded_models.py trains under the wrapper."""


def chosen_options(name):
    """The options with which a scheme is not left to the marker soak."""
    exists_on_four = name.endswith(" on 2") and name.replace(" on 2", " on 4") in SCHEMES
    if exists_on_four or name in SIMILAR:
        return []
    return CHOSEN.get(name, ["everything, global"])


def in_soak(*values):
    """A case that other cases represent."""
    return pytest.param(*values, marks=pytest.mark.soak)


CASES = []
for name in SCHEMES:
    for option in OPTIONS:
        is_chosen = option in chosen_options(name)
        CASES.append((name, option) if is_chosen else in_soak(name, option))


@pytest.mark.parametrize(("name", "option"), CASES)
def test_the_trajectory_is_that_of_whole_tensors(processes, name, option) -> None:
    for fired, rested in processes.run(SCHEMES[name].world, follow, name, option):
        assert fired, "cancellation never acted: the comparison shows nothing of it"
        assert rested, "the gate never closed"


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("fully_shard on 4", "AGC and GC, group"),
        in_soak("Shard(1) on 4", "AGC and GC, group"),
        ("Shard(0), Shard(1)", "AGC of tensors"),
    ],
)
def test_faults_in_gradients_do_what_they_do_to_whole_tensors(processes, name, option) -> None:
    processes.run(SCHEMES[name].world, follow, name, option, change=faults)


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        ("Shard(1) on 2", torch.float32, 1e-5),
        in_soak("Shard(1) on 2", torch.bfloat16, 2e-2),
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
    found_by_rank = processes.run(2, without_gradients, missing, "tensor")
    for found, absent in zip(found_by_rank, missing, strict=True):
        expected = {0: [1.0, 1.0], 1: [10.0, 10.0], 2: [100.0, 100.0]}
        for i in absent:
            del expected[i]
        assert found == expected


def test_a_pool_counts_the_gradients_that_exist(processes) -> None:
    """Tensors without a gradient on any process do not dilute it: 12 elements of 1 and 2 of 100."""
    expected = round(((12 + 2 * 100**2) / 14) ** 0.5, 4)
    first, second = processes.run(2, without_gradients, ([1, 2], [1]), "global")
    assert first == {0: [expected] * 2}
    assert second == {0: [expected] * 2, 2: [expected] * 2}


# Collectives of a step.

# Others have the same placements.
COUNTED_IN_SOAK = ("Shard(0) on 4", "Shard(1) on 4", "Shard(0), Replicate", "HSDP", "tensor parallel")
BUDGET = [
    *product(["Shard(0), Shard(1)", "all placements of a mesh"], ["everything, global"], [1]),
    *product(["with plain tensors", "fully_shard on 4"], ["everything, global"], [1]),
    *product(["two meshes", "tensor parallel and fully_shard"], ["everything, global"], [2]),
    *product(["Replicate on 2", "DDP"], TOGETHER, [0]),
]
"""Schemes, options and the most collectives of a step: each waits for all processes."""
BUDGET += [in_soak(name, "everything, global", 1) for name in COUNTED_IN_SOAK]


@pytest.mark.parametrize(("name", "option", "most"), BUDGET)
def test_collectives_beyond_those_of_adamw(processes, name, option, most) -> None:
    for mine in processes.run(SCHEMES[name].world, count, name, option):
        assert max(mine) == most


def test_an_optimizer_of_one_process_uses_no_collective(processes) -> None:
    assert processes.run(2, alone) == [{}, {}]


class Ranks:
    """A process group with a backend for one kind of device."""

    def __init__(self, device):
        self._device_types = [torch.device(device)]


def test_sums_move_to_where_their_ranks_can_add_them(monkeypatch) -> None:
    """As with CPU offload under NCCL, which has no backend for the CPU."""
    reduced_on = []

    def all_reduce(buffer, group):
        reduced_on.append(buffer.device.type)

    monkeypatch.setattr(reduction.dist, "all_reduce", all_reduce)
    sums = torch.ones(2)

    def completed(device):
        """The sums of a bucket whose ranks have a backend for this kind of device."""
        bucket = SimpleNamespace(ranks=Ranks(device), pieces=[])
        by_bucket, _ = reduction.complete([bucket], {0: [sums]}, found_inf=None)
        return by_bucket[0]

    (on_cpu,) = completed("cpu")
    assert torch.equal(on_cpu, sums)
    with pytest.raises(NotImplementedError, match="meta"):  # it has no values to move back
        completed("meta")
    assert reduced_on == ["cpu", "meta"]


def test_zero_changes_no_bit(processes) -> None:
    for fired, rested in processes.run(2, with_zero):
        assert fired
        assert rested


# Errors.


@pytest.mark.parametrize("how", ["original", "flat", "added", "max_grad_norm", "group"])
def test_wrappers_that_hide_tensors_are_refused(processes, how) -> None:
    of_zero = how in ("max_grad_norm", "group")
    wrapper = "ZeroRedundancyOptimizer" if of_zero else "FullyShardedDataParallel (FSDP1)"
    for message in processes.run(2, made_over_hidden_tensors, how):
        assert "fully_shard (FSDP2)" in message
        assert wrapper in message


def test_flat_partitions_of_other_libraries_are_refused(processes) -> None:
    for message in processes.run(2, flat_partitions, False):
        assert "flat partition apart, which another library (DeepSpeed's ZeRO, for example)" in message
    assert processes.run(2, flat_partitions, True) == ["no error"] * 2
