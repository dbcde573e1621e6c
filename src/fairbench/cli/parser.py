"""The words of the `fairbench` command."""

from __future__ import annotations

import argparse
from pathlib import Path

from fairbench.cli.suite_options import DEFAULT_SUITE

OWN = "a name, module:Class, or path/to/file.py:Class"
"""How an optimizer can be named."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="fairbench",
        description="Compare optimizers on equal terms. Options without a command are those of `run`.",
        allow_abbrev=False,
    )
    commands = top.add_subparsers(dest="command")

    run = commands.add_parser("run", help="run or resume a suite, and report", allow_abbrev=False)
    _add_run_options(run)
    _add_slurm_parser(commands)
    plan = commands.add_parser("plan", help="show what a run would do and can find; run nothing", allow_abbrev=False)
    _add_suite_options(plan)
    plan.add_argument("--freeze", action="store_true", help="and let nobody change it in that directory")

    status = commands.add_parser("status", help="show how far a study is, also while it runs")
    status.add_argument("directory", type=Path, metavar="DIR")

    watch = commands.add_parser("watch", help="show it live, from any terminal, until the study is complete")
    watch.add_argument("directory", type=Path, metavar="DIR")
    audit = commands.add_parser("audit", help="show every flag of a study, its evidence and what to do; 1 on a fail")
    audit.add_argument("directory", type=Path, metavar="DIR")

    report = commands.add_parser("report", help="make all tables, figures and the page again from the records")
    report.add_argument("directory", type=Path, metavar="DIR")
    report.add_argument("--output-dir", type=Path, metavar="OUT", help="where they go (default: DIR)")

    compare = commands.add_parser("compare", help="compare a study with a publication")
    compare.add_argument("directory", type=Path, metavar="DIR")
    compare.add_argument("publication", nargs="?", default="paper", metavar="PUBLICATION", help="default: paper")
    compare.add_argument("--output-dir", type=Path, metavar="OUT", help="where the tables go (default: DIR)")

    verdicts = commands.add_parser("verdicts", help="judge the numbers that others published as a study's own")
    verdicts.add_argument("publication", nargs="?", default="paper", metavar="PUBLICATION", help="default: paper")
    verdicts.add_argument("--baselines", metavar="A,B,...", help="only against these, which makes a smaller family")

    explain = commands.add_parser("explain", help="show what a trial is, or why two trials are not the same one")
    explain.add_argument("trials", nargs="+", metavar="ID", help="record file, or the beginning of an id")
    explain.add_argument("--output-dir", type=Path, metavar="DIR", help="where it lies (default: all of results/)")

    commands.add_parser("list", help="show suites, arenas and optimizers")

    check = commands.add_parser(
        "check", help="try an optimizer's contract, your own too; 1 on a fail", allow_abbrev=False
    )
    check.add_argument("optimizer", metavar="O", help=OWN)
    check.add_argument("--suite", metavar="S", help="where O stands with its options, if it is the name of a table")
    _add_setting(check)

    look = commands.add_parser("try", help="preview an optimizer in a minute; not a result", allow_abbrev=False)
    look.add_argument("optimizer", metavar="O", help=OWN)
    look.add_argument("--against", default="AdamW", metavar="A,B,...", help="compare with these (default: AdamW)")
    look.add_argument("--suite", default=DEFAULT_SUITE, help=f"whose arena (default: {DEFAULT_SUITE})")
    look.add_argument("--arena", metavar="A", help="where; your own as file.py:Class (default: the first)")
    look.add_argument("--lr", default="", metavar="X,Y,...", help="learning rates (default: three of the suite's grid)")
    _add_setting(look)

    for kind in ("optimizer", "arena"):
        new = commands.add_parser(f"new-{kind}", help=f"write an {kind} to start your own from, which works as it is")
        new.add_argument("name", metavar="NAME", help="of the file NAME.py")
    _add_data_parser(commands)
    return top


def _add_run_options(command: argparse.ArgumentParser) -> None:
    """The options of `fairbench run`."""
    _add_suite_options(command)
    command.add_argument(
        "--timing", action="store_true", help="afterwards time the steps of all optimizers, interleaved"
    )
    command.add_argument(
        "--tensorboard", action="store_true", help="write event files into DIR/tensorboard as trials run"
    )
    command.add_argument("--offline", action="store_true", help="never use the network")
    command.add_argument("--trial-timeout", type=float, metavar="S", help="limit of a trial (default: generous)")
    command.add_argument(
        "--checkpoint-every",
        type=float,
        metavar="S",
        help="seconds between a trial's checkpoints (default: the suite's, or 300); 0: only when it is stopped",
    )
    command.add_argument(
        "--allow-mixed", action="store_true", help="run even if machine or versions differ from the records'"
    )
    command.add_argument(
        "--ray",
        nargs="?",
        const="local",
        metavar="ADDRESS",
        help="run trials on a Ray cluster (default: start one here)",
    )


def _add_suite_options(command: argparse.ArgumentParser) -> None:
    """The options that say what is run."""
    command.add_argument("chosen", nargs="?", metavar="SUITE", help="the same as --suite")
    command.add_argument("--suite", help=f"name or TOML file (default: {DEFAULT_SUITE}; `fairbench list` shows them)")
    command.add_argument("--output-dir", type=Path, metavar="DIR", help="default: results/<suite>")
    command.add_argument(
        "--optimizer", action="append", default=[], metavar="O", help=f"one more, which the suite has not: {OWN}"
    )
    command.add_argument("--optimizers", metavar="A,B,...", help="only these, instead of all of the suite's")
    _add_setting(command)
    command.add_argument(
        "--lr-grid", metavar="LOW:HIGH:N", help="the learning rates that everyone's search begins with"
    )
    command.add_argument("--reference", metavar="NAME", help="the optimizer that is compared with the others")
    command.add_argument("--arenas", metavar="A,B,...", help="only these of the suite; your own as file.py:Class")
    command.add_argument("--images", metavar="DIR", help="your own for the arenas of images: DIR/class/*.png, 32 x 32")
    command.add_argument("--text", metavar="DIR", help="your own for the arenas of text: a file, or DIR/*.txt")
    command.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    command.add_argument(
        "--workers", type=int, metavar="N", help="trials at a time (default: CPU cores; 0: one, no server)"
    )
    command.add_argument("--devices", default="0", metavar="N,M,...", help="GPUs that get trials (default: 0)")
    command.add_argument("--trials-per-gpu", type=int, default=1, metavar="N", help="trials that share a GPU")
    command.add_argument("--data-root", type=Path, metavar="DIR", help="downloaded data, for suites that need some")
    command.add_argument("--smoke-test", action="store_true", help="the same as --suite smoke")
    command.add_argument("--compile", action="store_true", help="compile models and optimizer steps")


def _add_setting(command: argparse.ArgumentParser) -> None:
    """The option that sets hyperparameters."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="O.OPTION=VALUE",
        help="a hyperparameter of an optimizer, as AdamW.weight_decay=0.1; its value is TOML",
    )


def _add_slurm_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command line of `fairbench slurm`."""
    slurm = commands.add_parser(
        "slurm",
        help="write a job for sbatch: drivers that share a study, each with the options of `run`",
        allow_abbrev=False,
    )
    asked = slurm.add_argument_group("options of sbatch")
    asked.add_argument("--array", type=int, default=1, metavar="N", help="drivers (default: 1)")
    asked.add_argument("--gres", metavar="G", help="for each of them, as gpu:2, which means --device cuda")
    asked.add_argument("--cpus-per-task", metavar="N", help="cores of each, which are its --workers")
    asked.add_argument("--mem", metavar="M", help="memory of each, as 16G")
    asked.add_argument("--time", metavar="T", help="limit of each; it then goes on in the queue's next turn")
    asked.add_argument("--partition", metavar="P", help="the queue")
    asked.add_argument(
        "--sbatch", action="append", default=[], metavar="OPTION", help="any other, as --sbatch=--account=physics"
    )
    _add_run_options(slurm)
    slurm.set_defaults(device=None)  # what it asks Slurm for says it


def _add_data_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command line of `fairbench data`."""
    verbs = {
        "list": "show the datasets, their licenses, and what is there",
        "download": "fetch what is missing, then prepare",
        "prepare": "make arrays of archives or of what was downloaded; never uses the network",
        "verify": "read prepared arrays again and compare them with their manifests",
    }
    data = commands.add_parser("data", help="get the datasets that suites need", allow_abbrev=False)
    choices = data.add_subparsers(dest="verb", metavar=f"{{{','.join(verbs)}}}", required=True)
    for verb, help_text in verbs.items():
        one = choices.add_parser(verb, help=help_text, allow_abbrev=False)
        one.add_argument("--suite", metavar="S", help="what this suite reads (default: every dataset)")
        one.add_argument("--dataset", nargs="+", metavar="D", help="only these")
        one.add_argument("--data-root", type=Path, metavar="DIR", default=Path("data"), help="default: data")
        if verb in ("download", "prepare"):
            one.add_argument(
                "--hub", type=Path, metavar="DIR", help="a local copy of the hub's files, DIR/owner/name/path"
            )
            one.add_argument("--unverified", action="store_true", help="take files whose hash is not the known one")
