"""Event files for TensorBoard, written by the driver as trials run: `<arena>/<optimizer>/<stage> <lr> <seed>`.

The file `complete` in a trial's folder holds the trial's id. Event files that a killed run left incomplete are written
again: from the record if there is one, otherwise when the trial restarts.
"""

import importlib.util
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fairbench.common.errors import UsageError
from fairbench.common.files import write_atomically
from fairbench.common.reading import read_text
from fairbench.runner.observers import Observer
from fairbench.study.record import WholeRecord
from fairbench.study.trial_spec import TrialSpec

LOSS = "loss/train"
FLUSH_SECONDS = 5


class TensorBoard(Observer):
    """Writes losses, metrics and hyperparameters of sweep and final trials; the `extra` ones distinguish trials."""

    def __init__(self, directory: Path, extra: Iterable[str] = ()) -> None:
        if importlib.util.find_spec("tensorboard") is None:
            raise UsageError("--tensorboard needs the package tensorboard: pip install tensorboard")
        self._directory, self._others = directory, [name for name in extra if name != "weight_decay"]
        self._writers: dict[str, Any] = {}  # by trial; torch, which has their class, is loaded when one is made

    def __exit__(self, *error: object) -> None:
        for writer in self._writers.values():
            writer.close()

    def folder(self, spec: TrialSpec) -> Path:
        values = spec.hyperparameters
        decay = "" if spec.weight_decay is None else f" wd={spec.weight_decay:g}"
        others = "".join(f" {name}={values[name]}" for name in self._others if name in values)
        trial = f"{spec.stage} lr={spec.lr:g}{decay}{others} seed {spec.seed}"
        return self._directory / _name(spec.arena.name) / _name(spec.optimizer.name) / _name(trial)

    def recorded(self, spec: TrialSpec, read: Callable[[], WholeRecord | None]) -> None:
        """Write the event file of an existing record, unless it is complete."""
        if read_text(self._complete(spec)) != spec.id and (record := read()):
            self._write(spec, record)

    def started(self, spec: TrialSpec, label: str = "") -> None:
        if spec.stage == "timing":
            return

        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(self.folder(spec), ignore_errors=True)
        writer = SummaryWriter(str(self.folder(spec)), flush_secs=FLUSH_SECONDS)
        rows = "\n".join(f"| {name} | {value} |" for name, value in spec.hyperparameters.items())
        writer.add_text("hyperparameters", f"| {spec.optimizer.factory} | |\n|---|---|\n{rows}", 0)
        self._writers[spec.id] = writer

    def running(self, spec: TrialSpec, step: int, loss: float) -> None:
        if writer := self._writers.get(spec.id):
            writer.add_scalar(LOSS, loss, step)

    def paused(self, spec: TrialSpec) -> None:
        """Close the file; it is written again when the trial resumes."""
        if writer := self._writers.pop(spec.id, None):
            writer.close()

    def ended(self, spec: TrialSpec, record: WholeRecord) -> None:
        """Write the whole file from the record, or the error of a failed trial."""
        if spec.id not in self._writers:
            return
        if record.error:
            self._writers[spec.id].add_text("failed", str(record.error), 0)
        self.paused(spec)
        self._write(spec, record)

    def _write(self, spec: TrialSpec, record: WholeRecord) -> None:
        """Write the event file of a trial that did not fail; one that resumed has its first steps, too."""
        if not (record.result and record.details):
            return
        self.started(spec)
        if not (writer := self._writers.get(spec.id)):
            return
        for step, loss in record.details.loss_curve.points("loss"):
            writer.add_scalar(LOSS, loss, step)
        for metric in record.details.evaluations.values:
            for step, value in record.details.evaluations.points(metric):
                writer.add_scalar(f"{metric}/{spec.training.selection}", value, step)
        for metric, value in record.final("test").items():
            writer.add_scalar(f"{metric}/test", value, record.result.steps)
        self.paused(spec)
        write_atomically(self._complete(spec), spec.id)

    def _complete(self, spec: TrialSpec) -> Path:
        return self.folder(spec) / "complete"


def _name(text: str) -> str:
    return quote(text, safe=" ()[]{}=+,:@")
