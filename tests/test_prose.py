"""The sentences of the documentation are short enough to read."""

import re
from itertools import pairwise
from pathlib import Path
from statistics import mean, quantiles

import pytest
from markdown_it import MarkdownIt  # rich has it

ROOT = Path(__file__).parent.parent
PATTERNS = (
    "*.md",
    "docs/*.md",
    "docs/project/*.md",
    "docs/reference/*.md",
    "docs/results/*/README.md",
    "tests/README.md",
)
END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bal\.)(?<=[.!?])\s+|(?<=[.!?]\)|[.!?]\")\s+")


def page_names():
    """The pages whose sentences are measured, by their paths in the repository."""
    pages = []
    for pattern in PATTERNS:
        pages += sorted(ROOT.glob(pattern))
    pages.remove(ROOT / "CHANGELOG.md")
    return [str(page.relative_to(ROOT)) for page in pages]


def text_of(piece):
    """The words of a part of a paragraph; code without the punctuation that would end a sentence."""
    if piece.type == "code_inline":
        return re.sub(r"[.!?]", "", piece.content)
    if piece.type == "text":
        return piece.content
    if piece.type == "softbreak":
        return " "
    return ""


def lengths(page):
    """The number of words of each sentence; headings, tables, code and comments have none."""
    tokens = MarkdownIt().enable("table").parse(page)
    counts = []
    for opened, inside in pairwise(tokens):
        if opened.type != "paragraph_open":
            continue
        paragraph = "".join(text_of(piece) for piece in inside.children or [])
        for sentence in END.split(paragraph):
            words = re.findall(r"\S*\w\S*", sentence)
            if words:
                counts.append(len(words))
    return counts


def test_what_counts_as_a_sentence():
    page = """# A heading. Of two

One, see e.g. 0.3 of `a.py: x`. *Two of* [a link](to/some.md)! (In brackets.) Last - of
two lines

    code is no sentence

| table | cell |
|---|---|
| no | sentence |

* An item. And more.
<!-- No comment. -->
"""
    assert lengths(page) == [7, 4, 2, 4, 2, 2]


@pytest.mark.parametrize("page", page_names())
def test_sentences_are_short(page):
    counts = lengths((ROOT / page).read_text())
    if len(counts) >= 10:
        assert mean(counts) <= 20
        assert quantiles(counts, n=10, method="inclusive")[-1] <= 32
