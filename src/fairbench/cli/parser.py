"""The arguments of the `fairbench` command."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairbench.cli.suite_options import DEFAULT_SUITE

OPTIMIZER = "a name, module:Class, or path/to/file.py:Class"
"""How an optimizer can be named."""
Commands = argparse._SubParsersAction


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="fairbench",
        description="Compare optimizers on equal terms. Options without a command are those of `run`.",
        allow_abbrev=False,
    )
    commands = top.add_subparsers(dest="command")

    _add_run_options(_add(commands, "run", "run or resume a suite, and report"))
    _add_slurm_parser(commands)
    plan = _add(commands, "plan", "show the trials of a run and the differences it can detect; run nothing")
    _add_suite_options(plan)
    plan.add_argument("--freeze", action="store_true", help="also lock the plan: its directory accepts no other")

    _add_directory(_add(commands, "status", "show the progress of a study, also while it runs"))
    _add_directory(_add(commands, "watch", "show the progress live, from any terminal, until the study is complete"))
    _add_directory(
        _add(commands, "audit", "show every flag of a study, with evidence and advice; exit code 1 on a fail")
    )
    report = _add(commands, "report", "write all tables, figures and the page again from the records")
    _add_directory(report, "directory of the report (default: DIR)")
    report.add_argument(
        "--figures", choices=["paper"], help="draw figures in the sizes of a paper too: 3.3 and 5.5 inches wide"
    )
    compare = _add(commands, "compare", "compare a study with another study, or with a publication")
    _add_directory(compare, "directory of the tables and the page (default: DIR)")
    other = "directory of the other study, or name of a publication (default: paper)"
    compare.add_argument("other", nargs="?", default="paper", metavar="OTHER", help=other)
    verdicts = _add(commands, "verdicts", "judge published results by the same rules as a study's")
    verdicts.add_argument("publication", nargs="?", default="paper", metavar="PUBLICATION", help="default: paper")
    verdicts.add_argument("--baselines", metavar="A,B,...", help="only against these: a smaller family of tests")

    explain = _add(commands, "explain", "show what identifies a trial, or how two trials differ")
    explain.add_argument("trials", nargs="+", metavar="ID", help="record file, or the beginning of an id")
    explain.add_argument("--output-dir", type=Path, metavar="DIR", help="the study (default: all in results/)")

    _add(commands, "list", "show suites, arenas, data and optimizers")
    check = _add(commands, "check", "check that an optimizer keeps its contract; exit code 1 on a fail")
    check.add_argument("optimizer", metavar="O", help=OPTIMIZER)
    check.add_argument("--suite", metavar="S", help="the suite with O's options, if O is the name of a table in it")
    preview = _add(commands, "try", "preview an optimizer in a minute; not a result")
    preview.add_argument("optimizer", metavar="O", help=OPTIMIZER)
    preview.add_argument("--against", default="AdamW", metavar="A,B,...", help="compare with these (default: AdamW)")
    preview.add_argument("--suite", default=DEFAULT_SUITE, help=f"suite with the arena (default: {DEFAULT_SUITE})")
    preview.add_argument("--arena", metavar="A", help="name, or file.py:Class (default: the first of the suite)")
    preview.add_argument("--lr", default="", metavar="X,Y,...", help="learning rates (default: three of the suite's)")
    for command in (check, preview):
        _add_setting(command)

    for kind in ("optimizer", "arena"):
        new = _add(commands, f"new-{kind}", f"write a template of an {kind}, which works unchanged")
        new.add_argument("name", metavar="NAME", help="of the file NAME.py")
    _add_data_parser(commands)
    return top


def _add(commands: Commands[argparse.ArgumentParser], name: str, text: str) -> argparse.ArgumentParser:
    return commands.add_parser(name, help=text, allow_abbrev=False)


def _add_directory(command: argparse.ArgumentParser, output: str = "") -> None:
    """The directory of a study, and an option for the output directory where there is a help text for it."""
    command.add_argument("directory", type=Path, metavar="DIR", help="output directory of a study")
    if output:
        command.add_argument("--output-dir", type=Path, metavar="OUT", help=output)


def _add_run_options(command: argparse.ArgumentParser) -> None:
    """The options of `fairbench run`."""
    _add_suite_options(command)
    add = command.add_argument
    add("--timing", action="store_true", help="at the end, time the steps of all optimizers, interleaved")
    add("--tensorboard", action="store_true", help="write event files into DIR/tensorboard during the run")
    add("--offline", action="store_true", help="never use the network")
    add(
        "--trial-timeout",
        type=float,
        metavar="S",
        help="limit of seconds per trial (default: 50 times its estimate, and 300 more)",
    )
    checkpoints = "seconds between a trial's checkpoints (default: the suite's, or 300); 0: only when it is stopped"
    add("--checkpoint-every", type=float, metavar="S", help=checkpoints)
    mixed = "run even if machine or versions differ from those of earlier records"
    add("--allow-mixed", action="store_true", help=mixed)
    ray = "run trials on a Ray cluster (default: one started on this machine)"
    add("--ray", nargs="?", const="local", metavar="ADDRESS", help=ray)


def _add_suite_options(command: argparse.ArgumentParser) -> None:
    """The options that select and change a suite, and the device."""
    add = command.add_argument
    add("chosen", nargs="?", metavar="SUITE", help="the same as --suite")
    add("--suite", help=f"name or TOML file (default: {DEFAULT_SUITE}; `fairbench list` shows the names)")
    add("--output-dir", type=Path, metavar="DIR", help="default: results/<suite>")
    added = f"an optimizer to add to those of the suite: {OPTIMIZER}"
    add("--optimizer", action="append", default=[], metavar="O", help=added)
    add("--optimizers", metavar="A,B,...", help="only these, instead of all of the suite")
    _add_setting(command)
    add("--lr-grid", metavar="LOW:HIGH:N", help="grid of learning rates to search, for every optimizer")
    add("--reference", metavar="NAME", help="the optimizer that is compared with all others")
    add("--arenas", metavar="A,B,...", help="only these of the suite; a custom one as file.py:Class")
    add("--images", metavar="DIR", help="images for the arenas that read images: DIR/class/*.png, resized to 32 x 32")
    add("--text", metavar="DIR", help="text for the arenas that read text: a file, or DIR/*.txt")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    workers = "concurrent trials (default: CPU cores; 0: one, forked without a fork server)"
    add("--workers", type=int, metavar="N", help=workers)
    add("--devices", default="0", metavar="N,M,...", help="GPUs to use (default: 0)")
    add("--trials-per-gpu", type=int, default=1, metavar="N", help="concurrent trials on each GPU")
    add("--data-root", type=Path, metavar="DIR", help="prepared data, for suites that need them (default: data)")
    add("--smoke-test", action="store_true", help="the same as --suite smoke")
    add("--compile", action="store_true", help="compile models and optimizer steps")


def _add_setting(command: argparse.ArgumentParser) -> None:
    """The option that sets hyperparameters."""
    text = "a hyperparameter of an optimizer, as in AdamW.weight_decay=0.1; the value is TOML"
    command.add_argument("--set", action="append", default=[], metavar="O.OPTION=VALUE", help=text)


def _add_slurm_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """The command line of `fairbench slurm`."""
    slurm = _add(commands, "slurm", "write a job for sbatch: drivers that share a study, with the options of `run`")
    add = slurm.add_argument_group("options of sbatch").add_argument
    add("--array", type=int, default=1, metavar="N", help="number of drivers (default: 1)")
    add("--gres", metavar="G", help="resources of each, as in gpu:2, which implies --device cuda")
    add("--cpus-per-task", metavar="N", help="cores of each, and concurrent trials")
    add("--mem", metavar="M", help="memory of each, as in 16G")
    add("--time", metavar="T", help="time limit of each; at the limit it is requeued and resumes")
    add("--partition", metavar="P", help="the queue")
    add("--sbatch", action="append", default=[], metavar="OPTION", help="any other, as in --sbatch=--account=physics")
    _add_run_options(slurm)
    slurm.set_defaults(device=None)  # implied by --gres


def _add_data_parser(commands: Commands[argparse.ArgumentParser]) -> None:
    """The command line of `fairbench data`."""
    verbs = {
        "list": "show the datasets, their licenses, and the local files",
        "download": "download missing files, then prepare",
        "prepare": "make arrays from archives or downloaded files; never uses the network",
        "verify": "compare prepared arrays with their manifests",
    }
    data = _add(commands, "data", "download, prepare and verify the datasets that suites need")
    choices = data.add_subparsers(dest="verb", metavar=f"{{{','.join(verbs)}}}", required=True)
    for verb, text in verbs.items():
        command = _add(choices, verb, text)
        command.add_argument("--suite", metavar="S", help="the datasets of this suite (default: every dataset)")
        command.add_argument("--dataset", nargs="+", metavar="D", help="only these")
        command.add_argument("--data-root", type=Path, metavar="DIR", default=Path("data"), help="default: data")
        if verb in ("download", "prepare"):
            hub = "a local copy of the hub's files, DIR/owner/name/path"
            command.add_argument("--hub", type=Path, metavar="DIR", help=hub)
            unverified = "accept files whose hash differs from the known one, or of which none is known"
            command.add_argument("--unverified", action="store_true", help=unverified)
            command.add_argument("--again", action="store_true", help="also what is prepared already")
