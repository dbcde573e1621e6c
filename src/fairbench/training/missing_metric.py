"""The message on a metric that a program has not reported: what there is instead, and what to do."""

import shlex

from fairbench.arenas.program import PROGRAM_SUITE, RESULT, ProgramOptions
from fairbench.common.errors import nearest
from fairbench.common.formatting import some
from fairbench.training.printed_metric import pattern_for, shared_words
from fairbench.training.program_results import Reported
from fairbench.training.result_files import OUTPUT
from fairbench.training.result_names import SPLITS, MissingMetric, NoTestSplit, words_of

VALIDATION = ("val", *[word for word, split in SPLITS.items() if split == "val"])
"""The beginnings of names that say a metric is one of validation."""
TEST = ("test",)
"""The beginnings of names that say a metric is one of the test split."""


def missing_metric(key: str, reported: Reported, options: ProgramOptions, arena: str = PROGRAM_SUITE) -> MissingMetric:
    """The error of a metric that a program has not reported: what to use, what was found, and what else to do.

    Args:
        key: the metric, such as "val/loss".
        reported: what the program has reported.
        options: the options of the program.
        arena: the name of the arena: with that of the suite `program`, the user has typed options and no suite file.
    """
    has_file = arena != PROGRAM_SUITE
    name = _short(options.names[key])
    sentences = [f"no {name} was reported"]
    same = _same_metric(key, reported)
    if same and has_file:
        sentences[0] += f'; say what has it: keys = {{ "{key}" = "{same}" }}'
    elif same:
        option = shlex.quote(f"{same}:{options.metrics[key.partition('/')[2]]}")
        sentences[0] += f"; use --metric {option}"
    elif key.startswith("val/"):
        sentences[0] += nearest(name.rpartition("/")[2], _names_of(VALIDATION, reported))
    sentences += _found_instead(key, reported, options)
    if has_file and not same:
        sentences.append(f'Report it, or say what has it: keys = {{ "{key}" = "..." }}')
    if OUTPUT in reported.sources or not reported.sources:
        sentences.append("--results 'GLOB' names a file in its folder")
        if key.startswith("val/"):
            sentences.append(_pattern_remedy(key, reported))
    if key.startswith("test/"):
        sentences.append("Without a test split, --set 'breaks=[\"split\"]' takes the validation split")
    message = " ".join(_ended(sentence) for sentence in sentences)
    if key.startswith("test/"):
        return NoTestSplit(name, message)
    return MissingMetric(name, message)


def _ended(sentence: str) -> str:
    """A sentence with a full stop, unless it is a question."""
    if sentence.endswith("?"):
        return sentence
    return f"{sentence}."


def _same_metric(key: str, reported: Reported) -> str:
    """The one reported name whose metric is a validation metric, shortened or spelled out; empty without one."""
    split, _, metric = key.partition("/")
    if split != "val":
        return ""
    of_validation = _names_of(VALIDATION, reported)
    names = of_validation or _names_of(TEST, reported)
    same = [name for name in names if _is_abbreviated(_bare(metric), _bare(name))]
    if len(same) == 1:
        return same[0]
    return ""


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


def _found_instead(key: str, reported: Reported, options: ProgramOptions) -> list[str]:
    """What a program that lacks a metric has reported and written, in sentences. Names like that metric come first."""
    _, _, metric = key.partition("/")
    wanted = words_of(metric)

    def unlikeness(name: str) -> tuple[int, bool, str]:
        return -shared_words(wanted, words_of(name)), not name.startswith(VALIDATION), name

    names = some(sorted(reported.names - {RESULT}, key=unlikeness))
    others = some([file for file in reported.written if file not in reported.sources])
    found = []
    if OUTPUT in reported.sources:
        found.append(f"The program printed {names or 'no name with a number'}")
    elif reported.sources:
        found.append(f"{some(reported.sources)} has {names or 'no reports'}")
    reads_output = OUTPUT in reported.sources or not reported.sources
    if reads_output and not options.patterns:  # with patterns only the output is read
        found.append(f"No file {options.results} was written")
    if others:
        found.append(f"Its folder has {others}")
    return found


def _pattern_remedy(key: str, reported: Reported) -> str:
    """How to read a metric from the output: by a whole pattern, where the program printed it under another name."""
    output = reported.output.read_text(errors="replace") if reported.output else ""
    found = pattern_for(key, output)
    if found is None:
        return "--metric-pattern 'REGEX' reads its output"
    return f"--metric-pattern '{found.pattern}' reads the {found.number} in its output"
