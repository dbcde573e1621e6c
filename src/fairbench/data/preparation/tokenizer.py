"""Byte-level byte-pair encoding. The first 257 tokens are the bytes and the end of a text."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = 256
"""The token at the end of a text."""
BYTES = 257
"""The smallest vocabulary: every byte and the end of a text."""
Encoder = Callable[[list[bytes]], NDArray[np.uint16]]
"""A function that returns the tokens of all texts in one array, with the end token after each text."""


def encode_bytes(texts: list[bytes]) -> NDArray[np.uint16]:
    """The bytes of texts as tokens, with the end token after each text."""
    joined = b"\0".join([*texts, b""])  # a placeholder after each text, which the end token replaces
    tokens = np.frombuffer(joined, np.uint8).astype(np.uint16)
    lengths = [len(text) + 1 for text in texts]
    ends = np.cumsum(lengths) - 1
    tokens[ends] = END
    return tokens


def pair_encoder(path: Path) -> Encoder:
    """The encoder of a file that `write_tokenizer` wrote."""
    tokenizer = Tokenizer.from_file(str(path))

    def encode(texts: list[bytes]) -> NDArray[np.uint16]:
        decoded = [text.decode() for text in texts]
        encodings = tokenizer.encode_batch(decoded, add_special_tokens=False)
        return np.concatenate([np.array([*encoding.ids, END], np.uint16) for encoding in encodings])

    return encode


def write_tokenizer(path: Path, texts: Iterable[bytes], vocabulary: int) -> None:
    """Train a byte-pair encoding and write it in the format of `tokenizers`.

    Args:
        path: the file to write.
        texts: the texts for the training, in UTF-8.
        vocabulary: the largest number of tokens. Short texts give fewer.
    """
    tokenizer = _tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1,  # the end token is added below
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(map(bytes.decode, texts), trainer)
    trained = json.loads(tokenizer.to_str())
    merges = [(left, right) for left, right in trained["model"]["merges"]]
    # Number the tokens again, so that each byte is its own token and the merges come after the end token.
    tokens = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
    tokens["<|endoftext|>"] = END
    for left, right in merges:
        tokens.setdefault(left + right, len(tokens))
    _tokenizer(models.BPE(tokens, merges)).save(str(path))


def _tokenizer(model: Any) -> Tokenizer:
    """A byte-level tokenizer with a model of `tokenizers`."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_symbols() -> list[str]:
    """The visible character that represents each of the 256 bytes in byte-level encoding."""
    symbols = []
    next_free = 256  # the first character that is not a byte
    for byte in range(256):
        character = chr(byte)
        is_visible = "!" <= character <= "~" or "¡" <= character <= "¬" or "®" <= character <= "ÿ"
        if not is_visible:
            character = chr(next_free)
            next_free += 1
        symbols.append(character)
    return symbols
