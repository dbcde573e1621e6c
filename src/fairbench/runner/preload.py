"""The modules that processes of trials load before they get any."""

from fairbench.arenas.registry import ARENAS, load_arena
from fairbench.optimizers.registry import known_modules
from fairbench.runner.code_identity import arena_libraries
from fairbench.suites.schema import Suite

PROGRAM = "fairbench.runner.trainings.program"
PRELOAD = ("fairbench.runner.trainings.builtin_loop", PROGRAM)
"""The modules that processes of trials load, with all that they import."""


def preload(suite: Suite) -> list[str]:
    """The modules that the trials of a suite need. Each process loads the modules of the user itself.

    A study of variants has programs alone, and starts sooner without what a step of torch needs.
    """
    if suite.noun == "variant":
        return [PROGRAM]
    modules: set[str] = set()
    for name in suite.arenas:
        task = suite.task(name)
        if task in ARENAS:
            module, _, _ = ARENAS[task].factory.partition(":")
            modules.add(module)
        else:
            arena = load_arena(task)
            modules |= arena_libraries(arena)  # of a user's arena only the libraries
    modules |= known_modules(suite.optimizers)
    return [*PRELOAD, *sorted(modules)]
