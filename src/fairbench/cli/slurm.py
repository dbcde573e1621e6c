"""A job array of a Slurm cluster: drivers that share a study and resume it when they are requeued."""

import argparse
import shlex
import sys
from pathlib import Path

from fairbench.cli.choices import StudyChoice
from fairbench.cli.chosen import chosen_run_options, chosen_suite, target_of
from fairbench.cli.data_of_study import prepare_data
from fairbench.cli.main import TO_BE_CONTINUED
from fairbench.cli.parser import parser
from fairbench.cli.slots import chosen_slots
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
"""The characters that must be escaped in a quoted value in a line of #SBATCH."""


def slurm(options: argparse.Namespace) -> str:
    """`fairbench slurm`: the script for sbatch. It makes the folder of the drivers' logs, since Slurm does not."""
    requests_gpus = _requests_gpus(options.gres or "")
    if requests_gpus and options.device == "cpu":
        raise UsageError(f"--gres {options.gres} requests GPUs that --device cpu would leave idle; leave one out")
    if not options.device:
        options.device = "cuda" if requests_gpus else "cpu"
    # wrong options are errors here, rather than later in the job
    chosen_run_options(options)
    choice = StudyChoice(options)
    suite = chosen_suite(choice)
    target = target_of(choice, suite)
    chosen_slots(choice.location, target)
    prepare_data(choice, suite)
    options.offline = True  # a run needs no network, and the nodes of many clusters have none
    directory = Path.cwd() / target.directory
    script = _script(options, suite.name, directory)
    try:
        (directory / LOGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {directory / LOGS}: {error.strerror}; choose another --output-dir") from error
    return script


def _requests_gpus(resources: str) -> bool:
    """Whether the resources of --gres include GPUs, such as gpu:2."""
    kinds = [resource.partition(":")[0] for resource in resources.split(",")]
    return "gpu" in kinds


def _script(options: argparse.Namespace, name: str, directory: Path) -> str:
    """The script for sbatch, for the suite with a name and the directory of its study."""
    if options.array < 1:
        raise UsageError(f"--array must be at least 1, the number of drivers; got {options.array}")
    for line in options.sbatch:
        if not line.startswith("-") or "\n" in line:
            raise UsageError(f"--sbatch takes an option of sbatch, such as --sbatch=--account=physics; got {line!r}")
    # The user's options come later and override the other ones.
    lines = [*_directives(options, name, directory), "--requeue", *options.sbatch]
    return SCRIPT.format(
        options="\n".join(f"#SBATCH {line}" for line in lines),
        folder=shlex.quote(str(Path.cwd())),
        command=_command(options),
        to_be_continued=TO_BE_CONTINUED,
    )


def _directives(options: argparse.Namespace, name: str, directory: Path) -> list[str]:
    """The lines of #SBATCH: options of sbatch with their values."""
    directives = {"job-name": f"fairbench-{name}", "array": f"0-{options.array - 1}"}
    for resource in RESOURCES:
        value = getattr(options, resource)
        if value is None:
            continue
        if "\n" in value:
            raise UsageError(f"options of sbatch are single lines; got {value!r}")
        directives[resource.replace("_", "-")] = value
    folder = str(directory / LOGS).replace("%", "%%")  # a single % is a pattern of Slurm
    directives["output"] = f"{folder}/%A_%a.log"
    directives["open-mode"] = "append"
    directives["signal"] = f"B:USR1@{WARNING}"
    return [f'--{option}="{value.translate(ESCAPED)}"' for option, value in directives.items()]


def _command(options: argparse.Namespace) -> str:
    """The command of a driver. It uses the GPUs that Slurm shows to the job, or the cores of the job."""
    run = shlex.join([sys.executable, "-m", "fairbench", "run"])
    arguments = shlex.join(_run_arguments(options))
    if options.ray:
        return f"{run} {arguments}"
    if options.device == "cuda":
        return f"{run} --gpus all {arguments}"
    return f"{run} {CORES} {arguments}"


def _run_arguments(options: argparse.Namespace) -> list[str]:
    """The arguments of `fairbench run` for these options. Options with their default value are left out."""
    defaults = vars(parser().parse_args(["run"]))
    arguments = []
    for name, default in defaults.items():
        value = getattr(options, name)
        if value == default or name in ("command", "do"):
            continue
        option = f"--{name.replace('_', '-')}"
        if name == "chosen":
            option = "--suite"  # the argument without an option
        if value is True:
            arguments.append(option)
        elif isinstance(value, list):
            arguments += [f"{option}={part}" for part in value]
        else:
            arguments.append(f"{option}={value}")
    return arguments
