"""A job array of a Slurm cluster: drivers that share a study and resume it when they are requeued."""

import argparse
import shlex
import sys
from pathlib import Path

from fairbench.cli.main import TO_BE_CONTINUED
from fairbench.cli.parser import parser
from fairbench.cli.running import chosen_run_options, chosen_slots, chosen_target, prepare_data
from fairbench.common.errors import UsageError
from fairbench.study.folder import LOGS

WARNING = 180
"""Seconds before the time limit at which Slurm signals a driver to write checkpoints."""

RESOURCES = ("gres", "cpus_per_task", "mem", "time", "partition")
"""Options of sbatch that are passed on unchanged; sbatch checks them."""
SCRIPT = """\
#!/bin/bash
# For sbatch, by `fairbench slurm`: drivers that share a study.
{options}

cd {folder} || exit

# On SIGUSR1, the driver's trials write checkpoints and it returns {to_be_continued}: the job is requeued.
# After SIGTERM, Slurm or the user decides whether to requeue. $! is the driver, from the moment at which it starts.
trap 'warned=yes; kill -USR1 $!' USR1
trap 'warned=yes; stopped=yes; kill -TERM $!' TERM
{command} &
driver=$!
while
    warned=
    wait "$driver"
    code=$?
    [ -n "$warned" ] # a signal, and not the end of the driver, ended the wait
do :; done

[ "$code" -ne {to_be_continued} ] || [ -n "$stopped" ] || scontrol requeue "$SLURM_JOB_ID"
exit "$code"
"""
CORES = '${SLURM_CPUS_PER_TASK:+--workers "$SLURM_CPUS_PER_TASK"}'
"""Concurrent trials: the cores of the job, if it requests a number."""
ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"'})
"""What a quoted value in a line of #SBATCH has in place of these characters."""


def slurm(options: argparse.Namespace) -> str:
    """The script for sbatch; makes the folder of the drivers' logs, since Slurm does not."""
    gpus = any(resource.partition(":")[0] == "gpu" for resource in (options.gres or "").split(","))
    if gpus and options.device == "cpu":
        raise UsageError(f"--gres {options.gres} requests GPUs that --device cpu would leave idle; leave one out")
    options.device = options.device or ("cuda" if gpus else "cpu")
    chosen_run_options(options)
    target = chosen_target(options)
    chosen_slots(options, target)
    prepare_data(options, target.suite)
    options.offline = True  # a run needs no network, and the nodes of many clusters have none
    directory = Path.cwd() / target.directory
    script = _script(options, target.suite.name, directory)
    try:
        (directory / LOGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {directory / LOGS}: {error.strerror}; choose another --output-dir") from error
    return script


def _script(options: argparse.Namespace, name: str, directory: Path) -> str:
    if options.array < 1:
        raise UsageError(f"--array must be at least 1, the number of drivers; got {options.array}")
    if wrong := [line for line in options.sbatch if not line.startswith("-") or "\n" in line]:
        raise UsageError(f"--sbatch takes an option of sbatch, as in --sbatch=--account=physics; got {wrong[0]!r}")
    resources = {name.replace("_", "-"): getattr(options, name) for name in RESOURCES}
    if wrong := [value for value in resources.values() if value and "\n" in value]:
        raise UsageError(f"options of sbatch are single lines; got {wrong[0]!r}")
    directives = {
        "job-name": f"fairbench-{name}",
        "array": f"0-{options.array - 1}",
        **resources,
        "output": f"{directory / LOGS}/".replace("%", "%%") + "%A_%a.log",
        "open-mode": "append",
        "signal": f"B:USR1@{WARNING}",
    }
    lines = [f'--{option}="{x.translate(ESCAPED)}"' for option, x in directives.items() if x is not None]
    # The GPUs that Slurm shows to the job, or its cores; the user's options come later and override these.
    workers = "" if options.ray else f"{'--gpus all' if options.device == 'cuda' else CORES} "
    run = shlex.join([sys.executable, "-m", "fairbench", "run"])
    return SCRIPT.format(
        options="\n".join(f"#SBATCH {line}" for line in [*lines, "--requeue", *options.sbatch]),
        folder=shlex.quote(str(Path.cwd())),
        command=f"{run} {workers}{shlex.join(_run_arguments(options))}",
        to_be_continued=TO_BE_CONTINUED,
    )


def _run_arguments(options: argparse.Namespace) -> list[str]:
    """The arguments for `fairbench run` with these options, where they differ from its defaults."""
    arguments = []
    for name, default in vars(parser().parse_args(["run"])).items():
        value = getattr(options, name)
        option = "--" + ("suite" if name == "chosen" else name.replace("_", "-"))
        if value is True:
            arguments.append(option)
        elif value != default and name not in ("command", "do"):
            arguments += [f"{option}={each}" for each in (value if isinstance(value, list) else [value])]
    return arguments
