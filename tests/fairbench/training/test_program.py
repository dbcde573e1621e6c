"""A trial of a training program is what the program reports, whatever goes wrong in it, and nothing of it stays."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from disturbed import below
from programs import COMMAND, PLAIN, RESUMING, program_spec, write_program

from fairbench.arenas.program import FOLDER
from fairbench.arenas.program_code import code_of
from fairbench.arenas.program_command import ProgramCommand, with_texts
from fairbench.common.errors import Paused, UsageError
from fairbench.common.leftover_processes import end_marked
from fairbench.runner.devices import slots_of_trials
from fairbench.suites.loader import load_suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program import program_trial
from fairbench.training.program_process import ProgramFailed
from fairbench.training.result_names import WrongResults

RESULT = "report(step=steps, val_loss=1.0, test_loss=1.0)\n"


@dataclass
class Wrong:
    """The end of a program that is wrong, and what its failure must say."""

    program: str
    message: str


WRONG: dict[str, Wrong] = {}
WRONG["an exception in step 1"] = Wrong(
    program="raise RuntimeError('no data')",
    message="exit code 1.*RuntimeError: no data",
)
WRONG["an exception in step 15, whose exit code a shell hides"] = Wrong(
    program="""
for step in range(1, 16):
    report(step=step, train_loss=1.0, val_loss=1.0, test_loss=1.0)
print('Traceback (most recent call last):\\n  File "train.py", line 5, in step\\n    loss.backward()')
print("torch.OutOfMemoryError: CUDA out of memory.")
""",
    message="ended with exit code 0, early, after torch.OutOfMemoryError: CUDA out of memory.; let its shell pass",
)
WRONG["a crash in step 15"] = Wrong(
    program=PLAIN.replace("    report", "    if step == 15: os.abort()\n    report", 1),
    message="signal 6",
)
WRONG["no result"] = Wrong(
    program="",
    message=r"no val/loss was reported. The program printed no name with a number. No file metrics.jsonl was written. "
    r".* --metric-pattern 'REGEX' reads its output.$",
)
WRONG["another name, on the screen and in a file"] = Wrong(
    program="(out / 'ckpt.bin').touch()\nprint('step 20: mean loss 1.5')",
    message=r"no val/loss was reported. The program printed mean loss, step. No file metrics.jsonl was written. "
    r'Its folder has ckpt.bin. Report it, or say what has it: keys = \{ "val/loss" = "..." \}. .*'
    r"--metric-pattern 'mean loss \+\(\[-\+\.\\w\]\+\)' reads the 1\.5 in its output.$",
)
WRONG["no test split"] = Wrong(
    program=RESULT.replace(", test_loss=1.0", ""),
    message=r"no test/loss was reported. metrics.jsonl has val/loss, step. .*, --set 'breaks=\[\"split\"\]' takes",
)
WRONG["more steps"] = Wrong(
    program=RESULT.replace("step=steps", "step=25"),
    message=r"it reported step 25, and its trial has 20; \{steps\} in the command, or trial.steps in the program",
)
WRONG["two results"] = Wrong(
    program=RESULT + RESULT.replace("val_loss=1.0", "val_loss=2.0"),
    message="line 2: val/loss at step 20 is 2, and",
)
WRONG["two ranks that report"] = Wrong(
    program="if os.fork() == 0:\n    report(step=20, val_loss=9.0)\n    os._exit(0)\nos.wait()\n" + RESULT,
    message="line 2: val/loss at step 20 is 1, and was 9; do two processes report",
)
WRONG["half a line"] = Wrong(
    program=RESULT + "(out / 'metrics.jsonl').open('a').write('{\"step\": 20, ')",
    message="line 2 is no whole line",
)
WRONG["a terminal that is not there"] = Wrong(
    program="input('continue? ')",
    message="EOFError",
)
WRONG["a folder that it wants to make"] = Wrong(
    program="out.mkdir()",
    message=r"exit code 1 \(its folder \{out\} exists already, and is empty; \{out\}/new in the command",
)
WRONG["binary output"] = Wrong(
    program="sys.stdout.buffer.write(bytes(range(256)) * 9); sys.exit(1)",
    message="exit code 1",
)
WRONG["much output"] = Wrong(
    program="print('x' * 10**6); print('the last line'); sys.exit(1)",
    message="the last line",
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory whose path has spaces and umlauts."""
    folder = tmp_path / "my runs ä"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def run(spec, checkpoints=""):
    return program_trial(spec, DeviceSlot(checkpoints=str(checkpoints)), send_progress)


def send_progress(step, loss):
    """Progress goes through a pipe as JSON, which has no NaN."""
    json.dumps([step, loss], allow_nan=False)


def marked(value, variable=FOLDER):
    """The processes whose environment has a variable that begins with a value."""
    mark = os.fsencode(f"{variable}={value}")
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            is_marked = mark in file.read_bytes()
        except OSError:
            continue
        if is_marked:
            found.append(file.parent.name)
    return found


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_program_fails_with_what_is_wrong_and_leaves_nothing_running(here, what):
    wrong = WRONG[what]
    write_program(here, wrong.program)
    with pytest.raises((ProgramFailed, WrongResults), match=f"(?s){wrong.message}") as error:
        run(program_spec(), here / "kept")
    assert not marked(here)
    (output,) = here.glob("kept/*/output.txt")
    assert issubclass(error.type, WrongResults) or f"output, which is {output}:" in str(error.value)
    if what == "much output":
        assert output.stat().st_size > 10**6


def test_the_record_is_what_the_program_reported(here):
    write_program(here)
    record = run(program_spec())
    assert record.status == "finished"
    assert record.result.final["test"]["loss"] == pytest.approx(record.result.final["val"]["loss"] + 0.001)
    assert list(record.details.loss_curve.steps) == list(range(1, 21))
    assert record.result.hashes.initial_weights == ""
    assert run(program_spec(stage="sweep")).result.final.keys() == {"val"}


def test_a_metric_that_is_not_finite_is_a_diverged_trial(here):
    write_program(here, "report(step=7, train_loss=2.0)\nreport(step=9, train_loss=float('nan'))")
    record = run(program_spec())
    assert (record.status, record.result.final, record.result.steps) == ("diverged", None, 9)
    assert list(record.details.loss_curve.steps) == [7]


def test_nan_before_a_finite_value_is_no_divergence(here):
    """As of a program that writes NaN for what it has not measured; the best value is a finite one too."""
    rows = [{"train_loss": "NaN", "val_loss": "NaN"}, {"train_loss": 2.0, "val_loss": 0.5}, {"val_loss": "inf"}]
    rows += [{"train_loss": "NaN", "val_loss": 0.7, "test_loss": 0.8}]
    write_program(here, "".join(f"report(step={step}, **{row})\n" for step, row in enumerate(rows, 1)))
    assert run(program_spec()).result.final == {"val": {"loss": 0.7}, "test": {"loss": 0.8}}
    assert run(program_spec(**{"arenas.mine.at": "best"})).result.final["val"] == {"loss": 0.5}


def test_a_suite_with_one_split_reads_the_validation_values_twice(here):
    write_program(here, RESULT.replace(", test_loss=1.0", ""))
    spec = program_spec()
    record = run(replace(spec, training=replace(spec.training, selection="test")))
    assert record.result.final == {"val": {"loss": 1.0}, "test": {"loss": 1.0}}


@pytest.mark.parametrize(
    ("reported", "recorded"),
    [("range(steps)", range(1, 21)), ("range(1, steps + 1)", range(1, 21)), ("[19]", [20]), ("[10]", [10])],
)
def test_steps_may_be_counted_from_zero_and_a_program_may_end_early(here, reported, recorded):
    write_program(here, f"for step in {reported}:\n    report(step=step, val_loss=40.0 - step, test_loss=1.0)")
    record = run(program_spec())
    assert (record.status, record.result.steps) == ("finished", recorded[-1])
    assert list(record.details.evaluations.steps) == [*recorded]
    assert 40.0 - record.result.final["val"]["loss"] in (recorded[-1], recorded[-1] - 1)


@pytest.mark.parametrize(
    ("key", "final"), [("", {"val": 3.0, "test": 4.0}), ('at = "best"', {"val": 1.0, "test": 2.0})]
)
def test_the_last_report_decides_or_the_best_one_of_validation(here, key, final):
    curve = "for step, val, test in ((5, 2.0, 0.5), (10, 1.0, 2.0), (15, 3.0, 4.0)):\n"
    write_program(here, f"{curve}    report(step=step, val_loss=val, test_loss=test)", keys=key)
    assert run(program_spec()).result.final == {split: {"loss": value} for split, value in final.items()}


def test_what_a_program_prints_is_its_result(here):
    lines = "for step in (10, 20):\n    print(f'step {step}: train loss 1.25, val loss {step / 100:.2f}')\n"
    write_program(here, f"{lines}print('test loss: 0.75')")
    record = run(program_spec())
    assert record.result.final == {"val": {"loss": 0.2}, "test": {"loss": 0.75}}
    assert list(record.details.loss_curve.points("loss")) == [(10, 1.25), (20, 1.25)]


def test_results_may_be_in_a_folder_with_the_time_in_its_name(here):
    """Files of other trials are not read."""
    rest = "own = Path('runs', str(time.time_ns()))\nown.mkdir(parents=True)\n"
    rows = "f'step,val_loss,test_loss\\n{steps},{seed},{seed}\\n'"
    write_program(here, f"{rest}(own / 'log.csv').write_text({rows})", keys='results = "./runs/*/log.csv"')
    spec = program_spec()
    for seed in (1, 2):
        (each,) = spec.with_seeds([seed])
        assert run(each).result.final["val"] == {"loss": seed}


def test_the_folder_of_a_program_begins_empty(here):
    write_program(here, "assert not [*out.iterdir()]\n" + RESULT)
    assert run(program_spec(), here / "kept").status == "finished"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-program {lr}", "the program 'no-such-program' cannot be started: No such file"),
        ("./train.py {lr}", r"Permission denied; it is started in .*; chmod \+x ./train.py lets it start"),
        ("python train.py {lrr}", r"the command has \{lrr\}, which this trial does not set; did you mean 'lr'"),
        ("python train.py {momentum}", r"\{momentum\}, which this trial does not set.*optimizers.AdamW.options"),
    ],
)
def test_a_command_that_cannot_be_started(here, command, message):
    write_program(here, command=command)
    with pytest.raises(UsageError, match=f"(?s){message}"):
        run(program_spec())


def test_other_braces_of_a_command_stay(here):
    write_program(here, "assert sys.argv[6] == '{\"a\": {} }'", command=COMMAND.replace("{stage}", "'{\"a\": {} }'"))
    with pytest.raises(WrongResults, match="The program printed no name"):  # the assertion holds
        run(program_spec())


def test_code_that_changes_during_a_study_is_noticed(here):
    write_program(here)
    spec = program_spec()
    (here / "train.py").write_text("print('changed')")
    with pytest.raises(UsageError, match="changed after this run had started"):
        run(spec)
    assert program_spec().id != spec.id


def test_a_script_that_is_the_command_is_code_and_no_interpreter_is(here):
    write_program(here)
    Path("train.sh").write_text("#!/bin/sh\nexec python -S train.py")
    commands = {"./train.sh {lr}": ["train.py", "train.sh"], f"{sys.executable} train.py": ["train.py"]}
    for command, files in commands.items():
        assert sorted(code_of(ProgramCommand(command).words)) == files


@pytest.mark.parametrize("more", ["", ", env={}"])
def test_what_a_program_leaves_behind_is_ended(here, more):
    left = f"""
import subprocess
left = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True{more})
(out / "left").write_text(str(left.pid))
"""
    write_program(here, left + RESULT)
    spec = program_spec()
    mine = subprocess.Popen(["sleep", "600"], start_new_session=True)
    run(spec, here)
    assert not Path("/proc", (here / spec.id / "left").read_text()).exists()
    assert mine.poll() is None
    mine.kill()


@contextmanager
def paused_by_sigterm(begun):
    """SIGTERM comes once the program has made the path `begun`, and pauses what runs."""

    def stop(*_):
        raise Paused

    main = threading.main_thread().ident

    def send():
        while not begun.exists():
            time.sleep(0.01)
        signal.pthread_kill(main, signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=send, daemon=True).start()
    try:
        with pytest.raises(Paused):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


SAVING = """
def save(*_):
    time.sleep(0.3)
    (out / "saved").touch()
    sys.exit()

signal.signal(signal.SIGTERM, save)
"""


def test_sigterm_reaches_the_program_which_resumes_in_the_same_folder(here):
    write_program(here, SAVING + RESUMING.replace("0.03", "0.05"))
    spec = program_spec()
    with paused_by_sigterm(here / spec.id / "checkpoint"):
        run(spec, here)
    assert not marked(here)
    assert (here / spec.id / "saved").exists()
    resumed = run(spec, here)
    whole = run(spec)
    assert resumed.result == whole.result
    assert resumed.details == whole.details


def test_a_program_that_wants_a_new_folder_starts_again_in_an_empty_one(here):
    """Its first attempt is stopped, and its second one finds the folder that the first has made."""
    write_program(here, "(out / 'run').mkdir()\ntime.sleep(0 if Path('go').exists() else 600)\n" + RESULT)
    spec = program_spec()
    with paused_by_sigterm(here / spec.id / "run"):
        run(spec, here)
    Path("go").touch()
    assert run(spec, here).result.final == {"val": {"loss": 1.0}, "test": {"loss": 1.0}}
    assert [*(here / f"{spec.id}.trial").glob("earlier-*/run")]


OF_TWO_PROGRAMS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from programs import program_spec, write_program
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program import program_trial

for megabytes in (600, 1):
    write_program(".", f"b'x' * {{megabytes}}_000_000\\n" + {RESULT!r})
    record = program_trial(program_spec(), DeviceSlot(), lambda *progress: None)
    print(record.cost.peak_memory_bytes)
"""
"""A process that prints the memory of two trials; its own counts for small ones, so it must be small."""


def test_the_memory_of_a_trial_is_not_that_of_an_earlier_one(here):
    words = [sys.executable, "-c", OF_TWO_PROGRAMS]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    large, small = map(int, printed.split())
    assert 600e6 < large < 800e6
    assert small < 500e6


def test_a_program_that_ignores_sigterm_is_killed(here, monkeypatch):
    monkeypatch.setattr("fairbench.training.program_process.GRACE", 0.2)
    write_program(here, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n(out / 'deaf').touch()\ntime.sleep(600)")
    spec = program_spec()
    with paused_by_sigterm(here / spec.id / "deaf"):
        run(spec, here)
    assert not marked(here)


def test_processes_are_found_in_any_session():
    words = [sys.executable, "-S", "-c", "import os, time; os.fork() or os.setsid(); time.sleep(600)"]
    process = subprocess.Popen(words, env={**os.environ, "MARK": "of this test"})
    while not below(process.pid):
        time.sleep(0.01)
    end_marked("MARK", "of this test")
    assert process.wait() == -signal.SIGKILL
    assert not below(process.pid)
    assert not marked("of this test", "MARK")


@pytest.mark.parametrize(
    ("keys", "given", "expected"),
    [
        ("cores = 2", [DeviceSlot()] * 4, [("cpu", "", 2)] * 2),
        ("cores = 8", [DeviceSlot()] * 4, [("cpu", "", 8)]),
        ("gpus = 2", [DeviceSlot(f"cuda:{i}") for i in range(5)], [("cuda:0", "0,1", 1), ("cuda:2", "2,3", 1)]),
        ("", [DeviceSlot("cuda:3")] * 2, [("cuda:3", "3", 1)] * 2),
    ],
)
def test_trials_of_several_gpus_or_cores_share_a_machine(here, keys, given, expected):
    write_program(here, keys=keys)
    slots = slots_of_trials(load_suite("mine.toml"), given)
    assert [(slot.device, slot.gpus, slot.cores) for slot in slots] == expected


@pytest.mark.parametrize(("kind", "message"), [("cpu", "the device is the CPU"), ("cuda:0", "the study has 1")])
def test_more_gpus_than_there_are(here, kind, message):
    write_program(here, keys="gpus = 8")
    with pytest.raises(UsageError, match=f"arenas.mine.gpus is 8, and {message}"):
        slots_of_trials(load_suite("mine.toml"), [DeviceSlot(kind)])


LOGS = """
import fairbench.trial
trial = fairbench.trial.current()
trial.log(steps, train_loss=loss_after(steps), val_loss=9.0)  # the result decides
trial.result(val={"loss": 2.0}, test={"loss": 3.0})
"""


def test_what_trial_log_writes_has_the_names_of_the_suite(here, monkeypatch):
    monkeypatch.setenv("RANK", "1")  # of a driver
    write_program(here, LOGS, COMMAND.replace(" -S", ""), keys='keys = { step = "iteration", "val/loss" = "eval" }')
    record = run(program_spec())
    assert record.result.final == {"val": {"loss": 2.0}, "test": {"loss": 3.0}}
    assert list(record.details.loss_curve.steps) == [20]


def test_an_option_may_be_no_word_or_several():
    words = ["train.py", "{flags}", "--out={flags}", "{depth}"]
    assert with_texts(words, {"flags": "--clip --name 'a b'", "depth": 2}) == [
        *("train.py", "--clip", "--name", "a b"),
        *("--out={flags}", "{depth}"),
    ]
    assert with_texts(words, {"flags": ""}) == ["train.py", "--out={flags}", "{depth}"]
    with pytest.raises(UsageError, match=r"the value of \{flags\} must be words of a command"):
        with_texts(words, {"flags": "'open"})


@pytest.mark.parametrize(
    ("program", "args", "words"),
    [
        ("python a.py", "--clip 'a b'", ["python", "a.py", "--clip", "a b"]),
        ("python a.py {variant} --last", "--clip 1", ["python", "a.py", "--clip", "1", "--last"]),
        ("python a.py {variant} --last", "", ["python", "a.py", "--last"]),
        ("python {variant}.py", "other", ["python", "other.py"]),
        ("bash -c 'cd x && ./run {variant}'", "--a 'b c'", ["bash", "-c", "cd x && ./run --a 'b c'"]),
    ],
)
def test_the_words_of_a_variant_stand_at_their_placeholder_or_at_the_end(program, args, words):
    assert ProgramCommand(program, args).words == words
