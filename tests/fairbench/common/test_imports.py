"""What is named by `module:Name` or by a file."""

import sys

import pytest

from fairbench.common.errors import UsageError
from fairbench.common.imports import load
from fairbench.runner.code_identity import optimizer_code


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a file in a folder, and a module in the same folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    (tmp_path / "their").mkdir()
    (tmp_path / "their/my-rule.py").write_text("import besides_it\n\nclass Rule:\n    scale = besides_it.SCALE\n")
    (tmp_path / "their/besides_it.py").write_text("SCALE = 3\n")
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_file_is_loaded_once_with_the_modules_beside_it(folder):
    rule = load("their/my-rule.py:Rule", "optimizer factory")
    assert rule.scale == 3
    assert load("their/my-rule.py:Rule", "optimizer factory") is rule


def test_the_same_path_from_another_working_directory_is_another_file(folder, monkeypatch):
    rule = load("their/my-rule.py:Rule", "optimizer factory")
    (folder / "elsewhere/their").mkdir(parents=True)
    (folder / "elsewhere/their/my-rule.py").write_text("class Rule:\n    scale = 4\n")
    monkeypatch.chdir(folder / "elsewhere")
    assert load("their/my-rule.py:Rule", "optimizer factory").scale == 4
    assert rule.scale == 3


def test_its_content_takes_part_in_a_trial_under_a_name_that_no_machine_changes(folder):
    before = set(sys.modules)
    code = optimizer_code([load("their/my-rule.py:Rule", "optimizer factory")], before)
    assert set(code) == {"their_my_rule_py", "besides_it"}
    assert str(folder) not in str(code)


def test_a_class_of_a_module_is_found_in_the_working_directory(folder):
    (folder / "of_mine.py").write_text("class Rule: pass\n")
    assert load("of_mine:Rule", "optimizer factory").__module__ == "of_mine"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("Rule", "'Rule' must have the form module:Name or path/to/file.py:Name"),
        ("their/my-rule.py:", "must have the form"),
        ("their/my_rule.py:Rule", "there is no file 'their/my_rule.py' in "),
        ("/their/my-rule.py:Rule", "give the path from the working directory"),
        ("their/my-rule.py:Role", "unknown name in their/my-rule.py 'Role'; did you mean 'Rule'?"),
        ("their/broken.py:Rule", "cannot import 'their/broken.py': ZeroDivisionError"),
        ("their/ends.py:Rule", "cannot import 'their/ends.py': SystemExit"),
        ("no_such_module:Rule", "cannot import 'no_such_module': ModuleNotFoundError"),
    ],
)
def test_what_cannot_be_loaded_is_named_with_the_reason(folder, reference, message):
    (folder / "their/broken.py").write_text("1 / 0\n")
    (folder / "their/ends.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(UsageError) as error:
        load(reference, "optimizer factory")
    assert message in str(error.value)
    assert "their_broken_py" not in sys.modules
