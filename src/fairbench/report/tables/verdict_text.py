"""Text that says who won; no other code makes text bold."""

from collections.abc import Sequence

from markupsafe import Markup, escape
from rich.text import Text

from fairbench.analysis.comparison.verdicts import Comparison
from fairbench.report.tables.numbers import interval


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

    @property
    def bold(self) -> str:
        """The part of the text that LaTeX sets in bold."""
        return self._text if self.is_win else ""

    def latex(self, source: str) -> str:
        """The text, given as LaTeX source."""
        return rf"\textbf{{{source}}}" if self.is_win else source

    def __rich__(self) -> Text:
        return Text(self._text, "bold" if self.is_win else "")


class VerdictText(Emphasized):
    """The verdict of a comparison with its notes."""

    def __init__(self, comparison: Comparison) -> None:
        super().__init__(comparison.statement, comparison.is_win)


SIGNS = {"better": "▲", "worse": "▼", "equivalent": "=", "identical": "=", "identical values": "="}
"""A sign for each verdict, so that they differ without color; the remaining ones get a question mark."""


class GridText(Emphasized):
    """The verdict of a comparison and its advantage, for a grid of verdicts.

    Attributes:
        place: of the verdict in a sorted grid.
        style: the classes of its cell in a page.
    """

    __slots__ = ("_advantage", "_sign", "_statement", "place", "style")

    def __init__(self, c: Comparison, place: int, mark: str = "") -> None:
        self._statement, self._advantage = VerdictText(c), interval(c.advantage, c.ci_low, c.ci_high)
        super().__init__(f"{self._statement} {self._advantage}", c.is_win)
        self._sign = SIGNS.get(c.verdict, "?")
        self.place, self.style = place, f"{c.verdict.replace(' ', '-')} {mark}".rstrip()

    def __html__(self) -> str:
        """The sign, the verdict, and the advantage in small text."""
        return Markup('<span><span aria-hidden="true">{} </span>{}</span> <small>{}</small>').format(
            self._sign, self._statement, self._advantage
        )

    def latex(self, source: str) -> str:
        """The text, in which only the verdict is bold."""
        return source.replace("better", super().latex("better"), 1)


class MeanText(Emphasized):
    """The mean of an optimizer, a win if the verdict on it is better in each of its comparisons."""

    def __init__(self, text: str, optimizer: str, comparisons: Sequence[Comparison]) -> None:
        won = [c.is_win if c.reference == optimizer else c.verdict == "worse" for c in comparisons]
        super().__init__(text, bool(won) and all(won))

    @property
    def bold(self) -> str:
        """The mean: a bold deviation would be wider, and says nothing."""
        return super().bold.partition("\N{NO-BREAK SPACE}")[0]

    def latex(self, source: str) -> str:
        """The text, in which the mean may be bold."""
        mean, *deviation = source.partition("~")
        return super().latex(mean) + "".join(deviation)
