"""Tables in a terminal of any width, in a pipe and in a file."""

import os
import re
import subprocess
import sys

from fairbench.cli.main import main

LEFT_OUT = re.compile(r"columns left out, since the terminal is narrow: (.*?)\n\d+ of", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[−+]?\d[\d.]*(?![\w.])")


def shown(width, monkeypatch, capsys):
    """What `fairbench verdicts` prints; None is a pipe."""
    if width is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(width))
    assert main(["verdicts", "paper"]) == 0
    return capsys.readouterr().out


def test_a_narrow_terminal_leaves_out_whole_columns_and_names_them(monkeypatch, capsys):
    full = shown(None, monkeypatch, capsys)
    head, *rows = full.splitlines()[:13]
    names = re.split(r"\s{2,}", head.strip())
    cells = [re.split(r"\s{2,}", row.strip()) for row in rows]
    for width in (50, 60, 80, 100, 110, 120):
        narrow = shown(width, monkeypatch, capsys)
        assert max(len(line.rstrip()) for line in narrow.splitlines()) <= width
        left_out = LEFT_OUT.search(narrow)
        gone = " ".join(left_out[1].split()).split(", ") if left_out else []
        kept = len(names) - len(gone)
        assert names[kept:] == gone
        for row, line in zip(cells, narrow.splitlines()[1:13], strict=True):
            assert re.split(r"\s{2,}", line.strip()) == row[:kept]
    assert not LEFT_OUT.search(shown(120, monkeypatch, capsys))


def test_a_pipe_gets_whole_lines():
    command = [sys.executable, "-m", "fairbench", "list"]
    names = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(command, env=names, capture_output=True, text=True, check=True)
    assert max(map(len, done.stdout.splitlines())) > 200
    assert "…" not in done.stdout
