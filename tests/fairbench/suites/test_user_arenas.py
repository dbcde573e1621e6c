"""A user's arena: from a file, module or entry point into a study; its errors."""

import ast
import json
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from documented import block
from tiny import TINY, here, install, study_of

from fairbench.arenas.registry import known_arenas, load_arena
from fairbench.cli.choices import StudyChoice
from fairbench.cli.chosen import chosen_suite
from fairbench.cli.main import main
from fairbench.cli.parser import parser
from fairbench.common.errors import UsageError
from fairbench.optimizers.spec import ResolvedOptimizer
from fairbench.runner.measurements import arenas_and_environment
from fairbench.study.planned_trial import trial_spec
from fairbench.study.resolved_suite import ResolvedArena, ResolvedSuite
from fairbench.suites.loader import load_suite, parse_suite
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trial import trial

pytestmark = pytest.mark.xdist_group("user_arenas")

ARENA = """[arenas.sine]
task = "noisy_sine.py:NoisySine"
steps = 40
sweep_steps = 10
model = { width = 8 }

[optimizers.AdamW]"""
SUITE = f"{TINY.partition('[arenas.vit]')[0]}{ARENA}\n[optimizers.PsiLogic]\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the template of an arena, and a suite with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # loading a file adds its folder
    main(["new-arena", "noisy_sine"])
    Path("sine.toml").write_text(SUITE)
    return tmp_path


def rewritten(name, old, new):
    text = Path(name).read_text()
    assert old in text
    Path(name).write_text(text.replace(old, new))


def seen(suite):
    """The study of a suite without optimizers."""
    resolved = here(arenas_and_environment, suite, DeviceSlot())
    arenas = {name: ResolvedArena(**arena["resolved"]) for name, arena in resolved["arenas"].items()}
    return ResolvedSuite(suite, "cpu", arenas, {}, {})


def spec_of(study):
    resolved = ResolvedOptimizer("AdamW", "torch.optim:AdamW", {}, {}, "", "", {})
    return trial_spec(replace(study, optimizers={"AdamW": resolved}), "sine", "AdamW", "final", 1e-3, 1)


def test_a_suite_contains_the_facts_of_a_user_arena_and_is_read_without_its_class(
    folder, tmp_path_factory, monkeypatch
):
    suite = load_suite("sine.toml")
    plan = suite.arenas["sine"]
    assert plan.metric == "mse"
    assert plan.batch_size == 32
    assert plan.steps == 40
    assert plan.task == "noisy_sine.py:NoisySine"
    assert plan.data == {"noise": 0.1}
    assert plan.model == {"width": 8}
    assert suite.facts("sine").title == "MLP, noisy sine"
    assert suite.facts("sine").metrics == {"mse": "min"}
    stored = json.dumps(suite.to_json())
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert parse_suite(json.loads(stored), "config.json") == suite


def chosen(*words):
    return chosen_suite(StudyChoice(parser().parse_args(["run", *words])))


def test_a_user_arena_on_the_command_line_has_the_defaults_of_its_class(folder):
    words = ("--arenas", "vit,noisy_sine.py:NoisySine", "--optimizers", "AdamW,PsiLogic")
    suite = chosen(*words)
    assert list(suite.arenas) == ["vit", "NoisySine"]
    assert (suite.arenas["NoisySine"].steps, suite.arenas["NoisySine"].model) == (300, {"width": 64})
    changed = chosen(*words, "--set", "arenas.NoisySine.model.width=8")
    assert changed.arenas["NoisySine"] == replace(suite.arenas["NoisySine"], model={"width": 8})
    for key, complaint in {"model.wdth": "unknown option 'wdth'", "facts.title": "come from the arena's class"}.items():
        with pytest.raises(UsageError, match=complaint):
            chosen(*words, "--set", f"arenas.NoisySine.{key}=8")
    rewritten("noisy_sine.py", '"metric": "mse", ', "")
    Path("other.py").write_text(Path("noisy_sine.py").read_text())
    with pytest.raises(
        UsageError, match=r"--arenas other.py:NoisySine: metric: is missing; define it in the arena's def"
    ):
        chosen("--arenas", "other.py:NoisySine")
    with pytest.raises(UsageError, match="two arenas are called 'vit'"):
        chosen("--arenas", "vit,vit")


LABELLED = """
    def load_data(self):
        x, y = torch.linspace(0, 1, 300)[:, None], torch.ones(300).long()
        y[50] = 3
        return Data.of(train=(x[:100], y[:100]), val=(x[100:200], y[100:200]), test=(x[200:], y[200:]), classes=3)

    def loss(self, model, x, y):
        return nn.functional.cross_entropy(model(x).expand(-1, 3), y)

    def unused("""


def test_a_wrong_table_or_class_is_named_before_any_trial(folder, monkeypatch, check_errors):
    """Each case has texts of the suite and of the arena's file, and what they are replaced by."""
    texts = {name: Path(name).read_text() for name in ("sine.toml", "noisy_sine.py")}

    def prepare(case):
        for name, text in texts.items():
            Path(name).write_text(text)
        for old, new in ast.literal_eval(f"{{{case}}}").items():
            (name,) = (name for name, text in texts.items() if old in text)
            rewritten(name, old, LABELLED if new == "LABELLED" else new)
        with monkeypatch.context() as process:
            process.setattr(sys, "path", [*sys.path])
            process.delitem(sys.modules, "noisy_sine_py", raising=False)
            process.setattr(sys, "dont_write_bytecode", True)  # it would hide an edit of the same second and length
            seen(load_suite("sine.toml"))

    check_errors("arenas.txt", prepare, UsageError, lambda text: text.replace(str(folder), "HERE"))


def test_an_edit_of_the_file_or_of_its_imports_changes_the_trials_and_a_copy_does_not(folder, monkeypatch):
    """Each version lies in a separate folder and is loaded as in a new process; one helper is imported late."""
    rewritten("noisy_sine.py", "import torch\n", "import torch\nfrom sine_helper import late\n")
    rewritten("noisy_sine.py", "        hidden =", "        import sine_late\n        hidden =")
    texts = {"noisy_sine.py": Path("noisy_sine.py").read_text(), "sine_helper.py": "def late(): pass\n"}
    texts |= {"sine_late.py": "", "sine.toml": SUITE, "unrelated.py": ""}

    def identity(name, edited):
        (folder / name).mkdir()
        monkeypatch.chdir(folder / name)
        for file, text in texts.items():
            if file == edited:
                text += "# edited\n"
            Path(file).write_text(text)
        with monkeypatch.context() as process:  # modules of one process are not in another
            process.setattr(sys, "path", [*sys.path])
            for module in ("noisy_sine_py", "sine_helper", "sine_late"):
                process.delitem(sys.modules, module, raising=False)
            study = seen(load_suite("sine.toml"))
        arena = study.arenas["sine"]
        assert {"noisy_sine_py", "sine_helper", "sine_late", "fairbench.arenas.base", "torch"} <= arena.code.keys()
        spec = spec_of(study)
        assert str(folder) not in spec.text
        return spec.id

    first = identity("first", "")
    assert identity("copy", "unrelated.py") == first
    others = {identity(f"edited {file}", file) for file in ("noisy_sine.py", "sine_helper.py", "sine_late.py")}
    assert len(others | {first}) == 4


SKILLED = """STEPS = []


class Skilled(NoisySine):
    facts = ArenaFacts(title="MLP against the mean of train", metrics={"skill": "max"})

    def loss(self, model, x, y, *, step):
        STEPS.append(step)
        return step + 0 * model(x).mean()

    def derived(self, means, data, split):
        of_mean = ((data.splits[split].targets - data.train.targets.mean()) ** 2).mean().item()
        return {"skill": 1 - means["mse"] / of_mean}
"""
"""An arena whose loss is the number of the step; its score `mse` only helps to compute another metric."""


def test_a_loss_may_ask_the_step_and_derived_metrics_read_all_splits(folder):
    Path("noisy_sine.py").write_text(f"{Path('noisy_sine.py').read_text()}\n\n{SKILLED}")
    task = ':Skilled"\nmetric = "skill"\nmargin = 50'
    text = SUITE.replace(':NoisySine"', task).partition("[optimizers.AdamW]")[0].replace("AdamW", "LBFGS")
    Path("sine.toml").write_text(f'{text}[optimizers.LBFGS]\nfactory = "torch.optim:LBFGS"\nneeds = ["closure"]')
    study = study_of(load_suite("sine.toml"))
    assert study.suite.arenas["sine"].margin == 50.0
    steps = sys.modules["noisy_sine_py"].STEPS
    steps.clear()
    done = trial(trial_spec(study, "sine", "LBFGS", "final", 1e-3, 1))
    assert [*done.details.loss_curve.points("loss")] == [(last, last - 2.0) for last in range(5, 41, 5)]
    assert steps == sorted([*range(1, 41), *range(1, 41)])  # in the closure, too
    data = load_arena("noisy_sine.py:Skilled").load_data()
    for split, values in done.result.final.items():
        of_mean = ((data.splits[split].targets - data.train.targets.mean()) ** 2).mean().item()
        assert values["skill"] == pytest.approx(1 - values["mse"] / of_mean, rel=1e-6)


def test_a_trial_refuses_data_that_differ_from_those_of_its_study(folder):
    Path("noise.txt").write_text("0.1")
    rewritten("noisy_sine.py", "noise * torch", "float(open('noise.txt').read()) * torch")
    spec = spec_of(seen(load_suite("sine.toml")))
    assert trial(spec).status == "finished"
    Path("noise.txt").write_text("0.2")
    with pytest.raises(UsageError, match=r"the data of NoisySine .* have changed since the study was planned"):
        trial(spec)


@pytest.mark.usefixtures("forgetful")
def test_an_installed_package_registers_arenas_and_hides_no_included_one(folder, monkeypatch, command):
    entries = dict.fromkeys(("sine", "vit"), "sine_package:Sine")
    install(folder / "site", "sine_package", "fairbench.arenas", **entries)
    text = Path("noisy_sine.py").read_text().replace("class NoisySine", "class Sine")
    (folder / "site" / "sine_package.py").write_text(text)
    monkeypatch.syspath_prepend(folder / "site")
    assert known_arenas()["sine"] == "sine_package:Sine"
    assert known_arenas()["vit"] == "fairbench.arenas.vit:ViT"
    rewritten("sine.toml", 'task = "noisy_sine.py:NoisySine"\n', "")
    suite = load_suite("sine.toml")
    assert suite.task("sine") == "sine_package:Sine"
    assert chosen("--arenas", "sine").arenas["sine"].task == "sine_package:Sine"
    assert ["sine", "sine_package:Sine"] in [line.split() for line in command("list").splitlines()]


def test_a_ladder_asks_the_arena_for_its_sizes(folder):
    """As the page shows it."""
    Path("sine.toml").write_text(f"{SUITE}\n[ladder.sine]\nsizes = [8, 16]\nhorizons = [1, 2]\n")
    with pytest.raises(UsageError, match=r"ladder\.sine\.sizes: arena NoisySine has no method sized"):
        load_suite("sine.toml")
    method = textwrap.indent(block("bring-your-own-arena.md", "def sized"), "    ")
    file = Path("noisy_sine.py")
    file.write_text(file.read_text().rstrip() + f"\n\n{method}")
    for name in [name for name in sys.modules if "noisy_sine" in name]:
        del sys.modules[name]
    arenas = load_suite("sine.toml").arenas
    plans = arenas.values()
    assert list(arenas) == ["sine-8-x1", "sine-8-x2", "sine-16-x1", "sine-16-x2"]
    assert [plan.model["width"] for plan in plans] == [8, 8, 16, 16]
    assert [plan.steps for plan in plans] == [40, 80, 160, 320]
    assert [plan.ladder_point.parameters for plan in plans] == [64, 64, 256, 256]
