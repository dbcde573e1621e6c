"""The distribution of both packages, its extras, and other distributions with packages of the same names."""

import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from fairbench.common.errors import UsageError

EXTRAS = {
    "bench": [
        "jinja2",
        "matplotlib",
        "msgspec",
        "numpy",
        "psutil",
        "pyarrow",
        "pytorch_optimizer",
        "rich",
        "scipy",
        "sklearn",
        "tomli",
        "tomli_w",
    ],
    "data": ["PIL", "filelock", "huggingface_hub", "msgspec", "numpy", "pyarrow", "rich", "tokenizers"],
    "zoo": ["opt_einsum", "pytorch_optimizer", "schedulefree"],
    "ray": ["ray"],
    "dev": ["tensorboard"],
}
"""The modules of each extra."""


def how_to_install(extra: str = "bench") -> str:
    """The command that installs an extra from a checkout. In package registries, both names are other projects."""
    return f"in the folder of the repository, run: pip install '.[{extra}]'"


def missing_extra(error: ModuleNotFoundError, first: str) -> str:
    """A message on a library that is not installed, with the extra that installs it.

    Args:
        error: the error of the import. It is raised again if no extra has the module.
        first: the extra that is named if several have the module.
    """
    module = (error.name or "").partition(".")[0]
    for extra in (first, *EXTRAS):
        if module in EXTRAS[extra]:
            return f"this needs {module}, which is not installed; {how_to_install(extra)}"
    raise error


DISTRIBUTION = "psilogic-fairbench"
FOLDER = Path(__file__).parents[2]
"""The folder in which both packages are installed."""
PACKAGES = (FOLDER / "fairbench", FOLDER / "psilogic")
"""The folders of both packages."""
ADVICE = f"run: pip uninstall psilogic fairbench {DISTRIBUTION}; then, in an environment of its own, {how_to_install()}"


def version() -> str:
    """The version of both packages."""
    from importlib.metadata import version  # slow to import

    return version(DISTRIBUTION)


def warn_of_another(package: str) -> None:
    """Warn if another distribution has the name of one of our packages and is installed in the same folder.

    pip mixes the files of the two.
    """
    for other in FOLDER.glob(f"{package}-*.dist-info"):
        text = f"{other.stem} and {DISTRIBUTION} are installed in the same folder, {FOLDER}, and both have the package"
        fate = f"{package}: the files of the last one replaced the other's, and uninstalling one deletes them"
        warnings.warn(f"{text} {fate}; {ADVICE}", stacklevel=3)


@cache
def check_installation() -> None:
    """Raise `UsageError` unless Python finds our packages: another distribution may have replaced or deleted files."""
    for package in ("fairbench", "psilogic"):
        ours = FOLDER / package / "__init__.py"
        spec = find_spec(package)
        imported = None
        if spec and spec.origin:
            imported = Path(spec.origin)
        if imported is None or not ours.exists():
            reason = "is missing; was another distribution uninstalled that had it too?"
        elif not imported.samefile(ours):
            reason = f"is hidden by {imported};"
        elif DISTRIBUTION not in ours.read_text():
            reason = "has been replaced by another distribution's;"
        else:
            continue
        raise UsageError(f"{ours} {reason} {ADVICE}")
