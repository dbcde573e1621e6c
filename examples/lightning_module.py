"""PsiLogic in Lightning: groups from a preset, `total_steps` from the trainer, the chaos detector in the logs.

python examples/lightning_module.py
"""

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from psilogic import PsiLogicViT
from psilogic.integrations.lightning import ChaosMonitor


class DigitClassifier(lightning.LightningModule):
    """A small convolutional network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(512, 10),
        )

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        loss = nn.functional.cross_entropy(self.layers(inputs), targets)
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        steps = int(self.trainer.estimated_stepping_batches)
        optimizer = PsiLogicViT(self, lr=2e-3, total_steps=steps, chaos_warmup=10)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


lightning.seed_everything(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(digits.target)
batches = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)

chaos = ChaosMonitor()
trainer = lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    precision="bf16-mixed",
    gradient_clip_val=1.0,
    callbacks=[chaos],
    log_every_n_steps=20,
    logger=CSVLogger("results", name="lightning_example"),
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(DigitClassifier(), batches)

metrics = {name: round(float(value), 3) for name, value in trainer.callback_metrics.items()}
monitor = chaos.monitors[0]
print(metrics, monitor.totals())
print(monitor.spikes()[-3:])
