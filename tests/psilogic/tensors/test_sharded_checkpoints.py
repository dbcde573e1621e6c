"""Checkpoints of sharded optimizers: training resumes as if never stopped, also on more or fewer processes."""

import pytest
from sharded_models import WRAPPERS, fsdp1_round_trip, full_state, resume, resume_full_state, save, zero_round_trip

pytestmark = pytest.mark.xdist_group("processes")

AT = 6
# The state of a group is saved and loaded by the distributed checkpoints too.
OPTIONS = [pytest.param("group", marks=pytest.mark.soak), "everything, tensor"]


def world(name):
    return WRAPPERS[name].world if name else 1


@pytest.mark.parametrize(
    ("saved", "loaded"),
    [
        ("fully_shard on 4", ["fully_shard on 2", "fully_shard on 1", "HSDP", "tensor parallel and fully_shard"]),
        ("fully_shard on 2", ["fully_shard on 4"]),
    ],
)
def test_a_distributed_checkpoint_resumes_on_any_number_of_processes(processes, tmp_path, saved, loaded) -> None:
    path = str(tmp_path / "checkpoint")
    processes.run(world(saved), save, saved, "everything, tensor", path, AT)
    for name in loaded:
        processes.run(world(name), resume, name, "everything, tensor", path, AT)


def test_a_distributed_checkpoint_with_a_flattened_state(processes, tmp_path) -> None:
    path, flat = str(tmp_path / "checkpoint"), {"flatten_optimizer_state_dict": True}
    processes.run(4, save, "fully_shard on 4", "group", path, AT, **flat)
    for name in ("fully_shard on 4", "fully_shard on 2"):
        processes.run(world(name), resume, name, "group", path, AT, **flat)


@pytest.mark.parametrize("name", ["FSDP1 on 4", "DDP"])
def test_a_distributed_checkpoint_of_other_wrappers(processes, tmp_path, name) -> None:
    path = str(tmp_path / "checkpoint")
    processes.run(world(name), save, name, "group", path, AT)
    processes.run(world(name), resume, name, "group", path, AT)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_gathered_state_resumes_anywhere(processes, tmp_path, option) -> None:
    path = str(tmp_path / "state.pt")
    processes.run(4, full_state, "fully_shard on 4", option, path, AT)
    for name in ("", "fully_shard on 2", "tensor parallel"):
        processes.run(world(name), resume_full_state, name, option, path, AT)


@pytest.mark.parametrize("name", ["FSDP1 on 4", pytest.param("FSDP1, hybrid", marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["FULL_STATE_DICT", "SHARDED_STATE_DICT"])
def test_the_state_dict_of_fsdp1(processes, name, kind) -> None:
    processes.run(world(name), fsdp1_round_trip, name, "everything, tensor", kind, AT)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_consolidated_state_of_zero(processes, option) -> None:
    processes.run(2, zero_round_trip, option, AT)
