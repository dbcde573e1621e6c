"""A real bash completes the names that options take."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
SCRIPT = """
eval "$(register-python-argcomplete fairbench)"
for COMP_LINE in "$@"; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_WORDS=(fairbench) COMP_CWORD=1 COMPREPLY=()
    _python_argcomplete fairbench
    echo "$COMP_LINE| ${COMPREPLY[*]}"
done
"""
COMPLETED = {
    "run --suite m": {"mini", "my.toml"}, "suite show sm": {"smoke"},
    "run --arenas gpt,": {"gpt,vit", "gpt,resnet", "gpt,ddpm"}, "run --optimizers AdamW,Lio": {"AdamW,Lion"},
    "run --add-optimizer m": {"my_rule.py"}, "check PsiL": {"PsiLogic"}, "data list --dataset cel": {"celeba"},
    "expl": {"explain"}, "run --se": {"--set", "--seeds"}, "run --device c": {"cpu", "cuda"},
    "suite ": {"show", "check", "-h", "--help"},
}  # fmt: skip


@pytest.mark.slow
def test_bash_completes_names_and_files(tmp_path):
    """Without torch, which takes seconds to import."""
    for name in ("my.toml", "my_rule.py", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "torch.py").write_text("raise SystemExit('torch is slow to import')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": path}
    command = ["bash", "-c", SCRIPT, "bash", *(f"fairbench {line}" for line in COMPLETED)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    shown = dict(line.removeprefix("fairbench ").split("|") for line in done.stdout.splitlines())
    assert {line: {*found.split()} for line, found in shown.items()} == COMPLETED
