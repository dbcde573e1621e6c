"""TinyStories: each story is in one split, and merges are learned from train alone."""

import json
import math

import archives
import numpy as np
import pytest
from prepared_data import STORIES, prepared, texts
from tokenizers import Tokenizer, pre_tokenizers

from fairbench.arenas.gpt import GPT
from fairbench.data.formats import delimited_text
from fairbench.data.formats.raw import SPLITS
from fairbench.data.loading import load_source
from fairbench.data.preparation import tokenizer

pytestmark = pytest.mark.xdist_group("datasets")


def sizes_in_bytes(data):
    """The bytes of the texts of each split."""
    return {split: sum(len(text.encode()) for text in texts(data, split)) for split in SPLITS}


def test_each_story_is_in_one_split(tmp_path, monkeypatch):
    trains = [STORIES[0], *STORIES, "", " \n", STORIES[150], STORIES[150]]
    archives.write_stories(tmp_path, trains, [*STORIES[:10], "", STORIES[3], "Only in test."])
    archives.register(monkeypatch, "tinystories", tmp_path)
    data = prepared(tmp_path, "tinystories")
    assert texts(data, "test") == [*STORIES[:10], "Only in test."]
    train = texts(data, "train")
    val = texts(data, "val")
    assert sorted(train + val) == sorted(STORIES[10:])
    assert len(val) == 11
    assert train == [story for story in STORIES if story in train]
    assert val != STORIES[10:21]
    assert data.manifest["counts"]["dropped"] == {
        "texts of train, empty": 2,
        "texts of train, repeated": 2,
        "texts of train, also in another split": 11,
        "texts of test, empty": 1,
        "texts of test, repeated": 1,
        "texts of test, also in another split": 0,
    }
    assert data.manifest["bytes"] == sizes_in_bytes(data)
    assert data.manifest["counts"]["tokens"] == {split: len(data.array(split)) for split in SPLITS}


def test_validation_is_at_most_a_tenth_of_train(tmp_path, monkeypatch):
    archives.write_stories(tmp_path, STORIES[:50], STORIES[50:])
    archives.register(monkeypatch, "tinystories", tmp_path)
    data = prepared(tmp_path, "tinystories")
    assert data.manifest["counts"]["examples"] == {"train": 45, "val": 5, "test": 150}


@pytest.fixture
def merged(tmp_path, monkeypatch):
    """Stories of which no merge fits the test split, prepared with 300 tokens."""
    archives.write_stories(tmp_path, STORIES, ["qzqzqzqz " * 500, "café <|end"])
    archives.register(monkeypatch, "tinystories", tmp_path)
    return prepared(tmp_path, "tinystories", vocabulary=300)


@pytest.fixture
def plain(tmp_path, merged):
    """The same stories, prepared without merges."""
    return prepared(tmp_path, "tinystories")


def test_a_tokenizer_has_the_bytes_first_and_the_merges_last(merged):
    written = Tokenizer.from_file(str(merged.folder / "tokenizer.json"))
    assert written.get_vocab_size() == 300
    assert merged.manifest["tokenizer"]["merges"] == 43
    merges = json.loads(written.to_str())["model"]["merges"]
    assert written.id_to_token(257) == "".join(merges[0])
    symbols = tokenizer.byte_symbols()
    assert [written.token_to_id(symbol) for symbol in symbols] == list(range(256))
    assert sorted(symbols) == sorted(pre_tokenizers.ByteLevel.alphabet())


def test_merges_are_learned_from_train_alone(tmp_path, merged, plain):
    written = Tokenizer.from_file(str(merged.folder / "tokenizer.json"))
    assert not any("q" in token for token in written.get_vocab() if len(token) > 1)
    trains = texts(plain, "train")
    again = tmp_path / "again.json"
    tokenizer.write_tokenizer(again, [text.encode() for text in trains], 300)
    assert again.read_bytes() == (merged.folder / "tokenizer.json").read_bytes()
    assert merged.manifest["tokenizer"]["trained_on"].startswith(f"the {len(trains)} texts of the train")
    assert len(merged.array("train")) < 0.7 * len(plain.array("train"))
    assert merged.manifest["bytes"] == plain.manifest["bytes"]


def test_merged_tokens_can_be_decoded(merged):
    written = Tokenizer.from_file(str(merged.folder / "tokenizer.json"))
    tokens = merged.array("test")
    assert tokens.max() < 300
    ends = np.flatnonzero(tokens == 256)
    first, second, _ = np.split(tokens, ends + 1)
    assert written.decode(first.tolist()) == f"{'qzqzqzqz ' * 500}".strip() + "<|endoftext|>"
    assert written.decode(second.tolist()) == "café <|end<|endoftext|>"


def test_bits_per_byte_do_not_count_tokens(tmp_path, merged, plain):
    loaded = load_source({"source": "tinystories", "vocabulary": 300, "context": 16}, tmp_path)
    one_bit_per_token = {"loss": math.log(2)}
    sizes = sizes_in_bytes(plain)
    bits = {}
    for split in ("val", "test"):
        bits[split] = GPT().derived(one_bit_per_token, loaded, split)["bits_per_byte"]
        assert bits[split] == pytest.approx(len(merged.array(split)) / sizes[split])
    assert bits["val"] < 0.75 < bits["test"]  # no merge fits the test split


def test_texts_are_cut_alike_however_a_file_is_read(tmp_path, monkeypatch):
    path = tmp_path / "long.txt"
    line = "Once upon a time.\n"
    path.write_bytes(f"\ufeff{line * 20}<|endoftext|>{'é' * 150}<|endoftext|> short <|endoftext|>\n".encode())
    whole = list(delimited_text.split_texts(path, 100))
    for chunk in (1, 7, 64):
        monkeypatch.setattr(delimited_text, "CHUNK", chunk)
        assert list(delimited_text.split_texts(path, 100)) == whole
    assert whole == [*[(line * 5).strip().encode()] * 4, *["é".encode() * 50] * 3, b"short"]
