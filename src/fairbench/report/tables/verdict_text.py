"""The text of a verdict; no other code makes text bold."""

from markupsafe import Markup, escape
from rich.text import Text

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.report.tables.tex import escape as tex


class VerdictText:
    """The verdict of a comparison with its notes, for pages, terminals and LaTeX; bold only if it is a win."""

    __slots__ = ("_comparison",)

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def __str__(self) -> str:
        return self._comparison.statement

    def __html__(self) -> str:
        """The statement for a template, already escaped."""
        text = escape(self._comparison.statement)
        return Markup('<strong class="win">{}</strong>').format(text) if self._comparison.is_win else text

    def __latex__(self) -> str:
        text = tex(self._comparison.statement)
        return rf"\textbf{{{text}}}" if self._comparison.is_win else text

    def __rich__(self) -> Text:
        return Text(self._comparison.statement, "bold" if self._comparison.is_win else "")
