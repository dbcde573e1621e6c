"""What well-known libraries print is read as they mean it: each program also writes its last value into a file.

The libraries that take long to load are in the soak; `PRINTED` of `test_printed_lines.py` has lines as they print them.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairbench.arenas.program import ProgramOptions, own_folder
from fairbench.training.program_results import read_reported
from fairbench.training.result_files import Folders

TQDM = """
import json
from tqdm import tqdm
for epoch in range(3):
    with tqdm(range(20), desc=f"Epoch {epoch}") as bar:
        for step in bar:
            last = 1 / (epoch + step + 3)
            bar.set_postfix(loss=2 - 0.01 * step, val_loss=f"{last:.6f}", lr="1e-3")
json.dump(round(last, 6), open("last.json", "w"))
"""
RANKS = """
import json, os
rank = int(os.environ["RANK"])
for epoch in range(3):
    print(f"epoch {epoch}: val_loss {1.5 - epoch / 4 + rank / 8}", flush=True)
if rank == 0:
    json.dump(1.0, open("last.json", "w"))
"""
DATA = """
import json
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(1)
x = torch.randn(96, 4)
y = x.sum(1, keepdim=True)
loss_of = torch.nn.functional.mse_loss
"""
TRAINER = f"""{DATA}
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
class Model(PreTrainedModel):
    config_class = PretrainedConfig
    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(4, 1)
        self.post_init()
    def forward(self, x, labels):
        out = self.layer(x)
        return {{"loss": loss_of(out, labels), "logits": out}}
rows = [{{"x": a, "labels": b}} for a, b in zip(x, y)]
options = TrainingArguments(
    "out", num_train_epochs=1, eval_strategy="steps", eval_steps=3, logging_steps=3, report_to="none", use_cpu=True,
    save_strategy="no",
)
trainer = Trainer(Model(PretrainedConfig()), options, train_dataset=rows[:64], eval_dataset=rows[64:])
trainer.train()
json.dump(trainer.state.log_history[-2]["eval_loss"], open("last.json", "w"))
"""
LIGHTNING = f"""{DATA}
import lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch, index):
        return loss_of(self.layer(batch[0]), batch[1])
    def validation_step(self, batch, index):
        self.log("val_loss", loss_of(self.layer(batch[0]), batch[1]), prog_bar=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
model = Model()
rows = DataLoader(TensorDataset(x, y), batch_size=32)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False)
trainer.fit(model, rows, rows)
(found,) = trainer.validate(model, rows)
json.dump(found["val_loss"], open("last.json", "w"))
"""
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--tee", "3")


@pytest.mark.parametrize(
    ("program", "launcher", "precision"),
    [
        (TQDM, (), 1e-12),
        pytest.param(RANKS, TORCHRUN, 1e-12, marks=pytest.mark.slow),
        pytest.param(TRAINER, (), 1e-3, marks=pytest.mark.soak),  # it prints four digits
        pytest.param(LIGHTNING, (), 1e-6, marks=pytest.mark.soak),
    ],
    ids=["tqdm", "torchrun", "transformers", "lightning"],
)
def test_the_last_value_that_a_library_prints(tmp_path, program, launcher, precision):
    own_folder(tmp_path).mkdir()
    (tmp_path / "train.py").write_text(program)
    with (own_folder(tmp_path) / "output.txt").open("wb") as output:
        subprocess.run(
            [sys.executable, *launcher, "train.py"],
            cwd=tmp_path,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            check=True,
        )
    found = read_reported(Folders(tmp_path), ProgramOptions("train.py", {"loss": "min"}), ({},))
    column = found.values["val/loss"]
    assert not found.unclear
    assert column[max(column)] == pytest.approx(json.loads(Path(tmp_path, "last.json").read_text()), rel=precision)
