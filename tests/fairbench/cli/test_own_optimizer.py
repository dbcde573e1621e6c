"""From a template to a user's optimizer in the bench: a preview, a study."""

from dataclasses import replace
from pathlib import Path

import pytest

from fairbench.cli.main import main
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.optimizers.spec import OptimizerPlan
from fairbench.runner.preview import rates, run_preview
from fairbench.study.trial_spec import TrialSpec
from fairbench.suites.loader import load_suite
from fairbench.training.place import Place
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("libraries")


@pytest.fixture
def folder(tiny_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tiny_file.parent)
    return tiny_file.parent


def test_a_start_is_written_once_and_its_commands_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-optimizer", "my_rule"]) == 0
    shown = capsys.readouterr().out
    for command in ("check", "try", "run --suite mini --optimizer"):
        assert f"    fairbench {command} my_rule.py:MyRule\n" in shown
    written = (folder / "my_rule.py").read_text()
    assert "class MyRule(torch.optim.Optimizer):" in written
    assert main(["new-optimizer", "my_rule"]) == 2
    assert "my_rule.py exists and stays as it is" in capsys.readouterr().err
    assert (folder / "my_rule.py").read_text() == written


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("my-rule", "'my-rule' can be no name in Python"),
        ("class", "'class' can be no name in Python"),
        ("_1", "'_1' can be no name in Python"),
        ("torch", "Python has a module 'torch' already, which torch.py would hide"),
    ],
)
def test_a_start_has_a_name_that_python_can_use(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, complaint: str
) -> None:
    before = sorted(folder.iterdir())
    assert main(["new-optimizer", name]) == 2
    assert complaint in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before


def test_a_look_is_marked_as_one_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["new-optimizer", "my_rule"])
    before = sorted(folder.rglob("*"))
    capsys.readouterr()
    words = ["try", "my_rule.py:MyRule", "--suite", "tiny.toml", "--lr", "1e-3,1e-2", "--set", "MyRule.momentum=0.8"]
    assert main([*words, "--arena", "vit"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("A preview, not a result: vit, accuracy (higher is better)")
    assert any(line.split() == ["lr", "AdamW", "MyRule"] for line in shown.splitlines())
    assert [line.split()[0] for line in shown.splitlines() if line.startswith("0.")] == ["0.001", "0.01"]
    assert (
        "    fairbench run --suite tiny.toml --arenas vit --optimizers AdamW --optimizer my_rule.py:MyRule "
        "--reference MyRule --set 'MyRule.momentum=0.8'\n"
    ) in shown
    assert [path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts] == before


def test_a_look_trains_as_the_sweep_of_a_study_does_and_tells_what_was_lost(folder: Path) -> None:
    """The numbers are those of the study's own trials; what diverged or failed is no number."""
    own = {name: OptimizerPlan(f"own_optimizers:{name}") for name in ("Explodes", "Raises")}
    suite = replace(load_suite("tiny.toml"), optimizers={"AdamW": OptimizerPlan(), **own}, reference="AdamW")
    preview = run_preview(suite, [1e-3, 1e-2], [Place()])
    assert [(preview.value("Explodes", lr), preview.value("Raises", lr) is None) for lr in (1e-3, 1e-2)] == [
        (None, False),
        (None, True),
    ]
    assert (preview.best("Explodes"), preview.best("Raises"), preview.step_seconds("Explodes")) == (None, 1e-3, None)
    assert [record["error"]["message"] for record in preview.failed] == ["this optimizer cannot go on"]

    record = preview.records["AdamW"][1e-2]
    assert trial(TrialSpec.from_json(record["spec"]))["result"] == record["result"]
    assert (record["spec"]["stage"], record["spec"]["training"]["steps"]) == ("sweep", 10)


def test_the_rates_of_a_look() -> None:
    sweep = load_suite("mini").sweep
    swept = resolve_optimizer("AdamW", OptimizerPlan())
    free = resolve_optimizer("AdamW", OptimizerPlan(lr=0.5))
    scaled = resolve_optimizer("AdamW", OptimizerPlan(lr_scale=0.1))
    assert rates(swept, sweep, []) == [1e-4, 1e-3, 1e-2]
    assert rates(scaled, sweep, []) == pytest.approx([1e-5, 1e-4, 1e-3])
    assert rates(scaled, sweep, [3e-4]) == [3e-4]
    assert rates(free, sweep, [3e-4]) == [0.5]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--lr", "fast"], "--lr must be learning rates, as 3e-4,1e-3; got 'fast'"),
        (["--lr", "1e-3,0"], "--lr must be positive and finite, each once; got '1e-3,0'"),
        (["--lr", "1e-3,1e-3"], "each once"),
        (["--against", ""], "--against names nothing"),
        (["--arena", "vti"], "unknown arena 'vti'; did you mean 'vit'?"),
        (["--against", "AdamWW"], "unknown optimizer 'AdamWW'; did you mean 'AdamW'?"),
        (["--against", "AdamW,Lion,AdamW"], "two optimizers are called 'AdamW'"),
    ],
)
def test_a_wrong_look_is_named(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["try", "PsiLogic", *words]) == 2
    assert complaint in capsys.readouterr().err
