"""The files that a program's trials depend on: a change of one of them makes every trial a new one."""

import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from fairbench.arenas.program_code import code_of
from fairbench.arenas.program_command import ProgramCommand


def git(*words, folder="."):
    identity = ("-c", "user.name=me", "-c", "user.email=me@localhost", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def write(**contents):
    """Write some files, by their paths with __ in place of /, each with its own content."""
    for name, content in contents.items():
        file = Path(name.replace("__", "/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_suffix(".py").write_text(content)


def code(program="python scripts/train.py"):
    return code_of(ProgramCommand(program).words)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a program, a package in src/, a submodule, an untracked module and ignored ones."""
    library = tmp_path / "library"
    checkout = tmp_path / "checkout"
    library.mkdir()
    (library / "layers.py").write_text("layers")
    git("init", "-q", folder=library)
    git("add", ".", folder=library)
    git("commit", "-qm", "first", folder=library)
    checkout.mkdir()
    monkeypatch.chdir(checkout)
    git("init", "-q")
    git("submodule", "--quiet", "add", str(library), "lib")
    write(scripts__train="train", src__model="model", src__empty="", scripts__empty="")
    Path("scripts/config.yaml").write_text("width: 8")
    Path("README.md").write_text("is no code")
    Path(".gitignore").write_text("scratch\n")
    git("add", ".")
    git("commit", "-qm", "first")
    write(scripts__new="new", src__new="of a package", scratch__train="ignored", outputs__copied="train")


KNOWN = [
    "lib/layers.py",
    "scripts/config.yaml",
    "scripts/empty.py",
    "scripts/new.py",
    "scripts/train.py",
    "src/empty.py",
    "src/model.py",
    "src/new.py",
]


def test_the_python_files_of_a_repository_are_code(repository):
    assert sorted(code()) == KNOWN


@pytest.mark.parametrize("file", KNOWN)
def test_an_edit_of_any_of_them_is_noticed(repository, file):
    before = code()
    Path(file).write_text("edited")
    after = code()
    assert file in {name for name in after if after[name] != before.get(name)}


def test_what_a_study_has_written_is_no_code(repository):
    for name in ("trials", "claims", "drivers"):
        Path("results/flag", name).mkdir(parents=True)
    write(results__flag__checkpoints__module="written by a trial")
    assert sorted(code()) == KNOWN


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta/history"])
@pytest.mark.parametrize("has_git", [True, False])
def test_the_packages_of_an_environment_are_no_code(tmp_path, monkeypatch, mark, has_git):
    monkeypatch.chdir(tmp_path)
    if has_git:
        git("init", "-q")
    write(train="train", package__model="model", env__lib__torch__optim="installed")
    file = Path("env", mark)
    file.parent.mkdir(exist_ok=True)
    file.touch()
    assert sorted(code("python train.py")) == ["package/model.py", "train.py"]


def test_a_program_in_the_top_folder_of_an_environment_has_its_modules_as_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pyvenv.cfg").touch()
    write(train="train", package__model="model")
    assert sorted(code("python train.py")) == ["package/model.py", "train.py"]


def test_a_program_in_a_folder_that_git_ignores(repository):
    write(scratch__helper="helper")
    found = code("python scratch/train.py")
    assert {"scratch/train.py", "scratch/helper.py", "src/model.py"} <= found.keys()


def test_a_program_that_is_started_in_a_folder_of_the_repository(repository, monkeypatch):
    monkeypatch.chdir("scripts")
    found = code("python train.py")
    assert sorted(found) == sorted(f"../{file}" if "scripts" not in file else Path(file).name for file in KNOWN)


def test_a_binary_is_code_and_an_interpreter_is_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train").write_bytes(b"\x7fELF")
    Path("python").symlink_to("/bin/true")
    write(main="main")
    assert sorted(code("./train --seed {seed}")) == ["main.py", "train"]
    assert sorted(code("./python -m main")) == ["main.py"]
    assert sorted(code("./train main.py")) == ["main.py", "train"]


def test_code_is_read_while_trials_begin_and_end_in_the_same_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(train="train", package__model="model")
    for name in ("trials", "claims", "drivers"):
        Path("results", name).mkdir(parents=True)
    ended = threading.Event()

    def train():
        while not ended.is_set():
            for trial in range(20):
                write(**{f"results__checkpoints__{trial}__copied": "train"})
            shutil.rmtree("results/checkpoints")

    trials = threading.Thread(target=train)
    trials.start()
    try:
        for _ in range(100):
            assert sorted(code("python train.py")) == ["package/model.py", "train.py"]
    finally:
        ended.set()
        trials.join()
