"""Git repositories with a program of one line, and the real command on them."""

import json
import subprocess
import sys
from pathlib import Path

from fairbench.cli.main import main

PROGRAM = """import os, random, hashlib
from settings import GAIN, NAME
seed = os.environ["SEED"]
common = random.Random(seed).gauss(0, 1)
alone = random.Random(seed + NAME).gauss(0, 1)
print(f"val_loss: {10 + common + alone - GAIN}")
"""
INIT = ("--program", f"{sys.executable} -S train.py", "--metric", "val_loss:min", "--seed-env", "SEED")


def git(*words):
    """What a command of git prints."""
    identity = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    done = subprocess.run(["git", *identity, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(gain, name, **files):
    """Commit a program that is better by `gain`, and whose runs have noise of their own by `name`."""
    Path("train.py").write_text(PROGRAM)
    Path("settings.py").write_text(f"GAIN = {gain}\nNAME = {name!r}\n")
    for file, content in files.items():
        Path(f"{file}.py").write_text(content)
    git("add", "-A")
    git("commit", "-qm", f"{name} gains {gain}")
    return git("rev-parse", "HEAD")


def make_repository(folder, monkeypatch):
    """A repository with a program, in which the test then is."""
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    git("init", "-q", "-b", "main")
    return commit(0, "base", evaluate="the metric")


def gate(capsys, *words):
    """The exit code of a command, and what it prints as JSON."""
    capsys.readouterr()
    code = main(["gate", *words, "--json"])
    printed = capsys.readouterr()
    return code, json.loads(printed.out) if printed.out else printed.err
