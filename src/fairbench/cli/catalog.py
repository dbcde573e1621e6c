"""The commands that show what there is: by name, in a suite file, and on this machine."""

import argparse
import os
import sys

from fairbench.suites.loader import load_suite

OF_GPU = ("device", "cuda", "cudnn", "tf32")
MORE = ("rich", "msgspec", "scipy", "matplotlib", "jinja2", "pyarrow", "schedulefree", "ray")
"""Distributions on which no result of a trial depends."""


def check_suite(options: argparse.Namespace) -> str:
    """Check a suite file, and say what it contains."""
    suite = load_suite(options.suite)
    return (
        f"{options.suite} is valid: {', '.join(suite.arenas)} with {', '.join(suite.optimizers)}; "
        f"{suite.final.in_words}, {suite.question or 'nothing is compared'}"
    )


def env(options: argparse.Namespace) -> str:
    """Versions and machine, for a report of a bug: a line for each fact."""
    import torch

    from fairbench.common.formatting import format_bytes
    from fairbench.common.processes import cores
    from fairbench.training.environment import environment, version

    devices = {f"cuda:{number}": environment(f"cuda:{number}") for number in range(torch.cuda.device_count())}
    facts = {
        **environment("cpu"),
        "cores": f"{cores()} of {os.cpu_count()}",
        "memory": format_bytes(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        **{name: "; ".join(f"{key} {of[key]}" for key in OF_GPU) for name, of in devices.items()},
        **{name: version(name) for name in MORE},
        "executable": sys.executable,
    }
    return "\n".join(f"{key + ':':20} {value}" for key, value in facts.items())
