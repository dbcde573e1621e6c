"""The tiny suite as a file, as a suite, as a study, and as a study that has run."""

import io
import os
from contextlib import redirect_stdout
from hashlib import sha256
from multiprocessing.forkserver import ForkServer

import pytest
from hypothesis import Phase, settings
from tiny import TINY, Finished, run_here, study_of, write_tiny

import fairbench as fb
import fairbench.api.study  # before a test patches what it imports, which would stay
from fairbench.cli.main import main
from fairbench.common.imports import entry_points
from fairbench.contract import run_checks
from fairbench.optimizers.registry import known_optimizers
from fairbench.report.figures.drawing import Drawing
from fairbench.runner.executors.starting import LOADED, SERVERS
from fairbench.runner.preload import preload
from fairbench.suites.loader import load_suite
from fairbench.training.determinism import one_thread
from fairbench.training.environment import environment_of_program

# To explain a failure, hypothesis would trace every line of each example.
PHASES = [phase for phase in Phase if phase is not Phase.explain]
settings.register_profile("the same in every run", deadline=None, derandomize=True, phases=PHASES)
settings.load_profile("the same in every run")


class OneServer(ForkServer):
    """The server of a test worker, which loads what any test needs; outside of Git, since a commit may come."""

    modules = (*preload(load_suite("mini")), *run_checks.PRELOAD, "pytorch_optimizer")

    def ensure_running(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GIT_DIR", os.devnull)
            super().ensure_running()


class Everything(frozenset):
    """What the server of a worker is known by: a second one would take seconds to load a few other modules."""

    def issuperset(self, other):
        return True


SERVERS[Everything()] = OneServer()
SERVERS[Everything()].set_forkserver_preload([*OneServer.modules, LOADED])


@pytest.fixture(autouse=True)
def no_threads():
    """As in a trial: sums depend on the number of threads, and a process with threads cannot be forked."""
    with one_thread():
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_figures():
    """A PDF or PNG is the digest of the SVG: to draw it takes as long as the rest of a study.

    Yields:
        what users get instead.
    """
    usual = Drawing.content

    def content(drawing, form, panel=None):
        return usual(drawing, form, panel) if form == "svg" else sha256(f"{form} {drawing.svg}".encode()).digest()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drawing, "content", content)
        yield usual


@pytest.fixture
def usual_figures(quick_figures, monkeypatch):
    """Figures as users get them."""
    monkeypatch.setattr(Drawing, "content", quick_figures)


@pytest.fixture
def no_figures(monkeypatch):
    """Drawing takes most of a report's time."""
    monkeypatch.setattr("fairbench.report.study.draw_figures", lambda *_: [])


@pytest.fixture
def forgetful():
    """The registry is read again in the test, and after it."""
    for function in (entry_points, known_optimizers):
        function.cache_clear()
    yield
    for function in (entry_points, known_optimizers):
        function.cache_clear()


@pytest.fixture
def command(capsys):
    """Calls a command, which must end with a code; returns what it prints, or the message if that code is 2."""

    def call(*words, code=0):
        capsys.readouterr()
        assert main([*words]) == code
        out, message = capsys.readouterr()
        return message if code == 2 else out

    return call


@pytest.fixture
def tiny_file(tmp_path):
    return write_tiny(tmp_path)


@pytest.fixture
def tiny_folder(tiny_file, monkeypatch):
    """The folder of the tiny suite and of its optimizers, as working directory."""
    monkeypatch.chdir(tiny_file.parent)
    monkeypatch.syspath_prepend(tiny_file.parent)
    return tiny_file.parent


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """A folder with the tiny suite, its optimizers and the study results/mine, whose report has no figures."""
    folder = tmp_path_factory.mktemp("run")
    write_tiny(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("fairbench.report.study.draw_figures", lambda *_: [])
        fb.run("tiny.toml", "results/mine", workers=2, progress=False)
    return folder


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The tiny study with an own optimizer, three final settings and two interim analyses.

    Its trials are long enough to be killed.
    """
    folder = tmp_path_factory.mktemp("finished")
    text = TINY.replace("steps = 40", "steps = 30").replace("sweep_steps = 10", "sweep_steps = 15\n")
    for before, after in (
        ("budget = 3\n", ""),
        ("settings = 1", "interim_analyses = [2, 3]"),
        ("seeds = [1, 2]", "seeds = [1, 2, 3]"),
    ):
        text = text.replace(before, after)
    write_tiny(folder, text)
    words = ["run", "--suite", "tiny.toml", "--optimizers", "AdamW,own_optimizers:Signs", "--reference", "Signs"]
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, one_thread(), redirect_stdout(shown):
        run_here(patch, folder)
        assert main([*words, "--output-dir", "out", "--workers", "1"]) == 0
    environment_of_program.cache_clear()
    return Finished(folder, words, shown.getvalue())


@pytest.fixture
def tiny_suite(tiny_file):
    return load_suite(str(tiny_file))


@pytest.fixture(scope="session")
def tiny_study(tmp_path_factory):
    """Rehearsed once: it is frozen, and belongs to no folder."""
    return study_of(load_suite(str(write_tiny(tmp_path_factory.mktemp("tiny")))))
