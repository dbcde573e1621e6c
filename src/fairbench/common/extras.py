"""The extras of this package: groups of libraries that only some commands need."""

EXTRAS = {
    "bench": (
        *("argcomplete", "jinja2", "matplotlib", "msgspec", "numpy", "pyarrow", "pytorch_optimizer"),
        *("rich", "scipy", "sklearn", "tomli", "tomli_w"),
    ),
    "data": ("PIL", "filelock", "huggingface_hub", "msgspec", "numpy", "pyarrow", "rich", "tokenizers"),
    "zoo": ("opt_einsum", "pytorch_optimizer", "schedulefree"),
    "ray": ("ray",),
    "dev": ("tensorboard",),
}
"""The modules of each extra."""


def how_to_install(extra: str = "bench") -> str:
    """How to install an extra: in registries of packages, psilogic and fairbench are other projects."""
    return f"in the folder of the repository, run: pip install '.[{extra}]'"


def missing_extra(error: ModuleNotFoundError, first: str) -> str:
    """A message on a library that is not installed, which names its extra.

    Args:
        error: the error of its import.
        first: the extra to name if it is one of several.

    Raises:
        ModuleNotFoundError: the module is of no extra.
    """
    module = (error.name or "").partition(".")[0]
    for extra in (first, *EXTRAS):
        if module in EXTRAS[extra]:
            return f"this needs {module}, which is not installed; {how_to_install(extra)}"
    raise error
