"""`fairbench list`, and the templates of new-optimizer and new-arena."""

import argparse
import shutil
import textwrap

from fairbench.arenas.registry import ARENAS, known_arenas
from fairbench.data.registry import SOURCES
from fairbench.optimizers.resolve import known_optimizers
from fairbench.suites.loader import load_suite, suite_names


def show_list(options: argparse.Namespace) -> int:
    """`fairbench list`."""
    print("suites")
    for name in suite_names():
        suite = load_suite(name)
        _show(name, suite.description)
        _show("", f"arenas: {', '.join(suite.arenas)}")
        _show("", f"optimizers: {', '.join(suite.optimizers)}")
        _show("", f"data: {'; '.join(sorted({SOURCES[table['source']].title for table in suite.data_tables}))}")
    print("arenas")
    for name, arena in ARENAS.items():
        _show(name, f"{arena.title}; metrics: {', '.join(arena.metrics)}")
    for name in sorted(known_arenas().keys() - ARENAS.keys()):
        _show(name, known_arenas()[name])
    _show("your own", "path/to/file.py:Class or module:Class, in --arenas or as `task` in a suite file")
    print("data")
    for name, source in SOURCES.items():
        _show(name, f"{source.title}; for arenas of {source.kind}")
    print("optimizers")
    for name, optimizer in known_optimizers().items():
        _show(name, f"{optimizer.title} ({optimizer.factory})")
    _show("your own", "path/to/file.py:Class or module:Class, in --optimizer or as `factory` in a suite file")
    return 0


def _show(name: str, what: str) -> None:
    """Print what has a name, in lines that fit the terminal."""
    width = max(shutil.get_terminal_size().columns, 40)
    first, later = f"  {name:13} ", " " * 16
    print(textwrap.fill(what, width, initial_indent=first, subsequent_indent=later, break_on_hyphens=False))


def new_optimizer(options: argparse.Namespace) -> int:
    """`fairbench new-optimizer`."""
    return _start("optimizer", options.name, ["check {own}", "try {own}", "run --suite mini --optimizer {own}"])


def new_arena(options: argparse.Namespace) -> int:
    """`fairbench new-arena`."""
    run = f"run --arenas {{own}} --optimizers AdamW,PsiLogic --output-dir results/{options.name}"
    return _start("arena", options.name, [run])


def _start(kind: str, name: str, commands: list[str]) -> int:
    """Write a start, and say what can be done with it."""
    from fairbench.cli.templates import class_name, write_start

    path = write_start(kind, name)
    print(f"{path} is written, an {kind} that works. Make it yours, then\n")
    for command in commands:
        print(f"    fairbench {command.format(own=f'{path}:{class_name(name)}')}")
    return 0
