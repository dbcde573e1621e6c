"""Text that says who won; no other code makes text bold."""

from collections.abc import Sequence

from markupsafe import Markup, escape
from rich.text import Text

from fairbench.analysis.comparison.verdicts import Comparison


class Emphasized:
    """Text for pages, terminals and LaTeX, bold only if it is a win."""

    __slots__ = ("_text", "is_win")

    def __init__(self, text: str, is_win: bool) -> None:
        self._text, self.is_win = text, is_win

    def __str__(self) -> str:
        return self._text

    def __html__(self) -> str:
        """The text for a template, already escaped."""
        text = escape(self._text)
        return Markup('<strong class="win">{}</strong>').format(text) if self.is_win else text

    def latex(self, source: str) -> str:
        """The text, given as LaTeX source."""
        return rf"\textbf{{{source}}}" if self.is_win else source

    def __rich__(self) -> Text:
        return Text(self._text, "bold" if self.is_win else "")


class VerdictText(Emphasized):
    """The verdict of a comparison with its notes."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison.statement, comparison.is_win)


class MeanText(Emphasized):
    """The mean of an optimizer, a win if the verdict on it is better in each of its comparisons."""

    def __init__(self, text: str, optimizer: str, comparisons: Sequence[Comparison]) -> None:
        won = [c.is_win if c.reference == optimizer else c.verdict == "worse" for c in comparisons]
        super().__init__(text, bool(won) and all(won))
