"""Every change of a ledger is found, and a line that a crash has cut off is completed."""

import json
import random

import pytest
from sessions import begun, step

from fairbench.common.errors import UsageError
from fairbench.common.hashing import canonical_json, digest
from fairbench.gate.ledger import LAST, LEDGER, read_ledger


@pytest.fixture
def folder(tmp_path):
    ledger = begun(tmp_path / "1")
    for number in range(8):
        step(ledger, "try", {"try": f"dropped {number}"}, 12.0)
    step(ledger, "try", {"try": "kept"}, 5.0, 5.0, 5.0)
    step(ledger, "certificate", {"base": "base", "head": "kept"}, *[2.0, 1.0, 2.0, 1.1] * 2)
    return ledger.folder


def seeds_of(ledger):
    return [run["seed"] for entry in ledger.entries if entry["event"] == "runs" for run in entry["runs"]]


def test_a_session_is_read_as_it_was_written(folder):
    ledger = read_ledger(folder, completes=True)
    assert ledger.session.base == "kept"
    assert ledger.session.runs == 6 + 8 + 3 + 8
    assert len(set(seeds_of(ledger))) == 6 + 8 + 3 + 4
    assert all(0 <= seed < 2**31 for seed in seeds_of(ledger))


def deleted(lines, chance):
    first = chance.randrange(len(lines))
    last = min(first + chance.randint(1, 3), len(lines))
    return [*lines[:first], *lines[last:]]


def edited(lines, chance):
    position = chance.randrange(len(lines))
    line = lines[position]
    digits = [place for place, letter in enumerate(line) if letter.isdigit()]
    place = chance.choice(digits)
    other = chance.choice([digit for digit in "0123456789" if digit != line[place]])
    changed = line[:place] + other + line[place + 1 :]
    return [*lines[:position], changed, *lines[position + 1 :]]


def rewritten(lines, chance):
    """A value is changed, and the hash of its line is computed again."""
    position = chance.choice([place for place, line in enumerate(lines) if '"event":"runs"' in line])
    content = json.loads(lines[position])
    content.pop("hash")
    content["runs"][0]["value"] -= 1.0
    line = canonical_json({**content, "hash": digest(content)})
    return [*lines[:position], line, *lines[position + 1 :]]


def reordered(lines, chance):
    one, two = sorted(chance.sample(range(len(lines)), 2))
    changed = list(lines)
    changed[one] = lines[two]
    changed[two] = lines[one]
    return changed


def appended(lines, chance):
    """A copy of a line, or a try that never ran, with or without the parts of a chain."""
    last = json.loads(lines[-1])
    entry = {"event": "begin", "kind": "try", "arms": {"try": "mine"}, "subject": ""}
    content = {**entry, "n": len(lines), "previous": last["hash"]}
    chained = canonical_json({**content, "hash": digest(content)})
    return [*lines, chance.choice([chance.choice(lines), canonical_json(entry), chained])]


@pytest.mark.parametrize(
    "change", [deleted, edited, rewritten, reordered, appended], ids=lambda change: change.__name__
)
def test_all_of_100_manipulations_are_found(folder, change):
    file = folder / LEDGER
    text = file.read_text()
    lines = text.splitlines()
    restored = 0
    for number in range(20):
        changed = change(lines, random.Random(number))
        assert changed != lines
        file.write_text("".join(f"{line}\n" for line in changed))
        if changed == lines[:-1]:  # the last line alone is in another file, too
            assert read_ledger(folder, completes=True).path.read_text() == text
            restored += 1
            continue
        with pytest.raises(UsageError, match=r"line \d+ is not as it was written"):
            read_ledger(folder, completes=True)
        assert file.read_text() != text  # nothing was written
    assert restored < 5
    file.write_text(text)
    read_ledger(folder, completes=True)


def test_a_file_that_is_not_text_is_named(folder):
    (folder / LEDGER).write_bytes(b"\xff\x00\n")
    with pytest.raises(UsageError, match="line 1 is not as it was written: it is no JSON"):
        read_ledger(folder, completes=True)


@pytest.mark.parametrize("written", [0, 1, 100, "all"])
def test_a_line_that_a_crash_has_cut_off_is_completed(folder, written):
    """A crash may leave any part of a line, while `last.json` has all of it."""
    file = folder / LEDGER
    text = file.read_text()
    last = (folder / LAST).read_text()
    before = text.removesuffix(last)
    part = last if written == "all" else last[:written]
    file.write_text(before + part)
    assert read_ledger(folder, completes=False).session.base == "kept"
    assert file.read_text() == before + part
    ledger = read_ledger(folder, completes=True)
    assert file.read_text() == text
    assert step(ledger, "try", {"try": "later"}, 12.0) == "drop"
    assert read_ledger(folder, completes=True).session.runs == 26


def test_seeds_and_verdicts_follow_from_the_first_line(folder, tmp_path):
    (tmp_path / "2").mkdir()
    again = read_ledger(folder, completes=True)
    other = begun(tmp_path / "2")
    assert seeds_of(other) == seeds_of(again)[:6]
