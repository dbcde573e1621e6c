"""The console for tables, colors and progress; slow to import."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from fairbench.common.terminal import visible


class Terminal(Console):
    """A console on which names have no control characters; square brackets in them are no markup."""

    def __init__(self) -> None:
        super().__init__(markup=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as text; it is measured as it is shown."""
        return super().render_str(visible(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of something to print; rich's own control codes are segments of another kind."""
        if isinstance(renderable, Text):
            renderable = renderable.copy()
            renderable.plain = visible(renderable.plain)
        return _visible(super().render(renderable, options))


def _visible(segments: Iterable[Segment]) -> Iterator[Segment]:
    for text, style, control in segments:
        yield Segment(text if control else visible(text), style, control)
