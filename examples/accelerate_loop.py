"""PsiLogic in a custom loop with Accelerate: gradient accumulation, clipping, bfloat16 and a checkpoint.

python examples/accelerate_loop.py
"""

import math
import tempfile

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from psilogic import PsiLogicViT, monitor

EPOCHS = 2
ACCUMULATE = 2

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
labels = torch.tensor(digits.target)
batches = DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(512, 10),
)

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=ACCUMULATE, cpu=True)
steps_of_epoch = math.ceil(len(batches) / ACCUMULATE)  # the last step accumulates the remaining batches
steps = EPOCHS * steps_of_epoch
optimizer = PsiLogicViT(model, lr=2e-3, total_steps=steps, chaos_warmup=10)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
chaos = monitor(optimizer, model.named_parameters())  # before `prepare`, which wraps the optimizer
model, optimizer, scheduler, batches = accelerator.prepare(model, optimizer, scheduler, batches)

for epoch in range(EPOCHS):
    for inputs, targets in batches:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    accelerator.print(f"epoch {epoch + 1}: loss {loss.item():.3f}, {chaos.totals()}")

with tempfile.TemporaryDirectory() as directory:
    accelerator.save_state(directory)  # the detector's state is in it
    accelerator.load_state(directory)
