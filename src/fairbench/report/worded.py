"""The sections of a report in the words of its study, where variants of a program are compared."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from matplotlib.text import Text

from fairbench.common.wording import Wording
from fairbench.report.document import Output, Section
from fairbench.report.figures.drawing import Drawing
from fairbench.report.figures.style import ArmStyles
from fairbench.report.table import Table
from fairbench.report.view import TableView, worded

SourceT = TypeVar("SourceT")


def worded_sections(sections: Sequence[Section[SourceT]], wording: Wording) -> Sequence[Section[SourceT]]:
    """The sections of a report in these words; the same sections where the words are the usual ones."""
    if wording.is_usual:
        return sections
    changed = []
    for section in sections:
        outputs = [_output(output, wording) for output in section.outputs]
        changed.append(replace(section, title=wording.text(section.title), outputs=outputs))
    return changed


def _output(output: Output[SourceT], wording: Wording) -> Output[SourceT]:
    """An output in these words: its table, data file, figure, finding and texts."""

    def texts(source: SourceT) -> Iterator[str]:
        return map(wording.text, output.texts(source))

    def folded(source: SourceT) -> Iterator[tuple[str, str]]:
        for summary, text in output.folded(source):
            yield wording.text(summary), text

    has_data_file = bool(output.data or output.kind)
    return replace(
        output,
        title=wording.text(output.title),
        view=_view_of(output, wording) if output.has_table else None,
        data=_data_of(output, wording) if has_data_file else None,
        figure=_figure_of(output.figure, wording) if output.figure else None,
        finding=_finding_of(*output.finding, wording) if output.finding else None,
        texts=texts,
        folded=folded,
    )


def _view_of(output: Output[SourceT], wording: Wording) -> Callable[[SourceT], TableView]:
    """A function that makes the table of an output in these words."""

    def view(source: SourceT) -> TableView:
        return worded(output.table_view(source), wording)

    return view


def _data_of(output: Output[SourceT], wording: Wording) -> Callable[[SourceT], Table[Any]]:
    """A function that makes the data file of an output, with the names of its columns in these words."""

    def data(source: SourceT) -> Table[Any]:
        table = output.table(source)
        assert table is not None
        return replace(table, wording=wording)

    return data


def _finding_of(topic: str, state: Callable[[SourceT], str], wording: Wording) -> tuple[str, Callable[[SourceT], str]]:
    """The topic of a finding, and a function that makes its statement, in these words."""

    def statement(source: SourceT) -> str:
        return wording.text(state(source))

    return wording.text(topic), statement


def _figure_of(
    draw: Callable[[SourceT, ArmStyles], Drawing | None], wording: Wording
) -> Callable[[SourceT, ArmStyles], Drawing | None]:
    """A function that draws a figure with its texts in these words."""

    def drawn(source: SourceT, styles: ArmStyles) -> Drawing | None:
        drawing = draw(source, styles)
        if drawing is None:
            return None
        for text in drawing.figure.findobj(Text):
            text.set_text(wording.text(text.get_text()))
        return replace(drawing, title=wording.text(drawing.title), caption=wording.text(drawing.caption))

    return drawn
