"""The arena gpt of the suite mini as a training program of its own, bit for bit, with all that a trial can show.

    python arena_gpt.py
    torchrun --standalone --nproc-per-node 2 arena_gpt.py [--fsdp]

Several processes share each batch: replicas of the model by default, parts of it with --fsdp.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

import fairbench.trial
from fairbench.arenas.gpt import GPT
from fairbench.data.batches import Batches
from fairbench.training.evaluation import evaluate

CPU = torch.device("cpu")
LOG_EVERY = 10
EVALUATIONS = 6

rank = int(os.environ.get("RANK", "0"))
world = int(os.environ.get("WORLD_SIZE", "1"))
trial = fairbench.trial.current(steps=300)
torch.set_num_threads(1)
arena = GPT()
data = arena.open_data({"source": "stdlib", "context": 64, "evaluated": 128}, Path())
torch.manual_seed(trial.seed)
plain = arena.build_model(data, hidden_size=32, layers=2, heads=2)
trial.start(plain)
model = plain
if world > 1:
    dist.init_process_group("gloo")
    if "--fsdp" in sys.argv:
        mesh = torch.distributed.init_device_mesh("cpu", (world,))
        torch.distributed.fsdp.fully_shard(model, mesh=mesh)
    else:
        model = DistributedDataParallel(plain)
optimizer = trial.optimizer(model, lr=1e-3)
schedule = trial.lr_schedule(optimizer)
batches = Batches(data, batch_size=8, steps=trial.steps, seed=trial.seed, device=CPU)
losses = []
evaluated = {round(trial.steps * (i + 1) / EVALUATIONS) for i in range(EVALUATIONS)}

for step in range(1, trial.steps + 1):
    tokens = next(batches).inputs
    trial.batch(tokens)
    loss = arena.loss(model, tokens[rank::world])
    loss.backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    losses.append(loss.detach())
    if step % LOG_EVERY == 0 or step == trial.steps:
        trial.log(step, train_loss=torch.stack(losses).mean())
        losses.clear()
    if step in evaluated:
        metrics = evaluate(arena, plain, data, "val", 256)
        named_metrics = {f"val_{name}": value for name, value in metrics.items()}
        trial.log(step, **named_metrics)

test_metrics = evaluate(arena, plain, data, "test", 256)
trial.result(val=metrics, test=test_metrics)
