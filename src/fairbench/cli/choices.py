"""What the options of `fairbench run`, `plan`, `noise` and `slurm` choose, as records for the parts that read them.

A command makes these records of its options when it begins. None stands for an option that was not given.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar


@dataclass(frozen=True)
class ProgramChoice:
    """The options that describe a training program, see `add_program_options`.

    Attributes:
        program: its command.
        metric: its primary metric and the better direction, such as "val/loss:min".
        margin: the largest difference of the metric that does not matter.
        results: a pattern of the files with its results.
        metric_pattern: the regular expression that reads the metric from its output.
        at: which report of the metric counts, "last" or "best".
        seed_env: the environment variable with its seed.
        unseeded: whether it cannot be seeded.
        variant: its variants, as "name: words".
    """

    program: str | None
    metric: str | None
    margin: float | None
    results: str | None
    metric_pattern: str | None
    at: str | None
    seed_env: str | None
    unseeded: bool
    variant: Sequence[str]


@dataclass(frozen=True)
class SuiteChoice:
    """The options that select a suite and change it.

    Attributes:
        chosen: the name or file of the suite, as an argument without an option.
        suite: the same as an option.
        smoke_test: whether the suite `smoke` is meant.
        arenas: names of arenas, separated by commas.
        optimizers: names of optimizers, separated by commas.
        add_optimizer: further optimizers.
        reference: the baseline of all others.
        seeds: the number of seeds, or the seeds, separated by commas.
        steps: the steps of each final trial.
        lr_grid: the grid of learning rates, as "low:high:points".
        first_steps: the steps of a program's first check.
        compile: whether models and steps are compiled.
        set: single values, as "key=value".
        images: the user's folder of images.
        text: the user's folder or file of text.
    """

    chosen: str | None
    suite: str | None
    smoke_test: bool
    arenas: str | None
    optimizers: str | None
    add_optimizer: Sequence[str]
    reference: str | None
    seeds: str | None
    steps: int | None
    lr_grid: str | None
    first_steps: int | None
    compile: bool
    set: Sequence[str]
    images: str | None
    text: str | None

    @property
    def folders(self) -> Mapping[str, str]:
        """The user's folders by the kind of their data, "images" or "text"."""
        folders = {}
        if self.images:
            folders["images"] = self.images
        if self.text:
            folders["text"] = self.text
        return folders


@dataclass(frozen=True)
class LocationChoice:
    """The options that say where a study is, and where it runs.

    Attributes:
        output_dir: the directory of the study.
        data_root: the folder of prepared data.
        device: "auto", "cpu" or "cuda".
        gpus: the numbers of GPUs, separated by commas, or "all".
        trials_per_gpu: the number of concurrent trials on each GPU.
        workers: the number of concurrent trials on the CPU.
    """

    output_dir: Path | None
    data_root: Path | None
    device: str
    gpus: str | None
    trials_per_gpu: int | None
    workers: int | None


Choice = TypeVar("Choice", ProgramChoice, SuiteChoice, LocationChoice)


class StudyChoice:
    """The study that the options of a command choose.

    Attributes:
        program: the options that describe its training program.
        suite: the options that select and change its suite.
        location: the options that say where it is, and where it runs.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.program = choice_of(ProgramChoice, options)
        self.suite = choice_of(SuiteChoice, options)
        self.location = choice_of(LocationChoice, options)


def choice_of(kind: type[Choice], options: argparse.Namespace) -> Choice:
    """The options that have the names of the fields of a record, as this record."""
    given = vars(options)
    return kind(**{field.name: given[field.name] for field in fields(kind)})
