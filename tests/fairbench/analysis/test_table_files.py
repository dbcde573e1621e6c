"""Tables that are compressed, of Arrow, or in one file for each run are read as one table of text is."""

import gzip
import json

import pyarrow
import pytest
from pyarrow import feather, parquet

import fairbench as fb
from fairbench.common.errors import UsageError

LOSSES = {"adamw": (1.01, 1.02, 1.05), "sgd": (1.11, 1.13, 1.14)}


def rows():
    found = []
    for optimizer, values in LOSSES.items():
        for seed, loss in enumerate(values):
            found.append({"optimizer": optimizer, "seed": seed, "val_loss": loss})
    return found


def test_compressed_files_and_those_of_arrow(tmp_path):
    text = "optimizer,seed,val_loss\n" + "\n".join(",".join(map(str, row.values())) for row in rows())
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    table = pyarrow.Table.from_pylist(rows())
    parquet.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    expected = fb.verdicts(tmp_path / "t.csv").to_dicts()
    assert len(expected) == 1
    for name in ("t.csv.gz", "t.parquet", "t.feather"):
        assert fb.verdicts(tmp_path / name).to_dicts() == expected


@pytest.mark.parametrize(
    ("name", "content", "way"),
    [
        ("t.xlsx", b"PK\x03\x04...", "save its sheet as CSV"),
        ("t.zip", b"PK\x03\x04...", "unpack it"),
        ("t.pkl", b"\x80\x04\x95", r"pandas.read_pickle\(...\)"),
        ("t.npy", b"\x93NUMPY\x01\0", "save it as CSV"),
        ("t.csv.gz", b"\x1f\x8b\x08", "is not whole"),
        ("t.parquet", b"PAR1....", "cannot be read"),
    ],
)
def test_other_binary_files_are_refused_with_the_way_out_for_their_kind(tmp_path, name, content, way):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=way):
        fb.verdicts(tmp_path / name)


def write_runs(folder, path, **settings):
    """Write a curve for each run, as Lightning does, at a path with its optimizer, its seed and its number."""
    number = 0
    for optimizer, values in LOSSES.items():
        for seed, loss in enumerate(values):
            file = folder / path.format(optimizer=optimizer, seed=seed, number=number)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"epoch,step,train_loss,val_loss\n0,49,2.5,\n0,49,,2.0\n1,99,1.5,\n1,99,,{loss}\n")
            for name, line in settings.items():
                (file.parent / name.replace("_", ".")).write_text(line.format(optimizer=optimizer, seed=seed))
            number += 1
    return folder


def judge(source, **asked):
    (c,) = fb.verdicts(source, metric="val_loss", at="last", **asked)
    assert (c.optimizer, c.baseline, c.n_optimizer, c.n_baseline) == ("adamw", "sgd", 3, 3)
    assert (c.test, c.mean_optimizer) == ("paired", pytest.approx(sum(LOSSES["adamw"]) / 3))


@pytest.mark.parametrize(
    "path",
    ["{optimizer}-{seed}/metrics.csv", "{optimizer}/seed_{seed}.csv", "{optimizer}_seed{seed}/version_0/metrics.csv"],
)
def test_the_paths_of_runs_say_optimizer_and_seed(tmp_path, path):
    folder = write_runs(tmp_path / "runs", path)
    judge(folder)
    files = sorted(folder.rglob("*.csv"))
    judge(files)
    judge([str(file) for file in files])


def test_settings_in_the_folder_of_a_run_say_optimizer_and_seed(tmp_path):
    judge(
        write_runs(
            tmp_path / "a", "version_{number}/metrics.csv", hparams_yaml="optimizer: {optimizer}\nseed: {seed}\n"
        )
    )
    judge(
        write_runs(
            tmp_path / "b", "train{number}/results.csv", args_yaml="optimizer: {optimizer}  # auto\nseed: {seed}"
        )
    )


def test_paths_that_do_not_say_the_optimizer_are_refused_or_explained(tmp_path, command, monkeypatch):
    folder = write_runs(tmp_path / "lightning_logs", "version_{number}/metrics.csv")
    with pytest.raises(UsageError, match=r"no optimizer is in the paths version_0, .* --name"):
        judge(folder)
    named = write_runs(tmp_path / "runs", "x{optimizer}y{seed}/metrics.csv")
    judge(named, name="x(?P<optimizer>[a-z]+)y(?P<seed>[0-9]+)")
    monkeypatch.chdir(tmp_path)
    options = ["--name", "x(?P<optimizer>.*)y(?P<seed>.)", "--metric", "val_loss", "--at", "last"]
    assert "runs of adamw, sgd;" in command("verdicts", "runs", *options)
    for name, message in (
        ("(", "no regular expression"),
        ("x", "needs named groups"),
        ("(?P<optimizer>z)", "is not in"),
    ):
        with pytest.raises(UsageError, match=message):
            judge(named, name=name)
    with pytest.raises(UsageError, match="--name is for the paths of several files, or for names of runs"):
        fb.verdicts([{"seed": 0, "val_loss": 1.0}], name="(?P<optimizer>.*)")


def test_the_states_of_a_trainer_count_at_their_last_checkpoint(tmp_path):
    for optimizer, values in LOSSES.items():
        for seed, loss in enumerate(values):
            for checkpoint in (500, 1000):
                history = [{"step": 500, "eval_loss": 2.0}, {"step": checkpoint, "eval_loss": loss + 1000 - checkpoint}]
                file = tmp_path / f"{optimizer}-{seed}" / f"checkpoint-{checkpoint}" / "trainer_state.json"
                file.parent.mkdir(parents=True)
                file.write_text(json.dumps({"best_metric": None, "epoch": 2.0, "log_history": history}))
    (c,) = fb.verdicts(tmp_path, metric="eval_loss", at="last")
    assert (c.n_optimizer, c.mean_optimizer) == (3, pytest.approx(sum(LOSSES["adamw"]) / 3))
