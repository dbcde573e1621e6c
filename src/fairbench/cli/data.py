"""The `fairbench data` command."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairbench.common.errors import UsageError, unknown
from fairbench.common.formatting import in_words
from fairbench.data.dataset_config import Request, default_requests, request, wanted
from fairbench.data.datasets.registry import DATASETS
from fairbench.suites.loader import load_suite
from fairbench.suites.schema import Suite

EXTRA = ("filelock", "huggingface_hub", "numpy", "PIL", "pillow", "pyarrow", "rich", "tokenizers")
"""Modules and distributions of the extra `data`."""


def run_data(options: argparse.Namespace) -> int:
    """Run what `fairbench data` was told.

    Returns:
        0; 1 when arrays are not what their manifest says; 130 after Ctrl-C.

    Raises:
        UsageError: there is something for the user to mend.
    """
    try:
        with _extra_named():
            if options.verb == "list":
                return show_list(options)
            return verify(options) if options.verb == "verify" else prepare_all(options)
    except KeyboardInterrupt:
        print("\nfairbench: stopped; what is finished is kept, the same command goes on from here", file=sys.stderr)
        return 130


@contextmanager
def _extra_named() -> Iterator[None]:
    """Say which extra a library that is missing comes with."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA:
            raise
        raise UsageError(f"fairbench data needs {error.name}: pip install 'psilogic[data]'") from error


def prepare_own(suite: Suite, data_root: Path) -> None:
    """Prepare what a suite reads from a user's own folders.

    Raises:
        UsageError: there is no such folder, or something in it is wrong.
    """
    with _extra_named():
        from fairbench.data.preparation.prepare import Terms, prepare
        from fairbench.data.preparation.progress_bar import Display

        for asked in wanted(suite):
            if "path" in asked.options:
                prepare(asked, Terms(data_root, None, fetch=False, unverified=False), Display())


def requests(options: argparse.Namespace) -> list[Request]:
    """What the options ask for: the datasets of a suite, or those with default options, narrowed to the named ones."""
    for name in options.dataset or ():
        if name not in DATASETS:
            raise unknown("dataset", name, DATASETS)
    if not options.suite:
        return [request(name) for name in options.dataset] if options.dataset else default_requests()
    asked = wanted(load_suite(options.suite))
    for name in options.dataset or ():
        if name not in {each.dataset for each in asked}:
            raise UsageError(f"suite {options.suite} reads no {name}, but {[each.label for each in asked]}")
    return [each for each in asked if not options.dataset or each.dataset in options.dataset]


def prepare_all(options: argparse.Namespace) -> int:
    """`fairbench data download` and `fairbench data prepare`."""
    from fairbench.data.preparation.prepare import Terms, prepare
    from fairbench.data.preparation.progress_bar import Display

    display = Display()
    asked = requests(options)
    if not asked:
        display.note(f"suite {options.suite} reads nothing that must be prepared")
    if options.hub is not None and not options.hub.is_dir():
        raise UsageError(f"--hub {options.hub} is no folder; it must hold the hub's files as owner/name/path")
    terms = Terms(options.data_root, options.hub, options.verb == "download", options.unverified)
    complaints = []
    for each in asked:
        try:
            prepare(each, terms, display)
        except UsageError as error:  # the others may still be had
            complaints.append(str(error))
    if complaints:
        raise UsageError("\n  ".join(complaints))
    return 0


def verify(options: argparse.Namespace) -> int:
    """`fairbench data verify`: 1 when something is not what its manifest says."""
    from fairbench.data.preparation.verify import differences

    chosen = options.suite or options.dataset
    if chosen:
        folders = [each.folder(options.data_root) for each in requests(options)]
    else:
        folders = sorted((options.data_root / "prepared").glob("[!.]*"))
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        raise UsageError(f"not prepared: {', '.join(missing)}; fairbench data download prepares them")
    if not folders:
        raise UsageError(
            f"nothing is prepared in {options.data_root}; say --data-root, or run: fairbench data download"
        )
    failed = False
    for folder in folders:
        found = differences(folder)
        failed |= bool(found)
        print(f"{folder}: {'; '.join(found) or 'intact'}")
    return int(failed)


def show_list(options: argparse.Namespace) -> int:
    """`fairbench data list`."""
    asked = requests(options)
    own = (
        []
        if options.suite or options.dataset
        else [name for name in DATASETS if name not in {r.dataset for r in asked}]
    )
    for each in asked:
        print(each.label)
        lines = {
            "": each.facts.title,
            "licence": each.facts.licence,
            "archives": "; ".join(_archive_lines(each, options.data_root)),
            "hub": _hub_line(each, options.data_root / "hub"),
            "prepared": _prepared_line(each, options.data_root),
        }
        print("".join(f"  {f'{name}:' if name else '':10}{text}\n" for name, text in lines.items() if text), end="")
    for name in own:
        print(f"{name}\n  {DATASETS[name].title}; options: {', '.join(DATASETS[name].options)}")
    return 0


def _archive_lines(asked: Request, data_root: Path) -> list[str]:
    from fairbench.data.preparation.locate import archives

    there = {file.name: file.path for file in archives(asked, data_root)}
    return [
        f"{archive.name}{f' ({in_words(archive.size)})' if archive.size else ''} "
        + (f"is {there[archive.name]}" if archive.name in there else f"from {asked.facts.page}, not there")
        for archive in asked.archives
    ]


def _hub_line(asked: Request, hub_root: Path) -> str:
    from fairbench.data.preparation.hub import present

    if not asked.facts.repository:
        return ""
    files, missing = present(asked, hub_root)
    lacking = f", {', '.join(missing)} missing" if missing else ""
    state = f"{len(files)} files there{lacking}" if files else "not there"
    return f"{asked.facts.repository} at {asked.facts.revision[:12]}, {state}"


def _prepared_line(asked: Request, data_root: Path) -> str:
    from fairbench.data.prepared import read_folder

    folder = asked.folder(data_root)
    if not folder.exists():
        return "no"
    try:
        manifest = read_folder(folder).manifest
    except UsageError as error:
        return str(error)
    counts = ", ".join(f"{split} {count:,}" for split, count in manifest["counts"]["examples"].items())
    return f"{folder}: {counts}; {'verified' if manifest['verified'] else 'not verified'}"
