"""The cost of a checkpoint: seconds of CPU to write and to read it, and its bytes.

.venv/bin/python benchmarks/checkpoint.py [--csv docs/results/benchmarks/checkpoint.csv]
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from csv_files import csv_parser, write_csv
from planning import cpu
from transformers import GPT2Config, GPT2LMHeadModel

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fairbench"))
from tiny import study_of

from fairbench.common.files import replacing
from fairbench.study.planned_trial import trial_spec
from fairbench.suites.loader import load_suite
from fairbench.suites.overrides import Overrides
from fairbench.training.checkpoint import read_state, write_state
from fairbench.training.device_slot import DeviceSlot
from fairbench.training.trainer import Trainer

State = dict[str, Any]


def mini_gpt() -> State:
    """A trial of the embedded suite, in its middle."""
    suite = load_suite("mini", Overrides(arenas=["gpt"], optimizers=["AdamW"]))
    spec = trial_spec(study_of(suite), "gpt", "AdamW", "final", 1e-3, 1)
    trainer = Trainer(spec, DeviceSlot())
    for _ in range(5):
        trainer.done += 1
        trainer.train_one_step(trainer.done)
    return trainer.state_dict()


def gpt2_small() -> State:
    """GPT-2 with 124M parameters and AdamW, after a step."""
    model = GPT2LMHeadModel(GPT2Config())
    optimizer = torch.optim.AdamW(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e-3)
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def seconds(work: Callable[[], Any]) -> float:
    """Seconds of CPU, of this process and of the system for it."""
    began = cpu()
    work()
    return cpu() - began


def write(path: Path, state: State) -> None:
    """Write a checkpoint as a trial does."""
    with replacing(path) as file:
        write_state(file, {}, state)


def measure(name: str, state: State) -> dict[str, str]:
    """The row of one state, with the fastest of three repetitions."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "it.pt"
        writing = min(seconds(partial(write, path, state)) for _ in range(3))
        reading = min(seconds(partial(read_state, path, {}, torch.device("cpu"))) for _ in range(3))
        megabytes = path.stat().st_size / 1e6
    return {"what": name, "write_s": f"{writing:.3g}", "read_s": f"{reading:.3g}", "mb": f"{megabytes:.4g}"}


def main() -> None:
    """Print the results, and write them as CSV if requested."""
    parser = csv_parser(__doc__)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [measure("mini gpt", mini_gpt()), measure("gpt-2 124M", gpt2_small())]
    for words in (rows[0].keys(), *(row.values() for row in rows)):
        print("  ".join(f"{word:>10}" for word in words))
    if options.csv:
        write_csv(rows, options.csv)


if __name__ == "__main__":
    main()
