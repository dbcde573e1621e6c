"""What programs write is read as they mean it, and what can mean two things is refused with its file and line."""

import ast
import csv
import json
import math
import os
import struct

import pytest
from programs import rows

from fairbench.arenas.program import ProgramOptions
from fairbench.training.program_results import read_reported
from fairbench.training.result_files import Folders, states
from fairbench.training.result_names import WrongResults

OPTIONS = ProgramOptions("python train.py", {"loss": "min"})
TRAINED = ({"step": 1, "train/loss": 2.0}, {"step": 2, "train/loss": 1.0})


def read(folder, options=OPTIONS, attempts=({},), **more):
    return read_reported(Folders(folder), options, attempts, **more)


def before(folder, text, name="metrics.jsonl"):
    """The states of the files at the beginning of an attempt that found this text."""
    (folder / name).write_text(text)
    return states({name: folder / name})


def test_json_lines(tmp_path):
    text = rows(*TRAINED, {"step": 2, "val/loss": 1.5, "lr": 0.1}, {"note": "no result"})
    (tmp_path / "metrics.jsonl").write_text(text)
    assert read(tmp_path).values == {"train/loss": {1: 2.0, 2: 1.0}, "val/loss": {2: 1.5}}


def test_csv_with_names_of_its_own(tmp_path):
    with (tmp_path / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("iter", "loss", "eval"), (1, 2.0, ""), (2, 1.0, 1.5)])
    keys = {"step": "iter", "train/loss": "loss", "val/loss": "eval"}
    found = read(tmp_path, ProgramOptions("x", {"loss": "min"}, results="*.csv", keys=keys))
    assert found.values == {"train/loss": {1: 2.0, 2: 1.0}, "val/loss": {2: 1.5}}


def test_events_of_tensorboard(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "runs")) as writer:
        for row in TRAINED:
            writer.add_scalar("train/loss", row["train/loss"], row["step"])
        writer.add_scalar("val/loss", 1.5, 2)
    found = read(tmp_path, ProgramOptions("x", {"loss": "min"}, results="runs/*tfevents*"))
    assert found.values == {"train/loss": {1: 2.0, 2: 1.0}, "val/loss": {2: 1.5}}


def test_a_later_attempt_replaces_what_an_earlier_one_reported(tmp_path):
    killed = rows(*TRAINED, {"step": 3, "train/loss": 0.9}) + '{"step": 4, "tra'
    resumed = rows({"step": 3, "train/loss": 0.8}, {"step": 4, "train/loss": 0.7})
    attempts = ({}, before(tmp_path, killed))
    (tmp_path / "metrics.jsonl").write_text(killed + resumed)
    found = read(tmp_path, attempts=attempts)
    assert found.values == {"train/loss": {1: 2.0, 2: 1.0, 3: 0.8, 4: 0.7}}
    assert not found.restarted
    (tmp_path / "metrics.jsonl").write_text(killed + rows(*TRAINED))
    assert read(tmp_path, attempts=attempts).restarted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("results.json", '{"step": 2, "val_loss": 1.5}'),
        ("results.csv", "step,val_loss\n2,1.5\n"),
        ("results.jsonl", '{"step": 2, "val_loss": 1.5}\n'),
    ],
)
def test_a_file_where_the_program_runs_is_of_the_trial_that_wrote_it_also_with_the_same_numbers(tmp_path, name, text):
    options = ProgramOptions("x", {"loss": "min"}, results=f"./{name}")
    folders = Folders(tmp_path / "out", works_in=tmp_path)
    of_another_trial = before(tmp_path, text, name)
    attempts = ({f"./{name}": of_another_trial[name]},)
    assert read_reported(folders, options, attempts).values == {}
    later = (tmp_path / name).stat().st_mtime_ns + 10**9
    (tmp_path / name).write_text(text)
    os.utime(tmp_path / name, ns=(later, later))
    assert read_reported(folders, options, attempts).values == {"val/loss": {2: 1.5}}


def test_files_of_two_processes_contradict_each_other_and_those_of_two_attempts_do_not(tmp_path):
    options = ProgramOptions("x", {"loss": "min"}, results="*.jsonl")
    for number, value in enumerate((2.0, 3.0)):
        (tmp_path / f"{number}.jsonl").write_text(rows({"step": 1, "train/loss": value}))
    first = states({"0.jsonl": tmp_path / "0.jsonl"})
    assert read(tmp_path, options, ({}, first)).values == {"train/loss": {1: 3.0}}
    with pytest.raises(WrongResults, match=r"1\.jsonl, line 1: train/loss at step 1 is 3, and was 2; do two processes"):
        read(tmp_path, options)


def test_an_attempt_that_has_only_to_evaluate_keeps_the_last_loss_of_training(tmp_path):
    trained = rows(*TRAINED)
    attempts = ({}, before(tmp_path, trained))
    (tmp_path / "metrics.jsonl").write_text(trained + rows({"step": 2, "val/loss": 1.5}))
    found = read(tmp_path, attempts=attempts)
    assert found.values == {"train/loss": {1: 2.0, 2: 1.0}, "val/loss": {2: 1.5}}


def test_a_file_that_is_still_written_ends_with_its_last_whole_line(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(rows(*TRAINED) + '{"step": 3, "tra')
    assert read(tmp_path, ended=False).last == 2
    with pytest.raises(WrongResults, match="line 3 is no whole line of JSON"):
        read(tmp_path)


def test_what_contradicts_itself_is_named_with_its_line(tmp_path, check_errors):
    def report(text):
        (tmp_path / "metrics.jsonl").write_text(ast.literal_eval(text))
        read(tmp_path)

    check_errors("reported.txt", report, WrongResults)


def test_a_row_of_csv_with_another_number_of_values(tmp_path):
    (tmp_path / "log.csv").write_text("step,val/loss\n1,2.0\n2\n")
    with pytest.raises(WrongResults, match=r"log\.csv, line 3 has 1 values, the first line 2 names"):
        read(tmp_path, ProgramOptions("x", {"loss": "min"}, results="*.csv"))


def test_nan_and_infinity_are_values(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(rows(*TRAINED, {"step": 2, "val/loss": float("nan")}))
    assert json.loads("NaN") != json.loads("NaN")
    assert not read(tmp_path).finite


def test_offline_files_of_wandb(tmp_path):
    wandb = pytest.importorskip("wandb")
    run = wandb.init(project="p", dir=tmp_path, mode="offline", settings=wandb.Settings(silent=True))
    for row in TRAINED:
        run.log({"train/loss": row["train/loss"], "text": "x" * 40_000}, step=row["step"])  # more than a block
    run.finish()
    found = read(tmp_path, ProgramOptions("x", {"loss": "min"}, results="wandb/offline*/*.wandb"))
    assert found.values == {"train/loss": {1: 2.0, 2: 1.0}}


FILES = {
    "a.json": '{"step": 2, "val/loss": 1.5, "tags": ["a"]}',
    "b.json": '{"log_history": [{"step": 2, "eval_loss": 1.5}], "best": null}',
    "keras.json": '{"loss": [3, 2], "val_loss": [2.5, 1.5]}',
    "lines.json": '{"epoch": 1, "val_loss": 2.5}\n{"epoch": 2, "val_loss": 1.5}\n',
    "a.tsv": "step\tval/loss\n2\t1.5\n",
    "b.csv": "Epoch;val_loss\n2;1.5\n",
    "yolo.csv": "   epoch,   val/loss\n  2,  1.5\n",
    "train.log": "step 2: val loss 1.5\n",
    "both.csv": "epoch,step,val_loss,loss\n0,9,1.5,3\n1,8,1.5,3\n2,7,1.5,3\n",
}


@pytest.mark.parametrize("name", FILES)
def test_the_last_value_of_files_of_other_forms(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    values = read(tmp_path, ProgramOptions("x", {"loss": "min"}, results=name)).values
    assert [*values["val/loss"].items()][-1] == (2, 1.5)


def test_numbers_of_printf_that_are_not_finite(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "val/loss": -nan, "train/loss": inf, "note": "inf, so"}\n')
    found = read(tmp_path)
    assert math.isnan(found.values["val/loss"][1])
    assert found.values["train/loss"] == {1: math.inf}


@pytest.mark.parametrize("longer", [True, False])
def test_a_file_that_is_written_again_is_that_of_the_last_attempt(tmp_path, longer):
    """The lines of the second attempt have another length, as where the first column is a time."""
    killed = "seconds,step,val/loss\n0.5,1,2.0\n0.75,2,1.0\n"
    attempts = ({}, before(tmp_path, killed, "log.csv"))
    again = ["seconds,step,val/loss", "0.512345,1,2.5", "0.7654321,2,1.5"]
    (tmp_path / "log.csv").write_text("\n".join(again[: 3 if longer else 2]) + "\n")
    found = read(tmp_path, ProgramOptions("x", {"loss": "min"}, results="log.csv"), attempts)
    assert found.values == {"val/loss": {1: 2.5, 2: 1.5} if longer else {1: 2.5}}


def test_events_of_tensorflow_have_their_numbers_as_bytes(tmp_path):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_FLOAT, DT_STRING
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(tmp_path))
    number = TensorProto(dtype=DT_FLOAT, tensor_content=struct.pack("<f", 1.5))
    text = TensorProto(dtype=DT_STRING, string_val=[b"adam"])
    values = [Summary.Value(tag="val/loss", tensor=number), Summary.Value(tag="note", tensor=text)]
    writer.add_event(Event(step=3, summary=Summary(value=values)))
    writer.close()
    found = read(tmp_path, ProgramOptions("x", {"loss": "min"}, results="*tfevents*"))
    assert found.values == {"val/loss": {3: 1.5}}
