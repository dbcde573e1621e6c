"""Event files as TensorBoard reads them: every point of every record once, even if the study was stopped."""

import importlib.util
import shutil
from pathlib import Path

import msgspec
import pytest
from fabricated import stored

from fairbench.cli.main import main
from fairbench.runner.devices import RunOptions
from fairbench.runner.progress.tensorboard import TensorBoard
from fairbench.runner.run_study import run_study
from fairbench.study.plan import trial_spec
from fairbench.study.record import WholeRecord
from fairbench.study.target import target_in
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.training.place import Place

pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")

pytestmark = pytest.mark.xdist_group("servers")  # they start many processes

RUN = ["run", "--suite", "tiny.toml", "--output-dir", "out", "--workers", "2", "--tensorboard"]


@pytest.fixture
def out(tiny_folder):
    return tiny_folder / "out"


def records(out):
    return [stored(path) for path in sorted(out.glob("trials/*.json"))]


def folder(out, record):
    return TensorBoard(out / "tensorboard").folder(TrialSpec.from_json(record["spec"]))


def test_trials_that_differ_in_a_searched_hyperparameter_have_their_own_folders(tiny_study):
    board = TensorBoard(Path("logs"), ["eps", "warmup_steps"])
    chosen = [{"eps": eps, "warmup_steps": steps} for eps in (1e-8, 1e-4) for steps in (0, 1)]
    specs = [trial_spec(tiny_study, "vit", "AdamW", "sweep", 1e-3, 0, tuple(extra.items())) for extra in chosen]
    assert [board.folder(spec).name.split(" wd=")[1].split(" ", 1)[1] for spec in specs] == [
        f"eps={extra['eps']} warmup_steps={extra['warmup_steps']} seed 0" for extra in chosen
    ]


def points(folder):
    """The points of a trial in TensorBoard."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    assert events.Tags()["tensors"] == ["hyperparameters/text_summary"]
    return {tag: [(x.step, x.value) for x in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def points_of(series, quantity):
    return [*zip(series["steps"], series["values"][quantity], strict=True)]


def expected(record):
    result = record["result"]
    points = {"loss/train": points_of(record["details"]["loss_curve"], "loss")}
    for metric in result["final"]["val"]:
        points[f"{metric}/val"] = points_of(record["details"]["evaluations"], metric)
        if record["spec"]["stage"] == "final":
            points[f"{metric}/test"] = [(result["steps"], result["final"]["test"][metric])]
    return points


def check(out):
    assert len(records(out)) >= 8
    assert len({folder(out, record) for record in records(out)}) == len(records(out))
    for record in records(out):
        shown, wanted = points(folder(out, record)), expected(record)
        assert shown.keys() == wanted.keys()
        for tag, values in wanted.items():
            assert shown[tag] == [(step, pytest.approx(value, rel=1e-6)) for step, value in values]


def test_a_resumed_study_neither_loses_nor_repeats_points(out):
    """A kill can leave an unfinished trial, a record whose metrics are not written, or a record without events."""
    assert main(RUN) == 0
    check(out)
    assert (out / "tensorboard" / "vit" / "AdamW" / "sweep lr=0.001 wd=0.01 seed 0").is_dir()
    in_the_middle, before_its_metrics, without, *_ = records(out)
    spec = TrialSpec.from_json(in_the_middle["spec"])
    (out / "trials" / f"{spec.id}.json").unlink()
    with TensorBoard(out / "tensorboard") as killed:
        for record in (in_the_middle, before_its_metrics):
            killed.started(TrialSpec.from_json(record["spec"]))
            killed.running(TrialSpec.from_json(record["spec"]), 5, 99.0)
    assert points(folder(out, in_the_middle)) == {"loss/train": [(5, 99.0)]}
    shutil.rmtree(folder(out, without))
    *_, resumed, last = records(out)
    spec = TrialSpec.from_json(resumed["spec"])
    with TensorBoard(out / "tensorboard") as resuming:  # from a checkpoint: earlier steps are in the record only
        resuming.started(spec)
        resuming.paused(spec)
        resuming.started(spec)
        resuming.running(spec, *points_of(resumed["details"]["loss_curve"], "loss")[-1])
        resuming.ended(spec, msgspec.convert(resumed, WholeRecord))
    kept = folder(out, last)
    before = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    run_study(target_in(out, load_suite("tiny.toml")), RunOptions([Place()] * 2), [TensorBoard(out / "tensorboard")])
    check(out)
    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == before


def test_without_tensorboard_nothing_runs(out, monkeypatch, command):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "--tensorboard needs the package tensorboard: pip install tensorboard" in command(*RUN, code=2)
    assert not out.exists()
