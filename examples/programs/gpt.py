"""A small GPT of plain torch that reads the standard library, alone or under torchrun [--fsdp], and resumes."""

import os
import sys
from pathlib import Path

import torch.distributed.fsdp
from torch import distributed, nn

import fairbench.trial

CONTEXT = 64
BATCH_SIZE = 8

rank = int(os.environ.get("RANK", "0"))
world = int(os.environ.get("WORLD_SIZE", "1"))
trial = fairbench.trial.current(steps=300)

files = sorted(Path(os.__file__).parent.glob("*.py"))
text = b"".join(file.read_bytes() for file in files)
tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
windows = tokens.unfold(0, CONTEXT + 1, CONTEXT)
train, val, test = windows.tensor_split([len(windows) * 8 // 10, len(windows) * 9 // 10])


class GPT(nn.Module):
    """A transformer over bytes."""

    def __init__(self, width=32, layers=2):
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.positions = nn.Embedding(CONTEXT, width)
        block = nn.TransformerEncoderLayer(
            d_model=width,
            nhead=2,
            dim_feedforward=4 * width,
            dropout=0.0,
            activation=nn.functional.gelu,
            batch_first=True,
        )
        self.blocks = nn.TransformerEncoder(block, layers)
        self.head = nn.Linear(width, 256)

    def forward(self, windows):
        """The cross-entropy of each byte after those before it."""
        inputs = windows[:, :-1]
        targets = windows[:, 1:]
        x = self.bytes(inputs) + self.positions(torch.arange(CONTEXT))
        mask = nn.Transformer.generate_square_subsequent_mask(CONTEXT)
        logits = self.head(self.blocks(x, mask, is_causal=True))
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def checkpoint(step, part):
    """The file that a process writes after a step."""
    return trial.folder / f"gpt-{step}-{part}.pt"


def last_checkpoint():
    """The last step of which every process has written its file; 0 if there is none."""
    for step in range(trial.steps, 0, -1):
        if all(checkpoint(step, part).exists() for part in range(world)):
            return step
    return 0


def save_checkpoint(step):
    """Write the file of this process whole or not at all."""
    unfinished = checkpoint(0, rank)
    torch.save((model.state_dict(), optimizer.state_dict()), unfinished)
    unfinished.rename(checkpoint(step, rank))


def draw_batch(step):
    """The batch of a step, the same in a training that was resumed."""
    generator = torch.Generator().manual_seed(10_000 * trial.seed + step)
    rows = torch.randint(len(train), (BATCH_SIZE,), generator=generator)
    return train[rows[rank::world]]


def evaluate(split):
    """The loss of some windows of a split."""
    with torch.no_grad():
        return model(split[:: len(split) // 64])


torch.manual_seed(trial.seed)
model = GPT()
if world > 1:
    distributed.init_process_group("gloo")
    distribute = distributed.fsdp.fully_shard if "--fsdp" in sys.argv else nn.parallel.DistributedDataParallel
    model = distribute(model)
optimizer = trial.optimizer(model, lr=1e-3)

done = 0
if trial.resumed:
    done = last_checkpoint()
if done:
    model_state, optimizer_state = torch.load(checkpoint(done, rank))
    model.load_state_dict(model_state)
    optimizer.load_state_dict(optimizer_state)

for step in range(done + 1, trial.steps + 1):
    loss = model(draw_batch(step))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    trial.log(step, train_loss=loss)
    if step % max(trial.steps // 4, 1) == 0:
        save_checkpoint(step)

val_loss = evaluate(val)
test_loss = evaluate(test)
trial.result(val={"loss": val_loss}, test={"loss": test_loss})
