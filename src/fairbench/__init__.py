"""FairBench: compares optimizers on equal terms and says only what the data supports.

    import fairbench as fb

    suite = fb.Suite.load("mini").with_optimizer("my_rule.py:MyRule")
    study = fb.run(suite, "results/mine", workers=2)
    study.verdicts()

`__all__` has the names that are stable. They are loaded when they are used, since the command needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fairbench.common.installation import check_installation, version, warn_of_another

if TYPE_CHECKING:
    from fairbench.api.catalog import arenas, optimizers, suites
    from fairbench.api.comparing import Compared, Replicated, compare
    from fairbench.api.plan import Estimate
    from fairbench.api.published import verdicts
    from fairbench.api.running import check, run, try_
    from fairbench.api.study import Figure, Page, Study, open
    from fairbench.api.suite import Suite
    from fairbench.common.errors import FairbenchError, UsageError
    from fairbench.report.table import Audit, Table

    __version__: str

__all__ = [
    "Audit",
    "Compared",
    "Estimate",
    "FairbenchError",
    "Figure",
    "Page",
    "Replicated",
    "Study",
    "Suite",
    "Table",
    "UsageError",
    "__version__",
    "arenas",
    "check",
    "compare",
    "open",
    "optimizers",
    "run",
    "suites",
    "try_",
    "verdicts",
]
_PLACES = {
    "catalog": ("arenas", "optimizers", "suites"),
    "comparing": ("Compared", "Replicated", "compare"),
    "plan": ("Estimate",),
    "published": ("verdicts",),
    "running": ("check", "run", "try_"),
    "study": ("Audit", "Figure", "Page", "Study", "Table", "open"),
    "suite": ("Suite",),
}


class _Callable(ModuleType):
    """A folder of fairbench that is also a function of that name."""

    def __call__(self, *arguments: Any) -> Any:
        return getattr(import_module("fairbench.api.catalog"), self.__name__.rpartition(".")[2])(*arguments)


# Records and suites name classes below `fairbench.optimizers` and `fairbench.arenas`, so these folders keep their
# names. Importing anything in one binds it here, where `fb.optimizers()` looks: so each of them is made callable.
for _name in _PLACES["catalog"]:
    import_module(f"{__name__}.{_name}").__class__ = _Callable

warn_of_another("fairbench")  # psilogic-fairbench and fairbench may be two distributions


def __getattr__(name: str) -> Any:
    """Load a name of `__all__`."""
    check_installation()
    if name == "__version__":
        return version()
    if name in ("FairbenchError", "UsageError"):
        return getattr(import_module("fairbench.common.errors"), name)
    for module, names in _PLACES.items():
        if name in names:
            return getattr(import_module(f"fairbench.api.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
