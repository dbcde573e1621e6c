"""`fairbench data`: its list, several datasets, and its progress."""

import io
import sys

import pytest
from small_cifar import verified

from fairbench.common.formatting import format_bytes
from fairbench.data.dataset_config import PREPARED

pytestmark = pytest.mark.xdist_group("datasets")


def test_list_shows_what_is_there(tmp_path, archive, folder, command):
    shown = command("data", "list", "--data-root", str(tmp_path))
    for name, facts in PREPARED.items():
        assert name in shown
        assert facts.title in shown
    assert f"cifar-100-python.tar.gz ({format_bytes(archive.stat().st_size)}) is {archive}" in shown
    assert "train 30, val 3, test 6; verified" in shown
    command("data", "list", "--suite", "mini", "--data-root", str(tmp_path))


def test_one_missing_dataset_does_not_keep_the_others_from_being_prepared(tmp_path, archive, command):
    shown = command("data", "prepare", "--data-root", str(tmp_path), code=2)
    for name in ("TinyStoriesV2-GPT4-train.txt", "tiny-imagenet-200.zip", "img_align_celeba.zip"):
        assert name in shown
    assert verified(tmp_path)


def test_progress_bars_and_lines(capsys, monkeypatch):
    from fairbench.data.preparation.progress_bar import progress_bar

    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal)
        with progress_bar("read [train]", 30, "images") as advance:
            advance(30)
    assert "read [train]" in terminal.getvalue()
    assert "30 of 30 images" in terminal.getvalue()
    with progress_bar("check", 2_000_000, "bytes") as advance:
        advance(2_000_000)
    assert "check: 2 MB in" in capsys.readouterr().out
