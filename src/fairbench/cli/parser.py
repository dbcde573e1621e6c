"""The commands of `fairbench`, their arguments, and the functions that run them."""

from __future__ import annotations

import argparse
from functools import cache, partial
from pathlib import Path
from textwrap import fill

from fairbench.cli.arguments import Parser, Version, columns, learning_rates, names, number, whole
from fairbench.cli.commands import DONE, Commands, add_command, add_with_study
from fairbench.cli.options import (
    DEFAULT_SUITE,
    OPTIMIZER,
    add_require,
    add_run_options,
    add_sbatch_options,
    add_setting,
    add_suite_options,
)
from fairbench.cli.verbs import add_data, add_gate, add_suite

RUNS = (
    "0 done; 1 a trial failed, or what --require names does not hold; 2 the user must change something; "
    "75 stopped by a signal, to be resumed; 130 Ctrl-C"
)
"""The exit codes of `run`."""
EXAMPLE = "run mini --add-optimizer my_rule.py:MyRule --seeds 10 -o results/my_rule"
"""The arguments of the example in the help of `run`, and in that of the whole command."""
WIDTH = 80
"""The columns of the text in the help of the whole command."""
GROUPS = {
    "Run a study": ("run", "plan", "noise", "slurm", "gate"),
    "Follow and read a study": ("status", "watch", "audit", "report", "open", "compare", "explain"),
    "Judge other results": ("verdicts",),
    "Write an optimizer or an arena": ("new-optimizer", "new-arena", "check", "try"),
    "Look up and prepare": ("list", "suite", "data", "env"),
}
"""The commands as the help lists them."""


@cache  # a process that runs many commands, as the tests do, would need longer for this than for most commands
def parser() -> Parser:
    """The parser of the command line, with all commands."""
    top = Parser(
        prog="fairbench",
        usage="fairbench COMMAND [OPTION ...]",
        epilog="`fairbench COMMAND --help` shows the options of a command, with an example and its exit codes.",
    )
    top.add_argument("-V", "--version", action=Version, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(
        dest="command", metavar="COMMAND", help=argparse.SUPPRESS, prog="fairbench", parser_class=Parser
    )
    _add_run(commands)
    _add_plan(commands)
    _add_noise(commands)
    add_gate(commands)
    _add_slurm(commands)
    _add_status(commands)
    _add_watch(commands)
    _add_audit(commands)
    _add_report(commands)
    _add_open(commands)
    _add_compare(commands)
    _add_explain(commands)
    _add_verdicts(commands)
    _add_list(commands)
    add_suite(commands)
    _add_env(commands)
    _add_check(commands)
    _add_try(commands)
    _add_new(commands, "optimizer")
    _add_new(commands, "arena")
    add_data(commands)
    top.description = _overview(commands)
    return top


def _overview(commands: Commands[Parser]) -> str:
    """What the help says before the options: the purpose, an example, and the commands in groups."""
    purpose = (
        "Compare optimizers, or versions of a training program, on equal terms. Options without a command are those of "
        "`run`."
    )
    lines = [fill(purpose, WIDTH), "", "Example:", f"  fairbench {EXAMPLE}"]
    for title, commands_of_group in GROUPS.items():
        lines += ["", f"{title}:"]
        for name in commands_of_group:
            first, *_ = (commands.choices[name].description or "").splitlines()
            lines.append(f"  {name:15}{first}")
    return "\n".join(lines)


def command_names(top: Parser) -> list[str]:
    """The names of all commands of the command line."""
    names: list[str] = []
    for action in top._actions:
        if isinstance(action, Commands):
            names += action.choices
    return names


def _add_run(commands: Commands[Parser]) -> None:
    text = "Run or resume a suite, and report."
    _, _, example = EXAMPLE.partition(" ")
    command = add_command(commands, "run", text, "running:run", example=example, codes=RUNS)
    add_run_options(command)


def _add_plan(commands: Commands[Parser]) -> None:
    text = "Show the trials of a run and the differences it can detect; run only the first check of a --program."
    command = add_command(commands, "plan", text, "running:plan", example="mini --seeds 10", json=True)
    add_suite_options(command)
    frozen = "also lock the plan: its directory accepts no other"
    command.add_argument_group("how").add_argument("--freeze", action="store_true", help=frozen)


def _add_noise(commands: Commands[Parser]) -> None:
    text = "Run a training program a few times, and show what a comparison of its variants could show."
    example = '--program "python train.py --seed {seed}" --metric val/loss:min'
    command = add_command(commands, "noise", text, "running:noise", example=example, json=True)
    runs = "number of runs; two of them repeat a seed (default: 6)"
    command.add_argument("--runs", type=whole, default=6, metavar="N", help=runs)
    add_suite_options(command)
    command.set_defaults(margin=1.0)  # no trial depends on it


def _add_slurm(commands: Commands[Parser]) -> None:
    text = "Write a job for sbatch: drivers that share a study, with the options of `run`."
    example = "paper --array 4 --gres gpu:1 --time 4:00:00 > job.sh"
    command = add_command(commands, "slurm", text, "slurm:slurm", example=example)
    add_sbatch_options(command)
    add_run_options(command)
    command.set_defaults(device=None)  # implied by --gres


def _add_status(commands: Commands[Parser]) -> None:
    text = "Show the progress of a study, also while it runs."
    codes = f"{DONE}; with --exit-code, 1 if the study is not complete"
    command = add_with_study(commands, "status", text, "reading:status", codes=codes, json=True)
    code = "return 0 if the study is complete, otherwise 1"
    command.add_argument("--exit-code", action="store_true", help=code)


def _add_watch(commands: Commands[Parser]) -> None:
    text = "Show the progress live, from any terminal, until the study is complete."
    add_with_study(commands, "watch", text, "studies:watch")


def _add_audit(commands: Commands[Parser]) -> None:
    text = "Show every flag of a study, with evidence and advice."
    codes = "0 no fail; 1 a fail; 2 no such study"
    add_with_study(commands, "audit", text, "reading:audit", codes=codes, json=True)


def _add_report(commands: Commands[Parser]) -> None:
    text = "Write all tables, figures and the page again from the records."
    codes = "0 done; 1 a trial failed; 2 no such study"
    command = add_with_study(commands, "report", text, "reading:report", codes=codes)
    output = "directory of the report (default: DIR)"
    command.add_argument("-o", "--output-dir", type=Path, metavar="OUT", help=output)
    figures = "draw figures in the sizes of a paper too: 3.3 and 5.5 inches wide"
    command.add_argument("--figures", choices=["paper"], help=figures)


def _add_open(commands: Commands[Parser]) -> None:
    text = "Show the page of a study in a browser; write it first if there is none."
    codes = "0 shown; 1 there is no browser; 2 no such study"
    add_with_study(commands, "open", text, "studies:open_page", codes=codes)


def _add_compare(commands: Commands[Parser]) -> None:
    text = "Compare a study with another study, or with a publication."
    command = add_with_study(commands, "compare", text, "studies:compare", example="results/mini results/again")
    output = "directory of the tables and the page (default: DIR)"
    command.add_argument("-o", "--output-dir", type=Path, metavar="OUT", help=output)
    other = "directory of the other study, or name of a publication (default: paper)"
    command.add_argument("other", nargs="?", default="paper", metavar="OTHER", help=other)


def _add_explain(commands: Commands[Parser]) -> None:
    text = "Show what identifies a trial, or how two trials differ."
    command = add_command(commands, "explain", text, "explain:explain", example="3f9a -o results/mini", json=True)
    command.add_argument("trials", nargs="+", metavar="ID", help="record file, or the beginning of an id")
    where = "directory of the study (default: all in results/)"
    command.add_argument("-o", "--output-dir", type=Path, metavar="DIR", help=where)


def _add_verdicts(commands: Commands[Parser]) -> None:
    text = "Judge published results, or those of a table, by the same rules as a study's."
    example = "my_table.csv --optimizer MyRule"
    codes = f"{DONE}; 1 what --require names does not hold"
    command = add_command(commands, "verdicts", text, "reading:verdicts", example=example, codes=codes, json=True)
    add = command.add_argument
    results_help = (
        "file of CSV or JSON, - for standard input, a publication (default: paper), or the directory of a study"
    )
    add("results", nargs="*", metavar="TABLE", help=f"{results_help}; or several files, or a folder of runs")
    name_help = (
        "what the paths of several files, or names of runs, say, such as '(?P<optimizer>[a-z]+)-(?P<seed>[0-9]+)'"
    )
    add("--name", default="", metavar="REGEX", help=name_help)
    add("--optimizer", default="", metavar="NAME", help="the optimizer of a table to compare (default: every pair)")
    add("--better", default="", choices=("lower", "higher"), help="which values of a table are better")
    names_of_baselines = partial(names, "--baselines")
    baselines_help = "only against these: a smaller family of tests"
    add("--baselines", type=names_of_baselines, default=(), metavar="A,B,...", help=baselines_help)
    columns_help = 'what the columns of a table are, such as optimizer=model,value="val/acc"'
    add("--columns", type=columns, default="", metavar="WHAT=NAME,...", help=columns_help)
    add("--metric", default="", metavar="NAME", help="which metric of a table is judged")
    add("--at", default="", metavar="last|best|STEP", help="which point of the curves of a table is judged")
    add("--margin", type=number, metavar="X", help="the largest difference of a table that does not matter")
    test_help = "of the seeds in common, or of all runs (default: paired if two optimizers have the same seeds)"
    add("--test", default="", choices=("paired", "welch"), help=test_help)
    min_seeds_help = "with fewer seeds the verdict is inconclusive (default: 3)"
    add("--min-seeds", type=whole, default=3, metavar="N", help=min_seeds_help)
    add("--reference-value", type=number, metavar="X", help="compare each mean of a table with this number")
    add("--alpha", type=number, default=0.05, metavar="X", help="family-wise error rate (default: 0.05)")
    output = "also write verdicts.csv, and verdicts.tex for LaTeX, into this directory"
    add("-o", "--output-dir", type=Path, metavar="DIR", help=output)
    add_require(command)


def _add_list(commands: Commands[Parser]) -> None:
    text = "Show suites, arenas, data and optimizers."
    add_command(commands, "list", text, "reading:catalog", json=True)


def _add_env(commands: Commands[Parser]) -> None:
    add_command(commands, "env", "Show versions and machine, for a report of a bug.", "catalog:env")


def _add_check(commands: Commands[Parser]) -> None:
    text = "Check that an optimizer keeps its contract."
    codes = "0 no fail; 1 a fail; 2 no such optimizer"
    command = add_command(commands, "check", text, "reading:check", example="my_rule.py:MyRule", codes=codes, json=True)
    command.add_argument("optimizer", metavar="O", help=OPTIMIZER)
    suite = "the suite with O's options, if O is the name of a table in it"
    command.add_argument("--suite", metavar="S", help=suite)
    add_setting(command)


def _add_try(commands: Commands[Parser]) -> None:
    text = "Preview an optimizer in a minute; not a result."
    codes = "0 done; 1 a trial failed; 2 a wrong argument"
    command = add_command(commands, "try", text, "running:preview", example="my_rule.py:MyRule", codes=codes)
    command.add_argument("optimizer", metavar="O", help=OPTIMIZER)
    command.add_argument("--baselines", metavar="A,B,...", help="compare with these (default: AdamW)")
    suite = f"name or TOML file of the suite with the arena (default: {DEFAULT_SUITE})"
    command.add_argument("--suite", default=DEFAULT_SUITE, metavar="S", help=suite)
    command.add_argument("--arena", metavar="A", help="name, or file.py:Class (default: the first of the suite)")
    rates = "learning rates (default: three of the suite's)"
    command.add_argument("--lr", type=learning_rates, default=(), metavar="X,Y,...", help=rates)
    add_setting(command)


def _add_new(commands: Commands[Parser], kind: str) -> None:
    text = f"Write a template of an {kind}, which works unchanged."
    command = add_command(commands, f"new-{kind}", text, "new_files:new", example=f"my_{kind}")
    command.add_argument("name", metavar="NAME", help="name of the new file, without .py")
