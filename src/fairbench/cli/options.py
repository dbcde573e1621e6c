"""The options of the `fairbench` command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from fairbench.cli.arguments import number, seconds, whole
from fairbench.cli.program_options import add_program_options

DEFAULT_SUITE = "mini"
PAPER_SUITE = "paper"
"""The suite of a command with --data-root and no suite, like the command of the paper's authors."""
USUAL_BASELINE = "AdamW"
"""The baseline of a preview and of a training program, where the user names none and it takes part."""
OPTIMIZER = "a name, path/to/file.py:Class, module:Class, or program:NAME for one that your --program makes itself"
"""How an optimizer can be named."""
OPTION = "an option of an optimizer, such as AdamW.weight_decay=0.1; the value is TOML; may be repeated"
"""How an option of an optimizer can be set."""


def add_suite_options(command: argparse.ArgumentParser) -> None:
    """Add the options that select and change a suite, and the options that say where its study is and runs."""
    _add_compared(command)
    _add_where(command)


def _add_compared(command: argparse.ArgumentParser) -> None:
    """Add the options that select and change a suite."""
    group = command.add_argument_group("what is compared")
    add = group.add_argument
    suite = f"name or TOML file of the suite (default: {DEFAULT_SUITE}; {PAPER_SUITE} if --data-root is given)"
    add("chosen", nargs="?", metavar="SUITE", help=suite)
    add("--suite", metavar="S", help="the same suite as an option (`fairbench list` shows all suites)")
    add_program_options(group)
    variant = (
        "a variant of the program, may be repeated, the first is the baseline: its words stand at {variant} in the "
        "command, or at its end (docs/is-my-change-better.md)"
    )
    add("--variant", action="append", default=[], metavar="'NAME: WORDS'", help=variant)
    add("--margin", type=number, metavar="X", help="largest difference of that metric that does not matter")
    unseeded = "the program cannot be seeded: its runs are independent, and Welch's test decides"
    add("--unseeded", action="store_true", help=unseeded)
    first = "steps of the program's first check, before any trial; 0 for no check (default: 2)"
    add("--first-steps", type=whole, metavar="N", help=first)
    add("--smoke-test", action="store_true", help="the same as --suite smoke")
    add("--arenas", metavar="A,B,...", help="only these of the suite; your own such as path/to/file.py:Class")
    add("--optimizers", metavar="A,B,...", help="only these, in place of all of the suite")
    added = f"an optimizer in addition to those of the suite, may be repeated: {OPTIMIZER}"
    add("--add-optimizer", action="append", default=[], metavar="O", help=added)
    add("--reference", metavar="NAME", help="the baseline of all others (default: the suite's pairs)")
    add("--seeds", metavar="N", help="number of final seeds, or the seeds, such as 1,2,3 (default: the suite's)")
    steps = "steps of each final trial (default: the suite's); search trials, warm-up and log interval are scaled"
    add("--steps", type=whole, metavar="N", help=steps)
    grid = (
        "grid of learning rates that is searched for every optimizer, such as 1e-4:1e-1:7 (default: the suite's search)"
    )
    add("--lr-grid", metavar="LOW:HIGH:N", help=grid)
    add("--lr", type=_refused_rate, help=argparse.SUPPRESS)
    add_setting(group, f"a key of the suite file, such as training.clip_norm=0 or arenas.vit.steps=100, or {OPTION}")
    add("--compile", action="store_true", help="compile models and optimizer steps")
    images = "images for the arenas that read images: DIR/class/*.png or DIR/train/class/*.png, resized to 32 x 32"
    add("--images", metavar="DIR", help=images)
    add("--text", metavar="DIR", help="text for the arenas that read text: a file, DIR/*.txt or DIR/*.jsonl")


def _add_where(command: argparse.ArgumentParser) -> None:
    """Add the options that say where a study is, and where it runs."""
    add = command.add_argument_group("where").add_argument
    add("-o", "--output-dir", type=Path, metavar="DIR", help="directory of the study (default: results/<suite>)")
    add("--data-root", type=Path, metavar="DIR", help="prepared data, for suites that need them (default: data)")
    device = "auto: that of the study so far; for a new study a GPU if there is one, else the CPU (default: auto)"
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help=device)
    add("--gpus", metavar="N,M,...", help="numbers of the GPUs, or all (default: 0)")
    add("--trials-per-gpu", type=whole, metavar="N", help="concurrent trials on each GPU (default: 1)")
    add("-j", "--workers", type=whole, metavar="N", help="concurrent trials on the CPU (default: its cores)")


def _refused_rate(text: str) -> NoReturn:
    """Refuse --lr: a study searches the learning rate of every optimizer, and a single rate would favor one of them."""
    raise argparse.ArgumentTypeError(
        "learning rates are searched for every optimizer: --lr-grid LOW:HIGH:N sets their grid, and "
        f"--set optimizers.AdamW.lr={text} fixes that of one optimizer"
    )


def add_setting(command: argparse._ActionsContainer, text: str = OPTION) -> None:
    """Add the option that sets single values. `text` is its help."""
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=text)


def add_run_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `fairbench run`."""
    add_suite_options(command)
    add = command.add_argument_group("how").add_argument
    limit = "limit of seconds per trial (default: 50 times its estimate, and 300 more)"
    add("--trial-timeout", type=seconds, metavar="S", help=limit)
    checkpoints = "seconds between a trial's checkpoints (default: the suite's, or 300); 0: only when it is stopped"
    add("--checkpoint-every", type=seconds, metavar="S", help=checkpoints)
    add("--fail-fast", action="store_true", help="stop at the first failed trial; the same command continues later")
    add("--timing", action="store_true", help="at the end, time the steps of all optimizers, interleaved")
    add("--offline", action="store_true", help="never use the network")
    mixed = "run even if machine or versions differ from those of earlier records"
    add("--allow-mixed", action="store_true", help=mixed)
    add_require(command)
    add("-q", "--quiet", action="store_true", help="print only errors, and where the verdicts are")
    add("-v", "--verbose", action="store_true", help="print a line for each trial that ends")

    add = command.add_argument_group("cluster").add_argument
    ray = "run trials on the Ray cluster at this address (without an address: one started on this machine)"
    add("--ray", nargs="?", const="local", metavar="ADDRESS", help=ray)


def add_require(command: argparse._ActionsContainer) -> None:
    """Add the option with a requirement of every comparison."""
    require = "exit with 1 unless each comparison is better, no worse than by the margin, or equivalent, and say why"
    command.add_argument("--require", choices=("better", "no-worse", "equivalent"), help=require)


def add_sbatch_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `fairbench slurm` that are passed on to sbatch."""
    add = command.add_argument_group("sbatch").add_argument
    add("--array", type=whole, default=1, metavar="N", help="number of drivers (default: 1)")
    add("--gres", metavar="G", help="resources of each, such as gpu:2, which implies --device cuda")
    add("--cpus-per-task", metavar="N", help="cores of each, and concurrent trials")
    add("--mem", metavar="M", help="memory of each, such as 16G")
    add("--time", metavar="T", help="time limit of each; at the limit it is requeued and resumes")
    add("--partition", metavar="P", help="the queue")
    add("--sbatch", action="append", default=[], metavar="OPTION", help="any other, such as --sbatch=--account=physics")
