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
    tokens = np.frombuffer(b"\0".join([*texts, b""]), np.uint8).astype(np.uint16)
    tokens[np.cumsum([len(text) + 1 for text in texts]) - 1] = END
    return tokens


def pair_encoder(path: Path) -> Encoder:
    """The byte-pair encoding of a tokenizer of `write_tokenizer`."""
    tokenizer = Tokenizer.from_file(str(path))

    def encode(texts: list[bytes]) -> NDArray[np.uint16]:
        encodings = tokenizer.encode_batch(list(map(bytes.decode, texts)), add_special_tokens=False)
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
    learned = [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    tokens = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
    tokens["<|endoftext|>"] = END
    for left, right in learned:
        tokens.setdefault(left + right, len(tokens))
    _tokenizer(models.BPE(tokens, learned)).save(str(path))


def _tokenizer(model: Any) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_symbols() -> list[str]:
    """The visible characters by which byte-level encoding represents the 256 bytes."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(byte if byte in visible else next(others)) for byte in range(256)]
