"""The files of the programs of a suite, with their hashes: a change of one makes the trials of a program new ones."""

from pathlib import Path

from fairbench.arenas.program import ProgramOptions
from fairbench.arenas.program_code import code_of
from fairbench.optimizers.variant import VariantPlan
from fairbench.suites.schema import Suite


def arena_files(suite: Suite, arena: str) -> dict[str, str]:
    """The code of the program of an arena with every optimizer; none with variants, each of which has its own."""
    if suite.noun == "variant":
        return {}
    options = ProgramOptions(**suite.arenas[arena].model)
    return code_of(options.command().words, options.code)


def variant_files(suite: Suite, variant: VariantPlan) -> dict[str, str]:
    """The code of a variant in all arenas of a suite, without files in the folders of other variants."""
    if variant.commit:
        return {}  # the commit is its identity
    folder = Path(variant.folder)
    code = {}
    for plan in suite.arenas.values():
        options = ProgramOptions(**plan.model)
        words = options.command(variant.words).words
        code.update(code_of(words, options.code, folder))
    own_folder = folder.resolve()
    others = []
    for plan_of_other in suite.optimizers.values():
        other = plan_of_other.variant
        if other and other.folder and not other.commit:
            others.append(Path(other.folder).resolve())
    others = [other for other in others if not own_folder.is_relative_to(other)]
    own = {}
    for file, sha in code.items():
        path = (folder / file).resolve()
        if not any(path.is_relative_to(other) for other in others):
            own[file] = sha
    return own
