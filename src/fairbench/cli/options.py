"""The options of the `fairbench` command: its parser, the types of its arguments, and the suite that they choose."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fairbench.common.errors import UsageError, nearest
from fairbench.common.installation import version
from fairbench.common.terminal import say

if TYPE_CHECKING:
    from fairbench.suites.schema import Suite

DEFAULT_SUITE = "mini"
PROGRAM_SUITE = "program"
PAPER_SUITE = "paper"
"""The suite of a command with --data-root and no suite, like the command of the paper's authors."""
OPTIMIZER = "a name, path/to/file.py:Class, module:Class, or program:NAME for one that your --program makes itself"
"""How an optimizer can be named."""
OPTION = "an option of an optimizer, as AdamW.weight_decay=0.1; the value is TOML; may be repeated"


class Parser(argparse.ArgumentParser):
    """A parser whose errors look like all others of the command, and suggest the nearest option."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        see = " See" if message.endswith("?") else "; see"
        raise UsageError(f"{message.removeprefix('argument ')}{see} {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The namespace; what is left over is an error of this parser, not of the one that called it."""
        namespace, others = super().parse_known_args(args, namespace)
        if others:
            unknown = next((word for word in others if word.startswith("-")), others[0])
            kind = "option" if unknown.startswith("-") else "argument"
            known = [option for action in self._actions for option in action.option_strings]
            self.error(f"unknown {kind} {unknown!r}{nearest(unknown.partition('=')[0], known)}")
        return namespace, others


class Version(argparse.Action):
    """Prints the version and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        say(f"fairbench {version()}")
        parser.exit()


def refuse_empty(words: Sequence[str]) -> None:
    """Raise UsageError for an empty argument, as an unset variable of a shell gives one."""
    for before, word in pairwise(["", *words]):
        option, equals, value = word.partition("=")
        if word.strip() and not (option.startswith("--") and equals and not value.strip()):
            continue
        name = option if equals else before if before.startswith("-") else "an argument"
        raise UsageError(f"{name} is empty, as with an unset variable; give a value, or leave it out")


def _number(kind: type, noun: str) -> Callable[[str], Any]:
    """The type of an argument that is a number, whose range is checked elsewhere."""

    def read(text: str) -> Any:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"must be a {noun}, got {text!r}") from None

    return read


whole, seconds = _number(int, "whole number"), _number(float, "number of seconds")
number = _number(float, "number")


def names(option: str, text: str | None) -> list[str] | None:
    """The names of an option that takes several, separated by commas; None without the option."""
    if text is None:
        return None
    if not (found := [part.strip() for part in text.split(",") if part.strip()]):
        raise UsageError(f"{option} names nothing; leave it out, or give one or more, separated by commas")
    return found


def columns(text: str) -> dict[str, str]:
    """The columns of a table by what they are, as a=b,c="d, e"; raises `UsageError` for another text."""
    found = re.findall(r'(\w+)=("[^"]*"|[^,"]+)', text)
    if ",".join(map("=".join, found)) != text:
        raise UsageError(f'--columns must be WHAT=NAME,..., as optimizer=model,value="val/acc", got {text!r}')
    return {role: name.strip('"') for role, name in found}


def learning_rates(text: str) -> list[float]:
    """The learning rates of a text such as 3e-4,1e-3, each positive and there once."""
    try:
        values = [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise UsageError(f"--lr must be learning rates, as 3e-4,1e-3; got {text!r}") from None
    if not all(0 < lr < float("inf") for lr in values) or len(set(values)) < len(values):
        raise UsageError(f"--lr must be positive and finite, each once; got {text!r}")
    return values


def add_suite_options(command: argparse.ArgumentParser) -> None:
    """The options that select and change a suite, and say where its study is."""
    add = command.add_argument_group("what is compared").add_argument
    add("chosen", nargs="?", metavar="SUITE", help="the same as --suite")
    suite = f"name or TOML file (default: {DEFAULT_SUITE}, with --data-root {PAPER_SUITE}; `fairbench list` shows all)"
    add("--suite", metavar="S", help=suite)
    program = "your own training program, with placeholders as {lr}, {seed}, {steps}, {out} (docs/programs.md)"
    add("--program", metavar="COMMAND", help=program)
    metric = "the program's primary metric and its better direction, as val/loss:min"
    add("--metric", metavar="NAME:min|max", help=metric)
    add("--margin", type=number, metavar="X", help="largest difference of that metric that does not matter")
    add("--smoke-test", action="store_true", help="the same as --suite smoke")
    add("--arenas", metavar="A,B,...", help="only these of the suite; your own as path/to/file.py:Class")
    add("--optimizers", metavar="A,B,...", help="only these, in place of all of the suite")
    add("--only-optimizers", dest="optimizers", help=argparse.SUPPRESS)  # its earlier name
    added = f"an optimizer in addition to those of the suite, may be repeated: {OPTIMIZER}"
    add("--add-optimizer", action="append", default=[], metavar="O", help=added)
    add("--reference", metavar="NAME", help="the baseline of all others (default: the suite's pairs)")
    add("--seeds", metavar="N", help="number of final seeds, or the seeds, as 1,2,3 (default: the suite's)")
    steps = "steps of each final trial (default: the suite's); search trials, warm-up and log interval are scaled"
    add("--steps", type=whole, metavar="N", help=steps)
    grid = "grid of learning rates that is searched for every optimizer, as 1e-4:1e-1:7 (default: the suite's search)"
    add("--lr-grid", metavar="LOW:HIGH:N", help=grid)
    add_setting(add, f"a key of the suite file, as training.clip_norm=0 or arenas.vit.steps=100, or {OPTION}")
    add("--compile", action="store_true", help="compile models and optimizer steps")
    images = "images for the arenas that read images: DIR/class/*.png or DIR/train/class/*.png, resized to 32 x 32"
    add("--images", metavar="DIR", help=images)
    add("--text", metavar="DIR", help="text for the arenas that read text: a file, DIR/*.txt or DIR/*.jsonl")

    add = command.add_argument_group("where").add_argument
    add("-o", "--output-dir", type=Path, metavar="DIR", help="directory of the study (default: results/<suite>)")
    add("--data-root", type=Path, metavar="DIR", help="prepared data, for suites that need them (default: data)")
    device = "auto: that of the study so far; for a new study a GPU if there is one, else the CPU (default: auto)"
    add("--device", choices=("auto", "cpu", "cuda"), default="auto", help=device)
    add("--gpus", metavar="N,M,...", help="numbers of the GPUs, or all (default: 0)")
    add("--trials-per-gpu", type=whole, metavar="N", help="concurrent trials on each GPU (default: 1)")
    add("-j", "--workers", type=whole, metavar="N", help="concurrent trials on the CPU (default: its cores)")


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
    add("--fail-fast", action="store_true", help="stop at the first failed trial; the same command continues later")
    add("--timing", action="store_true", help="at the end, time the steps of all optimizers, interleaved")
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


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """The values of --set by their dotted keys."""
    from fairbench.suites.settings import parse_setting  # slow to import

    return dict(map(parse_setting, options.set))


def chosen_suite(options: argparse.Namespace) -> Suite:
    """The suite of a command that runs or plans a study, with the changes by its options."""
    from fairbench.suites.loader import load_suite
    from fairbench.suites.overrides import Overrides

    name = _suite_name(options)
    compiled = {"training.compile": True} if options.compile else {}
    overrides = Overrides(
        arenas=names("--arenas", options.arenas),
        optimizers=names("--optimizers", options.optimizers),
        added=options.add_optimizer,
        settings={**compiled, **_of_program(options), **settings(options)},
        seeds=_seeds(options.seeds),
        steps=options.steps,
        lr_grid=options.lr_grid or "",
        folders={kind: folder for kind in ("images", "text") if (folder := getattr(options, kind))},
        reference=options.reference or "",
    )
    return load_suite(name, overrides)


def _suite_name(options: argparse.Namespace) -> str:
    sources = {
        "SUITE": options.chosen,
        "--suite": options.suite,
        "--smoke-test": "smoke" if options.smoke_test else None,
        "--program": PROGRAM_SUITE if options.program else None,
    }
    given = {option: name for option, name in sources.items() if name}
    if len(set(given.values())) > 1:
        both = " and ".join(f"{option} means {name}" for option, name in given.items())
        raise UsageError(f"two suites were given: {both}; give one of them")
    return next(iter(given.values()), PAPER_SUITE if options.data_root else DEFAULT_SUITE)


def _of_program(options: argparse.Namespace) -> dict[str, Any]:
    """The settings of the suite `program` by the options of a training program."""
    given = {"--metric": options.metric, "--margin": options.margin}
    if not options.program:
        if wrong := [option for option, value in given.items() if value is not None]:
            raise UsageError(f"{wrong[0]} is that of a --program; in a suite file it is a key of the arena")
        return {}
    if missing := [option for option, value in given.items() if value is None]:
        raise UsageError(f"--program needs {' and '.join(missing)}, as --metric val/loss:min --margin 0.01")
    name, _, direction = options.metric.removeprefix("val/").rpartition(":")
    if not name or direction not in ("min", "max"):
        raise UsageError(f"--metric must be a name and its better direction, as val/loss:min; got {options.metric!r}")
    model = {"model.program": options.program, "model.metrics": {name: direction}}
    arena = {**model, "metric": name, "margin": options.margin}
    return {f"arenas.{PROGRAM_SUITE}.{key}": value for key, value in arena.items()}


def _seeds(text: str | None) -> int | list[int] | None:
    """The number of seeds, or the seeds themselves, as 1,2,3 or 7, with a comma."""
    if text is None:
        return None
    try:
        seeds = [int(word) for word in names("--seeds", text) or ()]
    except ValueError:
        raise UsageError(f"--seeds must be a number of seeds, or seeds as 1,2,3; got {text!r}") from None
    if "," in text:
        return seeds
    if seeds[0] < 1:
        raise UsageError(f"--seeds must be at least 1, got {text}")
    return seeds[0]
