"""`fairbench list`, and the templates of new-optimizer and new-arena."""

import argparse
import textwrap

from fairbench.arenas.registry import ARENAS, known_arenas
from fairbench.common.terminal import say, width
from fairbench.data.datasets.registry import DATASETS
from fairbench.optimizers.resolve import known_optimizers
from fairbench.suites.loader import load_suite, suite_names


def list_(options: argparse.Namespace) -> int:
    """`fairbench list`."""
    say("suites")
    for name in suite_names():
        suite = load_suite(name)
        _show(name, suite.description)
        _show("", f"arenas: {', '.join(suite.arenas)}")
        _show("", f"optimizers: {', '.join(suite.optimizers)}")
        _show("", f"data: {'; '.join(sorted({DATASETS[table['source']].title for table in suite.data_tables}))}")
    say("arenas")
    for name, arena in ARENAS.items():
        _show(name, f"{arena.title}; metrics: {', '.join(arena.metrics)}")
    for name in sorted(known_arenas().keys() - ARENAS.keys()):
        _show(name, known_arenas()[name])
    _show("custom", "path/to/file.py:Class or module:Class, in --arenas or as `task` in a suite file")
    say("data")
    for name, source in DATASETS.items():
        _show(name, f"{source.title}; for arenas of {source.kind}")
    say("optimizers")
    for name, optimizer in known_optimizers().items():
        _show(name, f"{optimizer.title} ({optimizer.factory})")
    _show("custom", "path/to/file.py:Class or module:Class, in --add-optimizer or as `factory` in a suite file")
    return 0


def _show(name: str, text: str) -> None:
    """Print a name and its description in lines that fit the terminal."""
    first, later = f"  {name:13} ", " " * 16
    say(textwrap.fill(text, max(width(), 40), initial_indent=first, subsequent_indent=later, break_on_hyphens=False))


def new_optimizer(options: argparse.Namespace) -> int:
    """`fairbench new-optimizer`."""
    return _write("optimizer", options.name, ["check {0}", "try {0}", "run --suite mini --add-optimizer {0}"])


def new_arena(options: argparse.Namespace) -> int:
    """`fairbench new-arena`."""
    run = f"run --arenas {{0}} --only-optimizers AdamW,PsiLogic --output-dir results/{options.name}"
    return _write("arena", options.name, [run])


def _write(kind: str, name: str, commands: list[str]) -> int:
    """Write a template, and print the commands for it."""
    from fairbench.cli.templates import class_name, write_template

    path = write_template(kind, name)
    say(f"wrote {path}, a working {kind}. Adapt it, then\n")
    for command in commands:
        say(f"    fairbench {command.format(f'{path}:{class_name(name)}')}")
    return 0
