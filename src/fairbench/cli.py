"""The `fairbench` command."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fairbench.arenas import ARENAS
from fairbench.errors import UsageError, unknown
from fairbench.optimizers import OPTIMIZERS
from fairbench.suite import OptimizerPlan, Suite
from fairbench.suite_file import load_suite, suite_names

if TYPE_CHECKING:
    from rich.console import Console

PlanT = TypeVar("PlanT")
COMMANDS = ("run", "report", "list", "data")
DEFAULT_SUITE = "mini"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(
        prog="fairbench",
        description="Compare optimizers on equal terms. Options without a command are those of `run`.",
        allow_abbrev=False,
    )
    commands = top.add_subparsers(dest="command", metavar="{run,report,list,data}")

    run = commands.add_parser("run", help="run a suite, or go on with it, and report", allow_abbrev=False)
    run.add_argument("--suite", help=f"name or TOML file (default: {DEFAULT_SUITE}; `fairbench list` shows them)")
    run.add_argument("--output-dir", type=Path, metavar="DIR", help="default: results/<suite>")
    run.add_argument("--optimizers", metavar="A,B,...", help="only these of the suite; your own as module:Class")
    run.add_argument("--reference", metavar="NAME", help="the optimizer that is compared with the others")
    run.add_argument("--arenas", metavar="A,B,...", help="only these of the suite")
    run.add_argument(
        "--workers", type=int, metavar="N", help="trials at a time (default: CPU cores; 0: one, no server)"
    )
    run.add_argument("--trial-timeout", type=float, metavar="S", help="a trial may take (default: generous)")
    run.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    run.add_argument("--data-root", type=Path, metavar="DIR", help="downloaded data, for suites that need some")
    run.add_argument("--smoke-test", action="store_true", help="the same as --suite smoke")

    report = commands.add_parser("report", help="make all tables, figures and the page again from the records")
    report.add_argument("directory", type=Path, metavar="DIR")

    commands.add_parser("list", help="show suites, arenas and optimizers")
    add_data_parser(commands)
    return top


def add_data_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command line of `fairbench data`."""
    verbs = {
        "list": "show the datasets, their licences, and what is there",
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0; 1 when a trial failed; 2 when the user must mend something; 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] not in COMMANDS and given[0] not in ("-h", "--help"):
        if not given[0].startswith("-"):
            print(f"fairbench: {unknown('command', given[0], COMMANDS)}", file=sys.stderr)
            return 2
        given.insert(0, "run")
    options = parser().parse_args(given or ["--help"])
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a minus sign is no reason to fail
    try:
        code = {"run": run, "report": report, "list": show_list, "data": data}[options.command](options)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"fairbench: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # as in `fairbench list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"fairbench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nfairbench: stopped; finished trials are kept, the same command goes on from here", file=sys.stderr)
        return 130


def run(options: argparse.Namespace) -> int:
    """`fairbench run`."""
    suite = chosen_suite(options)
    directory = options.output_dir or Path("results") / suite.name
    workers = cores() if options.workers is None else options.workers
    if workers < 0:
        raise UsageError(f"--workers must be at least 0, got {workers}")
    if options.trial_timeout is not None and not 0 < options.trial_timeout < float("inf"):
        raise UsageError(f"--trial-timeout must be a positive number of seconds, got {options.trial_timeout}")

    from fairbench.study import run_study

    run_study(suite, directory, workers, options.device, console(), options.trial_timeout or 0.0)
    return show_report(directory)


def chosen_suite(options: argparse.Namespace) -> Suite:
    """The suite that the options ask for, narrowed to the arenas and optimizers that they name."""
    if options.suite and options.smoke_test and options.suite != "smoke":
        raise UsageError(f"--smoke-test means --suite smoke, but --suite {options.suite} was given too")
    if options.data_root and not options.suite and not options.smoke_test:
        needs = "\n".join(f"  {name}: {'; '.join(sorted(data_needs(load_suite(name))))}" for name in suite_names())
        raise UsageError(
            f"--data-root {options.data_root} was given without --suite. The paper's own study needs TinyStories, "
            "CIFAR-100, Tiny ImageNet and CelebA; this version has no suite that reads them. Say --suite with one of\n"
            f"{needs}"
        )
    suite = load_suite("smoke" if options.smoke_test else options.suite or DEFAULT_SUITE)
    if options.arenas:
        suite = replace(suite, arenas={name: pick("arena", name, suite.arenas) for name in words(options.arenas)})
    if options.optimizers:
        suite = replace(suite, optimizers=named_optimizers(words(options.optimizers), suite))
    reference = options.reference or suite.reference
    if reference not in suite.optimizers:
        choices = ", ".join(suite.optimizers)
        raise UsageError(
            f"the reference optimizer {reference!r} is not in the run; say --reference with one of: {choices}"
        )
    return replace(suite, reference=reference)


def pick(kind: str, name: str, known: dict[str, PlanT]) -> PlanT:
    """The entry of that name; an unknown one is answered with the nearest."""
    if name not in known:
        raise unknown(kind, name, known)
    return known[name]


def words(text: str) -> list[str]:
    """The words of a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def named_optimizers(names: list[str], suite: Suite) -> dict[str, OptimizerPlan]:
    """Optimizers by their names in the suite, by names that fairbench knows, or as module:Class."""
    known = {**{name: OptimizerPlan() for name in OPTIMIZERS}, **suite.optimizers}
    plans: dict[str, OptimizerPlan] = {}
    for word in names:
        own = ":" in word
        name = word.rpartition(":")[2] if own else word
        if name in plans:
            raise UsageError(f"two optimizers are called {name!r}; give one another name in a suite file")
        plans[name] = OptimizerPlan(factory=word) if own else pick("optimizer", word, known)
    return plans


def data_needs(suite: Suite) -> set[str]:
    """Where the data of a suite comes from."""
    return {ARENAS[arena].data for arena in suite.arenas}


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def console() -> Console:
    """Where progress and verdicts are shown; names in square brackets are names, not markup."""
    from rich.console import Console

    return Console(markup=False)


def report(options: argparse.Namespace) -> int:
    """`fairbench report`."""
    return show_report(options.directory)


def show_report(directory: Path) -> int:
    """Write all derived files and print the verdict table; 1 when a trial failed."""
    from fairbench.report import write_report
    from fairbench.report.console import print_verdicts
    from fairbench.study import finished_study

    with finished_study(directory) as (study, arms, lookup):
        result = write_report(study, arms, lookup, directory)
    print_verdicts(result, directory, console())
    return 1 if result.failed else 0


def show_list(options: argparse.Namespace) -> int:
    """`fairbench list`."""
    print("suites")
    for name in suite_names():
        suite = load_suite(name)
        print(f"  {name:10} {suite.description}\n{'':13}arenas: {', '.join(suite.arenas)}")
        print(f"{'':13}optimizers: {', '.join(suite.optimizers)}\n{'':13}data: {'; '.join(sorted(data_needs(suite)))}")
    print("arenas")
    for name, arena in ARENAS.items():
        print(f"  {name:10} {arena.title}; metrics: {', '.join(arena.metrics)}; data: {arena.data}")
    print("optimizers")
    for name, optimizer in OPTIMIZERS.items():
        print(f"  {name:10} {optimizer.title} ({optimizer.factory})")
    print("  your own   module:Class, in --optimizers or as `factory` in a suite file")
    return 0


def data(options: argparse.Namespace) -> int:
    """`fairbench data`."""
    from fairbench.data import command

    return command.run(options)
