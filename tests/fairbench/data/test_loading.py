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
    rows = []
    for split in data.splits.values():
        batch = data.read(split, None)
        rows.append(torch.cat([batch.inputs.flatten(1), batch.targets[:, None].float()], dim=1))
    table = torch.cat(rows)
    images, labels = load_digits(return_X_y=True)
    pixels = torch.tensor(images).float() / 8 - 1
    label_column = torch.tensor(labels)[:, None].float()
    expected = torch.cat([pixels, label_column], dim=1)
    assert sorted(table.tolist()) == sorted(expected.tolist())
    assert table[:, :-1].min() == -1
    assert table[:, :-1].max() == 1


def test_digits_need_no_import_of_scikit_learn_but_its_file(monkeypatch):
    code = "import sys; from fairbench.data.loading import digits; digits(); print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
    monkeypatch.setattr("fairbench.data.loading.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"digits\.csv\.gz, which is not there: install 'scikit-learn"):
        digits()


def test_the_standard_library_is_split_by_files():
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    data = stdlib_source(64, 8)
    first_file = {"train": files[0], "val": files[8], "test": files[9]}
    for split, file in first_file.items():
        first_window = data.splits[split].inputs[0]
        assert bytes(first_window.tolist()) == file.read_bytes()[:65]
    assert len(data.splits["val"]) == 8
    assert len(data.splits["test"]) == 8
    train_bytes = sum(file.stat().st_size for i, file in enumerate(files) if i % 10 < 8)
    assert len(data.train) == train_bytes // 65


def numbers():
    split = Split(torch.arange(10), torch.arange(10) * 10)
    return Data({"train": split}, "", lambda batch, generator: batch, (), 0)


def test_rows_of_a_table_in_two_splits_are_counted():
    x = torch.arange(40.0).reshape(20, 2)
    y = torch.zeros(20)
    data = Data.of(train=(x[:10], y[:10]), val=(x[8:15], y[8:15]), test=(x[[0, 0, 14, 19]], y[:4]))
    rows = "rows of val also in train: 2; rows of test also in train: 2; rows of test also in val: 1"
    assert shared_rows(data.splits) == rows
    disjoint = Data.of(train=(x[:10], y[:10]), val=(x[10:15], y[10:15]), test=(x[15:], y[15:]))
    assert not shared_rows(disjoint.splits)


def test_batches_are_epochs_without_repetition():
    batches = Batches(numbers(), 3, 6, 5, CPU)
    drawn = [next(batches) for _ in range(6)]
    for epoch in (drawn[:3], drawn[3:]):
        inputs = torch.cat([batch.inputs for batch in epoch])
        assert len(set(inputs.tolist())) == 9
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


def windows_equal_to(image, padded):
    """The positions of an image in a padded one."""
    found = []
    for top in range(5):
        for left in range(5):
            window = padded[:, top : top + 5, left : left + 4]
            if torch.equal(window, image):
                found.append((top, left))
    return found


def test_a_shifted_image_is_a_window_of_the_padded_one():
    generator = torch.Generator().manual_seed(0)
    moved = shifted(IMAGES.repeat(20, 1, 1, 1), 2, generator)
    padded = torch.nn.functional.pad(IMAGES, (2, 2, 2, 2))
    shifts = set()
    for i, image in enumerate(moved):
        found = windows_equal_to(image, padded[i % 6])
        assert len(found) == 1
        shifts.update(found)
    assert len(shifts) == 25


def test_every_second_image_is_mirrored():
    many = IMAGES.repeat(40, 1, 1, 1)
    seen = mirrored(many, torch.Generator().manual_seed(0))
    count = 0
    for image, original in zip(seen, many, strict=True):
        if torch.equal(image, original.flip(-1)):
            count += 1
        else:
            assert torch.equal(image, original)
    assert 90 < count < 150


def test_images_are_enlarged_as_by_torch_and_only_training_augments():
    read = ImageTransform(127.5, image_size=8, crop_padding=1, flip=True)
    batch = Split(IMAGES, torch.empty(0))
    plain = read(batch, None).inputs
    truth = torch.nn.functional.interpolate(IMAGES / 127.5 - 1, size=8, mode="bilinear")
    torch.testing.assert_close(plain, truth)
    augmented = read(batch, torch.Generator().manual_seed(7)).inputs
    again = read(batch, torch.Generator().manual_seed(7)).inputs
    assert torch.equal(augmented, again)
    assert not torch.equal(augmented, plain)
    assert read.shape((3, 5, 4)) == (3, 8, 8)
