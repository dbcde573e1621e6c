"""From texts to one long array of tokens per split: read once to decide, once more to write."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbench.data.formats.raw import Texts
from fairbench.data.preparation.progress_bar import Display
from fairbench.data.preparation.split_assignment import SEED, SPLITS, Survey, assign, key, text_rule
from fairbench.data.preparation.staging import GrowingArray, StagingFolder
from fairbench.data.preparation.tokenizer import BYTES, END, ByteEncoder, Encoder, PairEncoder, merges, write_tokenizer

TOKEN = "<u2"
TOKENIZER = "tokenizer.json"
BATCH = 1000
"""Texts that are encoded at a time."""
SAMPLE = 200_000
"""Texts at most on which a tokenizer is trained."""


def disk_space(texts: Texts) -> int:
    """Bytes that the arrays need: two for each token, and a token of more than a byte has two bytes of text or more."""
    return texts.size * 2 if texts.vocabulary == BYTES else texts.size


def write(texts: Texts, staging: StagingFolder, display: Display) -> tuple[list[str], dict[str, Any]]:
    """Make the arrays of a dataset of texts.

    Args:
        texts: the texts.
        staging: where the arrays are made.
        display: where progress is shown.

    Returns:
        The names of their files, and what the manifest says of them.
    """
    return _Writer(texts, staging, display).write()


class _Writer:
    """The two readings of some texts."""

    def __init__(self, texts: Texts, staging: StagingFolder, display: Display) -> None:
        self._texts, self._staging, self._display = texts, staging, display
        self._surveys = {split: self._survey(split) for split in texts.splits}
        self._decided = assign(self._surveys)

    def write(self) -> tuple[list[str], dict[str, Any]]:
        """All of `write`."""
        encoder, tokenizer = self._encoder()
        made = [TOKENIZER] if "sha256" in tokenizer else []
        for official, roles in self._decided.roles.items():
            splits = [split for i, split in enumerate(SPLITS) if (roles == i).any()]
            names = [f"{split}.npy" for split in splits]
            self._staging.ensure(names, partial(self._write, official, splits, encoder))
            made += names
        return made, {
            "counts": {
                "examples": self._total(lambda survey: np.ones_like(survey.sizes)),
                "tokens": {split: len(self._staging.array(f"{split}.npy")) for split in SPLITS},
                "dropped": self._decided.dropped,
            },
            "bytes": self._total(lambda survey: survey.sizes),
            "texts": self._texts.processing,
            "split_rule": text_rule("test" in self._texts.splits),
            "seed": SEED,
            "tokenizer": tokenizer,
        }

    def _survey(self, official: str) -> Survey:
        """Key and size of each text: all that is kept of it."""
        keys, sizes = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        with self._display.work(f"survey {official}", None, "texts") as advance:
            for batch in _batches(self._texts.splits[official]()):
                keys.append(np.array([key(text) for text in batch], np.uint64))
                sizes.append(np.array([len(text) for text in batch], np.int64))
                advance(len(batch))
        return Survey(np.concatenate(keys), np.concatenate(sizes))

    def _total(self, amount: Callable[[Survey], NDArray[np.int64]]) -> dict[str, int]:
        """The sum of an amount over the texts of each split."""
        chosen = [(roles, amount(self._surveys[official])) for official, roles in self._decided.roles.items()]
        return {
            split: sum(int(amounts[roles == i].sum()) for roles, amounts in chosen) for i, split in enumerate(SPLITS)
        }

    def _encoder(self) -> tuple[Encoder, dict[str, Any]]:
        """The encoder, trained where there are merges to learn, and what the manifest says of it."""
        vocabulary = self._texts.vocabulary
        facts: dict[str, Any] = {"vocabulary": vocabulary, "end": END, "merges": 0}
        if vocabulary == BYTES:
            return ByteEncoder(), facts
        keys, roles = self._surveys["train"].keys, self._decided.roles["train"]
        rows = np.flatnonzero(roles == SPLITS.index("train"))
        sample = np.zeros(len(roles), bool)
        sample[rows[np.argsort(keys[rows])[:SAMPLE]]] = True
        path = self._staging.path(TOKENIZER)
        self._staging.ensure([TOKENIZER], lambda: write_tokenizer(path, self._sampled(sample), vocabulary))
        trained_on = f"the {sample.sum():,} texts of the train split with the smallest hashes"
        return PairEncoder(path), facts | {
            "merges": merges(path),
            "sha256": self._staging.sha256(TOKENIZER),
            "trained_on": trained_on,
        }

    def _sampled(self, sample: NDArray[np.bool_]) -> Iterator[bytes]:
        with self._display.work("read for the tokenizer", int(sample.sum()), "texts") as advance:
            for text in itertools.compress(self._texts.splits["train"](), sample):
                yield text
                advance(1)

    def _write(self, official: str, splits: list[str], encoder: Encoder) -> None:
        """Write the tokens of an official split, each text to the split that it goes to."""
        roles = self._decided.roles[official]
        with contextlib.ExitStack() as stack:
            files = [(SPLITS.index(split), self._staging.path(f"{split}.npy")) for split in splits]
            arrays = [(i, stack.enter_context(GrowingArray(path, TOKEN))) for i, path in files]
            advance = stack.enter_context(self._display.work(f"encode {official}", len(roles), "texts"))
            start = 0
            for batch in _batches(self._texts.splits[official]()):
                here = roles[start : start + len(batch)]
                for i, array in arrays:
                    if chosen := list(itertools.compress(batch, here == i)):
                        array.append(encoder.encode(chosen))
                start += len(batch)
                advance(len(batch))


def _batches(texts: Iterable[bytes]) -> Iterator[list[bytes]]:
    stream = iter(texts)
    while batch := list(itertools.islice(stream, BATCH)):
        yield batch
