"""Data: real, split without overlap, in an order that the seed alone decides, read the same in every batch."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

from fairbench.common.errors import UsageError
from fairbench.data.batches import Batches
from fairbench.data.loading import digits, stdlib_source
from fairbench.data.splits import Data, Split, shared_rows
from fairbench.data.transforms import ImageTransform, mirrored, shifted

CPU = torch.device("cpu")


def test_digits_are_split_without_loss_or_overlap():
    from sklearn.datasets import load_digits

    data = digits()
    assert [len(split) for split in data.splits.values()] == [899, 449, 449]
    read = [data.read(split, None) for split in data.splits.values()]
    mine = torch.cat([torch.cat([s.inputs.flatten(1), s.targets[:, None].float()], dim=1) for s in read])
    images, labels = load_digits(return_X_y=True)
    theirs = torch.cat([torch.tensor(images).float() / 8 - 1, torch.tensor(labels)[:, None].float()], dim=1)
    assert sorted(mine.tolist()) == sorted(theirs.tolist())
    assert (mine[:, :-1].min(), mine[:, :-1].max()) == (-1, 1)


def test_digits_need_no_import_of_scikit_learn_but_its_file(monkeypatch):
    code = "import sys; from fairbench.data.loading import digits; digits(); print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
    monkeypatch.setattr("fairbench.data.loading.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"digits\.csv\.gz, which is not there: install 'scikit-learn"):
        digits()


def test_the_standard_library_is_split_by_files():
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    data = stdlib_source(64, 8)
    train, val, test = data.splits.values()
    roles = [train] * 8 + [val, test]
    for first, role in ((0, train), (8, val), (9, test)):
        assert bytes(role.inputs[0].tolist()) == files[first].read_bytes()[:65]
    assert len(val) == len(test) == 8
    train_bytes = sum(file.stat().st_size for i, file in enumerate(files) if roles[i % 10] is train)
    assert len(train) == train_bytes // 65


def numbers():
    split = Split(torch.arange(10), torch.arange(10) * 10)
    return Data({"train": split}, "", lambda batch, generator: batch, (), 0)


def test_rows_of_a_table_in_two_splits_are_counted():
    x, y = torch.arange(40.0).reshape(20, 2), torch.zeros(20)
    data = Data.of(train=(x[:10], y[:10]), val=(x[8:15], y[8:15]), test=(x[[0, 0, 14, 19]], y[:4]))
    rows = "rows of val also in train: 2; rows of test also in train: 2; rows of test also in val: 1"
    assert shared_rows(data.splits) == rows
    assert not shared_rows(Data.of(train=(x[:10], y[:10]), val=(x[10:15], y[10:15]), test=(x[15:], y[15:])).splits)


def test_batches_are_epochs_without_repetition():
    batches = Batches(numbers(), 3, 6, 5, CPU)
    drawn = [next(batches) for _ in range(6)]
    for epoch in (drawn[:3], drawn[3:]):
        seen = torch.cat([batch.inputs for batch in epoch])
        assert len(set(seen.tolist())) == 9
    assert all(torch.equal(batch.targets, batch.inputs * 10) for batch in drawn)
    assert not torch.equal(drawn[0].inputs, drawn[3].inputs)
    with pytest.raises(IndexError):
        next(batches)


def test_the_hash_tells_orders_apart():
    def order(seed, steps):
        return Batches(numbers(), 3, steps, seed, CPU).hash

    assert order(1, 4) == order(1, 4)
    assert len({order(1, 4), order(2, 4), order(1, 5)}) == 3


IMAGES = torch.arange(6 * 3 * 5 * 4).reshape(6, 3, 5, 4).to(torch.uint8)


def test_a_shifted_image_is_a_window_of_the_padded_one():
    generator = torch.Generator().manual_seed(0)
    moved = shifted(IMAGES.repeat(20, 1, 1, 1), 2, generator)
    padded = torch.nn.functional.pad(IMAGES, (2, 2, 2, 2))
    places = set()
    for i, image in enumerate(moved):
        whole = padded[i % 6]
        found = [(y, x) for y in range(5) for x in range(5) if torch.equal(whole[:, y : y + 5, x : x + 4], image)]
        assert len(found) == 1
        places |= set(found)
    assert len(places) == 25


def test_every_second_image_is_mirrored():
    many = IMAGES.repeat(40, 1, 1, 1)
    seen = mirrored(many, torch.Generator().manual_seed(0))
    turned = [torch.equal(a, b.flip(-1)) for a, b in zip(seen, many, strict=True)]
    assert all(turn or torch.equal(a, b) for turn, a, b in zip(turned, seen, many, strict=True))
    assert 90 < sum(turned) < 150


def test_images_are_enlarged_as_by_torch_and_only_training_augments():
    read = ImageTransform(127.5, image_size=8, crop_padding=1, flip=True)
    plain = read(Split(IMAGES, torch.empty(0)), None).inputs
    truth = torch.nn.functional.interpolate(IMAGES / 127.5 - 1, size=8, mode="bilinear")
    torch.testing.assert_close(plain, truth)
    one, two = (read(Split(IMAGES, torch.empty(0)), torch.Generator().manual_seed(7)).inputs for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, plain)
    assert read.shape((3, 5, 4)) == (3, 8, 8)
