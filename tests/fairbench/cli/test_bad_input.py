"""Mistakes that people make with the command: each message names the thing, its value and the way out."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import write_tiny
from torch.nn import Module

from fairbench.cli.main import main
from fairbench.common.installation import EXTRAS
from fairbench.common.toml import tomllib
from fairbench.optimizers.resolve import build_optimizer
from fairbench.optimizers.spec import OptimizerSpec


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    text = write_tiny(folder).read_text()
    (folder / "my suite.toml").write_text(text)
    (folder / "broken.toml").write_text(f"{text}\nalpha = = 1")
    (folder / "table.toml").write_text(f"{text}\n[trainign]\nclip_norm = 1")
    (folder / "file.txt").write_text("no study")
    (folder / "empty").mkdir()
    (folder / "results/study/trials").mkdir(parents=True)
    for trial in ("abc1", "abc2"):
        (folder / f"results/study/trials/{trial}.json").write_text("{}")
    return folder


@pytest.fixture
def inside(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr("fairbench.runner.devices.DRIVERS", ())  # as on a machine without a GPU
    return place


OWN = "your own is given as path/to/file.py:Class or module:Class"
EMPTY = "is empty, as with an unset variable; give a value, or leave it out"
MISTAKES = [
    ("run --suite nothere.toml", "there is no suite file 'nothere.toml' in {here}; give its path, or one of: abl"),
    ("run tiny.toml --arenas vitt", f"did you mean 'vit'? (known: vit); these are the suite's, {OWN}"),
    ("run --add-optimizer file.txt", f"StableSPAM); {OWN}"),
    ("run --set AdamW.lr=1", "leave it out, or fix the rate: optimizers.AdamW.lr"),
    ("run --lr-grid 1e-2:1e-5:7", "--lr-grid 1e-2:1e-5:7: sweep.lr_max: must be above lr_min = 0.01, got 1e-05"),
    ("run --workers two", "-j/--workers: must be a whole number, got 'two'; see fairbench run --help"),
    ("run --trial-timeout soon", "--trial-timeout: must be a number of seconds, got 'soon'; see fairbench run --help"),
    ("run --device gpu", "--device: invalid choice: 'gpu' (choose from"),
    ("run --ouptut-dir x", "unknown option '--ouptut-dir'; did you mean '--output-dir'? See fairbench run --help"),
    ("run mini x", "unknown argument 'x'; see fairbench run --help"),
    ("data list --suit mini", "unknown option '--suit'; did you mean '--suite'? See fairbench data list --help"),
    ("report", "the following arguments are required: DIR; see fairbench report --help"),
    ("run --images nothere", "--images nothere: there is no such folder or file in {here}"),
    ("run --images empty", "--images empty: the folder is empty; give one with files"),
    ("run --suite=", f"--suite {EMPTY}"),
    ("run --suite ''", f"--suite {EMPTY}"),
    ("run --lr-grid ''", f"--lr-grid {EMPTY}"),
    ("run -o ''", f"-o {EMPTY}"),
    ("run --reference ' '", f"--reference {EMPTY}"),
    ("status ''", f"an argument {EMPTY}"),
    ("status file.txt", "file.txt is a file, not the directory of a study; give another path"),
    ("run tiny.toml -o file.txt -j 1", "file.txt is a file, not the directory of a study; give another path"),
    ("status nothere", "there is no such directory; give the --output-dir of a run, as results/mini"),
    ("audit empty", "empty holds no study: there is no config.json; give the --output-dir of a run"),
    ("status mini", "mini holds no study: there is no such directory; the study of a suite is in results/mini"),
    ("run results/study", "results/study is a directory, not a suite; give it as --output-dir"),
    ("compare paper results/study", "the study comes first: fairbench compare results/study paper"),
    ("explain zzz", "no trial in the studies of {here}/results begins with 'zzz'; give its study as --output-dir"),
    ("explain abc", "2 trials in the studies of {here}/results begin with 'abc': abc1, abc2; give more of the id"),
    ("run --gpus zzz", "--gpus zzz has no effect, torch finds no GPU here; leave it out"),
    ("run --trials-per-gpu 0", "--trials-per-gpu 0 has no effect, torch finds no GPU here; leave it out"),
    ("run --device cpu --gpus 0", "--gpus 0 has no effect, --device is cpu; leave it out"),
    ("run --device cuda -j 2", "--workers 2 has no effect on GPUs; give --trials-per-gpu, or --device cpu"),
    ("run -q -v", "--quiet prints no lines of trials, --verbose does; leave one out"),
    ("suite check table.toml", "table.toml, line 38: trainign: unknown key 'trainign'; did you mean 'training'?"),
    ("suite check broken.toml", "broken.toml, line 38: Invalid value; correct the TOML"),
    ("suite check 'my suite.toml'", "a suite is named by its file, and a name has only letters, digits"),
    ("version", "unknown command 'version'; did you mean '--version'?"),
    ("help", "unknown command 'help'; did you mean '--help'?"),
    ("verdicts paper --optimizer Mine", "--optimizer Mine is for a CSV file, and paper is a publication; leave it out"),
    ("run --suite mnii", "unknown suite 'mnii'; did you mean 'mini'?"),
    ("--suite smok", "unknown suite 'smok'; did you mean 'smoke'?"),
    ("rnu", "unknown command 'rnu'; did you mean 'run'?"),
    ("run --only-optimizers AdamW,psilogic", "unknown optimizer 'psilogic'; did you mean 'PsiLogic'?"),
    ("run --only-optimizers PsiLogic", "the reference optimizer 'AdamW' is not in the run"),
    ("run --workers 0", "--workers must be at least 1, got 0"),
    ("run smoke --ray local --workers 2", "leave out --workers 2"),
    ("run smoke --ray local --gpus 0,1", "leave out --gpus 0,1"),
    ("run --device cuda --gpus 0,x", "--gpus takes numbers of GPUs, as in 0,1, or all; got 'x'"),
    ("run --device cuda --trials-per-gpu 0", "--trials-per-gpu must be at least 1, got 0"),
    ("run --smoke-test --suite mini", "--suite means mini and --smoke-test means smoke"),
    ("plan mini --suite smoke", "two suites were given: SUITE means mini and --suite means smoke"),
    ("watch nowhere", "nowhere holds no study"),
    ("compare nowhere papr", "unknown directory or publication 'papr'; did you mean 'paper'?"),
    ("run --lr-grid 1e-4:1e-1", "--lr-grid must have the form lowest:highest:points"),
    ("run --lr-grid 1e-4:1e-1:7.5", "--lr-grid must have the form"),
    ("run --lr-grid 0:1:7", "--lr-grid 0:1:7: sweep.lr_min: must be positive and finite, got 0.0"),
    ("run --lr-grid 1e-4:1:1", "--lr-grid 1e-4:1:1: sweep.points: must lie in [2, 100], got 1"),
    ("run --arenas ' , '", "--arenas names nothing; leave it out"),
    ("run --add-optimizer my_rule.py", "optimizer 'my_rule.py' names a file; name its class too"),
    ("run --add-optimizer AdamW", "two optimizers are called 'AdamW'"),
    ("run --set weight_decay=0.1", "--set must have the form key=value, as AdamW.weight_decay=0.1"),
    ("run --set AdamW.eps", "--set must have the form key=value"),
    ("run --set adamw.eps=1", "unknown optimizer or table of a suite 'adamw'; did you mean 'AdamW'?"),
    ("run --set AdamW.mode=fast", """'fast' is no TOML value; text needs quotes, as --set 'AdamW.mode="fast"'"""),
    ("run --set arenas.vitt.steps=9", "unknown arena 'vitt'; did you mean 'vit'?"),
    ("run --set trainign.clip_norm=9", "unknown optimizer or table of a suite 'trainign'; did you mean 'training'?"),
    ("run --set training.clip_nrm=9", "setting training.clip_nrm: training.clip_nrm: unknown key 'clip_nrm'; did"),
    ("run --set alpha.x=9", "setting alpha.x: alpha is a value, not a table; leave out what follows it"),
    ("run --set arenas.vit.steps=2", "setting arenas.vit.steps: arenas.vit.steps: must lie in [3, "),
    ("run --steps 0", "--steps 0: arenas.gpt.steps: must lie in [3, "),
    ("run --seeds 0", "--seeds must be at least 1, got 0"),
    ("run --seeds many", "--seeds must be a number of seeds, or seeds as 1,2,3; got 'many'"),
    ("try Lion --lr fast", "--lr must be learning rates, as 3e-4,1e-3; got 'fast'"),
    ("try Lion --lr 1e-3,0", "--lr must be positive and finite, each once; got '1e-3,0'"),
    ("try Lion --lr 1e-3,1e-3", "each once"),
    ("try Lion --against AdamWW", "unknown optimizer 'AdamWW'; did you mean 'AdamW'?"),
    ("try Lion --against AdamW,Lion,AdamW", "two optimizers are called 'AdamW'"),
    ("new-optimizer my-rule", "'my-rule' is no valid name in Python"),
    ("new-optimizer class", "'class' is no valid name in Python"),
    ("new-optimizer _1", "'_1' is no valid name in Python"),
    ("new-optimizer torch", "torch.py would hide the module 'torch'"),
    ("new-optimizer own_optimizers", "own_optimizers.py exists and is not changed"),
    ("data prepare --dataset cifar10", "unknown dataset 'cifar10'; did you mean 'cifar100'"),
    ("data prepare --dataset digits", "unknown dataset 'digits'"),
    ("data prepare --suite mini --dataset cifar100", "suite mini reads no cifar100"),
    ("data prepare --dataset text", "text needs the option path"),
    ("data prepare --hub nowhere", "--hub nowhere is no folder"),
    ("data verify --data-root nowhere", "nothing is prepared in nowhere"),
    ("slurm tiny.toml --only-optimizers 'Adam W'", "Adam W"),
    ("slurm tiny.toml --array 0", "--array must be at least 1"),
    ("slurm tiny.toml --sbatch account=physics", "--sbatch takes an option"),
    ("slurm tiny.toml --mem '16G\n#SBATCH --x'", "options of sbatch are single lines"),
    ("slurm tiny.toml --gres gpu:1 --device cpu", "--device cpu would leave idle"),
    ("slurm tiny.toml --output-dir tiny.toml", "tiny.toml is a file, not the directory of a study"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "complaint"), MISTAKES, ids=[command for command, _ in MISTAKES])
def test_a_mistake_is_named_with_the_way_out(command, complaint, inside, capsys):
    before = sorted(inside.rglob("*"))
    assert main(shlex.split(command)) == 2
    shown = capsys.readouterr()
    assert complaint.format(here=inside) in shown.err
    assert shown.out == ""
    assert shown.err.startswith("fairbench: ")
    assert shown.err.count("\n") == 1
    assert sorted(inside.rglob("*")) == before


def test_a_folder_without_images_is_named_with_its_option(inside, capsys):
    assert main(["run", "tiny.toml", "--images", "results"]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("fairbench: --images results: results contains no images, and no class")
    assert shown.out == ""


def test_a_missing_data_set_is_an_indented_line_each(inside, capsys):
    assert main(["run", "--suite", "paper"]) == 2
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("fairbench: there is no data/prepared/")
    assert len(others) == 3
    assert all(line.startswith("  there is no data/prepared/") for line in others)


def test_without_arguments_there_is_help_and_an_error(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err.startswith("usage: fairbench")


def test_a_factory_that_returns_no_optimizer_is_named():
    with pytest.raises(TypeError, match=r"it returned \[\], which is no optimizer; it must return one"):
        build_optimizer(OptimizerSpec("nothing", "builtins:list", {}, "", {}), Module())


BLOCKED = """
import sys
sys.modules |= dict.fromkeys({modules!r})
from fairbench.cli.main import main
for words in {commands!r}:
    print(main(words.split()))
"""
NEED = ("run mini -j 1", "plan mini", "status .", "watch .", "audit .", "report .", "compare .", "verdicts",
        "check AdamW", "try AdamW")  # fmt: skip
NEED_NOTHING = ("list", "suite show mini", "suite check mini", "env", "new-optimizer my_rule")


def test_without_the_extra_every_command_names_it(tmp_path):
    code = BLOCKED.format(modules=EXTRAS["bench"], commands=[*NEED, "data list", *NEED_NOTHING])
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    *complaints, of_data = done.stderr.splitlines()
    install = "which is not installed; in the folder of the repository, run: pip install "
    assert [line.partition(install)[2] for line in (*complaints, of_data)] == ["'.[bench]'"] * len(NEED) + ["'.[data]'"]
    assert all(line.startswith("fairbench: this needs ") for line in complaints)
    codes = [line for line in done.stdout.splitlines() if line in ("0", "1", "2")]
    assert codes == ["2"] * (len(NEED) + 1) + ["0"] * len(NEED_NOTHING)


def test_the_modules_of_the_extras_are_those_that_are_declared():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    modules = {"pillow": "PIL", "scikit-learn": "sklearn"}
    for extra in ("bench", "data", "zoo", "ray"):
        names = [line.partition(">")[0] for line in project["optional-dependencies"][extra]]
        assert sorted(EXTRAS[extra]) == sorted(modules.get(name, name.replace("-", "_")) for name in names)
