"""Git revisions of a program: checked out once, and nothing of the user's checkout changes."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fairbench.common.errors import ProgramError, UsageError
from fairbench.optimizers.resolve import resolve_optimizer
from fairbench.runner.program_revisions import program_revisions
from fairbench.runner.revisions import checked_out
from fairbench.runner.trainings.program import measured_arena
from fairbench.study.history import DeclaredPlan, History
from fairbench.study.resolved_suite import ResolvedSuite
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.suites.program_files import variant_files
from fairbench.suites.variants import parsed_variants
from fairbench.training.device_slot import DeviceSlot

PROGRAM = "python train.py --seed {seed}"


def git(*words, folder="."):
    """What a command of git prints."""
    identity = ("-c", "user.name=me", "-c", "user.email=me@localhost", "-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with two commits, one stashed change, one staged and one that is neither; the user is in `work`."""
    folder = tmp_path / "checkout"
    (folder / "work").mkdir(parents=True)
    monkeypatch.chdir(folder / "work")
    git("init", "-q", "-b", "main", "..")
    file = Path("train.py")
    for content in ("first", "second", "stashed"):
        file.write_text(content)
        Path("../.gitignore").write_text("data\n")
        git("add", "-A", "..")
        git(*(["stash"] if content == "stashed" else ["commit", "-qm", content]))
    Path("data").write_text("is ignored")
    Path("staged.py").write_text("staged")
    git("add", "staged.py")
    file.write_text("edited")
    return folder


def suite_of(*texts, program=PROGRAM):
    settings = {"arenas.program.model.program": program}
    return load_suite("program", Overrides(settings=settings, variants=parsed_variants(texts, program)))


def entered(suite, history=None):
    """The revisions of a suite for a study in `out`, and the messages about them."""
    messages = []
    out = Path("out")
    out.mkdir(exist_ok=True)
    return checked_out(suite, out, out / "revisions", history or History(), messages.append), messages


def ended(suite):
    """The history of a study of a suite that has run to its end."""
    revisions, _ = entered(suite)
    with revisions as checkouts:
        study = ResolvedSuite(checkouts.suite, device="cpu", arenas={}, optimizers={}, environment={})
    assert not Path("out/revisions").exists()
    return History((DeclaredPlan(study, declared="2026-01-01T00:00:00+00:00", final_trials=0),))


def state():
    """Everything of the user's checkout that must stay as it is."""
    return [
        git("status", "--porcelain", "--", ":(exclude)out"),
        git("diff", "--cached"),
        git("stash", "list"),
        git("log"),
    ]


def files_of(checkouts, name):
    """The content of each file in the folder in which a variant runs."""
    variant = checkouts.suite.optimizers[name].variant
    folder = Path(checkouts.folder, variant.commit, variant.folder)
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_each_variant_runs_in_a_checkout_of_its_own_and_the_users_stays_as_it_is(checkout):
    before = state()
    revisions, messages = entered(suite_of("old: @main~1", "new: @main", "now: @", "base"))
    with revisions as checkouts:
        assert files_of(checkouts, "old") == {"train.py": "first"}
        assert files_of(checkouts, "new") == {"train.py": "second"}
        assert files_of(checkouts, "now") == {"train.py": "edited", "staged.py": "staged"}
        assert checkouts.suite.optimizers["base"].variant.commit == ""
        assert state() == before
    assert [message.partition(":")[0] for message in messages] == ["old", "new", "now"]
    assert state() == before
    assert not Path("out/revisions").exists()
    assert len(git("worktree", "list").splitlines()) == 1


def test_equal_files_give_the_same_commit_of_a_working_tree(checkout):
    commits = []
    for content in ("edited", "other", "edited"):
        Path("train.py").write_text(content)
        Path("out").mkdir(exist_ok=True)
        Path("out", content).touch()  # the directory of the study is not part of it
        revisions, _ = entered(suite_of("base", "now: @"))
        with revisions as checkouts:
            commits.append(checkouts.suite.optimizers["now"].variant.commit)
    assert commits[0] == commits[2] != commits[1]


def test_an_interrupted_study_continues_with_its_commits_though_the_branch_has_moved(checkout):
    suite = suite_of("base", "mine: @main")

    def interrupt():
        revisions, _ = entered(suite)
        with revisions:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    git("commit", "-qam", "later")
    continued, messages = entered(suite)
    with continued as checkouts:
        assert files_of(checkouts, "mine") == {"train.py": "second"}
    assert "as when the study began" in messages[0]


def test_a_study_that_has_ended_continues_with_its_commits(checkout):
    suite = suite_of("base", "mine: @topic", "now: @")
    git("branch", "topic")
    history = ended(suite)
    git("commit", "-qam", "later")
    git("branch", "-f", "topic", "main")
    continued, messages = entered(suite_of("base", "mine: @topic", "now: @", "other: @main --clip"), history)
    with continued as checkouts:
        assert files_of(checkouts, "mine") == {"train.py": "second"}
        assert files_of(checkouts, "other") == {"train.py": "edited", "staged.py": "staged"}  # is new to the study
    assert "as when the study began; now it is" in messages[0]
    assert "as when the study began" not in messages[1]  # the files of the working tree are the same
    git("branch", "-D", "topic")
    without_branch, messages = entered(suite, history)
    with without_branch as checkouts:
        assert files_of(checkouts, "mine") == {"train.py": "second"}
    assert "now git knows no such revision" in messages[0]


def test_a_commit_that_git_has_removed_is_an_error(checkout):
    history = ended(suite_of("base", "now: @"))
    git("prune", "--expire=now")
    continued, _ = entered(suite_of("base", "now: @"), history)
    with pytest.raises(UsageError, match=r"variant now: the study began with commit .* which is not in"), continued:
        pass


@pytest.mark.parametrize(
    ("error", "continues"),
    [(ProgramError("variant mine failed"), False), (UsageError("the process server has ended"), True)],
)
def test_after_an_error_before_the_first_plan_the_study_begins_again(checkout, error, continues):
    def fail():
        revisions, _ = entered(suite_of("base", "mine: @main"))
        with revisions:
            raise error

    with pytest.raises(UsageError):
        fail()
    assert Path("out/revisions").exists() == continues


def test_what_a_checkout_lacks_is_named(checkout, tmp_path):
    other = tmp_path / "other"
    git("init", "-q", str(other))
    git("commit", "-q", "--allow-empty", "-m", "empty", folder=other)
    git("submodule", "add", "-q", str(other), "part")
    Path(".gitattributes").write_text("*.bin filter=lfs\n")
    Path("weights.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    git("add", "-A")
    git("commit", "-qm", "with parts")
    revisions, messages = entered(suite_of("base", "mine: @main"))
    with revisions:
        pass
    assert "the submodule work/part" in messages[-1]
    assert "work/weights.bin of git-lfs" in messages[-1]


@pytest.mark.parametrize(
    ("variant", "program", "message"),
    [
        ("mine: @no-such", PROGRAM, "git knows no revision 'no-such'"),
        ("mine: @main", "python {}/train.py", "is the same file in every revision"),
    ],
)
def test_a_revision_that_cannot_be_compared(checkout, variant, program, message):
    command = program.replace("{}", str(Path.cwd()))
    revisions, _ = entered(suite_of("base", variant, program=command))
    with pytest.raises(UsageError, match=message), revisions:
        pass
    assert len(git("worktree", "list").splitlines()) == 1


def test_a_folder_without_git(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    revisions, _ = entered(suite_of("base", "mine: @main"))
    with pytest.raises(UsageError, match="is in no git repository"), revisions:
        pass


def test_the_working_tree_of_a_repository_without_a_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git("init", "-q")
    Path("train.py").write_text("new")
    revisions, _ = entered(suite_of("base: @", "more: @ --more"))
    with revisions as checkouts:
        commit = checkouts.suite.optimizers["more"].variant.commit
        assert Path(checkouts.folder, commit, "train.py").read_text() == "new"


def test_the_commit_of_a_program_whose_variants_are_flags_is_recorded_with_what_differs(checkout):
    Path("notes.txt").write_text("no code")
    other = checkout.parent / "other"
    other.mkdir()
    (other / "train.py").write_text("git tracks none")
    suite = suite_of("base", "flag: --dropout 0.3", "other: @../../other")
    measured = measured_arena(suite, "program", DeviceSlot())
    optimizers = {}
    for name, plan in suite.optimizers.items():
        resolved = resolve_optimizer(name, plan, suite.sweep.extra)
        optimizers[name] = replace(resolved, code=variant_files(suite, plan.variant))
    arenas = {"program": measured.resolved}
    study = ResolvedSuite(suite, device="cpu", arenas=arenas, optimizers=optimizers, environment={})
    commit = git("rev-parse", "HEAD").strip()
    assert program_revisions(study) == {"": f"{commit}+changes in work/staged.py, work/train.py"}
    began = replace(study, program_revisions=program_revisions(study))
    git("commit", "-qm", "edited", "-a")
    later = replace(study, program_revisions=program_revisions(study))
    history = History().declare(began, "2026-01-01T00:00:00+00:00", 0)
    assert later.program_revisions != began.program_revisions
    assert history.declare(later, "2026-01-02T00:00:00+00:00", 0) == history, "its files are the same"


def refused(suite):
    """The message with which a study of a suite is refused before anything is checked out."""
    revisions, _ = entered(suite)
    with pytest.raises(UsageError) as raised, revisions:
        pass
    assert not Path("out/revisions/commits.json").exists()
    assert len(git("worktree", "list").splitlines()) == 1
    return str(raised.value)


def test_two_revisions_that_are_the_same_commit_are_refused(checkout):
    commit = git("rev-parse", "--short=12", "main").strip()
    message = refused(suite_of("base: @main", "new: @HEAD"))
    assert message == (
        f"base and new are the same commit {commit}; work/staged.py, work/train.py have uncommitted changes: "
        "write `@` for the working tree"
    )
    git("add", "-A", "..", ":(exclude)out")
    git("commit", "-qm", "third")
    assert "and nothing is uncommitted; name another commit" in refused(suite_of("base: @main", "new: @HEAD"))
    assert "base and now have the same files; change one" in refused(suite_of("base: @HEAD", "now: @"))
    for texts in (("base: @main", "new: @HEAD --clip"), ("base: @main", "base, repeated: @main")):
        with entered(suite_of(*texts))[0]:
            pass


@pytest.mark.parametrize(
    ("texts", "is_said"),
    [(("old: @main~1", "new: @main"), True), (("old: @main", "now: @"), False), (("base", "old: @main"), False)],
)
def test_changes_that_no_variant_trains_are_said(checkout, texts, is_said):
    revisions, messages = entered(suite_of(*texts))
    with revisions:
        pass
    shown = [message for message in messages if "no variant trains" in message]
    assert len(shown) == is_said
    assert all("work/train.py have uncommitted changes" in message for message in shown)
