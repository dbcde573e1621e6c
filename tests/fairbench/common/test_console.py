"""Tables in a terminal of any width, in a pipe and in a file."""

import re

LEFT_OUT = re.compile(r"columns left out, since the terminal is narrow:\s(.*?)\n\d+ of", re.DOTALL)


def test_a_narrow_terminal_leaves_out_whole_columns_and_names_them(monkeypatch, command):
    """A pipe gets all of them."""
    monkeypatch.delenv("COLUMNS", raising=False)
    full = command("verdicts", "paper")
    head, *rows = full.splitlines()[:13]
    names = re.split(r"\s{2,}", head.strip())
    cells = [re.split(r"\s{2,}", row.strip()) for row in rows]
    for width in (50, 60, 80, 100, 110, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        narrow = command("verdicts", "paper")
        assert max(len(line.rstrip()) for line in narrow.splitlines()) <= width
        left_out = LEFT_OUT.search(narrow)
        gone = []
        if left_out:
            gone = " ".join(left_out[1].split()).split(", ")
        kept = len(names) - len(gone)
        assert names[kept:] == gone
        for row, line in zip(cells, narrow.splitlines()[1:13], strict=True):
            assert re.split(r"\s{2,}", line.strip()) == row[:kept]
    assert not left_out, "120 are enough"


def test_a_pipe_gets_no_blanks_at_the_ends_of_lines(command):
    lines = command("verdicts", "paper").splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
