"""Which executor runs a study; Ray is there only for who asks for it."""

import subprocess
import sys

import pytest

from fairbench.cli import main as cli
from fairbench.common.errors import UsageError
from fairbench.runner.executors.factory import executor_of
from fairbench.runner.run_options import Conduct
from fairbench.training.place import Place


def quiet(*said: object) -> None:
    """Hears, and says nothing."""


def test_a_run_without_ray_loads_none_of_it() -> None:
    load, left = (
        "import sys, fairbench.cli.main, fairbench.runner.run_study",
        "[name for name in sys.modules if name.split('.')[0] == 'ray']",
    )
    code = f"{load}; print({left})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_who_has_no_ray_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("executor", "cluster"):
        monkeypatch.delitem(sys.modules, f"fairbench.runner.executors.ray.{name}", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'psilogic\[ray\]'"):
        executor_of(Conduct([Place()], ray="local"), quiet, quiet)


@pytest.mark.parametrize("option", [["--workers", "2"], ["--devices", "0,1"]])
def test_a_cluster_says_itself_how_many_trials_it_runs(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "smoke", "--ray", "local", *option]) == 2
    assert f"leave out {option[0]}" in capsys.readouterr().err
