"""FairBench: compares optimizers on equal terms and says only what the data supports.

    import fairbench as fb

    suite = fb.Suite.load("mini").with_optimizer("my_rule.py:MyRule")
    study = fb.run(suite, "results/mine", workers=2)
    study.verdicts()

`__all__` has the names that are stable. They are loaded when they are used, since the command needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairbench.common.errors import FairbenchError, UsageError
from fairbench.common.installation import check_installation, version, warn_of_another

if TYPE_CHECKING:
    from fairbench.api.catalog import list_arenas, list_optimizers, list_suites
    from fairbench.api.comparing import Compared, compare
    from fairbench.api.plan import Estimate
    from fairbench.api.preview import preview
    from fairbench.api.published import verdicts
    from fairbench.api.running import check, run
    from fairbench.api.study import Figure, Page, Study, open
    from fairbench.api.suite import Suite
    from fairbench.report.table import Audit, Table

    __version__: str

__all__ = [
    "Audit",
    "Compared",
    "Estimate",
    "FairbenchError",
    "Figure",
    "Page",
    "Study",
    "Suite",
    "Table",
    "UsageError",
    "__version__",
    "check",
    "compare",
    "list_arenas",
    "list_optimizers",
    "list_suites",
    "open",
    "preview",
    "run",
    "verdicts",
]
_MODULES = {
    "catalog": ("list_arenas", "list_optimizers", "list_suites"),
    "comparing": ("Compared", "compare"),
    "plan": ("Estimate",),
    "preview": ("preview",),
    "published": ("verdicts",),
    "running": ("check", "run"),
    "study": ("Audit", "Figure", "Page", "Study", "Table", "open"),
    "suite": ("Suite",),
}

warn_of_another("fairbench")  # psilogic-fairbench and fairbench may be two distributions


def __getattr__(name: str) -> Any:
    """Load a name of `__all__`."""
    check_installation()
    if name == "__version__":
        return version()
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"fairbench.api.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
