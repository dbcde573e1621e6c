"""Lightning: the same steps as a loop written by hand, resumed runs, and a callback that logs the monitor's totals.

Lightning is imported in the fixture, since xdist's workers all import this file and only one of them needs it.
"""

import importlib
import sys
from collections import defaultdict
from types import SimpleNamespace

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
    CallbackOfOurs = importlib.import_module("psilogic.integrations.lightning").ChaosMonitor

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = classifier()

        def training_step(self, batch, batch_idx):
            loss = LOSS(self.layers(batch[0]).float(), batch[1])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            optimizer = PsiLogic(self.parameters(), **OPTIONS)
            self.truth = monitor(optimizer, self.named_parameters())
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
            return [optimizer], [{"scheduler": scheduler, "interval": "step"}]

        def on_train_batch_end(self, *batch):
            self.readings = [*getattr(self, "readings", []), (self.truth.totals(), self.truth.read())]

    class Memory(importlib.import_module(f"{name}.loggers").logger.DummyLogger):
        def __init__(self):
            super().__init__()
            self.logged = defaultdict(dict)

        def log_metrics(self, metrics, step):
            self.logged[step].update(metrics)

    def fit(module, batches, *, ckpt_path=None, **options):
        defaults = {"max_steps": 12, "logger": False, "enable_checkpointing": False, "log_every_n_steps": 1}
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
        trainer = pl.Trainer(**{**defaults, **quiet, **options})
        trainer.fit(module, torch.utils.data.DataLoader(batches, batch_size=None), ckpt_path=ckpt_path)
        return trainer

    return SimpleNamespace(pl=pl, Module=Module, Memory=Memory, fit=fit, ChaosMonitor=CallbackOfOurs)


@pytest.fixture(scope="module")
def lightning():
    return tools("lightning.pytorch")


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_clipped_by_lightning_equals_a_loop_by_hand(lightning, precision) -> None:
    batches, module, other = classification_batches(24), lightning.Module(), lightning.Module()
    callback = lightning.ChaosMonitor()
    trainer = lightning.fit(
        module, batches, precision=precision, accumulate_grad_batches=2, gradient_clip_val=1.0, callbacks=[callback]
    )
    (optimizer,), (scheduler,) = other.configure_optimizers()
    train(
        other, optimizer, scheduler["scheduler"], batches,
        lambda batch: LOSS(other.layers(batch[0]).float(), batch[1]), accumulate=2, max_norm=1.0,
        bf16=precision == "bf16-mixed",
    )  # fmt: skip
    assert_same(trainer.optimizers[0], optimizer)
    assert callback.monitors[0].read() == other.truth.read()
    assert other.truth.totals()["cancellation"] > 0


def test_resumed_equals_never_stopped(lightning, tmp_path) -> None:
    batches, checkpoint = classification_batches(6), tmp_path / "first.ckpt"
    through = lightning.fit(lightning.Module(), batches, max_steps=-1, max_epochs=2)
    lightning.fit(lightning.Module(), batches, max_steps=-1, max_epochs=1).save_checkpoint(checkpoint)
    memory, callback = lightning.Memory(), lightning.ChaosMonitor(every_n_steps=4)
    options = {"ckpt_path": checkpoint, "logger": memory, "callbacks": [callback]}
    resumed = lightning.fit(lightning.Module(), batches, max_steps=-1, max_epochs=2, **options)
    assert_same(resumed.optimizers[0], through.optimizers[0])
    assert {row.steps for row in callback.monitors[0].read()} == {6}
    assert [step for step, metrics in memory.logged.items() if "chaos/gate_share" in metrics] == [7, 11]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_what_is_logged_is_what_the_monitor_says(lightning, accumulate) -> None:
    memory, module = lightning.Memory(), lightning.Module()
    trainer = lightning.fit(
        module, classification_batches(12 * accumulate), logger=memory, log_every_n_steps=4,
        accumulate_grad_batches=accumulate, callbacks=[lightning.ChaosMonitor(per_tensor=True)],
    )  # fmt: skip
    steps = [step for step, metrics in memory.logged.items() if "chaos/gate_share" in metrics]
    assert steps == [step for step, metrics in memory.logged.items() if "loss" in metrics] == [3, 7, 11]
    readings = module.readings[accumulate - 1 :: accumulate]
    before = dict.fromkeys(readings[0][0], 0.0)
    for step in steps:
        (now, rows), logged = readings[step], memory.logged[step]
        pairs = now["tensor_steps"] - before["tensor_steps"]
        assert pairs == 4 * 6
        for quantity in ("gate_share", "active_share"):
            count = now[quantity] * now["tensor_steps"] - before[quantity] * before["tensor_steps"]
            assert logged[f"chaos/{quantity}"] == pytest.approx(count / pairs)
        for quantity in ("cancellation", "weight_decay"):
            assert logged[f"chaos/{quantity}"] == pytest.approx(now[quantity] - before[quantity])
        for row in rows:
            assert logged[f"chaos/ratio/{row.name}"] == row.ratio
        before = now
    assert 0 < memory.logged[11]["chaos/gate_share"] < 1
    ours = {name: value for name, value in memory.logged[11].items() if name.startswith("chaos/")}
    assert {name: trainer.callback_metrics[name].item() for name in ours} == pytest.approx(ours)


def test_optimizers_by_hand_of_several_kinds(lightning) -> None:
    from lightning.pytorch.core.optimizer import LightningOptimizer

    class Adversaries(lightning.Module):
        automatic_optimization = False

        def configure_optimizers(self):
            kinds = {0: PsiLogic, 1: torch.optim.SGD, 3: PsiLogic}
            one, sgd, two = (kind(self.layers[i].parameters(), lr=0.02) for i, kind in kinds.items())
            # from Python 3.12 on Lightning does not accept its own wrapper here, of AdamW neither
            return [LightningOptimizer(one) if sys.version_info < (3, 12) else one, sgd, two]

        def training_step(self, batch, batch_idx):
            for optimizer in self.optimizers()[: None if batch_idx % 3 == 2 else 1]:
                optimizer.zero_grad()
                self.manual_backward(LOSS(self.layers(batch[0]), batch[1]))
                optimizer.step()

        def on_train_batch_end(self, *batch):
            pass

    memory, callback = lightning.Memory(), lightning.ChaosMonitor(per_tensor=True)
    options = {"max_steps": -1, "max_epochs": 1, "logger": memory, "callbacks": [callback]}
    lightning.fit(Adversaries(), classification_batches(6), **options)
    steps = [{row.name: row.steps for row in watching.read()} for watching in callback.monitors]
    assert steps == [{"layers.0.weight": 6, "layers.0.bias": 6}, {"layers.3.weight": 2, "layers.3.bias": 2}]
    assert {"chaos/gate_share/0", "chaos/gate_share/1", "chaos/gn/layers.3.bias"} <= memory.logged[5].keys()
    assert list(memory.logged) == list(range(6))


def test_the_optimizer_is_watched_while_it_trains_and_no_longer(lightning) -> None:
    class Interrupted(lightning.Module):
        def on_train_epoch_start(self):
            self.watchers = len(self.trainer.optimizers[0]._observers)

        def on_train_epoch_end(self):
            raise OSError("the disk is full")

    callback, module = lightning.ChaosMonitor(), Interrupted()
    for _ in range(2):
        with pytest.raises(OSError, match="the disk is full"):
            lightning.fit(module, classification_batches(3), callbacks=[callback])
        assert module.watchers == 2
        assert module.truth._optimizer._observers == [module.truth._observe]
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
