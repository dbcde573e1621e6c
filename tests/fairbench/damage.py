"""Damage to the files of a study that another process may have written, and every command that reads them."""

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout, suppress
from unittest.mock import patch

import torch
from fabricated import Records, rehearsed, saved, sealed, study
from hypothesis import strategies as st

from fairbench.cli.main import main
from fairbench.common.errors import UsageError
from fairbench.runner import trial_loop
from fairbench.runner.admission import admit
from fairbench.runner.coordination import liveness
from fairbench.runner.coordination.claims import open_claims
from fairbench.runner.coordination.heartbeat import Heartbeat
from fairbench.runner.devices import RunOptions
from fairbench.runner.observers import Observer
from fairbench.study.plan import arms
from fairbench.study.records import Store
from fairbench.training.checkpoint import Checkpoint
from fairbench.training.device_slot import DeviceSlot

DEEP = "[" * 2000 + "]" * 2000
ODD_NUMBERS = (0, -1, 2**31, 2**63, 10**30, 0.0, -0.5, 1e308, -1e308, 5e-324)
ODD_TEXTS = ("", "x", "\x1b[31m", "\u202e", "\x00", "\ud800", "../../x", "a" * 300, "final", "1e5")
ODD_TREES = ([], {}, [None], [[1, 2, 3]], {"": None}, {"a": [1]}, ["x"])
ODD = (None, True, False, *ODD_NUMBERS, *ODD_TEXTS, *ODD_TREES)
"""Values of every kind that JSON can hold, at their limits."""
CLAIMS = (b"", b"\xff\xfe", b"\x00", b"../trials/x", b"a" * 300, b"abc", b"0" * 16, b"0" * 17, "ü".encode(), b"\n")
OTHERS = (DEEP.encode(), b"[" * 90 + b"]" * 90, b"null", b"{}", b"[]", b'"x"', b"1e999", b"NaN", None)
"""What stands in a file in place of its content; None removes it."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
RUNNING = {"label": "a", "steps": 9, "started": 1.8e9, "updated": 1.8e9, "step": 2, "loss": 1.0, "driver": ""}
STATUS = {
    "token": "0" * 16,
    "host": "elsewhere",
    "pid": 7,
    "machine": "another machine",
    "started": "1",
    "beat": 3,
    "written": 1.8e9,
    "environment": {"python": "3.99"},
    "trials": {"x": RUNNING},
}


def whole_study(directory):
    """Write a study with records, status, claim, checkpoint and listing; returns it and its files."""
    made = study(("vit",), margin=0.02)
    records = Records(made, AdamW=[0.7, "failed", 0.75], PsiLogic=[0.8, "diverged", 0.9], Lion=[0.7, 0.8, None])
    store = Store(directory)
    store.prepare()
    saved(directory, made, records)
    (directory / "drivers" / f"{STATUS['token']}.json").write_text(json.dumps(STATUS))
    specs = [spec for arm in arms(made, records) for spec in arm.trials]
    (missing,) = [spec for spec in specs if records(spec) is None]
    (store.claims / missing.id).write_text(STATUS["token"])
    checkpoint = Checkpoint(missing, DeviceSlot(checkpoints=str(store.checkpoints), checkpoint_every=1e-9))
    state = {"a": torch.ones(3), "b": [1, {"c": (2.0, "d")}]}
    checkpoint.between_steps(lambda: state, incomplete=lambda: "")
    assert checkpoint.read()
    (directory / "report_files.txt").write_text("cost.csv\ntables/x.tex\n")
    files = {}
    for path in directory.rglob("*"):
        if path.is_file():
            files[path.relative_to(directory)] = path.read_bytes()
    return made, missing, files


def places(value, path=()):
    """The paths of all values in a tree."""
    yield path
    entries = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, entry in entries:
        yield from places(entry, (*path, key))


def replaced(value, path, new):
    """The tree with another value at a path, or without it if that is `DEEP`."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and new is DEEP:
        del copy[path[0]]
    else:
        copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def signed(name, text):
    """JSON as the content of a file: a record gets the checksum, so that readers look at what it holds."""
    if name.parts[0] == "trials":
        text = sealed(text)
    return text.encode()


@st.composite
def damaged(draw, files):
    """Name and content of a file, one thing in it changed; None removes it."""
    name = draw(st.sampled_from(sorted(files)))
    content = files[name]
    kinds = ["cut", "flipped", "inserted", "other"]
    if name.suffix == ".json":
        kinds += ["value"] * 12
    kind = draw(st.sampled_from(kinds))
    at = draw(st.integers(0, max(len(content) - 1, 0)))
    if kind == "cut":
        return name, content[:at]
    if kind == "flipped":
        if not content:
            return name, content
        changed = content[at] ^ draw(st.integers(1, 255))
        return name, content[:at] + bytes([changed]) + content[at + 1 :]
    if kind == "inserted":
        return name, content[:at] + draw(st.binary(max_size=30)) + content[at:]
    if kind == "other":
        others = (*CLAIMS, *OTHERS, *files.values())
        return name, draw(st.sampled_from(others) | st.binary(max_size=40))
    if name.parts[0] == "trials":
        content = content.splitlines()[0]
    value = json.loads(content)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([*places(value)]))
        new = st.sampled_from((*ODD, DEEP) if path else ODD)
        value = replaced(value, path, draw(new))
    return name, signed(name, json.dumps(value))


def write(directory, files, changes):
    """Write the files of a study, some of them damaged."""
    for name, content in {**files, **dict(changes)}.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            (directory / name).write_bytes(content)


class Said(Observer):
    """What a run says, until it waits for the first time: then the user interrupts it."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)

    def beat(self):
        raise KeyboardInterrupt


class TakesEveryTrial:
    """An executor with a slot for every trial, none of which ends."""

    def has_free_slot(self):
        return True

    def submit(self, spec, limit, changes):
        pass

    def collect(self, patience):
        return []

    def pause(self):
        return []


def take_part(directory, made):
    """What `fairbench run` does with the files before its first trial ends; returns its messages."""
    store = Store(directory)
    observer = Said()
    store.prepare()
    with Heartbeat(directory) as heartbeat, open_claims(store, heartbeat, observer.say) as claims:
        loop = trial_loop.TrialLoop(
            rehearsed(made),
            RunOptions([DeviceSlot()]),
            store=store,
            claims=claims,
            executor=TakesEveryTrial(),
            observer=observer,
        )
        admit(loop, store, claims, heartbeat, allow_mixed=True)
        with suppress(KeyboardInterrupt):
            loop.run()
    store.clear()
    return observer.said


def read_everything(directory, made, missing, commands=("status", "report", "audit", "compare")):
    """Use every reader; returns what the commands print, and the messages of a run."""
    out = io.StringIO()
    said = []
    with (
        patch.object(liveness, "BEAT_WAIT", 0.0),
        patch.object(trial_loop, "CHECK_SECONDS", 0.0),
        patch("fairbench.report.study.draw_figures", lambda *_: []),
    ):
        with redirect_stdout(out), redirect_stderr(out):
            codes = [main([command, str(directory)]) for command in commands]
            codes += [main(["explain", str(path)]) for path in sorted((directory / "trials").glob("*"))[:3]]
            checkpoint = Checkpoint(missing, DeviceSlot(checkpoints=str(directory / "checkpoints")))
            checkpoint.read()
        try:
            said = take_part(directory, made)
        except UsageError as error:
            said = [str(error)]
    shown = out.getvalue()
    assert set(codes) <= {0, 1, 2}
    assert not CONTROL.search(shown), CONTROL.search(shown)
    return shown, said
