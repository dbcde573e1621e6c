"""The commands of `fairbench`, their arguments, and what they return: mostly a value of the API, which `main` shows."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import fairbench as fb
from fairbench.cli.options import (
    DEFAULT_SUITE,
    OPTIMIZER,
    Parser,
    Version,
    add_run_options,
    add_sbatch_options,
    add_setting,
    add_suite_options,
    columns,
    learning_rates,
    names,
    number,
    settings,
)

Commands = argparse._SubParsersAction
Command = Callable[[argparse.Namespace], Any]
RUNS = "0 done; 1 a trial failed; 2 the user must change something; 75 stopped by a signal, to be resumed; 130 Ctrl-C"
DONE = "0 done; 2 the user must change something"
JUDGED = ("optimizer", "better", "baselines", "alpha", "columns", "metric", "at", "margin", "against")
"""The options of `verdicts`, which are arguments of `fb.verdicts`."""


def parser() -> Parser:
    """The command line. The names of the commands are the choices of its action `command`."""
    top = Parser(
        prog="fairbench",
        description="Compare optimizers on equal terms. Options without a command are those of `run`.",
        epilog="`fairbench COMMAND --help` shows the options of a command, with an example and its exit codes.",
    )
    top.add_argument("-V", "--version", action=Version, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _add_running(commands)
    _add_reading(commands)
    _add_describing(commands)
    _add_own_code(commands)
    _add_data(commands)
    return top


def command_names(top: Parser) -> list[str]:
    """The names of the commands."""
    return [name for action in top._actions if isinstance(action, Commands) for name in action.choices]


def _in(function: str) -> Command:
    """A function of `fairbench.cli`, which gets all options; it is loaded when it is called."""
    module, _, name = function.partition(":")
    return lambda options: getattr(import_module(f"fairbench.cli.{module}"), name)(options)


def _add(
    commands: Commands[Parser], name: str, text: str, do: Command, example: str, codes: str = DONE, json: bool = False
) -> Parser:
    """A command: `do` returns what it shows, see `main`, which has `to_json` if `json`."""
    prefix = commands._prog_prefix
    epilog = f"example: {prefix} {name} {example}".rstrip() + f"\nexit codes: {codes}"
    command: Parser = commands.add_parser(name, help=text, description=f"{text}.", epilog=epilog)
    command.set_defaults(do=do, required="ok")
    if json:
        command.add_argument("--json", action="store_true", help="print JSON for programs (docs/agents.md)")
    return command


def _add_running(commands: Commands[Parser]) -> None:
    example = "mini --add-optimizer my_rule.py:MyRule --seeds 10 -o results/my_rule"
    add_run_options(_add(commands, "run", "run or resume a suite, and report", _in("running:run"), example, RUNS))
    text, do = "show the trials of a run and the differences it can detect; run nothing", _in("running:plan")
    plan = _add(commands, "plan", text, do, "mini --seeds 10", json=True)
    add_suite_options(plan)
    frozen = "also lock the plan: its directory accepts no other"
    plan.add_argument_group("how").add_argument("--freeze", action="store_true", help=frozen)
    text = "write a job for sbatch: drivers that share a study, with the options of `run`"
    slurm = _add(commands, "slurm", text, _in("slurm:slurm"), "paper --array 4 --gres gpu:1 --time 4:00:00 > job.sh")
    add_sbatch_options(slurm)
    add_run_options(slurm)
    slurm.set_defaults(device=None)  # implied by --gres


def _add_reading(commands: Commands[Parser]) -> None:
    text = "show the progress of a study, also while it runs"
    codes, watch = f"{DONE}; with --exit-code, 1 if the study is not complete", "fairbench.runner.progress.watch"
    status = _add_of_study(
        commands, "status", text, lambda o: import_module(watch).Watcher(o.directory).status(), codes=codes, json=True
    )
    code = "return 0 if the study is complete, otherwise 1"
    status.add_argument("--exit-code", dest="required", action="store_const", const="complete", default="", help=code)
    text = "show the progress live, from any terminal, until the study is complete"
    _add_of_study(commands, "watch", text, _in("studies:watch"))
    text, codes = "show every flag of a study, with evidence and advice", "0 no fail; 1 a fail; 2 no such study"
    _add_of_study(commands, "audit", text, lambda o: fb.open(o.directory).audit(), codes=codes, json=True)
    text = "write all tables, figures and the page again from the records"
    output = "directory of the report (default: DIR)"
    report = _add_of_study(
        commands,
        "report",
        text,
        lambda o: fb.open(o.directory).report(o.output_dir, o.figures == "paper"),
        output,
        codes="0 done; 1 a trial failed; 2 no such study",
    )
    figures = "draw figures in the sizes of a paper too: 3.3 and 5.5 inches wide"
    report.add_argument("--figures", choices=["paper"], help=figures)
    text = "show the page of a study in a browser; write it first if there is none"
    codes = "0 shown; 1 there is no browser; 2 no such study"
    _add_of_study(commands, "open", text, _in("studies:open_page"), codes=codes)
    text = "compare a study with another study, or with a publication"
    output = "directory of the tables and the page (default: DIR)"
    compare = _add_of_study(
        commands, "compare", text, _in("studies:compare"), output, example="results/mini results/again"
    )
    other = "directory of the other study, or name of a publication (default: paper)"
    compare.add_argument("other", nargs="?", default="paper", metavar="OTHER", help=other)

    text = "show what identifies a trial, or how two trials differ"
    explain = _add(commands, "explain", text, _in("explain:explain"), "3f9a -o results/mini", json=True)
    explain.add_argument("trials", nargs="+", metavar="ID", help="record file, or the beginning of an id")
    where = "directory of the study (default: all in results/)"
    explain.add_argument("-o", "--output-dir", type=Path, metavar="DIR", help=where)
    text = "judge published results, or those of a table, by the same rules as a study's"
    verdicts = _add(
        commands,
        "verdicts",
        text,
        lambda o: fb.verdicts(o.results, **{key: vars(o)[key] for key in JUDGED}),
        "my_table.csv --optimizer MyRule",
        json=True,
    )
    add, table = verdicts.add_argument, "file of CSV or JSON, - for standard input, or a publication (default: paper)"
    add("results", nargs="?", default="paper", metavar="TABLE", help=table)
    add("--optimizer", default="", metavar="NAME", help="the optimizer of a table to compare with all others")
    add("--better", default="", choices=("lower", "higher"), help="which values of a table are better")
    several = partial(names, "--baselines")
    add(
        "--baselines", type=several, default=(), metavar="A,B,...", help="only against these: a smaller family of tests"
    )
    text = 'what the columns of a table are, as optimizer=model,value="val/acc"'
    add("--columns", type=columns, default="", metavar="WHAT=NAME,...", help=text)
    add("--metric", default="", metavar="NAME", help="which metric of a table is judged")
    add("--at", default="", metavar="last|best|STEP", help="which point of the curves of a table is judged")
    add("--margin", type=number, metavar="X", help="the largest difference of a table that does not matter")
    add("--against", type=number, metavar="X", help="compare each mean of a table with this number")
    add("--alpha", type=number, default=0.05, metavar="X", help="family-wise error rate (default: 0.05)")


def _add_of_study(
    commands: Commands[Parser], name: str, text: str, do: Command, output: str = "", **options: Any
) -> Parser:
    """A command for the directory of a study, with an output directory where there is a help text for it."""
    command = _add(commands, name, text, do, **{"example": "results/mini", **options})
    command.add_argument("directory", type=Path, metavar="DIR", help="directory of a study, as results/mini")
    if output:
        command.add_argument("-o", "--output-dir", type=Path, metavar="OUT", help=output)
    return command


def _add_describing(commands: Commands[Parser]) -> None:
    text = "show suites, arenas, data and optimizers"
    _add(commands, "list", text, lambda _: import_module("fairbench.api.catalog").catalog(), "", json=True)
    text = "show or check a suite file"
    verbs = commands.add_parser("suite", help=text, description=f"{text}.").add_subparsers(
        dest="verb", metavar="VERB", required=True, parser_class=Parser
    )
    text, loader = "print the TOML of a suite, to be copied and changed", "fairbench.suites.loader"
    show = _add(verbs, "show", text, lambda o: import_module(loader).suite_text(o.suite), "mini > my.toml")
    check = _add(verbs, "check", "check a suite file", _in("catalog:check_suite"), "my.toml", "0 valid; 2 not")
    for command in (show, check):
        command.add_argument("suite", metavar="SUITE", help="name or TOML file")
    _add(commands, "env", "show versions and machine, for a report of a bug", _in("catalog:env"), "")


def _add_own_code(commands: Commands[Parser]) -> None:
    text, example = "check that an optimizer keeps its contract", "my_rule.py:MyRule"
    codes = "0 no fail; 1 a fail; 2 no such optimizer"
    check = _add(
        commands, "check", text, lambda o: fb.check(o.optimizer, o.suite, settings(o)), example, codes, json=True
    )
    check.add_argument("optimizer", metavar="O", help=OPTIMIZER)
    check.add_argument("--suite", metavar="S", help="the suite with O's options, if O is the name of a table in it")
    text, codes = "preview an optimizer in a minute; not a result", "0 done; 1 a trial failed; 2 a wrong argument"
    preview = _add(commands, "try", text, _in("running:preview"), example, codes)
    preview.add_argument("optimizer", metavar="O", help=OPTIMIZER)
    preview.add_argument("--against", metavar="A,B,...", help="compare with these (default: AdamW)")
    suite = f"name or TOML file of the suite with the arena (default: {DEFAULT_SUITE})"
    preview.add_argument("--suite", default=DEFAULT_SUITE, metavar="S", help=suite)
    preview.add_argument("--arena", metavar="A", help="name, or file.py:Class (default: the first of the suite)")
    text = "learning rates (default: three of the suite's)"
    preview.add_argument("--lr", type=learning_rates, default=(), metavar="X,Y,...", help=text)
    for command in (check, preview):
        add_setting(command.add_argument)
    for kind in ("optimizer", "arena"):
        text = f"write a template of an {kind}, which works unchanged"
        new = _add(commands, f"new-{kind}", text, _in("new_files:new"), f"my_{kind}")
        new.add_argument("name", metavar="NAME", help="of the file NAME.py")


def _add_data(commands: Commands[Parser]) -> None:
    verbs = {
        "list": "show the datasets, their licenses, and the local files",
        "download": "download missing files, then prepare",
        "prepare": "make arrays from archives or downloaded files; never uses the network",
        "verify": "compare prepared arrays with their manifests",
    }
    text = "download, prepare and verify the datasets that suites need"
    data = commands.add_parser("data", help=text, description=f"{text}.")
    choices = data.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for verb, text in verbs.items():
        codes = f"{DONE}; 1 arrays differ" if verb == "verify" else DONE
        do = {"list": "Datasets", "verify": "verify"}.get(verb, "prepare_datasets")
        command = _add(choices, verb, text, _in(f"data:{do}"), "--suite paper", codes, json=verb == "list")
        command.add_argument("--suite", metavar="S", help="the datasets of this suite (default: every dataset)")
        command.add_argument("--dataset", nargs="+", metavar="D", help="only these")
        add_setting(command.add_argument, "an option of the one --dataset, as vocabulary=4096; may be repeated")
        root = "folder of all data (default: data)"
        command.add_argument("--data-root", type=Path, metavar="DIR", default=Path("data"), help=root)
        if verb in ("download", "prepare"):
            hub = "a local copy of the hub's files, DIR/owner/name/path"
            command.add_argument("--hub", type=Path, metavar="DIR", help=hub)
            unverified = "accept files whose hash differs from the known one, or of which none is known"
            command.add_argument("--unverified", action="store_true", help=unverified)
            command.add_argument("--again", action="store_true", help="also what is prepared already")
