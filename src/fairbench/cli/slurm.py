"""A job of a Slurm cluster: drivers that share a study, each of which goes on where it was stopped."""

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fairbench.common.errors import UsageError
from fairbench.runner.preemption import TO_BE_CONTINUED

WARNING = 180
"""Seconds before its end in which a driver lets its trials write checkpoints."""

RESOURCES = {
    "gres": (r"[\w.-]+(:[\w.-]+)*(,[\w.-]+(:[\w.-]+)*)*", "gpu:2 or gpu:a100:1"),
    "cpus-per-task": (r"0*[1-9]\d*", "8"),
    "mem": (r"\d+[KMGT]?", "16G"),
    "time": (r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}|UNLIMITED", "90 (minutes), 8:00:00 or 1-12 (days and hours)"),
    "partition": (r"[^\s,]+(,[^\s,]+)*", "gpu"),
}
"""Options of sbatch that are handed on as they are: the form that it asks for, and what is of that form."""
SCRIPT = """\
#!/bin/bash
# For sbatch, by `fairbench slurm`: drivers that share a study.
{options}

cd {folder} || exit

# Warned of the end, the driver lets its trials write checkpoints and returns {to_be_continued}: to be
# continued, when the queue has room again. After SIGTERM, Slurm or who has cancelled the job decides on that.
trap 'warned=yes; kill -USR1 "$driver"' USR1
trap 'warned=yes; stopped=yes; kill -TERM "$driver"' TERM
{command} &
driver=$!
while
    warned=
    wait "$driver"
    code=$?
    [ -n "$warned" ] # it was not the driver's end that ended the waiting
do :; done

[ "$code" -ne {to_be_continued} ] || [ -n "$stopped" ] || scontrol requeue "$SLURM_JOB_ID"
exit "$code"
"""
CORES = '${SLURM_CPUS_PER_TASK:+--workers "$SLURM_CPUS_PER_TASK"}'
"""Trials at a time: the cores of the job, where it has asked for so many."""
GPUS = '--devices "$(seq -s , 0 "$((${SLURM_GPUS_ON_NODE:-1} - 1))")"'
"""The GPUs of the job, which sees them numbered from 0."""
LOGS = "slurm"
"""The folder of the output directory for what the drivers print; Slurm does not make it."""


def job_script(options: argparse.Namespace, words: Sequence[str], name: str, directory: Path) -> str:
    """The script for sbatch.

    Args:
        options: those of `fairbench slurm`.
        words: what they say to `fairbench run`, see `words_of_run`.
        name: of the suite.
        directory: the output directory, from its root.

    Raises:
        UsageError: something is no option of sbatch.
    """
    if options.array < 1:
        raise UsageError(f"--array must be at least 1, the number of drivers; got {options.array}")
    if wrong := [line for line in options.sbatch if not line.startswith("-") or "\n" in line]:
        raise UsageError(f"--sbatch takes an option of sbatch, as --sbatch=--account=physics; got {wrong[0]!r}")
    resources = {option: getattr(options, option.replace("-", "_")) for option in RESOURCES}
    for option, (form, example) in RESOURCES.items():
        if resources[option] is not None and not re.fullmatch(form, resources[option], re.IGNORECASE):
            raise UsageError(f"--{option} takes what sbatch does, as {example}; got {resources[option]!r}")
    asked = {
        "job-name": f"fairbench-{name}",
        "array": f"0-{options.array - 1}",
        **resources,
        "output": f"{directory / LOGS}/".replace("%", "%%") + "%A_%a.log",
        "open-mode": "append",
        "signal": f"B:USR1@{WARNING}",
    }
    lines = [f"--{option}={_quoted(value)}" for option, value in asked.items() if value is not None]
    has = "" if options.ray else f"{GPUS if options.device == 'cuda' else CORES} "  # before what the user says of them
    return SCRIPT.format(
        options="\n".join(f"#SBATCH {line}" for line in [*lines, "--requeue", *options.sbatch]),
        folder=shlex.quote(str(Path.cwd())),
        command=f"{shlex.join([sys.executable, '-m', 'fairbench', 'run'])} {has}{shlex.join(words)}",
        to_be_continued=TO_BE_CONTINUED,
    )


def device_of(options: argparse.Namespace) -> str:
    """Where the trials of a job run: on the GPUs that it asks for, unless none are asked for.

    Raises:
        UsageError: GPUs are asked for, and shall not be used.
    """
    gpus = "gpu" in (options.gres or "")
    if gpus and options.device == "cpu":
        raise UsageError(f"--gres {options.gres} asks for GPUs that --device cpu would leave idle; leave one out")
    return options.device or ("cuda" if gpus else "cpu")


def words_of_run(options: argparse.Namespace, defaults: argparse.Namespace) -> list[str]:
    """What gives `fairbench run` these options, after its name.

    Args:
        options: of `fairbench run`, and any others.
        defaults: those of `fairbench run` that has been told nothing.
    """
    words = []
    for name, default in vars(defaults).items():
        value = getattr(options, name)
        option = "--" + ("suite" if name == "chosen" else name.replace("_", "-"))
        if value is True:
            words.append(option)
        elif value != default and name != "command":
            words += [f"{option}={each}" for each in (value if isinstance(value, list) else [value])]
    return words


def _quoted(value: str) -> str:
    """A value as a line of #SBATCH takes it."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
