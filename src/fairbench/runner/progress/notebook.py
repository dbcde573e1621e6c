"""The progress of a study in a notebook: one line, which is replaced in place."""

from typing import Any

from IPython.display import display

from fairbench.runner.progress.live import LiveProgress
from fairbench.study.schedule import Outlook


class NotebookProgress(LiveProgress):
    """Shows the line of progress as an output of the cell; messages are outputs of their own."""

    line_seconds = 1.0

    def __enter__(self) -> "NotebookProgress":
        show: Any = display  # it has no types
        self._output = show({"text/plain": "preparing"}, raw=True, display_id=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._outlook.trials:
            self._show_line(self._summary())

    def planned(self, outlook: Outlook) -> None:
        super().planned(outlook)
        self._show_line(self._summary())

    def _show_line(self, line: str) -> None:
        self._output.update({"text/plain": line}, raw=True)
