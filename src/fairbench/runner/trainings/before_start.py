"""What can be said of the commands of training programs before any of them is started."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fairbench.arenas.program import TASK, ProgramOptions
from fairbench.arenas.program_code import code_of
from fairbench.arenas.program_command import PLACEHOLDER, VARIABLE, words_of
from fairbench.common.errors import ProgramError
from fairbench.optimizers.resolve import made_by_program
from fairbench.optimizers.spec import BY_PROGRAM
from fairbench.optimizers.variant import VariantPlan
from fairbench.study.planned_trial import typical_trial
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.suites.schema import Suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.program_start import folder_of, start_of

LAUNCHERS = ("python", "pypy", "torchrun")
"""The beginnings of the names of commands whose first word that is no option is the script that they start."""
OTHER_PROGRAM = ("-m", "-c", "--module")
"""Options after which no script is started."""
SEED_LOST = "the seed does not reach the program"
"""The beginning of the messages on a program that gets no seed."""
PASS_SEED = (
    "pass {seed} to it, or let it read fairbench.trial.current().seed or the variable of --seed-env NAME; "
    "if it cannot be seeded, --unseeded compares its runs as they are"
)
"""What to do if the seed does not reach a program."""
OURS = b"fairbench"
"""A program whose files do not have this word, in any case, asks `fairbench.trial` for nothing."""


class _Command(NamedTuple):
    """The command of a program with one variant, or for all optimizers.

    Attributes:
        name: the name of the variant; empty without variants.
        options: the options of the program.
        variant: the variant; an empty one without variants.
        folder: the folder in which the program runs.
    """

    name: str
    options: ProgramOptions
    variant: VariantPlan
    folder: Path

    @property
    def words(self) -> list[str]:
        """The words of the command, with placeholders."""
        return words_of(self.options.program, self.variant.args)


def before_training(suite: Suite, slot: DeviceSlot, say: Callable[[str], None]) -> None:
    """Say what is wrong in the commands of a suite's programs, as far as it is known before they are started.

    Args:
        suite: the suite.
        slot: has the folder of the checkouts of revisions.
        say: shows a message.

    Raises:
        UsageError: a command has a placeholder that no trial sets, or names a script that does not exist.
    """
    check_placeholders(suite, slot)
    check_scripts(suite, slot)
    if suite.first_steps:
        message = lost_seed(suite, slot)
        if message:
            say(message)


def check_placeholders(suite: Suite, slot: DeviceSlot) -> None:
    """Raise `UsageError` if the command of a program has a placeholder that a trial does not set.

    The options of other optimizers than those that programs make are known only when their classes are loaded, which is
    slow: their first check finds such a placeholder.
    """
    for arena, optimizer in suite.arms:
        plan = suite.optimizers[optimizer]
        if suite.task(arena) != TASK or plan.factory != BY_PROGRAM:
            continue
        study = ResolvedSuite(
            suite=suite,
            device=slot.kind,
            arenas={arena: ResolvedArena(fingerprint="", code={}, starts={})},
            optimizers={optimizer: made_by_program(optimizer, plan)},
            environment={},
        )
        trial = typical_trial(study, arena, optimizer, "final")
        start_of(trial, Path(), slot, ProgramOptions(**suite.arenas[arena].model))


def check_scripts(suite: Suite, slot: DeviceSlot) -> None:
    """Raise `ProgramError` if the command of a program names a script of Python that does not exist.

    `slot` has the folder of the checkouts of revisions.
    """
    for command in _commands(suite, slot):
        script = _script(command.words)
        if not script or (command.folder / script).exists():
            continue
        named = f"the command names {script}"
        if command.name:
            named = f"the command of variant {command.name} names {script}"
        where = command.folder.absolute()
        raise ProgramError(f"{named}, and there is no such file in {where}, where it runs; correct its path")


def lost_seed(suite: Suite, slot: DeviceSlot) -> str:
    """A message if no file of a program can take the seed of a trial; empty if one may, or if that is not known."""
    for command in _commands(suite, slot):
        if not command.options.seeded or command.options.seed_env:
            continue
        words = [*command.words, *command.variant.env.values()]
        placeholders = {name for word in words for name in PLACEHOLDER.findall(word)}
        if "seed" in placeholders or _may_ask(command):
            continue
        return f"{SEED_LOST}: its command has no {{seed}}, and its files do not use fairbench.trial; {PASS_SEED}"
    return ""


def _commands(suite: Suite, slot: DeviceSlot) -> Iterator[_Command]:
    """The commands of the programs of a suite."""
    for arena in suite.arenas.values():
        if arena.task != TASK:
            continue
        options = ProgramOptions(**arena.model)
        for name, plan in suite.optimizers.items():
            if plan.variant is None:
                yield _Command("", options, VariantPlan(), Path())
                break  # all optimizers have the same command
            yield _Command(name, options, plan.variant, folder_of(plan.variant.words, slot))


def _script(words: list[str]) -> str:
    """The script of Python that a command starts; empty if it names none, or if that is not known.

    A word after an option may be the option's value. Where the command goes to another folder, or into a container or
    a shell, the file may be there.
    """
    left = list(words)
    if left[:1] == ["env"]:
        left.pop(0)
    while left and VARIABLE.match(left[0]):
        left.pop(0)
    if not left or not Path(left[0]).name.startswith(LAUNCHERS):
        return ""
    for word in left[1:]:
        if word in OTHER_PROGRAM:
            return ""
        if word.startswith("-"):
            continue
        if word.endswith(".py") and "{" not in word:
            return word
        return ""
    return ""


def _may_ask(command: _Command) -> bool:
    """Whether a file of a program may ask `fairbench.trial` for its seed, or its files are not known."""
    files = code_of(command.options, command.variant.args, command.folder)
    if not any(file.endswith(".py") for file in files):
        return True
    return any(OURS in (command.folder / file).read_bytes().lower() for file in files)
