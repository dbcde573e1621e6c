"""The suite of a command, from its options."""

import argparse

from fairbench.cli.arguments import names
from fairbench.cli.run_arguments import DEFAULT_SUITE, PAPER_SUITE
from fairbench.common.errors import UsageError
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.schema import Suite
from fairbench.suites.settings import parse_setting

AGAINST = "AdamW"
"""The optimizer with which a preview compares, unless it is the previewed one."""


def chosen_suite(options: argparse.Namespace) -> Suite:
    """The suite of a command that runs or plans a study, with the changes by its options."""
    name = _suite_name(options)
    folders = {"images": options.images, "text": options.text}
    compiled = {"training.compile": True} if options.compile else {}
    overrides = Overrides(
        arenas=names("--arenas", options.arenas),
        optimizers=names("--only-optimizers", options.only_optimizers),
        added=options.add_optimizer,
        settings={**compiled, **dict(map(parse_setting, options.set))},
        seeds=_seeds(options.seeds),
        steps=options.steps,
        lr_grid=options.lr_grid or "",
        folders={kind: folder for kind, folder in folders.items() if folder},
        reference=options.reference or "",
    )
    return load_suite(name, overrides)


def preview_suite(options: argparse.Namespace) -> Suite:
    """The suite of `fairbench try`: one arena, and the optimizers to compare; the previewed one is the last."""
    overrides = Overrides(
        arenas=[options.arena] if options.arena else None,
        optimizers=[*against(options), options.optimizer],
        settings=dict(map(parse_setting, options.set)),
        preview=True,
    )
    return load_suite(options.suite, overrides)


def against(options: argparse.Namespace) -> list[str]:
    """The optimizers with which `fairbench try` compares."""
    default = [] if options.optimizer == AGAINST else [AGAINST]
    return default if options.against is None else names("--against", options.against) or []


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


def _seeds(text: str | None) -> int | list[int] | None:
    """The number of seeds, or the seeds themselves, as 1,2,3 or 7, with a comma.

    Raises:
        UsageError: they are no whole numbers, or there is none.
    """
    if text is None:
        return None
    try:
        seeds = [int(word) for word in names("--seeds", text) or ()]
    except ValueError:
        raise UsageError(f"--seeds must be a number of seeds, or seeds as 1,2,3; got {text!r}") from None
    if "," in text:
        return seeds
    if seeds[0] < 1:
        raise UsageError(f"--seeds must be at least 1, got {text}")
    return seeds[0]
