"""The commands that show what there is: by name, in a suite file, and on this machine."""

import argparse
import os
import sys

from fairbench.suites.loader import load_suite

OF_GPU = ("device", "cuda", "cudnn", "tf32")
"""The facts of an environment that are shown for each GPU."""
WITHOUT_EFFECT = ("rich", "msgspec", "scipy", "matplotlib", "jinja2", "pyarrow", "schedulefree", "ray")
"""Distributions on which no result of a trial depends."""


def check_suite(options: argparse.Namespace) -> str:
    """Check a suite file, and say what it contains."""
    suite = load_suite(options.suite)
    arenas = ", ".join(suite.arenas)
    optimizers = ", ".join(suite.optimizers)
    question = suite.question or "nothing is compared"
    return f"{options.suite} is valid: {arenas} with {optimizers}; {suite.final.in_words}, {question}"


def env(options: argparse.Namespace) -> str:
    """The versions and the machine, with a line for each fact, for a report of a bug."""
    import torch

    from fairbench.common.formatting import format_bytes
    from fairbench.common.processes import cores
    from fairbench.training.environment import environment, version

    facts = dict(environment("cpu"))
    facts["cores"] = f"{cores()} of {os.cpu_count()}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    facts["memory"] = format_bytes(memory)
    for number in range(torch.cuda.device_count()):
        device = f"cuda:{number}"
        gpu_facts = environment(device)
        facts[device] = "; ".join(f"{key} {gpu_facts[key]}" for key in OF_GPU)
    for name in WITHOUT_EFFECT:
        facts[name] = version(name)
    facts["executable"] = sys.executable
    lines = [f"{key + ':':20} {value}" for key, value in facts.items()]
    return "\n".join(lines)
