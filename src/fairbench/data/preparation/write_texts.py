"""From texts to one array of tokens per split: read once to assign the splits, and again to write."""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairbench.data.formats.raw import SEED, SPLITS, Texts
from fairbench.data.preparation.progress_bar import progress_bar
from fairbench.data.preparation.split_assignment import Survey, assign, key, text_rule
from fairbench.data.preparation.staging import GrowingArray, StagingFolder
from fairbench.data.preparation.tokenizer import BYTES, END, Encoder, encode_bytes, pair_encoder, write_tokenizer

TOKEN = "<u2"
TOKENIZER = "tokenizer.json"
BATCH = 1000
"""Texts that are encoded at once."""
SAMPLE = 200_000
"""Texts at most on which a tokenizer is trained."""


def write(texts: Texts, staging: StagingFolder) -> tuple[list[str], dict[str, Any]]:
    """Make the arrays of a dataset of texts; returns the names of their files, and the facts for the manifest."""
    # Two bytes for each token; without merges a token is a byte, otherwise mostly two bytes or more.
    staging.require_disk_space(texts.size * 2 if texts.vocabulary == BYTES else texts.size)
    return _Writer(texts, staging).write()


class _Writer:
    """Writes texts in two readings."""

    def __init__(self, texts: Texts, staging: StagingFolder) -> None:
        self._texts, self._staging = texts, staging
        self._surveys = {split: self._survey(split) for split in texts.splits}
        self._roles, self._dropped = assign(self._surveys)

    def write(self) -> tuple[list[str], dict[str, Any]]:
        encode, tokenizer = self._encoder()
        made = [TOKENIZER] if "sha256" in tokenizer else []
        for official, roles in self._roles.items():
            splits = [split for i, split in enumerate(SPLITS) if (roles == i).any()]
            names = [f"{split}.npy" for split in splits]
            self._staging.ensure(names, partial(self._write, official, splits, encode))
            made += names
        return made, {
            "counts": {
                "examples": self._total(lambda survey: np.ones_like(survey.sizes)),
                "tokens": {split: len(self._staging.array(f"{split}.npy")) for split in SPLITS},
                "dropped": {**self._texts.dropped, **self._dropped},
            },
            "bytes": self._total(lambda survey: survey.sizes),
            "texts": self._texts.processing,
            "split_rule": text_rule(self._texts.splits.keys()),
            "seed": SEED,
            "tokenizer": tokenizer,
        }

    def _survey(self, official: str) -> Survey:
        keys, sizes = [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
        for batch in self._batches("survey", official):
            keys.append(np.array([key(text) for text in batch], np.uint64))
            sizes.append(np.array([len(text) for text in batch], np.int64))
        return Survey(np.concatenate(keys), np.concatenate(sizes))

    def _total(self, amount: Callable[[Survey], NDArray[np.int64]]) -> dict[str, int]:
        chosen = [(roles, amount(self._surveys[official])) for official, roles in self._roles.items()]
        return {
            split: sum(int(amounts[roles == i].sum()) for roles, amounts in chosen) for i, split in enumerate(SPLITS)
        }

    def _encoder(self) -> tuple[Encoder, dict[str, Any]]:
        """The encoder, trained if the vocabulary has merges, and the facts about it for the manifest."""
        vocabulary = self._texts.vocabulary
        facts: dict[str, Any] = {"vocabulary": vocabulary, "end": END, "merges": 0}
        if vocabulary == BYTES:
            return encode_bytes, facts
        keys, roles = self._surveys["train"].keys, self._roles["train"]
        rows = np.flatnonzero(roles == SPLITS.index("train"))
        sample = np.zeros(len(roles), bool)
        sample[rows[np.argsort(keys[rows])[:SAMPLE]]] = True
        path = self._staging.path(TOKENIZER)
        self._staging.ensure([TOKENIZER], lambda: write_tokenizer(path, self._sampled(sample), vocabulary))
        return pair_encoder(path), facts | {
            "merges": len(json.loads(path.read_text())["model"]["merges"]),
            "sha256": self._staging.hashes[TOKENIZER],
            "trained_on": f"the {sample.sum():,} texts of the train split with the smallest hashes",
        }

    def _sampled(self, sample: NDArray[np.bool_]) -> Iterator[bytes]:
        with progress_bar("read for the tokenizer", int(sample.sum()), "texts") as advance:
            for text in itertools.compress(self._texts.splits["train"](), sample):
                yield text
                advance(1)

    def _write(self, official: str, splits: list[str], encode: Encoder) -> None:
        """Write the tokens of an official split, each text to its assigned split."""
        roles = self._roles[official]
        with contextlib.ExitStack() as stack:
            files = [(SPLITS.index(split), self._staging.path(f"{split}.npy")) for split in splits]
            arrays = [(i, stack.enter_context(GrowingArray(path, TOKEN))) for i, path in files]
            for number, batch in enumerate(self._batches("encode", official, len(roles))):
                assigned = roles[number * BATCH :][: len(batch)]
                for i, array in arrays:
                    if chosen := list(itertools.compress(batch, assigned == i)):
                        array.append(encode(chosen))

    def _batches(self, doing: str, official: str, total: int | None = None) -> Iterator[list[bytes]]:
        """The texts of an official split, read with progress."""
        texts = self._texts.splits[official]()
        with progress_bar(f"{doing} {official}", total, "texts") as advance:
            while batch := list(itertools.islice(texts, BATCH)):
                yield batch
                advance(len(batch))
