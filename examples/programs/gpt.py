"""A small GPT of plain torch that reads the standard library, alone or under torchrun [--fsdp], and resumes."""

import os
import sys
from pathlib import Path

import torch.distributed.fsdp
from torch import distributed, nn

import fairbench.trial

rank, world, context = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")), 64
trial = fairbench.trial.current(steps=300)
text = b"".join(file.read_bytes() for file in sorted(Path(os.__file__).parent.glob("*.py")))
windows = torch.frombuffer(bytearray(text), dtype=torch.uint8).long().unfold(0, context + 1, context)
train, val, test = windows.tensor_split([len(windows) * 8 // 10, len(windows) * 9 // 10])


class GPT(nn.Module):
    """A transformer over bytes."""

    def __init__(self, width=32, layers=2):
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(context, width)
        block = nn.TransformerEncoderLayer(width, 2, 4 * width, 0.0, nn.functional.gelu, batch_first=True)
        self.blocks, self.head = nn.TransformerEncoder(block, layers), nn.Linear(width, 256)

    def forward(self, windows):
        """The cross-entropy of each byte after those before it."""
        x = self.bytes(windows[:, :-1]) + self.places(torch.arange(context))
        mask = nn.Transformer.generate_square_subsequent_mask(context)
        logits = self.head(self.blocks(x, mask, is_causal=True))
        return nn.functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


torch.manual_seed(trial.seed)
model = GPT()
if world > 1:
    distributed.init_process_group("gloo")
    model = distributed.fsdp.fully_shard(model) if "--fsdp" in sys.argv else nn.parallel.DistributedDataParallel(model)
optimizer = trial.optimizer(model, lr=1e-3)
checkpoints = [[trial.folder / f"gpt-{step}-{part}.pt" for part in range(world)] for step in range(trial.steps + 1)]
saved = [step for step, parts in enumerate(checkpoints) if all(part.exists() for part in parts)]
done = max(saved, default=0) if trial.resumed else 0
if done:
    for part, state in zip((model, optimizer), torch.load(checkpoints[done][rank]), strict=True):
        part.load_state_dict(state)
for step in range(done + 1, trial.steps + 1):
    drawn = torch.randint(len(train), (8,), generator=torch.Generator().manual_seed(10_000 * trial.seed + step))
    loss = model(train[drawn[rank::world]])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    trial.log(step, train_loss=loss)
    if step % max(trial.steps // 4, 1) == 0:
        torch.save((model.state_dict(), optimizer.state_dict()), checkpoints[0][rank])
        checkpoints[0][rank].rename(checkpoints[step][rank])  # whole or not at all
with torch.no_grad():
    losses = [model(split[:: len(split) // 64]) for split in (val, test)]
trial.result(val={"loss": losses[0]}, test={"loss": losses[1]})
