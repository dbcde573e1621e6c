"""The arguments of run, plan and slurm."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fairbench.cli.arguments import seconds, whole

DEFAULT_SUITE = "mini"
PAPER_SUITE = "paper"
"""The suite of a command with --data-root and no suite, like the command of the paper's authors."""
DEVICES = ("auto", "cpu", "cuda")
OPTIMIZER = "a name, path/to/file.py:Class, or module:Class"
"""How an optimizer can be named."""


def add_suite_options(command: argparse.ArgumentParser) -> None:
    """The options that select and change a suite, and say where its study is."""
    add = command.add_argument_group("what is compared").add_argument
    add("chosen", nargs="?", metavar="SUITE", help="the same as --suite")
    suite = f"name or TOML file (default: {DEFAULT_SUITE}, with --data-root {PAPER_SUITE}; `fairbench list` shows all)"
    add("--suite", metavar="S", help=suite)
    add("--smoke-test", action="store_true", help="the same as --suite smoke")
    add("--arenas", metavar="A,B,...", help="only these of the suite; your own as path/to/file.py:Class")
    add("--only-optimizers", metavar="A,B,...", help="only these, in place of all of the suite")
    added = f"an optimizer in addition to those of the suite, may be repeated: {OPTIMIZER}"
    add("--add-optimizer", action="append", default=[], metavar="O", help=added)
    add("--reference", metavar="NAME", help="the optimizer that is compared with all others (default: the suite's)")
    add("--seeds", metavar="N", help="number of final seeds, or the seeds, as 1,2,3 (default: the suite's)")
    steps = "steps of each final trial (default: the suite's); search trials, warm-up and log interval are scaled"
    add("--steps", type=whole, metavar="N", help=steps)
    grid = "grid of learning rates that is searched for every optimizer, as 1e-4:1e-1:7 (default: the suite's search)"
    add("--lr-grid", metavar="LOW:HIGH:N", help=grid)
    add_setting(add, f"a key of the suite file, as training.clip_norm=0 or arenas.vit.steps=100, or {OPTION}")
    add("--compile", action="store_true", help="compile models and optimizer steps")
    add("--images", metavar="DIR", help="images for the arenas that read images: DIR/class/*.png, resized to 32 x 32")
    add("--text", metavar="DIR", help="text for the arenas that read text: a file, or DIR/*.txt")

    add = command.add_argument_group("where").add_argument
    add("-o", "--output-dir", type=Path, metavar="DIR", help="directory of the study (default: results/<suite>)")
    add("--data-root", type=Path, metavar="DIR", help="prepared data, for suites that need them (default: data)")
    device = "auto: that of the study so far; for a new study a GPU if there is one, else the CPU (default: auto)"
    add("--device", choices=DEVICES, default="auto", help=device)
    add("--gpus", metavar="N,M,...", help="numbers of the GPUs, or all (default: 0)")
    add("--trials-per-gpu", type=whole, metavar="N", help="concurrent trials on each GPU (default: 1)")
    add("-j", "--workers", type=whole, metavar="N", help="concurrent trials on the CPU (default: its cores)")


OPTION = "an option of an optimizer, as AdamW.weight_decay=0.1; the value is TOML; may be repeated"


def add_setting(add: Any, text: str = OPTION) -> None:
    """The option that sets single values."""
    add("--set", action="append", default=[], metavar="KEY=VALUE", help=text)


def add_run_options(command: argparse.ArgumentParser) -> None:
    """The options of `fairbench run`."""
    add_suite_options(command)
    add = command.add_argument_group("how").add_argument
    limit = "limit of seconds per trial (default: 50 times its estimate, and 300 more)"
    add("--trial-timeout", type=seconds, metavar="S", help=limit)
    checkpoints = "seconds between a trial's checkpoints (default: the suite's, or 300); 0: only when it is stopped"
    add("--checkpoint-every", type=seconds, metavar="S", help=checkpoints)
    add("--timing", action="store_true", help="at the end, time the steps of all optimizers, interleaved")
    add("--tensorboard", action="store_true", help="write event files into DIR/tensorboard during the run")
    add("--offline", action="store_true", help="never use the network")
    mixed = "run even if machine or versions differ from those of earlier records"
    add("--allow-mixed", action="store_true", help=mixed)
    add("-q", "--quiet", action="store_true", help="print only errors, and where the verdicts are")
    add("-v", "--verbose", action="store_true", help="print a line for each trial that ends")

    add = command.add_argument_group("cluster").add_argument
    ray = "run trials on the Ray cluster at this address (without an address: one started on this machine)"
    add("--ray", nargs="?", const="local", metavar="ADDRESS", help=ray)


def add_sbatch_options(command: argparse.ArgumentParser) -> None:
    """The options of `fairbench slurm` that are those of sbatch."""
    add = command.add_argument_group("sbatch").add_argument
    add("--array", type=whole, default=1, metavar="N", help="number of drivers (default: 1)")
    add("--gres", metavar="G", help="resources of each, as in gpu:2, which implies --device cuda")
    add("--cpus-per-task", metavar="N", help="cores of each, and concurrent trials")
    add("--mem", metavar="M", help="memory of each, as in 16G")
    add("--time", metavar="T", help="time limit of each; at the limit it is requeued and resumes")
    add("--partition", metavar="P", help="the queue")
    add("--sbatch", action="append", default=[], metavar="OPTION", help="any other, as in --sbatch=--account=physics")
