"""Byte-level byte-pair encoding; its first 257 tokens are the bytes and the end of a text."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = 256
BYTES = 257
"""The smallest vocabulary: every byte and the end of a text."""
Encoder = Callable[[list[bytes]], NDArray[np.uint16]]
"""Returns the tokens of all texts, each followed by the end token."""


def encode_bytes(texts: list[bytes]) -> NDArray[np.uint16]:
    """An `Encoder` for which each byte is a token."""
    joined = b"\0".join([*texts, b""])  # a byte after each text, in place of the end token
    tokens = np.frombuffer(joined, np.uint8).astype(np.uint16)
    lengths = [len(text) + 1 for text in texts]
    ends = np.cumsum(lengths) - 1
    tokens[ends] = END
    return tokens


def pair_encoder(path: Path) -> Encoder:
    """The byte-pair encoding of a tokenizer of `write_tokenizer`."""
    tokenizer = Tokenizer.from_file(str(path))

    def encode(texts: list[bytes]) -> NDArray[np.uint16]:
        decoded = [text.decode() for text in texts]
        encodings = tokenizer.encode_batch(decoded, add_special_tokens=False)
        return np.concatenate([np.array([*encoding.ids, END], np.uint16) for encoding in encodings])

    return encode


def write_tokenizer(path: Path, texts: Iterable[bytes], vocabulary: int) -> None:
    """Train a byte-pair encoding and write it in the format of `tokenizers`; short texts give fewer than all tokens."""
    tokenizer = _tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1,  # the end token is added below
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(bytes.decode, texts), trainer)
    trained = json.loads(tokenizer.to_str())
    merges = [(left, right) for left, right in trained["model"]["merges"]]
    tokens = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
    tokens["<|endoftext|>"] = END
    for left, right in merges:
        tokens.setdefault(left + right, len(tokens))
    _tokenizer(models.BPE(tokens, merges)).save(str(path))


def _tokenizer(model: Any) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_symbols() -> list[str]:
    """The visible characters by which byte-level encoding represents the 256 bytes."""
    symbols = []
    next_free = 256  # the first character that is no byte
    for byte in range(256):
        character = chr(byte)
        is_visible = "!" <= character <= "~" or "¡" <= character <= "¬" or "®" <= character <= "ÿ"
        if not is_visible:
            character = chr(next_free)
            next_free += 1
        symbols.append(character)
    return symbols
