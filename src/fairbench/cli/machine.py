"""`fairbench env`: versions and machine, for a report of a bug."""

import argparse
import os
import sys

import torch

from fairbench.common.formatting import format_bytes
from fairbench.common.terminal import say
from fairbench.runner.run_options import cores
from fairbench.training.environment import environment, version

MORE = ("rich", "msgspec", "scipy", "matplotlib", "jinja2", "pyarrow", "schedulefree", "ray")
"""Distributions on which no result of a trial depends."""


def env(options: argparse.Namespace) -> int:
    """Print a line for each fact."""
    devices = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    facts = {
        **environment("cpu"),
        "cores": f"{cores()} of {os.cpu_count()}",
        "memory": format_bytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        **{device: "; ".join(f"{key} {x}" for key, x in _gpu(device).items()) for device in devices},
        **{name: version(name) for name in MORE},
        "executable": sys.executable,
    }
    for key, value in facts.items():
        say(f"{key + ':':20} {value}")
    return 0


def _gpu(device: str) -> dict[str, str]:
    return {key: environment(device)[key] for key in ("device", "cuda", "cudnn", "tf32")}
