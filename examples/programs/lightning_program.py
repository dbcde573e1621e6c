"""A classifier of handwritten digits trained by Lightning; of fairbench are an import and four lines."""

import lightning
import torch
from sklearn.datasets import load_digits
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

import fairbench.trial

trial = fairbench.trial.current(steps=20, folder="lightning_output")
images, labels = load_digits(return_X_y=True)
digits = TensorDataset(torch.tensor(images).float() / 16, torch.tensor(labels))
train, val, test = random_split(digits, [0.8, 0.1, 0.1], torch.Generator().manual_seed(0))


class Digits(lightning.LightningModule):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 32),
            torch.nn.ReLU(),
            torch.nn.Linear(32, 10),
        )

    def training_step(self, batch, index):
        """The loss of a batch."""
        inputs, targets = batch
        loss = F.cross_entropy(self.layers(inputs), targets)
        trial.log(self.global_step + 1, train_loss=loss)
        return loss

    def configure_optimizers(self):
        """The optimizer of the trial."""
        return trial.optimizer(self, lr=1e-3)


def evaluate(model, part):
    """The loss of a part of the digits."""
    inputs, targets = digits[part.indices]
    with torch.no_grad():
        return F.cross_entropy(model.layers(inputs), targets)


lightning.seed_everything(trial.seed)
model = Digits()
trainer = lightning.Trainer(
    max_steps=trial.steps,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(model, DataLoader(train, 32, shuffle=True))
val_loss = evaluate(model, val)
test_loss = evaluate(model, test)
trial.result(val={"loss": val_loss}, test={"loss": test_loss})
