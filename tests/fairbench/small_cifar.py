"""A small CIFAR-100 as its authors and as the hub have it, and the commands on it."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import archives

from fairbench.cli.main import main
from fairbench.data.dataset_config import check_prepared, configs_of, dataset_config
from fairbench.data.datasets.registry import DATASETS
from fairbench.suites.loader import load_suite

FACTS = DATASETS["cifar100"]
TRAIN = archives.noise(33, 3, (32, 32), 0)
TEST = archives.noise(6, 3, (32, 32), 1)
MEMBERS = archives.cifar_members(TRAIN, TEST, archives.CLASSES)
"""The files in the authors' archive."""


def of_cifar(verb, data_root, *words):
    """The arguments of a command on CIFAR-100."""
    return ["data", verb, "--data-root", str(data_root), "--dataset", "cifar100", *words]


def cifar(verb, data_root, *words):
    """Run a command on CIFAR-100; returns its exit code."""
    return main(of_cifar(verb, data_root, *words))


def verified(data_root):
    """Whether the prepared CIFAR-100 is verified."""
    manifest = dataset_config("cifar100").prepared(data_root).manifest
    return bool(manifest["verified"])


def suite_of_cifar():
    """A suite whose only arena reads CIFAR-100."""
    suite = load_suite("paper-cpu")
    return replace(suite, arenas={"vit": suite.arenas["vit"]})


def check_data(suite, data_root):
    """Raise UsageError unless the data of a suite are prepared and unchanged."""
    check_prepared(configs_of(suite.data_tables), Path(data_root))


def offered(text):
    """The arguments of the `fairbench` commands that a message names."""
    one_line = text.replace("\n  ", ";").replace("\n", ";")
    commands = re.findall(r"fairbench (data [^;,]*)", one_line)
    return [shlex.split(command) for command in commands]
