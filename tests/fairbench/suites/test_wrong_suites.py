"""Mistakes in a suite file: each message names the file, the line of the key, the key, its value and the way out.

Each case of `tests/expected/messages/suites.txt` has texts of the tiny suite, and what they are replaced by.
"""

import ast

import pytest
from tiny import TINY, write_tiny

from fairbench.common.errors import UsageError
from fairbench.suites.loader import load_suite


def test_mistakes_are_named_with_key_and_line(tmp_path, check_messages):
    def message_of(case):
        text = TINY
        for old, new in ast.literal_eval(f"{{{case}}}").items():
            assert old in text
            text = text.replace(old, new, 1)
        with pytest.raises(UsageError, match=r"^tiny\.toml") as caught:
            load_suite(str(write_tiny(tmp_path, text)))
        return str(caught.value)

    check_messages("suites.txt", message_of)
