"""Mistakes in a suite file: each message names the file, the line of the key, the key, its value and the way out.

Each case of `tests/expected/messages/suites.txt` has texts of the tiny suite, and what they are replaced by.
"""

import ast

from tiny import TINY, write_tiny

from fairbench.common.errors import UsageError
from fairbench.suites.loader import load_suite


def test_mistakes_are_named_with_key_and_line(tmp_path, check_errors):
    def load(case):
        text = TINY
        for old, new in ast.literal_eval(f"{{{case}}}").items():
            assert old in text
            text = text.replace(old, new, 1)
        load_suite(str(write_tiny(tmp_path, text)))

    check_errors("suites.txt", load, UsageError)
