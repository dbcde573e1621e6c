"""The chaos detector of a Lightning training run, in the loggers of the run."""

from typing import TYPE_CHECKING, Any

from psilogic.monitor import Monitor, monitor
from psilogic.optimizer import PsiLogic

if TYPE_CHECKING:
    from lightning.fabric.utilities.exceptions import MisconfigurationException
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.fabric.utilities.exceptions import MisconfigurationException
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        try:
            from lightning_fabric.utilities.exceptions import MisconfigurationException
            from pytorch_lightning import Callback
        except ModuleNotFoundError as error:
            raise ImportError("psilogic.integrations.lightning needs Lightning: pip install lightning") from error


class ChaosMonitor(Callback):
    """Logs the activity of every PsiLogic's chaos detector during `Trainer.fit`.

    The logged values are `chaos/gate_share`, `chaos/active_share`, `chaos/cancellation` and `chaos/weight_decay`:
    those of `Monitor.totals`, but over the steps since the previous log. They are in `trainer.callback_metrics` too.
    With several PsiLogic optimizers their position is appended: `chaos/gate_share/1`.

    Attributes:
        monitors: the `psilogic.Monitor` of each PsiLogic optimizer, set at the start of the training; they can still
            be read after it, for example `monitors[0].spikes()`.

    Args:
        every_n_steps: steps between two logs, >= 1; None for the trainer's `log_every_n_steps`.
        per_tensor: also log the values of `Monitor.write`, nine scalars for every tensor: thousands for a large model.

    Raises:
        ValueError: `every_n_steps` is out of its range.
    """

    def __init__(self, every_n_steps: int | None = None, per_tensor: bool = False) -> None:
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError(f"every_n_steps must be at least 1, not {every_n_steps}")
        self.every_n_steps = every_n_steps
        self.per_tensor = per_tensor
        self.monitors: list[Monitor] = []
        self._global_step = 0
        self._logs_due = 0
        self._totals: list[dict[str, float]] = []

    def on_train_start(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Attach a monitor to every PsiLogic optimizer, after a checkpoint was restored.

        Raises:
            MisconfigurationException: none of the optimizers is a PsiLogic.
        """
        # A LightningOptimizer is an instance of the class that it wraps, and delegates everything.
        watched = [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, PsiLogic)]
        if not watched:
            names = ", ".join(type(optimizer).__name__ for optimizer in trainer.optimizers)
            raise MisconfigurationException(f"ChaosMonitor needs a PsiLogic optimizer; the trainer has {names}")
        self._detach()
        self.monitors = [monitor(optimizer, pl_module.named_parameters()) for optimizer in watched]
        self._totals = [watching.totals() for watching in self.monitors]
        self._global_step = trainer.global_step
        self._logs_due = self._due(trainer, _batch(trainer))

    def on_train_batch_end(
        self, trainer: "Trainer", pl_module: "LightningModule", outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log when due, after the last batch that the step accumulates."""
        stepped = trainer.global_step != self._global_step
        self._global_step = trainer.global_step
        due = self._due(trainer, _batch(trainer) + 1)
        if stepped and due > self._logs_due:
            self._logs_due = due
            self._log(trainer, pl_module)

    def on_train_end(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        """Detach the monitors; their results can still be read."""
        self._detach()

    def on_exception(self, trainer: "Trainer", pl_module: "LightningModule", exception: BaseException) -> None:
        """Detach the monitors; their results can still be read."""
        self._detach()

    def _detach(self) -> None:
        for watching in self.monitors:
            watching.detach()

    def _due(self, trainer: "Trainer", steps: int) -> int:
        """The number of logs that are due after a number of steps."""
        every: int = self.every_n_steps or trainer.log_every_n_steps  # type: ignore[attr-defined]
        if not every:
            return 0
        return steps // every

    def _log(self, trainer: "Trainer", pl_module: "LightningModule") -> None:
        writer = _ScalarCollector()
        metrics = writer.scalars
        step = _batch(trainer)
        for i, watching in enumerate(self.monitors):
            totals = watching.totals()
            suffix = f"/{i}" if len(self.monitors) > 1 else ""
            for quantity, value in _since(self._totals[i], totals).items():
                metrics[f"chaos/{quantity}{suffix}"] = value
            self._totals[i] = totals
            if self.per_tensor:
                watching.write(writer, step)
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=step)
        pl_module.log_dict(metrics, logger=False, on_step=True, on_epoch=False)  # into callback_metrics


class _ScalarCollector:
    """A writer for `Monitor.write` that keeps the scalars: Lightning's loggers take all those of a step at once."""

    def __init__(self) -> None:
        self.scalars: dict[str, float] = {}

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Keep a scalar."""
        self.scalars[tag] = scalar_value


def _batch(trainer: "Trainer") -> int:
    """The step with which Lightning logs `self.log`; unlike `global_step` it does not count every optimizer."""
    return trainer.fit_loop.epoch_loop._batches_that_stepped


def _since(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    """`Monitor.totals` of the steps between two of them."""
    between = {}
    for name in ("cancellation", "weight_decay"):
        between[name] = now[name] - before[name]
    tensor_steps = max(now["tensor_steps"] - before["tensor_steps"], 1)
    for name in ("gate_share", "active_share"):
        count_now = now[name] * now["tensor_steps"]
        count_before = before[name] * before["tensor_steps"]
        between[name] = (count_now - count_before) / tensor_steps
    return between
