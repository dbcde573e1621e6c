"""Groups of tests for one worker, which xdist forgets with this pytest; slow tests; files that tests expect."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

EXPECTED = Path(__file__).with_name("expected")


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write the files of tests/expected/, to read their diff")


def compare(request, path, text):
    """Compare a text with a file of tests/expected/."""
    if request.config.getoption("rewrite"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path} differs; after a look, pytest --rewrite writes it"


@pytest.fixture
def check_files(request):
    """Compare files with those of the same names in a folder of tests/expected/."""

    def check(folder, *files):
        for file in files:
            compare(request, EXPECTED / folder / file.name, file.read_text())

    return check


@pytest.fixture
def check_messages(request):
    """Compare messages with a file of tests/expected/messages/: each line is a case, with its message below it."""

    def check(name, message_of):
        path = EXPECTED / "messages" / name
        cases = re.findall(r"^\S.*", path.read_text(), re.MULTILINE)
        text = ""
        for case in cases:
            message = message_of(case).strip().replace("\n", "\n    ")
            text += f"{case}\n    {message}\n"
        compare(request, path, text)

    return check


@pytest.fixture
def check_errors(check_messages):
    """Compare the messages of the errors that a call raises, as `check_messages` does; `hide` replaces parts of one."""

    def check(name, call, kind, hide=str):
        def message_of(case):
            with pytest.raises(kind) as error:
                call(case)
            return hide(str(error.value))

        check_messages(name, message_of)

    return check


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(config, items):
    for item in items:
        mark = item.get_closest_marker("xdist_group")
        if mark is None:
            continue
        item.add_marker(pytest.mark.slow)  # it loads other libraries, starts processes, or compiles
        if config.getoption("loadgroup", False):
            _name(item, mark.args[0])


def _name(item, group):
    """Write the group behind the test's id, where xdist looks for it.

    xdist 3.8 does so itself, but from pytest 9.2 on without effect and without a message:
    https://github.com/pytest-dev/pytest-xdist/issues/1386.
    """
    if hasattr(item, "_id") and not item.nodeid.endswith(f"@{group}"):
        item._id = replace(item._id, names=(f"{item._id.rest}@{group}",), params=None)
