"""Imports by `module:Name` and `path/to/file.py:Name`."""

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
    (tmp_path / "user").mkdir()
    (tmp_path / "user/my-rule.py").write_text("import rule_helper\n\nclass Rule:\n    scale = rule_helper.SCALE\n")
    (tmp_path / "user/rule_helper.py").write_text("SCALE = 3\n")
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_file_is_loaded_once_and_imports_modules_of_its_folder(folder):
    rule = load("user/my-rule.py:Rule", "optimizer factory")
    assert rule.scale == 3
    assert load("user/my-rule.py:Rule", "optimizer factory") is rule


def test_the_same_path_from_another_working_directory_is_another_file(folder, monkeypatch):
    rule = load("user/my-rule.py:Rule", "optimizer factory")
    (folder / "elsewhere/user").mkdir(parents=True)
    (folder / "elsewhere/user/my-rule.py").write_text("class Rule:\n    scale = 4\n")
    monkeypatch.chdir(folder / "elsewhere")
    assert load("user/my-rule.py:Rule", "optimizer factory").scale == 4
    assert rule.scale == 3


def test_its_content_takes_part_in_a_trial_under_a_name_that_no_machine_changes(folder):
    before = set(sys.modules)
    code = optimizer_code(["user/my-rule.py:Rule"], before)
    assert set(code) == {"user_my_rule_py", "rule_helper"}
    assert str(folder) not in str(code)


def test_an_edit_of_the_arguments_of_a_partial_is_another_optimizer(folder):
    (folder / "part.py").write_text("from functools import partial\nfrom torch.optim import SGD\nRule = partial(SGD)\n")
    load("part.py:Rule", "optimizer factory")  # as an arena of the same file does
    assert {"part_py", "torch"} == set(optimizer_code(["part.py:Rule"], set(sys.modules)))


def test_a_relative_import_names_the_module(folder):
    (folder / "user/rule.py").write_text("from .rule_helper import SCALE as Rule\n")
    with pytest.raises(UsageError, match=r"name the module of its package, such as user\.rule:Rule$"):
        load("user/rule.py:Rule", "optimizer factory")
    assert load("user.rule:Rule", "optimizer factory") == 3


def test_a_class_of_a_module_is_found_in_the_working_directory(folder):
    (folder / "user_module.py").write_text("class Rule: pass\n")
    assert load("user_module:Rule", "optimizer factory").__module__ == "user_module"


def test_what_cannot_be_loaded_is_named_with_the_reason(folder, check_errors):
    (folder / "user/broken.py").write_text("1 / 0\n")
    (folder / "user/ends.py").write_text("raise SystemExit(3)\n")

    def load_optimizer(reference):
        load(reference, "optimizer factory")

    def without_folder(message):
        return message.replace(str(folder), "HERE")

    check_errors("imports.txt", load_optimizer, UsageError, without_folder)
    assert "user_broken_py" not in sys.modules
