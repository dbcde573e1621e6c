"""The flags of the audit, as a table."""

from collections.abc import Sequence

from markupsafe import Markup

from fairbench.analysis.analyses import Analyses
from fairbench.analysis.audit import audit
from fairbench.common.checks import Flag
from fairbench.common.formatting import with_minus_signs
from fairbench.report.columns import words
from fairbench.report.document import Output, Section
from fairbench.report.fields import names_of
from fairbench.report.table import Audit
from fairbench.report.view import Emphasized, TableView, TextColumn, table_view

AUDIT_CAPTION = "The flags of the audit, the most severe first, with their evidence and advice."
CHECKS_CAPTION = "The results of the checks of an optimizer, with their evidence and advice."


def _folded_evidence(flag: Flag) -> Emphasized:
    """The evidence of a flag. The style sheet of the page cuts it to one line until the reader opens it."""
    fold = Markup('<details class="line"><summary>{}</summary></details>')
    evidence = with_minus_signs(flag.evidence)
    return Emphasized(evidence, is_win=False, html=fold.format(evidence))


def _severity(flag: Flag) -> Emphasized:
    """The severity of a flag. The page colors it, so that a reader finds the severe ones."""
    html = Markup('<span class="severity {0}">{0}</span>').format(flag.severity)
    return Emphasized(flag.severity, is_win=False, html=html)


def _advice(flag: Flag) -> str:
    """The advice of a flag without marks of code."""
    return flag.advice.replace("`", "")


FLAG_COLUMNS = (
    words("Name", "name"),
    TextColumn("Severity", _severity),
    TextColumn("Evidence", _folded_evidence),
    TextColumn("Advice", _advice),
)


def flag_table(flags: Sequence[Flag], caption: str = AUDIT_CAPTION) -> Audit:
    """The flags of an audit, or the results of other checks, as a table in the given order."""
    view = table_view("audit", caption, FLAG_COLUMNS, flags)
    return Audit(flags, columns=names_of(Flag), report_view=view)


def _audit_view(analyses: Analyses) -> TableView:
    """The flags of the audit of a study as the report shows them."""
    return flag_table(analyses.of(audit)).view


AUDIT = Section[Analyses](
    name="audit",
    title="Audit",
    outputs=(Output(name="audit", title="Flags", view=_audit_view, open_up_to=8),),
    always=True,
)
