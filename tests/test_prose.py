"""The sentences of the documentation are short enough to read."""

import re
from itertools import pairwise
from pathlib import Path
from statistics import mean, quantiles

import pytest
from markdown_it import MarkdownIt  # rich has it

ROOT = Path(__file__).parent.parent
PATTERNS = ("*.md", "docs/*.md", "docs/project/*.md", "docs/reference/*.md", "docs/results/*/README.md")
PAGES = [page for pattern in PATTERNS for page in sorted(ROOT.glob(pattern)) if page.name != "CHANGELOG.md"]
END = re.compile(r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bal\.)(?<=[.!?])\s+|(?<=[.!?]\)|[.!?]\")\s+")


def text_of(piece):
    """The words of a part of a paragraph; code without the punctuation that would end a sentence."""
    if piece.type == "code_inline":
        return re.sub(r"[.!?]", "", piece.content)
    return piece.content if piece.type == "text" else " " if piece.type == "softbreak" else ""


def lengths(page):
    """The number of words of each sentence; headings, tables, code and comments have none."""
    tokens = MarkdownIt().enable("table").parse(page)
    paragraphs = [inside.children or [] for opened, inside in pairwise(tokens) if opened.type == "paragraph_open"]
    sentences = [s for pieces in paragraphs for s in END.split("".join(map(text_of, pieces)))]
    counts = [sum(bool(re.search(r"\w", word)) for word in sentence.split()) for sentence in sentences]
    return [count for count in counts if count]


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


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in [*PAGES, ROOT / "tests/README.md"]])
def test_sentences_are_short(page):
    counts = lengths((ROOT / page).read_text())
    assert len(counts) < 10 or (mean(counts) <= 20 and quantiles(counts, n=10, method="inclusive")[-1] <= 32)
