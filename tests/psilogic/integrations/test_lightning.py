"""Lightning: the same steps as a loop written by hand, resumed runs, and a callback that logs the monitor's totals.

Lightning is imported in the fixture, since xdist's workers all import this file and only one of them needs it.
"""

import importlib
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from training import assert_same, classification_batches, classifier, train

from psilogic import PsiLogic, monitor

pytestmark = pytest.mark.xdist_group("lightning")  # one worker imports it

OPTIONS = {"lr": 0.02, "gamma": 5.0, "tau_scale": 7.0, "total_steps": 12, "chaos_warmup": 3}
LOSS = torch.nn.functional.cross_entropy


def tools(name):
    """A Lightning package and modules, trainers and loggers made of it."""
    pl = importlib.import_module(name)
    loggers = importlib.import_module(f"{name}.loggers")
    ours = importlib.import_module("psilogic.integrations.lightning")

    class Module(pl.LightningModule):
        """A classifier that notes a monitor's totals and rows after each batch."""

        def __init__(self):
            super().__init__()
            self.layers = classifier()
            self.readings = []

        def training_step(self, batch, batch_idx):
            loss = LOSS(self.layers(batch.features).float(), batch.labels)
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            optimizer = PsiLogic(self.parameters(), **OPTIONS)
            self.truth = monitor(optimizer, self.named_parameters())
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

        def on_train_batch_end(self, *batch):
            self.readings.append(Reading(self.truth.totals(), self.truth.read()))

    class Memory(loggers.logger.DummyLogger):
        """A logger that keeps the metrics of each step."""

        def __init__(self):
            super().__init__()
            self.logged = defaultdict(dict)

        def log_metrics(self, metrics, step):
            self.logged[step].update(metrics)

    def fit(module, batches, *, ckpt_path=None, **options):
        defaults = {
            "max_steps": 12,
            "logger": False,
            "enable_checkpointing": False,
            "log_every_n_steps": 1,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "accelerator": "cpu",
        }
        trainer = pl.Trainer(**{**defaults, **options})
        loader = torch.utils.data.DataLoader(batches, batch_size=None)
        trainer.fit(module, loader, ckpt_path=ckpt_path)
        return trainer

    return SimpleNamespace(pl=pl, Module=Module, Memory=Memory, fit=fit, ChaosMonitor=ours.ChaosMonitor)


class Reading(NamedTuple):
    """What a monitor says after a batch."""

    totals: dict
    rows: list


def steps_with(memory, metric):
    """The steps in which a metric was logged."""
    return [step for step, metrics in memory.logged.items() if metric in metrics]


@pytest.fixture(scope="module")
def lightning():
    return tools("lightning.pytorch")


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_clipped_by_lightning_equals_a_loop_by_hand(lightning, precision) -> None:
    batches = classification_batches(24)
    callback = lightning.ChaosMonitor()
    trainer = lightning.fit(
        lightning.Module(),
        batches,
        precision=precision,
        accumulate_grad_batches=2,
        gradient_clip_val=1.0,
        callbacks=[callback],
    )

    other = lightning.Module()
    (optimizer,), (schedule,) = other.configure_optimizers()

    def loss_of(batch):
        return LOSS(other.layers(batch.features).float(), batch.labels)

    bf16 = precision == "bf16-mixed"
    train(other, optimizer, schedule["scheduler"], batches, loss_of, accumulate=2, max_norm=1.0, bf16=bf16)
    assert_same(trainer.optimizers[0], optimizer)
    assert callback.monitors[0].read() == other.truth.read()
    assert other.truth.totals()["cancellation"] > 0


def test_resumed_equals_never_stopped(lightning, tmp_path) -> None:
    batches = classification_batches(6)
    through = lightning.fit(lightning.Module(), batches, max_steps=-1, max_epochs=2)
    first = lightning.fit(lightning.Module(), batches, max_steps=-1, max_epochs=1)
    checkpoint = tmp_path / "first.ckpt"
    first.save_checkpoint(checkpoint)
    memory = lightning.Memory()
    callback = lightning.ChaosMonitor(every_n_steps=4)
    resumed = lightning.fit(
        lightning.Module(),
        batches,
        max_steps=-1,
        max_epochs=2,
        ckpt_path=checkpoint,
        logger=memory,
        callbacks=[callback],
    )
    assert_same(resumed.optimizers[0], through.optimizers[0])
    assert {row.steps for row in callback.monitors[0].read()} == {6}
    assert steps_with(memory, "chaos/gate_share") == [7, 11]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_what_is_logged_is_what_the_monitor_says(lightning, accumulate) -> None:
    memory = lightning.Memory()
    module = lightning.Module()
    trainer = lightning.fit(
        module,
        classification_batches(12 * accumulate),
        logger=memory,
        log_every_n_steps=4,
        accumulate_grad_batches=accumulate,
        callbacks=[lightning.ChaosMonitor(per_tensor=True)],
    )
    assert steps_with(memory, "chaos/gate_share") == [3, 7, 11]
    assert steps_with(memory, "loss") == [3, 7, 11]
    readings = module.readings[accumulate - 1 :: accumulate]  # after each step
    before = dict.fromkeys(readings[0].totals, 0.0)
    for step in (3, 7, 11):
        totals, rows = readings[step]
        logged = memory.logged[step]
        assert_logged_between(logged, before, totals)
        for row in rows:
            assert logged[f"chaos/ratio/{row.name}"] == row.ratio
        before = totals
    assert 0 < memory.logged[11]["chaos/gate_share"] < 1
    for name, value in memory.logged[11].items():
        if name.startswith("chaos/"):
            assert trainer.callback_metrics[name].item() == pytest.approx(value)


def assert_logged_between(logged, before, now):
    """The logged values are those of the four steps between two totals of six tensors."""
    tensor_steps = now["tensor_steps"] - before["tensor_steps"]
    assert tensor_steps == 4 * 6
    for quantity in ("gate_share", "active_share"):
        count = now[quantity] * now["tensor_steps"] - before[quantity] * before["tensor_steps"]
        assert logged[f"chaos/{quantity}"] == pytest.approx(count / tensor_steps)
    for quantity in ("cancellation", "weight_decay"):
        assert logged[f"chaos/{quantity}"] == pytest.approx(now[quantity] - before[quantity])


def test_optimizers_by_hand_of_several_kinds(lightning) -> None:
    from lightning.pytorch.core.optimizer import LightningOptimizer

    class Adversaries(lightning.Module):
        automatic_optimization = False

        def configure_optimizers(self):
            first = PsiLogic(self.layers[0].parameters(), lr=0.02)
            if sys.version_info < (3, 12):  # later Lightning does not accept its own wrapper here, of AdamW neither
                first = LightningOptimizer(first)
            sgd = torch.optim.SGD(self.layers[1].parameters(), lr=0.02)
            second = PsiLogic(self.layers[3].parameters(), lr=0.02)
            return [first, sgd, second]

        def training_step(self, batch, batch_idx):
            """The first optimizer steps on each batch, the others on every third."""
            optimizers = self.optimizers()
            if batch_idx % 3 != 2:
                optimizers = optimizers[:1]
            for optimizer in optimizers:
                optimizer.zero_grad()
                loss = LOSS(self.layers(batch.features), batch.labels)
                self.manual_backward(loss)
                optimizer.step()

        def on_train_batch_end(self, *batch):
            pass

    memory = lightning.Memory()
    callback = lightning.ChaosMonitor(per_tensor=True)
    batches = classification_batches(6)
    lightning.fit(Adversaries(), batches, max_steps=-1, max_epochs=1, logger=memory, callbacks=[callback])
    of_first, of_second = callback.monitors
    assert {row.name: row.steps for row in of_first.read()} == {"layers.0.weight": 6, "layers.0.bias": 6}
    assert {row.name: row.steps for row in of_second.read()} == {"layers.3.weight": 2, "layers.3.bias": 2}
    assert {"chaos/gate_share/0", "chaos/gate_share/1", "chaos/gn/layers.3.bias"} <= memory.logged[5].keys()
    assert list(memory.logged) == list(range(6))


def test_the_optimizer_is_watched_while_it_trains_and_no_longer(lightning) -> None:
    class Interrupted(lightning.Module):
        def on_train_epoch_start(self):
            self.watched = self.trainer.optimizers[0]
            self.watchers = len(self.watched.observers)

        def on_train_epoch_end(self):
            raise OSError("the disk is full")

    callback = lightning.ChaosMonitor()
    module = Interrupted()
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is full"):
            lightning.fit(module, classification_batches(3), callbacks=[callback])
        assert module.watchers == 2
        assert len(module.watched.observers) == 1
        assert callback.monitors[0].totals() == module.truth.totals()


def test_errors(lightning) -> None:
    class Other(lightning.Module):
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    with pytest.raises(Exception, match="needs a PsiLogic optimizer; the trainer has SGD"):
        lightning.fit(Other(), classification_batches(3), callbacks=[lightning.ChaosMonitor()])
    with pytest.raises(ValueError, match="every_n_steps must be at least 1, not 0"):
        lightning.ChaosMonitor(every_n_steps=0)


def forget(monkeypatch, *packages):
    """Make packages look as if they were not installed."""
    for name in list(sys.modules):
        if name.partition(".")[0] in packages or name == "psilogic.integrations.lightning":
            monkeypatch.delitem(sys.modules, name)
    for name in packages:
        monkeypatch.setitem(sys.modules, name, None)


def test_the_older_package_name(monkeypatch) -> None:
    forget(monkeypatch, "lightning")
    older = tools("pytorch_lightning")
    memory = older.Memory()
    older.fit(older.Module(), classification_batches(3), logger=memory, callbacks=[older.ChaosMonitor()])
    assert issubclass(older.ChaosMonitor, sys.modules["pytorch_lightning"].Callback)
    assert "chaos/gate_share" in memory.logged[2]


def test_lightning_is_not_installed(monkeypatch) -> None:
    forget(monkeypatch, "lightning", "lightning_fabric", "pytorch_lightning")
    with pytest.raises(ImportError, match="pip install lightning"):
        importlib.import_module("psilogic.integrations.lightning")
