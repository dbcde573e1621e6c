"""The arrays of tokens of each split. The texts are read once to assign them to splits, and again to write them."""

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
"""The number of texts that are encoded at once."""
SAMPLE = 200_000
"""The largest number of texts on which a tokenizer is trained."""


def write(texts: Texts, staging: StagingFolder) -> tuple[list[str], dict[str, Any]]:
    """Write the arrays of a dataset of texts into a staging folder.

    Returns:
        The names of the files, and the facts for the manifest.

    Raises:
        UsageError: a text is wrong, a split is empty, or the disk has too little space.
    """
    # A token takes two bytes. Without merges it stands for one byte of text, otherwise mostly for two or more.
    staging.require_disk_space(texts.size * 2 if texts.vocabulary == BYTES else texts.size)
    return _Writer(texts, staging).write()


class _Writer:
    """Writes texts in two readings."""

    def __init__(self, texts: Texts, staging: StagingFolder) -> None:
        self._texts = texts
        self._staging = staging
        self._surveys = {split: self._survey(split) for split in texts.splits}
        self._roles, self._dropped = assign(self._surveys)

    def write(self) -> tuple[list[str], dict[str, Any]]:
        """Write all arrays; see the function `write`."""
        encode, tokenizer_facts = self._encoder()
        all_names: list[str] = []
        if "sha256" in tokenizer_facts:  # a tokenizer was trained
            all_names.append(TOKENIZER)
        for official, roles in self._roles.items():
            splits = [split for number, split in enumerate(SPLITS) if (roles == number).any()]
            names = [f"{split}.npy" for split in splits]
            self._staging.ensure(names, partial(self._write, official, splits, encode))
            all_names += names
        return all_names, self._facts(tokenizer_facts)

    def _facts(self, tokenizer_facts: dict[str, Any]) -> dict[str, Any]:
        """The facts for the manifest. All arrays must have been written."""
        tokens = {split: len(self._staging.array(f"{split}.npy")) for split in SPLITS}
        counts = {
            "examples": self._totals(_count),
            "tokens": tokens,
            "dropped": {**self._texts.dropped, **self._dropped},
        }
        return {
            "counts": counts,
            "bytes": self._totals(_size),
            "texts": self._texts.processing,
            "split_rule": text_rule(self._texts.splits.keys()),
            "seed": SEED,
            "tokenizer": tokenizer_facts,
        }

    def _survey(self, official: str) -> Survey:
        """Read an official split for the keys and the sizes of its texts."""
        keys = [np.empty(0, np.uint64)]
        sizes = [np.empty(0, np.int64)]
        for batch in self._batches("survey", official):
            keys.append(np.array([key(text) for text in batch], np.uint64))
            sizes.append(np.array([len(text) for text in batch], np.int64))
        return Survey(np.concatenate(keys), np.concatenate(sizes))

    def _totals(self, amount: Callable[[Survey, NDArray[np.bool_]], int]) -> dict[str, int]:
        """The total amount of each final split. `amount` gives the amount of the chosen texts of an official split."""
        totals = dict.fromkeys(SPLITS, 0)
        for official, roles in self._roles.items():
            survey = self._surveys[official]
            for number, split in enumerate(SPLITS):
                totals[split] += amount(survey, roles == number)
        return totals

    def _encoder(self) -> tuple[Encoder, dict[str, Any]]:
        """The encoder, and its facts for the manifest. It is trained if the vocabulary has merges."""
        vocabulary = self._texts.vocabulary
        facts: dict[str, Any] = {"vocabulary": vocabulary, "end": END, "merges": 0}
        if vocabulary == BYTES:
            return encode_bytes, facts
        sample = self._sample()
        path = self._staging.path(TOKENIZER)
        self._staging.ensure([TOKENIZER], lambda: write_tokenizer(path, self._sampled_texts(sample), vocabulary))
        facts["merges"] = len(json.loads(path.read_text())["model"]["merges"])
        facts["sha256"] = self._staging.hashes[TOKENIZER]
        facts["trained_on"] = f"the {sample.sum():,} texts of the train split with the smallest hashes"
        return pair_encoder(path), facts

    def _sample(self) -> NDArray[np.bool_]:
        """For each text of the official training split, whether the tokenizer is trained on it."""
        keys = self._surveys["train"].keys
        roles = self._roles["train"]
        rows = np.flatnonzero(roles == SPLITS.index("train"))
        smallest = np.argsort(keys[rows])[:SAMPLE]
        sample = np.zeros(len(roles), bool)
        sample[rows[smallest]] = True
        return sample

    def _sampled_texts(self, sample: NDArray[np.bool_]) -> Iterator[bytes]:
        """The texts on which the tokenizer is trained, read with progress."""
        with progress_bar("read for the tokenizer", int(sample.sum()), "texts") as advance:
            for text in itertools.compress(self._texts.splits["train"](), sample):
                yield text
                advance(1)

    def _write(self, official: str, splits: list[str], encode: Encoder) -> None:
        """Write the tokens of each text of an official split to the array of its assigned split."""
        roles = self._roles[official]
        with contextlib.ExitStack() as stack:
            arrays: dict[int, GrowingArray] = {}
            for split in splits:
                array = GrowingArray(self._staging.path(f"{split}.npy"), TOKEN)
                arrays[SPLITS.index(split)] = stack.enter_context(array)
            for number, batch in enumerate(self._batches("encode", official, len(roles))):
                start = number * BATCH
                batch_roles = roles[start : start + len(batch)]
                for role, array in arrays.items():
                    chosen = list(itertools.compress(batch, batch_roles == role))
                    if chosen:
                        array.append(encode(chosen))

    def _batches(self, doing: str, official: str, total: int | None = None) -> Iterator[list[bytes]]:
        """The texts of an official split in batches, read with progress. `doing` names the work on the progress bar."""
        texts = self._texts.splits[official]()
        with progress_bar(f"{doing} {official}", total, "texts") as advance:
            while batch := list(itertools.islice(texts, BATCH)):
                yield batch
                advance(len(batch))


def _count(survey: Survey, chosen: NDArray[np.bool_]) -> int:
    """The number of the chosen texts."""
    return int(chosen.sum())


def _size(survey: Survey, chosen: NDArray[np.bool_]) -> int:
    """The bytes of the chosen texts."""
    return int(survey.sizes[chosen].sum())
