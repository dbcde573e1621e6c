"""Data: real, split without overlap, in an order that the seed alone decides."""

import sysconfig
from pathlib import Path

import torch

from fairbench.data.batches import Batches
from fairbench.data.sources import Split, digits, stdlib_source


def test_digits_are_split_without_loss_or_overlap() -> None:
    from sklearn.datasets import load_digits

    data = digits()
    splits = (data.train, data.val, data.test)
    assert [len(split.targets) for split in splits] == [899, 449, 449]
    mine = torch.cat([torch.cat([s.inputs.flatten(1), s.targets[:, None].float()], dim=1) for s in splits])
    images, labels = load_digits(return_X_y=True)
    theirs = torch.cat([torch.tensor(images).float() / 8 - 1, torch.tensor(labels)[:, None].float()], dim=1)
    assert sorted(mine.tolist()) == sorted(theirs.tolist())
    assert (mine[:, :-1].min(), mine[:, :-1].max()) == (-1, 1)


def test_the_standard_library_is_split_by_files() -> None:
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    data = stdlib_source(64, 8)
    roles = [data.train] * 8 + [data.val, data.test]
    for first, role in ((0, data.train), (8, data.val), (9, data.test)):
        assert bytes(role.inputs[0].tolist()) == files[first].read_bytes()[:65]
    assert len(data.val.inputs) == len(data.test.inputs) == 8
    train_bytes = sum(file.stat().st_size for i, file in enumerate(files) if roles[i % 10] is data.train)
    assert len(data.train.inputs) == train_bytes // 65


def test_batches_are_epochs_without_repetition() -> None:
    split = Split(torch.arange(10), torch.arange(10) * 10)
    batches = Batches(split, 3, seed=5)
    drawn = [batches.next() for _ in range(6)]
    for epoch in (drawn[:3], drawn[3:]):
        seen = torch.cat([batch.inputs for batch in epoch])
        assert len(set(seen.tolist())) == 9
    assert all(torch.equal(batch.targets, batch.inputs * 10) for batch in drawn)
    assert not torch.equal(drawn[0].inputs, drawn[3].inputs)


def test_the_hash_tells_orders_apart() -> None:
    split = Split(torch.arange(10), torch.empty(0))

    def order(seed: int, count: int) -> str:
        batches = Batches(split, 3, seed)
        for _ in range(count):
            batches.next()
        return batches.hash()

    assert order(1, 4) == order(1, 4)
    assert len({order(1, 4), order(2, 4), order(1, 5)}) == 3
