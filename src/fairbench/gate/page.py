"""The page of a session: its certificates, what is claimed, and every step."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairbench.common.formatting import number, p_value, percent, plural, short_hash
from fairbench.gate.rules import ALPHA, level_spent
from fairbench.gate.session import Entry, Session
from fairbench.gate.steps import LOG, PastStep, certified_of, changes_of_stacks, log_row
from fairbench.gate.training import ARENA
from fairbench.report.columns import differences, integers, numbers, words
from fairbench.report.document import Document, Output, Section
from fairbench.report.page import write_document
from fairbench.report.table import Table
from fairbench.report.view import TextColumn, table_view

PAGE = "gate.html"
PROGRAM = f"{ARENA}.model.program"
"""The setting with the command of the program."""
STEPS_NAME = "steps"
"""The name of the table of steps."""


@dataclass(frozen=True)
class Overview:
    """A session as its page shows it: its first entry, its state and its steps."""

    facts: Entry
    session: Session
    steps: Sequence[PastStep]

    @property
    def passed(self) -> list[PastStep]:
        """The certificates that certified a gain."""
        return certified_of(self.steps)

    @property
    def certificates(self) -> list[PastStep]:
        """All certificates, also those that certified nothing."""
        return [step for step in self.steps if step.kind == "certificate"]


def _claims(overview: Overview) -> list[str]:
    """What is claimed, and what is not, in sentences."""
    passed = overview.passed
    spent = percent(level_spent(overview.session.certificates))
    level = f"{plural(len(overview.certificates), 'certificate')} used {spent} of the session's {percent(ALPHA)}."
    if not passed:
        return [f"No gain is certified. {level}"]
    total = sum(step.gain or 0.0 for step in passed)
    claimed = (
        f"The certified gains of {overview.facts['metric']} add up to {number(total, 3)}, positive where it is better."
    )
    stack = "Each gain is that of a whole stack of changes against the stack before it. No single change is certified."
    return [claimed, stack, level]


def _pending(overview: Overview) -> list[str]:
    """A sentence on the changes that were kept and are not certified; none without such changes."""
    session = overview.session
    if not session.pending:
        return []
    kept = ", ".join(short_hash(keep.commit) for keep in session.pending)
    return [f"Kept and not certified, so nothing is claimed of them: {kept}."]


COMMIT = TextColumn("Commit", lambda step: short_hash(step.commit))

CERTIFICATES = Output[Overview](
    name="ladder",
    title="Certificates",
    rows=lambda overview: overview.certificates,
    columns=(
        COMMIT,
        words("Verdict", "verdict"),
        differences("Gain", "gain"),
        numbers("Low", "ci_low", form=number),
        numbers("High", "ci_high", form=number),
        numbers("p", "p", form=p_value),
        numbers("Level", "level", form=percent),
        words("Change", "subject"),
    ),
    caption=(
        "Every certificate: head against base, both trained with fresh seeds, in pairs. The gain is positive where "
        "head is better. Its interval is the one that decides. p is at most the level where a gain is certified."
    ),
    texts=lambda overview: [*_claims(overview), *_pending(overview)],
    open_up_to=100,
)

CHANGES = Output[Overview](
    name="changes",
    title="Changes of certified stacks",
    rows=lambda overview: changes_of_stacks(overview.steps),
    columns=(
        TextColumn("Stack", lambda change: short_hash(change.stack)),
        COMMIT,
        words("Change", "subject"),
        words("The stack without it", "verdict"),
    ),
    caption=(
        "What prunes have found. Each change was removed alone, and the stack without it compared with the stack, in "
        "pairs. A change may go if the stack without it is equivalent within the margin, or better."
    ),
    open_up_to=100,
)

STEP_COLUMNS = (
    integers("Step", "number"),
    words("Kind", "kind"),
    COMMIT,
    words("Verdict", "verdict"),
    words("Values", "value_text"),
    words("Change", "subject"),
)


def steps_table(steps: Sequence[PastStep]) -> Table[dict[str, Any]]:
    """The table of steps in the data file, with the one of the page."""
    rows = [log_row(step) for step in steps]
    view = table_view(STEPS_NAME, "", STEP_COLUMNS, steps)
    return Table(rows, columns=LOG, report_view=view)


STEPS = Output[Overview](
    name=STEPS_NAME,
    title="Every step",
    rows=lambda overview: overview.steps,
    columns=STEP_COLUMNS,
    caption="Every step of the session, also those that were dropped. The values of a try decide nothing but its keep.",
    data=lambda overview: steps_table(overview.steps),
    file="gate_steps",
    open_up_to=1000,
)

CLAIMED = Section[Overview](name="claimed", title="What is claimed", outputs=(CERTIFICATES, CHANGES), always=True)
ALL_STEPS = Section[Overview](name="steps", title="All tries", outputs=(STEPS,))


def write_page(folder: Path, facts: Entry, session: Session, steps: Sequence[PastStep]) -> Path:
    """Write the page of a session, and its log. Returns the path of the page."""
    document = Document(
        source=Overview(facts, session, steps),
        sections=(CLAIMED, ALL_STEPS),
        title=f"gate, {facts['metric']}",
        lead=f"{facts['settings'][PROGRAM]}, begun at commit {short_hash(facts['base'])}.",
        flags=(),
        page_name=PAGE,
    )
    return write_document(document, folder)[-1]
