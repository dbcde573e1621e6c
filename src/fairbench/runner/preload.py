"""The modules that processes of trials load before they get any."""

from fairbench.arenas.program import TASK
from fairbench.arenas.registry import ARENAS, load_arena
from fairbench.optimizers.registry import known_modules
from fairbench.runner.code_identity import arena_libraries
from fairbench.suites.schema import Suite

PROGRAM = "fairbench.runner.trainings.program"
PRELOAD = ("fairbench.runner.trainings.builtin_loop", "fairbench.data.loading", PROGRAM)
"""The modules that processes of trials load, with all that they import."""


def preload(suite: Suite) -> list[str]:
    """The modules that the trials of a suite need. Each process loads the modules of the user itself.

    A study of programs alone starts sooner without what a step of torch needs.
    """
    modules = known_modules(suite.optimizers)
    tasks = {suite.task(name) for name in suite.arenas}
    if tasks == {TASK}:
        return [PROGRAM, *sorted(modules)]
    for task in tasks:
        if task in ARENAS:
            module, _, _ = ARENAS[task].factory.partition(":")
            modules.add(module)
        else:
            arena = load_arena(task)
            modules |= arena_libraries(arena)  # of a user's arena only the libraries
    return [*PRELOAD, *sorted(modules)]
