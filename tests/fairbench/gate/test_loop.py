"""A loop of 30 changes, as an agent makes them, of which a third helps, a third does nothing and a third harms.

The program has the form of autoresearch's `train.py`: constants at its top, no arguments, and `val_bpb` as its last
line. It stands in for that file, which needs a GPU, and data from the network.
"""

import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest
from repositories import gate, git

TRAIN = """import os

import numpy as np

STEPS = 60
LR = 0.1
BATCH = 64
generator = np.random.default_rng(int(os.environ["SEED"]))
text = np.frombuffer(open("text.txt", "rb").read(), np.uint8) % 64
train, val = text[:60_000], text[60_000:]
logits = np.zeros((64, 64))


def probabilities(rows):
    e = np.exp(logits[rows] - logits[rows].max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


for step in range(STEPS):
    at = generator.integers(0, len(train) - 1, BATCH)
    gradient = probabilities(train[at])
    gradient[np.arange(BATCH), train[at + 1]] -= 1
    np.add.at(logits, train[at], -LR * gradient)
chosen = probabilities(val[:-1])[np.arange(len(val) - 1), val[1:]]
print(f"val_bpb:          {-np.log2(chosen).mean():.6f}")
"""
INIT = ("--program", f"{sys.executable} train.py", "--metric", "val_bpb:min", "--seed-env", "SEED")
IDEAS = ["good", "null", "harmful"] * 10


def apply(idea, number):
    """Change the program by an idea, and commit it."""
    file = Path("train.py")
    text = file.read_text()
    if idea == "null":
        text += f"# idea {number}\n"
    else:
        factor = {"good": 1.1, "harmful": 0.7}[idea]
        steps = int(re.search(r"STEPS = (\d+)", text)[1])
        text = re.sub(r"STEPS = \d+", f"STEPS = {round(steps * factor)}", text)
    file.write_text(text)
    git("commit", "-qam", f"{idea} {number}")


def bpb(commit, seed):
    """The metric of a commit with a seed, without fairbench."""
    git("checkout", "-q", commit)
    environment = {**os.environ, "SEED": str(seed)}
    done = subprocess.run([sys.executable, "train.py"], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[1])


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_loop_of_30_changes_claims_what_is_true(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fairbench.gate.commands.os.urandom", lambda size: b"0" * size)
    git("init", "-q", "-b", "main")
    Path("train.py").write_text(TRAIN)
    words = [path.read_text() for path in sorted(Path(os.__file__).parent.glob("a*.py"))]
    Path("text.txt").write_text("".join(words)[:80_000])
    git("add", "-A")
    git("commit", "-qm", "base")
    assert gate(capsys, "init", *INIT, "--protect", "text.txt")[0] == 0
    ideas = list(IDEAS)
    random.Random(0).shuffle(ideas)
    kept = []
    ladder = []
    for number, idea in enumerate(ideas):
        apply(idea, number)
        code, tried = gate(capsys, "try")
        if code == 0:
            kept.append(idea)
        if tried["next"] == "fairbench gate certify" or number == len(ideas) - 1:
            code, tried = gate(capsys, "certify")
            if code == 0:
                ladder.append(tried)
        if tried["next"].startswith("git"):
            subprocess.run(shlex.split(tried["next"]), check=True, capture_output=True)
    assert "harmful" not in kept
    assert ladder
    first = ladder[0]["base"]
    for certified in ladder:
        low, high = certified["interval"]
        assert 0 < low < certified["gain"] < high
    root = git("rev-list", "--max-parents=0", "main")
    seeds = range(10)
    true = mean(bpb(root, seed) - bpb(first, seed) for seed in seeds)
    assert true > 0
    low, high = ladder[0]["interval"]
    assert low < true < high
    gain = ladder[0]["gain"]
    print(f"kept {kept.count('good')} good and {kept.count('null')} null changes in {tried['runs']} runs")
    print(f"{len(ladder)} certificates; the first gain is {gain:.4f}, and the true one {true:.4f}")
