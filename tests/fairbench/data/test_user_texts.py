"""A user's texts: files, folders and records, in splits if they are named after them."""

import json
from dataclasses import dataclass

import archives
import pytest
from archives import END
from prepared_data import STORIES, prepared, texts, write_texts

from fairbench.common.errors import UsageError
from fairbench.data.formats.raw import SPLITS
from fairbench.data.formats.source_files import ASIDE

pytestmark = pytest.mark.xdist_group("datasets")


def every_text(data):
    """The texts of all splits."""
    found = []
    for split in SPLITS:
        found += texts(data, split)
    return found


def test_user_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "disk").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "linked").symlink_to(tmp_path / "disk")
    (tmp_path / "disk" / "circle").symlink_to(tmp_path / "disk")
    for i in range(10):
        folder = tmp_path / ("disk" if i < 5 else "mine")
        archives.stories_file(folder / f"{i}.txt", STORIES[i * 20 : (i + 1) * 20])
    data = prepared(tmp_path, "text", path="mine")
    assert sorted(every_text(data)) == sorted(STORIES)
    assert data.manifest["counts"]["examples"] == {"train": 180, "val": 10, "test": 10}
    archives.stories_file(tmp_path / "disk" / "0.txt", STORIES[1:20])
    again = prepared(tmp_path, "text", path="mine")
    assert sum(again.manifest["counts"]["examples"].values()) == 199
    (tmp_path / "one.txt").write_text("too short")
    with pytest.raises(
        UsageError, match=r"too few texts for the val split: 1 different ones are there, and 20 or more"
    ):
        prepared(tmp_path, "text", path="one.txt")


def in_lines(stories):
    """A record of JSON in each line."""
    records = [{"id": i, "text": story} for i, story in enumerate(stories)]
    return "\n".join(json.dumps(record) for record in records)


def in_csv(stories):
    rows = [f'1,"{story}"\n' for story in stories]
    return "n,text\n" + "".join(rows)


@dataclass
class TextFolder:
    """Files with all stories, and the number of stories in each split of them."""

    name: str
    contents: dict
    train: int = 180
    val: int = 10
    test: int = 10


TRAIN_AND_VALID = {"train.txt": END.join(STORIES[:150]), "valid.txt": END.join(STORIES[140:])}
WIKITEXT = {"a/wiki.train.raw": END.join(STORIES[:150]), "a/wiki.test.raw": END.join(STORIES[150:])}
TWO_FILES_OF_TRAIN = {"train-0.jsonl": in_lines(STORIES[:90]), "train-1.jsonl": in_lines(STORIES[90:])}
JSON_LINES = {"stories.txt": in_lines(STORIES)}
JSON_LIST = {"all.json": json.dumps([{"story": story, "n": {}} for story in STORIES])}
CSV = {"all.csv": in_csv(STORIES)}
FOLDERS = [
    TextFolder("train and valid", TRAIN_AND_VALID, train=133, val=60, test=7),
    TextFolder("train and test of WikiText", WIKITEXT, train=135, val=15, test=50),
    TextFolder("two files of train", TWO_FILES_OF_TRAIN),
    TextFolder("JSON lines in a text file", JSON_LINES),
    TextFolder("a list in JSON", JSON_LIST),
    TextFolder("CSV", CSV),
]


@pytest.mark.parametrize("case", FOLDERS, ids=lambda case: case.name)
def test_user_text_in_splits_and_records(tmp_path, case):
    folder = tmp_path / "mine"
    write_texts(folder, {**case.contents, "notes.md": "", ".hidden.txt": END.join(STORIES)})
    data = prepared(tmp_path, "text", path=str(folder))
    assert len(texts(data, "train")) == case.train
    assert len(texts(data, "val")) == case.val
    assert len(texts(data, "test")) == case.test
    assert sorted(every_text(data)) == sorted(STORIES)
    assert data.manifest["counts"]["dropped"][ASIDE] == 1
    if "valid.txt" in case.contents:
        assert texts(data, "val") == STORIES[140:]
