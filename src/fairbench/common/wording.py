"""The words of a study's texts: what is compared may be an optimizer or a variant of a program."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

OPTIMIZER = "optimizer"
"""The word in all texts and names of columns, as the code has them."""
SPLITS = {"test": "validation", "Test": "Validation"}
"""The words of the split that decides where the validation split does."""


@dataclass(frozen=True)
class Wording:
    """The words of the texts of one study. Texts are written for optimizers and a test split, and are changed here.

    Attributes:
        noun: what is compared, "optimizer" or "variant".
        split: the split that the verdict is about, "test" or "val".
        names: the names of what is compared, which stay as they are.
    """

    noun: str = OPTIMIZER
    split: str = "test"
    names: Sequence[str] = ()

    @property
    def is_usual(self) -> bool:
        """Whether texts stay as they are written."""
        return self.noun == OPTIMIZER and self.split == "test"

    def text(self, text: str) -> str:
        """A text in these words: "an optimizer" becomes "a variant", and "test split" may become "validation split"."""
        if self.is_usual:
            return text
        words = []
        if self.noun != OPTIMIZER:
            words += [r"\b[Aa]n (?=optimizer)", r"\b[Oo]ptimizer(?=s?\b)"]
        if self.split == "val":
            words.append(r"\b[Tt]est(?= split)")
        names = [rf"(?<!\w){re.escape(name)}(?!\w)" for name in sorted(self.names, key=len, reverse=True)]
        pattern = "|".join([*names, *words])
        return re.sub(pattern, self._replaced, text)

    def _replaced(self, found: re.Match[str]) -> str:
        """The word in place of one that was found. A name stays as it is."""
        word = found[0]
        if word in self.names:
            return word
        if word.endswith("n "):
            return f"{word[0]} "
        if word in SPLITS:
            return SPLITS[word]
        if word[0].isupper():
            return self.noun.capitalize()
        return self.noun

    def column(self, name: str) -> str:
        """The name of a column of a data file, or of a key: "mean_optimizer" becomes "mean_variant"."""
        return name.replace(OPTIMIZER, self.noun)
