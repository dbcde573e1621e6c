"""Whatever another process or another user wrote into a study: no traceback, and everything else continues."""

import json
import os
import stat
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import fabricated
import pytest
import torch
from damage import CLAIMS, CONTROL, DEEP, STATUS, damaged, read_everything, signed, whole_study, write
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from users import as_user, needs_root

from fairbench.arenas.base import ArenaFacts
from fairbench.cli.main import main
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.coordination import liveness
from fairbench.runner.coordination.claims import open_claims
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.coordination.status import damaged_statuses
from fairbench.study.plan import arms
from fairbench.study.record import Record
from fairbench.study.records import Store
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.device_slot import DeviceSlot


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return whole_study(tmp_path_factory.mktemp("whole"))


def changed(files, name, **changes):
    """A JSON file of the study with other values, None for no value, and the checksum that belongs to them."""
    value = json.loads(files[name].splitlines()[0])
    for key, new in changes.items():
        if new is None:
            del value[key]
        else:
            value[key] = new
    return name, signed(name, json.dumps(value))


def test_odd_files_of_every_kind_are_named_and_the_rest_continues(whole, tmp_path):
    made, missing, files = whole
    trials = [name for name in sorted(files) if name.parts[0] == "trials"]
    record, other, *_ = [name for name in trials if b'"stage":"final"' in files[name]]
    odd_status = {**STATUS, "token": "odd", "written": "now"}
    odd = {
        Path("drivers/odd.json"): json.dumps(odd_status).encode(),
        Path("drivers/deep.json"): DEEP.encode(),
        Path("drivers/null.json"): b'{"trials": null}',
        Path(f"claims/{missing.id}"): CLAIMS[4],
        other: DEEP.encode(),
    }
    name, without_cost = changed(files, record, cost=None)
    odd[name] = without_cost
    write(tmp_path, files, odd)
    os.mkfifo(tmp_path / "drivers" / "pipe.json")
    shown, said = read_everything(tmp_path, made, missing, ["status"])
    drivers = ("odd", "deep", "null", "pipe")
    for name in (record, other, *(f"drivers/{driver}.json" for driver in drivers)):
        assert f"{tmp_path}/{name}" in "".join(shown.split("\n")), name
    said = "\n".join(said)
    for name in (record, other, f"claims/{missing.id}"):
        assert said.count(f"{tmp_path}/{name}") == 1
    assert (tmp_path / other).read_bytes() == DEEP.encode()


def test_names_from_files_reach_no_terminal_as_commands(whole, tmp_path):
    made, missing, files = whole
    evil = "\x1b]0;title\x07\x1b[2J\u202e\x9b31m"
    name = Path(f"drivers/{STATUS['token']}.json")
    trial = {**STATUS["trials"]["x"], "label": f"label{evil}"}
    status = changed(files, name, host=f"host{evil}", written=time.time(), trials={"x": trial})
    odd = Path(f"drivers/odd{evil}.json"), b""
    write(tmp_path, files, [status, odd])
    shown, _ = read_everything(tmp_path, made, missing, ["status"])  # looks for control characters
    assert "label␛]0;title" in shown
    assert "odd␛]0;title" in "".join(shown.split("\n"))


def test_nothing_that_a_study_names_is_imported(tmp_path, monkeypatch, capsys, no_figures):
    """Nor is a pickle of it executed."""
    monkeypatch.chdir(tmp_path)
    poison = "open('imported', 'w')\nclass Work: pass\nclass Signs: pass\ndef groups(): pass\n"
    (tmp_path / "poison.py").write_text(poison)
    study = fabricated.study(("vit",))
    arena = replace(study.suite.arenas["vit"], task="poison.py:Work", data={}, model={})
    arena = replace(arena, facts=ArenaFacts(title="poison", metrics={"accuracy": "max", "loss": "min"}))
    poisoned = {"factory": "poison:Signs", "groups": "poison:groups"}
    plans = {name: OptimizerPlan(**poisoned) for name in study.suite.optimizers}
    resolved = {name: replace(optimizer, **poisoned) for name, optimizer in study.optimizers.items()}
    study = fabricated.with_suite(study, arenas={"vit": arena}, optimizers=plans)
    study = replace(study, optimizers=resolved)
    records = fabricated.Records(study)
    store = Store(Path("out"))
    store.prepare()
    fabricated.saved(store.directory, study, records)
    spec = arms(study, records)[0].trials[0]
    for words in (["status", "out"], ["report", "out"], ["audit", "out"], ["compare", "out"]):
        assert main(words) in (0, 1)
    assert main(["explain", f"out/trials/{spec.id}.json"]) == 0

    class Harmful:
        def __reduce__(self):
            return open, ("imported", "w")

    torch.save(Harmful(), store.checkpoint(spec.id))
    assert Checkpoint(spec, DeviceSlot(checkpoints=str(store.checkpoints))).read() is None
    assert not CONTROL.search(capsys.readouterr().out)  # torch's message has them
    assert not Path("imported").exists()


@needs_root
def test_what_a_user_may_not_read_is_respected(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to other users
        monkeypatch.setattr(liveness, "EXPIRY", -1.0)
        study = fabricated.study(("vit",))
        records = fabricated.Records(study)
        directory = Path(folder)
        store = Store(directory)
        store.prepare()
        for each in (directory, *directory.iterdir()):
            each.chmod(0o777)
        first, second, third = arms(study, records)[0].final[:3]

        def strict():
            heartbeat = Heartbeat(directory)
            heartbeat.__enter__()
            return [store.write(first, records(first)), open_claims(store, heartbeat).take(second.id)]

        def other():
            said = []
            statuses = damaged_statuses(directory)
            store.prepare()
            read = store.read(first, Record).error.message
            with Heartbeat(directory) as heartbeat, open_claims(store, heartbeat, said.append) as claims:
                taken = [claims.take(second.id), claims.take(second.id), claims.take(third.id)]
                written = [store.write(first, records(first)), store.write(third, records(third))]
                claims.complete(third.id)
            return [read, statuses, said, taken, written]

        assert as_user(1001, 0o077, strict) == [True, True]
        before = store.path(first.id).read_bytes()
        read, statuses, said, taken, written = as_user(1002, 0o022, other)
        assert (taken, written) == ([False, False, True], [False, True])
        for messages, path in (
            ([read], store.path(first.id)),
            (said, store.claims / second.id),
            (statuses, "drivers/"),
        ):
            (message,) = messages
            assert "cannot be read (Permission denied) and is left alone" in message
            assert str(path) in message
        assert store.path(first.id).read_bytes() == before
        assert [stat.S_IMODE(store.path(x.id).stat().st_mode) for x in (first, third)] == [0o600, 0o644]
        assert as_user(1001, 0o077, lambda: store.read(third, Record).status) == "finished"


def try_damage(whole, folders, examples, number):
    """Damage one to three files of a study, `examples` times."""
    made, missing, files = whole

    @seed(number)
    @settings(
        max_examples=examples, derandomize=False, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.lists(damaged(files), min_size=1, max_size=3))
    def read(changes):
        with tempfile.TemporaryDirectory(dir=folders) as directory:
            write(Path(directory), files, changes)
            read_everything(Path(directory), made, missing)

    read()


def test_damaged_files_give_no_traceback(whole, tmp_path):
    try_damage(whole, tmp_path, 5, 0)


@pytest.mark.soak
def test_damaged_files_give_no_traceback_at_random(whole, tmp_path):
    """For SOAK_MINUTES; SOAK_SEED repeats a number that was printed."""
    until = time.monotonic() + 60 * float(os.environ.get("SOAK_MINUTES", "30"))
    number = int(os.environ.get("SOAK_SEED", time.time()))
    while time.monotonic() < until:
        print(f"SOAK_SEED={number}", flush=True)
        try_damage(whole, tmp_path, 100, number)
        number += 1
