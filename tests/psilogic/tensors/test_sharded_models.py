"""Real models under the wrappers of torch: training, checkpoints, the monitor."""

import pytest
from sharded_models import WRAPPERS, resume, save, take_over, watched

pytestmark = pytest.mark.xdist_group("processes")

AT = 6
FLAT = {"flatten_optimizer_state_dict": True}
GATHERED = {"full_state_dict": True, "cpu_offload": True}
EVERYTHING, GROUP = "everything, tensor", "group"


def world(name):
    return WRAPPERS[name].world if name else 1


# A mesh of two dimensions represents the others: the trajectories compare the same numbers.
MESHES = ["tensor parallel and fully_shard", *(pytest.param(x, marks=pytest.mark.soak) for x in ("HSDP", "DDP"))]


@pytest.mark.parametrize("name", MESHES)
def test_the_monitor_reads_what_it_reads_of_whole_tensors(processes, name) -> None:
    for (rows, totals, spikes), (rows_alone, totals_alone, spikes_alone) in processes.run(
        world(name), watched, name, GROUP
    ):
        for row, alone in zip(rows, rows_alone, strict=True):
            for quantity, value in vars(alone).items():
                expected = value if isinstance(value, str) else pytest.approx(value, rel=1e-9)
                assert getattr(row, quantity) == expected, f"{row.name}, {quantity}"
        assert totals == pytest.approx(totals_alone, rel=1e-9)
        mine, theirs = (sorted((spike.step, spike.name) for spike in found) for found in (spikes, spikes_alone))
        assert mine == theirs
        assert spikes


# Checkpoints: training resumes as if never stopped, also on more or fewer processes.


@pytest.mark.parametrize(
    ("saved", "loaded", "option", "how"),
    [
        ("fully_shard on 4", ["fully_shard on 1", "tensor parallel and fully_shard"], EVERYTHING, {}),
        pytest.param("fully_shard on 4", ["HSDP", "fully_shard on 2"], EVERYTHING, {}, marks=pytest.mark.soak),
        ("fully_shard on 2", ["fully_shard on 4"], EVERYTHING, {}),
        ("fully_shard on 4", ["fully_shard on 2"], GROUP, FLAT),
        pytest.param("fully_shard on 4", ["fully_shard on 4"], GROUP, FLAT, marks=pytest.mark.soak),
        ("DDP", ["DDP"], GROUP, {}),
        ("fully_shard on 4", ["", "tensor parallel"], EVERYTHING, GATHERED),
        pytest.param("fully_shard on 4", ["fully_shard on 2"], EVERYTHING, GATHERED, marks=pytest.mark.soak),
        pytest.param("fully_shard on 4", [""], GROUP, GATHERED, marks=pytest.mark.soak),
    ],
)
def test_a_checkpoint_resumes_on_any_number_of_processes(processes, tmp_path, saved, loaded, option, how) -> None:
    path = str(tmp_path / "checkpoint")
    processes.run(world(saved), save, saved, option, path, AT, **how)
    for name in loaded:
        processes.run(world(name), resume, name, option, path, AT, **how)


@pytest.mark.parametrize(("option", "how"), [(EVERYTHING, {}), pytest.param(GROUP, FLAT, marks=pytest.mark.soak)])
def test_a_checkpoint_of_adamw_is_taken_over_by_all_processes(processes, tmp_path, option, how) -> None:
    processes.run(2, take_over, "fully_shard on 2", option, str(tmp_path / "checkpoint"), AT, **how)
