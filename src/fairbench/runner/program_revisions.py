"""The revisions of a user's program whose variants are flags, values or folders, for the report."""

from collections.abc import Iterator
from pathlib import Path

from fairbench.arenas.program_command import ProgramCommand
from fairbench.common.formatting import some
from fairbench.common.git_revision import revision_of
from fairbench.study.resolved_suite import ResolvedSuite


def program_revisions(study: ResolvedSuite) -> dict[str, str]:
    """The revision of each folder in which a program of a study runs, if git tracks the program.

    A variant with a revision of its own has no entry: its commit is in the suite.
    """
    revisions: dict[str, str] = {}
    for folder, words, code in _programs(study):
        if folder in revisions:
            continue
        scripts = [word for word in words if Path(word).as_posix() in code]
        script = next(iter(scripts), "")  # without one, such as in python -m, the folder has the program
        revision = revision_of(Path(folder, script), [Path(folder, file) for file in code])
        if not revision.commit:
            continue
        revisions[folder] = str(revision)
        if revision.changed:
            revisions[folder] += f" in {some(revision.changed)}"
    return revisions


def _programs(study: ResolvedSuite) -> Iterator[tuple[str, list[str], list[str]]]:
    """The folder, the words of the command, and the files of the code of each program, without those of a commit."""
    for name, plan in study.suite.arenas.items():
        program = plan.model.get("program")
        if program is None:
            continue
        if study.arenas[name].code:
            yield "", ProgramCommand(program).words, [*study.arenas[name].code]
        for optimizer in study.optimizers.values():
            variant = optimizer.variant
            if variant is not None and not variant.commit:
                yield variant.folder, ProgramCommand(program, variant.args).words, [*optimizer.code]
