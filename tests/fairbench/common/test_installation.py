"""Other distributions with packages called psilogic or fairbench, in a folder that ours are copied to."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src"
COMMAND = "from fairbench.cli.main import main; raise SystemExit(main(['list', '--help']))"
IN_PYTHON = "import fairbench; fairbench.Suite"
THEIRS = '"""A package of another distribution."""\n'


@pytest.fixture
def site(tmp_path):
    """A folder as pip leaves it."""
    for package in ("fairbench", "psilogic"):
        shutil.copytree(SOURCE / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "cpp"))
    return tmp_path


def python(code, *folders):
    """A process of Python that finds our packages in these folders alone, not where this one has found them."""
    path = [*folders, sysconfig.get_path("purelib")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder) for folder in path)}
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, cwd=folders[0], env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_another_distribution_in_the_same_folder_is_warned_of(site):
    for name in ("psilogic-0.6.0", "fairbench-0.9.6"):
        (site / f"{name}.dist-info").mkdir()
    shown = python("import psilogic, fairbench", site).stderr
    assert "UserWarning: psilogic-0.6.0 and psilogic-fairbench are installed in the same folder" in shown
    assert "UserWarning: fairbench-0.9.6 and psilogic-fairbench are installed in the same folder" in shown
    assert shown.count("run: pip uninstall psilogic") == 2


def test_packages_as_they_were_installed_are_used_in_silence(site):
    for name in ("numpy-2.0.0", "psilogic_fairbench-0.7.0"):
        (site / f"{name}.dist-info").mkdir()
    for code in (COMMAND, IN_PYTHON):
        done = python(code, site)
        assert done.stderr == ""
        assert done.returncode == 0


@pytest.mark.parametrize("package", ["psilogic", "fairbench"])
@pytest.mark.parametrize(
    ("fate", "said"),
    [
        ("replaced", "has been replaced by another distribution's; run: pip uninstall"),
        ("deleted", "is missing; was another distribution uninstalled that had it too? run: pip uninstall"),
    ],
)
def test_files_that_another_distribution_replaced_or_deleted_are_named(site, package, fate, said):
    file = site / package / "__init__.py"
    if fate == "replaced":
        file.write_text(THEIRS)
    else:
        file.unlink()
    done = python(COMMAND, site)
    assert done.returncode == 2
    assert done.stderr.startswith(f"fairbench: {file} {said}")
    if package == "psilogic":  # otherwise nothing of ours is imported
        assert f"UsageError: {file} {said}" in python(IN_PYTHON, site).stderr


def test_a_psilogic_that_python_finds_elsewhere_is_named(site):
    theirs = site / "theirs" / "psilogic"
    theirs.mkdir(parents=True)
    (theirs / "__init__.py").write_text(THEIRS)
    done = python(COMMAND, theirs.parent, site)
    ours = site / "psilogic" / "__init__.py"
    assert done.stderr.startswith(f"fairbench: {ours} is hidden by {theirs / '__init__.py'}; run: pip uninstall")
