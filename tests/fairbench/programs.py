"""Training programs as users write them, without torch, so that one starts in milliseconds."""

import json
import sys
from pathlib import Path

from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.study.planned_trial import trial_spec
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.program_files import arena_files

COMMAND = f"{sys.executable} -S train.py {{lr}} {{seed}} {{steps}} {{optimizer}} {{out}} {{stage}}"
TRAIN = """
import json, os, random, signal, sys, time
from pathlib import Path
lr, seed, steps, optimizer, out, stage = sys.argv[1:]
lr, seed, steps, out = float(lr), int(seed), int(steps), Path(out)
noise = random.Random(seed)

def loss_after(step):
    own = {"AdamW": 0.0, "PsiLogic": 0.02}[optimizer]
    common, alone = (random.Random(f"{seed} {step} {x}").gauss(0, 0.01) for x in ("", optimizer))
    return 0.1 * (lr / 3e-3 - 1) ** 2 + 1 / step + own + common + alone / 10

def report(**row):
    with (out / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({name.replace("_", "/"): value for name, value in row.items()}) + "\\n")
"""
PLAIN = """
for step in range(1, steps + 1):
    report(step=step, train_loss=loss_after(step))
report(step=steps, val_loss=loss_after(steps), test_loss=loss_after(steps) + 0.001)
"""
RESUMING = """
checkpoint = out / "checkpoint"
done = int(checkpoint.read_text()) if checkpoint.exists() else 0
for step in range(done + 1, steps + 1):
    time.sleep(0.004 if Path(__file__).with_name("quick").exists() else 0.03)
    report(step=step, train_loss=loss_after(step))
    checkpoint.with_suffix(".new").write_text(str(step))
    checkpoint.with_suffix(".new").replace(checkpoint)
report(step=steps, val_loss=loss_after(steps), test_loss=loss_after(steps) + 0.001)
"""
SUITE = Path(__file__).with_name("program.toml").read_text()


def write_program(folder, rest=PLAIN, command=COMMAND, keys=""):
    """A program and a suite for it in a folder; `rest` follows the reading of its arguments."""
    Path(folder, "train.py").write_text(TRAIN + rest)
    text = SUITE.replace("COMMAND", command).replace("code =", f"{keys}\ncode =")
    Path(folder, "mine.toml").write_text(text)


def program_spec(stage="final", steps=20, **settings):
    """A trial of the suite in the working directory, with AdamW as torch has it."""
    suite = load_suite("mine.toml", Overrides(settings=settings))
    optimizer = ResolvedOptimizer("AdamW", "torch.optim:AdamW", {"weight_decay": 0.01}, {}, "", "", {})
    arena = ResolvedArena(fingerprint="", code=arena_files(suite, "mine"), starts={})
    study = ResolvedSuite(
        suite=suite, device="cpu", arenas={"mine": arena}, optimizers={"AdamW": optimizer}, environment={}
    )
    return trial_spec(study, "mine", "AdamW", stage, 3e-3, 1)


def rows(*reports):
    """Lines of JSON."""
    return "".join(json.dumps(row) + "\n" for row in reports)
