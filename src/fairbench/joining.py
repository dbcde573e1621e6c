"""What a driver must agree with before it takes part in a study: its plan, its ground, and who is at work there."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from fairbench.analysis.environments import grounds
from fairbench.claims import Claims
from fairbench.conduct import Conduct
from fairbench.course import Course, untimed
from fairbench.errors import UsageError
from fairbench.history import History, changes, promise, read_history, write_history
from fairbench.plan import Record, Study
from fairbench.presence import Presence
from fairbench.store import Store
from fairbench.suite import Suite
from fairbench.witness import EXPIRY
from fairbench.word import Word


def join(
    course: Course, store: Store, claims: Claims, presence: Presence, conduct: Conduct, units: Sequence[str]
) -> str:
    """Put a study in force in its directory, and let others know that it is run from here.

    Args:
        course: what is to run.
        store: its records.
        claims: of this driver.
        presence: of this driver.
        conduct: whether it also measures what a step costs, and on which ground it may run trials.
        units: the cores or GPUs on which it runs them.

    Returns:
        What is to be said of the ground that they run on; empty if all is as it was.

    Raises:
        UsageError: something else is in force there, see `declared` and `check_ground`; nothing was changed.
    """
    with claims.holding("plan", presence.beat):
        others = presence.fellows()
        history = declared(course.study, store, others)
        idle = course.complete and not (conduct.timing and untimed(course.study, store))
        said = "" if idle else check_ground(course.study, course.records, others, conduct.allow_mixed)
        put_in_force(history, store.directory)
        presence.join(course.study.environment, units)
    return said


def declared(study: Study, store: Store, others: Sequence[Word], freeze: bool = False) -> History:
    """The history of a directory with a study in force; nothing is written.

    Args:
        study: the study.
        store: its records.
        others: who runs trials there.
        freeze: whether nobody may change the plan from now on.

    Raises:
        UsageError: the directory holds another suite, or another plan that is frozen or run by somebody; or it shall be
            frozen and has final trials.
    """
    directory = store.directory
    history = read_history(directory)
    check_directory(study.suite, directory, history)
    if history.plans and others and (differing := changes(promise(history.study), promise(study))):
        listed = "".join(f"\n  {change}" for change in differing)
        raise UsageError(
            f"{_named(others)} runs the plan of {directory}, which this run would change{listed}\n"
            "wait until it has ended, or choose another --output-dir; "
            f"if it was lost with its machine, that is known after {EXPIRY:.0f} s"
        )
    final_trials = store.final_trials()
    history = history.declare(study, now(), final_trials)
    return history.freeze(final_trials) if freeze else history


def put_in_force(history: History, directory: Path) -> None:
    """Write a history into its directory, unless it stands there."""
    if read_history(directory) != history:
        write_history(directory, history)


def check_directory(suite: Suite, directory: Path, history: History) -> None:
    """Refuse to mix two suites in one output directory.

    Raises:
        UsageError: the directory holds another suite's study.
    """
    if history.plans and (held := history.study.suite.name) != suite.name:
        raise UsageError(f"{directory} holds suite {held!r}, not {suite.name!r}; choose another --output-dir")


def check_ground(study: Study, records: Iterable[Record], others: Sequence[Word], allow_mixed: bool) -> str:
    """See that trials run on the ground of the finished ones, and of those that others run.

    Args:
        study: the study as it is here.
        records: of finished trials.
        others: who runs trials, too.
        allow_mixed: whether they may run on other ground.

    Returns:
        What is to be said of it; empty if all is as it was.

    Raises:
        UsageError: the ground is another one, and that is not allowed.
    """
    theirs = [record["environment"] for record in records if record["environment"]]
    differing = mixing([*theirs, *(word.environment for word in others)], study.environment)
    if not differing:
        return ""
    what = f"runs on other ground than the finished trials{f' and {_named(others)}' if others else ''}"
    if not allow_mixed:
        raise UsageError(
            f"what is left would be what {what}:\n{differing}\n"
            "--allow-mixed goes on all the same, and the report says so; or choose another --output-dir"
        )
    return f"warning: what follows {what}, the report will say so\n{differing}"


def mixing(environments: Iterable[Mapping[str, str]], here: Mapping[str, str]) -> str:
    """What others have of machine and versions that is not here, a line for each fact; empty if all is the same."""
    found = grounds(environments)
    return "\n".join(
        f"  {fact}: {' / '.join(values)}; here {here[fact]}"
        for fact, values in found.items()
        if fact in here and values != (here[fact],)
    )


def _named(others: Sequence[Word]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"the driver {others[0].who}{more}"


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
