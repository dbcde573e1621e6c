"""The `fairbench` command."""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fairbench.cli.listing import list_, new_arena, new_optimizer
from fairbench.cli.parser import parser
from fairbench.cli.suite_options import chosen_suite, comma_separated
from fairbench.common.errors import Preempted, UsageError, unknown
from fairbench.common.terminal import say
from fairbench.runner.preemption import TO_BE_CONTINUED, preemptible
from fairbench.runner.run_options import RunOptions, cores
from fairbench.suites.schema import Suite
from fairbench.training.place import Place

if TYPE_CHECKING:
    from fairbench.common.console import Terminal

READERS = ("status", "audit", "report", "compare")
"""Commands that read the records of a study once, and end."""
KEPT = "finished trials are kept, the same command resumes"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0; 1 if a trial or a check failed; 2 if the user must fix something; 75 after SIGTERM or SIGUSR1, if the run can
        be resumed; 130 after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a minus sign is no reason to fail
    try:
        options = parser().parse_args(_with_command(sys.argv[1:] if arguments is None else arguments))
        if options.command in READERS:
            gc.disable()  # everything that is read is needed until the end
        code = DO[options.command](options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # as in `fairbench list | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (UsageError, OSError) as error:
        say(f"fairbench: {error}", is_error=True)
        return 2
    except Preempted as error:
        say(f"\nfairbench: {error}, to be continued; {KEPT}", is_error=True)
        return TO_BE_CONTINUED
    except KeyboardInterrupt:
        say(f"\nfairbench: stopped; {KEPT}", is_error=True)
        return 130


def _with_command(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments with the command; without one it is `run`, without arguments the help."""
    if not arguments:
        return ["--help"]
    if arguments[0] in (*DO, "-h", "--help"):
        return arguments
    if not arguments[0].startswith("-"):
        raise unknown("command", arguments[0], DO)
    return ["run", *arguments]


def run(options: argparse.Namespace) -> int:
    """`fairbench run`."""
    with preemptible():
        return run_and_report(options)


def run_and_report(options: argparse.Namespace) -> int:
    """Run or resume a suite, and show its report."""
    suite = chosen_suite(options)
    directory = options.output_dir or Path("results") / suite.name
    run_options = chosen_run_options(options)
    prepare_own_data(options, suite)
    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"  # the libraries read it when they are imported

    from fairbench.runner.progress.tensorboard import TensorBoard
    from fairbench.runner.run_study import run_study

    observers = [TensorBoard(directory / "tensorboard", suite.sweep.extra)] if options.tensorboard else []
    run_study(suite, directory, run_options, terminal(), observers)
    return show_report(directory, directory)


def slurm(options: argparse.Namespace) -> int:
    """`fairbench slurm`."""
    from fairbench.cli.slurm import device_of, prepared_job
    from fairbench.runner.run_study import check_data

    options.device = device_of(options)
    suite = chosen_suite(options)
    chosen_run_options(options)
    prepare_own_data(options, suite)
    check_data(suite, str(options.data_root or "data"))
    say(prepared_job(options, suite.name).removesuffix("\n"))
    return 0


def chosen_run_options(options: argparse.Namespace) -> RunOptions:
    """The options of `fairbench run` on which no result depends.

    Raises:
        UsageError: an option is out of range, or conflicts with another one.
    """
    every, limit = options.checkpoint_every, options.trial_timeout
    if limit is not None and not 0 < limit < float("inf"):
        raise UsageError(f"--trial-timeout must be a positive number of seconds, got {limit}")
    if every is not None and not 0 <= every < float("inf"):
        raise UsageError(f"--checkpoint-every must be a number of seconds, or 0 for none until a signal, got {every}")
    for option, given in {"--workers": options.workers is not None, "--devices": options.devices != "0"}.items():
        if options.ray is not None and given:
            raise UsageError(f"--ray runs as many trials as the cluster has resources for; leave out {option}")
    return RunOptions(
        places(options),
        server=options.workers != 0,
        trial_timeout=limit or 0.0,
        checkpoint_every=every,
        timing=options.timing,
        allow_mixed=options.allow_mixed,
        ray=options.ray,
    )


def prepare_own_data(options: argparse.Namespace, suite: Suite) -> None:
    """Prepare the folders of --images and --text; data of a suite file are prepared by `fairbench data`."""
    if options.images or options.text:
        from fairbench.cli.data import prepare_user_data

        prepare_user_data(suite, options.data_root or Path("data"))


def places(options: argparse.Namespace) -> list[Place]:
    """The places of concurrent trials: one per worker on the CPU, or `--trials-per-gpu` on each GPU."""
    root = str(options.data_root or "data")
    if options.device == "cpu":
        count = cores() if options.workers is None else options.workers
        if count < 0:
            raise UsageError(f"--workers must be at least 0, got {count}")
        return [Place("cpu", root, alone=count <= cores())] * max(count, 1)
    if options.trials_per_gpu < 1:
        raise UsageError(f"--trials-per-gpu must be at least 1, got {options.trials_per_gpu}")
    devices = comma_separated(options.devices) or [""]
    if wrong := [device for device in devices if not device.isdecimal()]:
        raise UsageError(f"--devices takes numbers of GPUs, as in 0,1; got {wrong[0]!r}")
    sharing = int(options.trials_per_gpu)
    return [Place(f"cuda:{int(device)}", root, sharing == 1) for device in dict.fromkeys(devices)] * sharing


def terminal() -> Terminal:
    """The terminal for progress and verdicts."""
    from fairbench.common.console import Terminal

    return Terminal()


def plan(options: argparse.Namespace) -> int:
    """`fairbench plan`."""
    suite = chosen_suite(options)
    directory = options.output_dir or Path("results") / suite.name
    where = places(options)
    prepare_own_data(options, suite)

    from fairbench.analysis.forecast import forecast
    from fairbench.report.console import print_plan
    from fairbench.runner.run_study import plan_study
    from fairbench.study.snapshot import Snapshot

    shown = terminal()
    preflight, history = plan_study(suite, directory, where[0], options.freeze, partial(say, is_error=True))
    workers = min(len(where), cores()) if options.device == "cpu" else len(where)
    records = Snapshot(directory, preflight.study)
    forecasts = forecast(preflight, records)
    print_plan(preflight.study, forecasts, workers, history, directory, shown)
    for message in records.damaged:
        shown.print(message, style="yellow", highlight=False, soft_wrap=True)
    return 0


def status(options: argparse.Namespace) -> int:
    """`fairbench status`."""
    from fairbench.runner.progress.watch import Watcher

    terminal().print(Watcher(options.directory).status().view(), highlight=False)
    return 0


def watch(options: argparse.Namespace) -> int:
    """`fairbench watch`; Ctrl-C ends it normally."""
    from fairbench.runner.progress.watch import watch_study

    with suppress(KeyboardInterrupt):
        watch_study(options.directory, terminal())
    return 0


def audit(options: argparse.Namespace) -> int:
    """`fairbench audit`."""
    from fairbench.analysis.analyse import analyse
    from fairbench.report.console import print_audit
    from fairbench.study.snapshot import open_study

    flags = analyse(*open_study(options.directory)).flags
    print_audit(flags, terminal())
    return 1 if any(flag.severity == "fail" for flag in flags) else 0


def report(options: argparse.Namespace) -> int:
    """`fairbench report`."""
    return show_report(options.directory, options.output_dir or options.directory, options.figures == "paper")


def show_report(directory: Path, output: Path, for_paper: bool = False) -> int:
    """Write all derived files of a study and print the verdict table; 1 when a trial failed."""
    from fairbench.report import write_report
    from fairbench.report.console import print_verdicts
    from fairbench.study.snapshot import open_study

    history, lookup = open_study(directory)
    result = write_report(history, lookup, output, for_paper)
    lookup.write_index()
    print_verdicts(result, output, terminal())
    return 1 if result.analyses.failed else 0


def compare(options: argparse.Namespace) -> int:
    """`fairbench compare`."""
    from fairbench.cli.compare import run_compare

    run_compare(options, terminal())
    return 0


def verdicts(options: argparse.Namespace) -> int:
    """`fairbench verdicts`."""
    from fairbench.analysis.published.publication import load_publication
    from fairbench.analysis.published.replication import LEVEL
    from fairbench.analysis.published.verdicts import published_comparisons
    from fairbench.report.console import print_publication_verdicts

    baselines = comma_separated(options.baselines or "")
    comparisons = published_comparisons(load_publication(options.publication), LEVEL, baselines)
    print_publication_verdicts(comparisons, LEVEL, terminal())
    return 0


def explain(options: argparse.Namespace) -> int:
    """`fairbench explain`."""
    from fairbench.cli.explain import explain_trials

    say("\n".join(explain_trials(options.trials, options.output_dir)))
    return 0


def check(options: argparse.Namespace) -> int:
    """`fairbench check`."""
    from fairbench.cli.check import run_checks

    return run_checks(options, terminal())


def try_(options: argparse.Namespace) -> int:
    """`fairbench try`."""
    from fairbench.cli.user_optimizer import preview_optimizer

    return preview_optimizer(options, terminal())


def data(options: argparse.Namespace) -> int:
    """`fairbench data`."""
    from fairbench.cli.data import run_data

    return run_data(options)


DO = {
    command.__name__.rstrip("_").replace("_", "-"): command
    for command in (
        *(run, slurm, plan, status, watch, audit, report, compare, verdicts, explain),
        *(list_, check, try_, new_optimizer, new_arena, data),
    )
}
"""The commands by their names."""
