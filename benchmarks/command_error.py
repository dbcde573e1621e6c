"""How often the command `fairbench run` finds a difference between two equal variants of a program.

nice .venv/bin/python benchmarks/command_error.py --studies 2000 --log build/command_error.csv [--csv FILE]

Each study is a call of the command, with its processes, its files and its page. One process makes all calls. Only one
study of 20 has figures, which take most of its time and decide nothing. The program is `noise_program.sh`, whose loss
is a normal number:

    own       the two runs of a pair share nothing
    shared    half of the variance is that of the seed, which both runs of a pair have
    drift     each run is worse than the run before it by a tenth of a standard deviation
    unseeded  no run can be repeated; --unseeded
    margin    the second variant is worse by exactly the margin; --require no-worse

The log gets a row for each study when it ends, and the same call continues after its last row. `expected_p` is that
of SciPy's t-test of the losses that the program printed. The log also has the memory and the number of open files of
this process, and of the server that trials are forked from: a leak would show there.
"""

import csv
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from csv_files import csv_parser, read_csv, write_csv
from scipy.stats import ttest_ind, ttest_rel

from fairbench.analysis.analyses import Analyses
from fairbench.cli.main import main as fairbench
from fairbench.report.figures.drawing import Drawing
from fairbench.report.study import draw_figures
from fairbench.runner.executors.starting import SERVERS

PROGRAM = Path(__file__).with_name("noise_program.sh")
KINDS: Mapping[str, Sequence[str]] = {
    "own": (),
    "shared": (),
    "drift": (),
    "unseeded": ("--unseeded",),
    "margin": ("--require", "no-worse"),
}
"""The kinds of studies, with the options that each adds to the command."""
PAIRS = 8
MARGIN = 1
WITH_FIGURES = 20
"""One study of this number draws its figures."""
Row = dict[str, Any]


def main() -> None:
    """Make the studies that the log does not have yet, and the table of all of them."""
    options = csv_parser(__doc__)
    options.add_argument("--studies", type=int, default=2000)
    options.add_argument("--log", type=Path, required=True)
    chosen = options.parse_args()
    log = chosen.log.resolve()
    table = chosen.csv and chosen.csv.resolve()
    began = len(read_csv(log)) if log.exists() else 0
    messages: set[str] = set()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        shutil.copy(PROGRAM, folder)
        os.environ["TMPDIR"] = folder
        tempfile.tempdir = folder  # so that a file that is left there shows
        for number in range(began, chosen.studies):
            append(log, study(number, messages))
        os.chdir(log.parent)
    rows = summary(read_csv(log))
    for row in rows:
        print(*row.values(), sep="\t")
    if table:
        write_csv(rows, table)


def study(number: int, messages: set[str]) -> Row:
    """Make a study, and return its row. What it prints is shown if no study before has printed it."""
    kind = [*KINDS][number % len(KINDS)]
    folder = Path(f"study{number}")
    printed = StringIO()
    draw = draw_figures if number % WITH_FIGURES == 0 else no_figures
    began = time.monotonic()
    with redirect_stdout(printed), redirect_stderr(printed), patch("fairbench.report.study.draw_figures", draw):
        code = fairbench(command(kind, number, folder))
    seconds = time.monotonic() - began
    for line in printed.getvalue().splitlines():
        message = re.sub(r"-?\d+(\.\d+)?", "N", line)
        if message not in messages:
            print(f"study {number}: {line}", file=sys.stderr, flush=True)
            messages.add(message)
    if code > 1:
        raise SystemExit(code)
    (comparison,) = read_csv(folder / "significance.csv")
    assert comparison["seeds"] == str(PAIRS), printed.getvalue()
    shutil.rmtree(folder)
    row = {"study": number, "kind": kind, "exit_code": code, "seconds": f"{seconds:.1f}"}
    for column in ("verdict", "gain", "p", "p_no_worse"):
        row[column] = comparison[column]
    row["expected_p"] = expected_p(kind, Path("losses"))
    row["left_files"] = len(list(Path().iterdir()))
    (server,) = SERVERS.values()
    for name, process in (("own", os.getpid()), ("server", server._forkserver_pid)):
        row[f"{name}_mb"] = memory(process)
        row[f"{name}_open_files"] = len(list(Path(f"/proc/{process}/fd").iterdir()))
    return row


def command(kind: str, number: int, folder: Path) -> list[str]:
    """The words of the command of a study. No two studies have a seed in common."""
    first = 1 + PAIRS * number
    seeds = ",".join(map(str, range(first, first + PAIRS)))
    seed = "none" if kind == "unseeded" else "{seed}"
    shift = MARGIN if kind == "margin" else 0
    words = ["run", "--program", f"sh {PROGRAM.name} {kind} {seed}", "--metric", "val/loss:min"]
    words += ["--variant", "a: a 0", "--variant", f"b: b {shift}", "--margin", str(MARGIN), "--seeds", seeds]
    words += ["--device", "cpu", "-j", "1", "--quiet", "-o", str(folder)]
    return [*words, *KINDS[kind]]


def expected_p(kind: str, losses: Path) -> float:
    """The p-value that decides, of the losses that the trials have printed. Those of the first check come before."""
    printed = losses.read_text().splitlines()[-2 * PAIRS :]
    losses.unlink()
    runs = [line.split() for line in printed]
    values: dict[str, list[float]] = {"a": [], "b": []}
    for variant, loss in runs:
        values[variant].append(float(loss))
    order = [variant for variant, _ in runs]
    assert order == ["a", "b", "b", "a"] * (PAIRS // 2), order  # what drifts cancels
    if kind == "unseeded":
        return float(ttest_ind(values["a"], values["b"], equal_var=False).pvalue)
    if kind == "margin":
        limits = np.add(values["a"], MARGIN)
        return float(ttest_rel(values["b"], limits, alternative="less").pvalue)
    return float(ttest_rel(values["a"], values["b"]).pvalue)


def no_figures(analyses: Analyses) -> list[Drawing]:
    """In place of `draw_figures`."""
    return []


def memory(process: int) -> int:
    """The MB of memory that a process holds."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 10**6


def append(log: Path, row: Row) -> None:
    """Add a row to the log."""
    is_new = not log.exists()
    with log.open("a", newline="") as file:
        writer = csv.DictWriter(file, row, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def summary(log: Sequence[Row]) -> list[Row]:
    """A row for each kind: how often a study errs, with the standard error of a rate of 5%."""
    rows = []
    for kind in KINDS:
        studies = [row for row in log if row["kind"] == kind]
        count = len(studies)
        verdicts = Counter(row["verdict"] for row in studies)
        passed = sum(row["exit_code"] == "0" for row in studies)
        false = passed if kind == "margin" else verdicts["better"] + verdicts["worse"]
        column = "p_no_worse" if kind == "margin" else "p"
        agree = sum(math.isclose(float(row[column]), float(row["expected_p"]), rel_tol=1e-4) for row in studies)
        row = {"kind": kind, "pairs": PAIRS, "studies": count, "better": verdicts["better"]}
        row |= {"worse": verdicts["worse"], "passed": passed, "false": round(false / count, 4)}
        row["standard_error"] = round((0.05 * 0.95 / count) ** 0.5, 4)
        row["p_as_expected"] = agree
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
