"""Real models under the wrappers of torch: training, checkpoints, the monitor."""

import pytest
from sharded_models import WRAPPERS, resume, save, take_over, watched

pytestmark = pytest.mark.xdist_group("processes")

AT = 6
FLAT = {"flatten_optimizer_state_dict": True}
GATHERED = {"full_state_dict": True, "cpu_offload": True}
EVERYTHING = "everything, tensor"
GROUP = "group"


def world(name):
    """The number of processes of a wrapper; one without any."""
    return WRAPPERS[name].world if name else 1


def in_soak(*values):
    """A case that other cases represent."""
    return pytest.param(*values, marks=pytest.mark.soak)


# A mesh of two dimensions represents the others: the trajectories compare the same numbers.
@pytest.mark.parametrize("name", ["tensor parallel and fully_shard", in_soak("HSDP"), in_soak("DDP")])
def test_the_monitor_reads_what_it_reads_of_whole_tensors(processes, name) -> None:
    for mine, alone in processes.run(world(name), watched, name, GROUP):
        for row, row_alone in zip(mine.rows, alone.rows, strict=True):
            assert_same_row(row, row_alone)
        assert mine.totals == pytest.approx(alone.totals, rel=1e-9)
        assert spiked(mine) == spiked(alone)
        assert mine.spikes


def assert_same_row(row, expected):
    for quantity, value in vars(expected).items():
        if not isinstance(value, str):
            value = pytest.approx(value, rel=1e-9)
        assert getattr(row, quantity) == value, f"{expected.name}, {quantity}"


def spiked(found):
    """Step and tensor of each spike."""
    return sorted((spike.step, spike.name) for spike in found.spikes)


# Checkpoints: training resumes as if never stopped, also on more or fewer processes.


@pytest.mark.parametrize(
    ("saved", "loaded", "option", "how"),
    [
        ("fully_shard on 4", ["tensor parallel and fully_shard"], EVERYTHING, {}),
        in_soak("fully_shard on 4", ["fully_shard on 1"], EVERYTHING, {}),
        in_soak("fully_shard on 4", ["HSDP", "fully_shard on 2"], EVERYTHING, {}),
        ("fully_shard on 2", ["fully_shard on 4"], EVERYTHING, {}),
        ("fully_shard on 4", ["fully_shard on 2"], GROUP, FLAT),
        in_soak("fully_shard on 4", ["fully_shard on 4"], GROUP, FLAT),
        ("DDP", ["DDP"], GROUP, {}),
        ("fully_shard on 4", [""], EVERYTHING, GATHERED),
        in_soak("fully_shard on 4", ["tensor parallel"], EVERYTHING, GATHERED),
        in_soak("fully_shard on 4", ["fully_shard on 2"], EVERYTHING, GATHERED),
        in_soak("fully_shard on 4", [""], GROUP, GATHERED),
    ],
)
def test_a_checkpoint_resumes_on_any_number_of_processes(processes, tmp_path, saved, loaded, option, how) -> None:
    path = str(tmp_path / "checkpoint")
    processes.run(world(saved), save, saved, option, path, AT, **how)
    for name in loaded:
        processes.run(world(name), resume, name, option, path, AT, **how)


@pytest.mark.parametrize(("option", "how"), [(EVERYTHING, {}), in_soak(GROUP, FLAT)])
def test_a_checkpoint_of_adamw_is_taken_over_by_all_processes(processes, tmp_path, option, how) -> None:
    processes.run(2, take_over, "fully_shard on 2", option, str(tmp_path / "checkpoint"), AT, **how)
