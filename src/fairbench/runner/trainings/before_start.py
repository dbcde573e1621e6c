"""What can be said of the commands of training programs before any of them is started."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fairbench.arenas.program import TASK, ProgramOptions
from fairbench.arenas.program_code import code_of
from fairbench.arenas.program_command import ProgramCommand
from fairbench.common.errors import ProgramError
from fairbench.optimizers.resolve import made_by_program
from fairbench.optimizers.spec import BY_PROGRAM
from fairbench.study.planned_trial import unmeasured_trial
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program_start import start_of

SEED_LOST = "the seed does not reach the program"
"""The beginning of the messages on a program that gets no seed."""
PASS_SEED = (
    "pass {seed} to it, or let it read fairbench.trial.current().seed or the variable of --seed-env NAME; "
    "if it cannot be seeded, --unseeded compares its runs as they are"
)
"""What to do if the seed does not reach a program."""
OURS = b"fairbench"
"""A program whose files do not have this word, in any case, asks `fairbench.trial` for nothing."""


class Program(NamedTuple):
    """A program with one variant, or for all optimizers.

    Attributes:
        variant: the name of the variant; empty without variants.
        options: the options of the program.
        command: its command, with what the variant adds.
        folder: the folder in which it runs.
    """

    variant: str
    options: ProgramOptions
    command: ProgramCommand
    folder: Path


def checked_programs(suite: Suite, slot: DeviceSlot) -> list[Program]:
    """The programs of a suite, after what is known of their commands before they are started was checked.

    The options of other optimizers than those that programs make are known only when their classes are loaded, which is
    slow: their first check finds a placeholder that no trial sets.

    Args:
        suite: the suite.
        slot: has the folder of the checkouts of revisions.

    Raises:
        UsageError: a command has a placeholder that no trial sets, or names a script that does not exist.
    """
    programs: list[Program] = []
    for arena, optimizer in suite.arms:
        if suite.task(arena) != TASK:
            continue
        plan = suite.optimizers[optimizer]
        options = ProgramOptions(**suite.arenas[arena].model)
        folder = Path()
        if plan.factory == BY_PROGRAM:
            trial = unmeasured_trial(suite, slot.kind, arena, made_by_program(optimizer, plan))
            folder = start_of(trial, Path(), slot, options).folder  # it also needs a value of each placeholder
        program = Program("", options, options.command(), folder)
        if plan.variant is not None:
            program = Program(optimizer, options, options.command(plan.variant.words), folder)
        if program not in programs:  # optimizers share one
            _check_script(program)
            programs.append(program)
    return programs


def _check_script(program: Program) -> None:
    """Raise `ProgramError` if the command of a program names a script of Python that does not exist."""
    script = program.command.script
    if not script or (program.folder / script).exists():
        return
    named = f"the command names {script}"
    if program.variant:
        named = f"the command of variant {program.variant} names {script}"
    where = program.folder.absolute()
    raise ProgramError(f"{named}, and there is no such file in {where}, where it runs; correct its path")


def without_seed(programs: Iterable[Program]) -> list[Program]:
    """The programs that cannot take the seed of a trial. Those of which that is not known are left out."""
    return [program for program in programs if not _may_take_seed(program)]


def _may_take_seed(program: Program) -> bool:
    """Whether a program can take the seed of a trial, needs none, or its files are not known."""
    if not program.options.seeded or program.options.seed_env:
        return True
    return "seed" in program.command.placeholders or _may_ask(program)


def seed_message(lost: Sequence[Program], programs: Sequence[Program]) -> str:
    """The message on the programs that cannot take the seed. Variants are named where others can take it.

    Args:
        lost: the programs that cannot take the seed, at least one.
        programs: all programs of the suite.
    """
    variants = [program.variant for program in lost if program.variant]
    named = ""
    if variants and len(lost) < len(programs):
        named = f" of variant {', '.join(variants)}"
    return f"{SEED_LOST}{named}: its command has no {{seed}}, and its files do not use fairbench.trial; {PASS_SEED}"


def _may_ask(program: Program) -> bool:
    """Whether a file of a program may ask `fairbench.trial` for its seed, or its files are not known."""
    files = code_of(program.command.words, program.options.code, program.folder)
    if not any(file.endswith(".py") for file in files):
        return True
    return any(OURS in (program.folder / file).read_bytes().lower() for file in files)
