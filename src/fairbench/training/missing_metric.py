"""The message on a metric that a program has not reported: what there is instead, and what to do."""

import shlex

from fairbench.arenas.program import RESULT, ProgramOptions
from fairbench.common.errors import nearest
from fairbench.common.formatting import some
from fairbench.training.printed_metric import pattern_for
from fairbench.training.program_results import Reported
from fairbench.training.result_files import OUTPUT
from fairbench.training.result_names import SPLITS, MissingMetric, NoTestSplit

VALIDATION = ("val", *[word for word, split in SPLITS.items() if split == "val"])
"""The beginnings of names that say a metric is one of validation."""
TEST = ("test",)
"""The beginnings of names that say a metric is one of the test split."""


def missing_metric(key: str, reported: Reported, options: ProgramOptions) -> MissingMetric:
    """The error of a metric that a program has not reported: what it has reported and written, and what to do."""
    reads_output = OUTPUT in reported.sources or not reported.sources
    found = _found_instead(reported, options)
    name = _short(options.names[key])
    remedies = [f'report it, or say what has it: keys = {{ "{key}" = "..." }}']
    if reads_output:
        remedies.append("--results 'GLOB' names a file in its folder")
        if key.startswith("val/"):
            remedies.append(_pattern_remedy(key, reported))
    if key.startswith("test/"):
        remedies.append("without a test split, --set 'breaks=[\"split\"]' takes the validation split")
    of_validation = _names_of(VALIDATION, reported)
    near = ""
    if key.startswith("val/"):
        metric = key.removeprefix("val/")
        same = [other for other in of_validation if _is_abbreviated(_bare(metric), _bare(other))]
        if not of_validation:
            same = [other for other in _names_of(TEST, reported) if _is_abbreviated(_bare(metric), _bare(other))]
        if len(same) == 1:
            option = shlex.quote(f"{same[0]}:{options.metrics[metric]}")
            remedies.insert(0, f"--metric {option} takes what it has")
        else:
            near = nearest(name.rpartition("/")[2], of_validation)
    message = f"the program reported no {name}: {', '.join(found)}; {'; '.join(remedies)}{near}"
    if key.startswith("test/"):
        return NoTestSplit(name, message)
    return MissingMetric(name, message)


def _names_of(words: tuple[str, ...], reported: Reported) -> list[str]:
    """The names that begin with one of some words for a split."""
    return sorted(name for name in reported.names if name.lower().startswith(words))


def _bare(name: str) -> str:
    """The name of a metric in lower case, without a word for its split before it."""
    small = name.lower()
    for word in sorted((*VALIDATION, *TEST), key=len, reverse=True):
        if small.startswith(word):
            return small.removeprefix(word).lstrip("_/ .-")
    return small


def _is_abbreviated(one: str, other: str) -> bool:
    """Whether one of two names is the beginning of the other, such as "acc" of "accuracy"."""
    return min(len(one), len(other)) > 1 and (one.startswith(other) or other.startswith(one))


def _short(name: str) -> str:
    """A name with its split once: "val_loss" for "val/val_loss", which --metric val_loss gives."""
    split, _, metric = name.partition("/")
    if split == "val" and metric.startswith(VALIDATION):
        return metric
    return name


def _found_instead(reported: Reported, options: ProgramOptions) -> list[str]:
    """What a program that lacks a metric has reported and written, in words."""
    known = reported.names - {RESULT}
    names = some(sorted(known, key=lambda name: (not name.startswith(VALIDATION), name)))
    others = some([file for file in reported.written if file not in reported.sources])
    found = []
    if OUTPUT in reported.sources or not reported.sources:
        if not options.patterns:  # with patterns only the output is read
            found.append(f"no file {options.results} was written")
        if OUTPUT in reported.sources:
            found.append(f"the program printed {names or 'no name with a number'}")
    else:
        found.append(f"{some(reported.sources)} has {names or 'no reports'}")
    if others:
        found.append(f"its folder has {others}")
    return found


def _pattern_remedy(key: str, reported: Reported) -> str:
    """How to read a metric from the output: by a whole pattern, where the program printed it under another name."""
    output = reported.output.read_text(errors="replace") if reported.output else ""
    found = pattern_for(key, output)
    if found is None:
        return "--metric-pattern 'REGEX' reads its output"
    return f"--metric-pattern '{found.pattern}' reads the {found.number} in its output"
