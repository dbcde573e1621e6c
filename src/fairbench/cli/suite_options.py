"""The suite of a command, from its options."""

import argparse

from fairbench.common.errors import UsageError
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.schema import Suite

DEFAULT_SUITE = "mini"
PAPER_SUITE = "paper"
"""The suite of a command with --data-root and no suite, like the command of the paper's authors."""


def chosen_suite(options: argparse.Namespace) -> Suite:
    """The suite of a command that runs or plans a study, with the changes by its options."""
    name = _suite_name(options)
    folders = {"images": options.images, "text": options.text}
    overrides = Overrides(
        arenas=_names("--arenas", options.arenas),
        optimizers=_names("--optimizers", options.optimizers),
        added=options.optimizer,
        settings=options.set,
        lr_grid=options.lr_grid or "",
        folders={kind: folder for kind, folder in folders.items() if folder},
        reference=options.reference or "",
        compile=options.compile,
    )
    return load_suite(name, overrides)


def preview_suite(options: argparse.Namespace) -> Suite:
    """The suite of `fairbench try`: one arena, and the optimizers to compare; the previewed one is the last."""
    overrides = Overrides(
        arenas=[options.arena] if options.arena else None,
        optimizers=[*(_names("--against", options.against) or ()), options.optimizer],
        settings=options.set,
        preview=True,
    )
    return load_suite(options.suite, overrides)


def _suite_name(options: argparse.Namespace) -> str:
    """The suite's name or file, from one of three options."""
    sources = {
        "SUITE": options.chosen,
        "--suite": options.suite,
        "--smoke-test": "smoke" if options.smoke_test else None,
    }
    given = {option: name for option, name in sources.items() if name}
    if len(set(given.values())) > 1:
        both = " and ".join(f"{option} means {name}" for option, name in given.items())
        raise UsageError(f"two suites were given: {both}; give one of them")
    return next(iter(given.values()), PAPER_SUITE if options.data_root else DEFAULT_SUITE)


def comma_separated(text: str) -> list[str]:
    """The parts of a comma-separated list, without empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def _names(option: str, text: str | None) -> list[str] | None:
    """The names of a comma-separated option; an empty text is an error, for example from an unset shell variable."""
    if text is None:
        return None
    if not (names := comma_separated(text)):
        raise UsageError(f"{option} names nothing; leave it out, or give one or more, separated by commas")
    return names
