"""Tables on a device: when they are uploaded again, and which ones a captured CUDA graph keeps."""

import weakref

import torch

from psilogic.tensors import device_tables


class Device:
    """A simulated CUDA device: uploaded tables stay on the host."""

    def __init__(self, monkeypatch):
        self.stream = 0
        self.capturing = False
        self.pinned = 0
        self.name = torch.device("cuda", 0)
        empty_like = torch.empty_like
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.capturing)
        monkeypatch.setattr(device_tables, "stream_of", lambda device: self.stream)
        monkeypatch.setattr(torch, "empty_like", lambda x, device: empty_like(x))
        monkeypatch.setattr(device_tables, "pinned_memory", self.allocate)

    def allocate(self, size, dtype):
        self.pinned += 1
        return torch.zeros(size, dtype=dtype)

    def get(self, tables, *key):
        def make():
            return [torch.tensor(key)]

        (table,) = tables.get("some", list(key), self.name, make, moves=True)
        return table


def test_tables_are_uploaded_when_the_key_or_the_stream_changes(monkeypatch):
    device = Device(monkeypatch)
    tables = device_tables.DeviceTables()
    first = device.get(tables, 1, 2)
    assert device.get(tables, 1, 2) is first
    second = device.get(tables, 1, 3)
    assert first.tolist() == [1, 2]
    assert second.tolist() == [1, 3]
    device.stream = 5
    assert device.get(tables, 1, 3) is not second


def test_captured_tables_stay_and_do_not_serve_other_steps(monkeypatch):
    device = Device(monkeypatch)
    tables = device_tables.DeviceTables()
    eager = device.get(tables, 1, 2)
    before = device.pinned
    device.capturing = True
    device.stream = 5
    assert device.get(tables, 1, 2) is eager  # it is filled and never changed
    captured = device.get(tables, 3, 4)
    assert device.pinned == before  # from the reserve of the step before it
    assert captured.tolist() == [3, 4]
    device.capturing = False
    device.stream = 0
    assert device.get(tables, 1, 2) is eager
    assert device.get(tables, 3, 4) is not captured  # empty until the graph runs
    device.capturing = True
    device.get(tables, 5, 6)
    assert captured.tolist() == [3, 4]
    device.name = torch.device("cuda", 1)
    assert device.get(tables, 1, 2) is not eager


def test_a_graph_keeps_its_tables_alive(monkeypatch):
    """Also those that it did not upload itself, whatever is uploaded later."""
    device = Device(monkeypatch)
    tables = device_tables.DeviceTables()
    eager = weakref.ref(device.get(tables, 1, 2))
    device.capturing = True
    device.stream = 5
    device.get(tables, 1, 2)
    captured = weakref.ref(device.get(tables, 3, 4))
    device.capturing = False
    device.stream = 0
    for key in (5, 6, 7):
        forgotten = weakref.ref(device.get(tables, key))
        device.get(tables, key + 10)
        assert forgotten() is None
    assert eager() is not None
    assert captured() is not None


def test_memory_for_a_capture_is_kept_and_not_used_before(monkeypatch):
    device = Device(monkeypatch)
    tables = device_tables.DeviceTables()
    device.get(tables, 1, 2)
    before = device.pinned
    device.get(tables, 3, 4)
    assert device.pinned == before + 1  # the copy from the last one may not be finished
    device.get(tables, 5, 6, 7)
    before = device.pinned
    device.capturing = True
    assert device.get(tables, 8, 9, 10).tolist() == [8, 9, 10]
    assert device.pinned == before
    device.capturing = False
    before = device.pinned
    tables.get("what does not move", [1], device.name, lambda: [torch.tensor([1])])
    assert device.pinned == before + 1


def test_memory_that_a_copy_may_still_read_is_not_written(monkeypatch):
    Device(monkeypatch)
    monkeypatch.setattr(device_tables, "GPU", "cpu")
    target = torch.zeros(2, dtype=torch.int64)
    sources = []
    copy_ = torch.Tensor.copy_

    def noted(self, source, non_blocking):
        assert non_blocking
        sources.append(source)
        return copy_(self, source)

    monkeypatch.setattr(torch.Tensor, "copy_", noted)
    mailbox = device_tables.Mailbox(target)
    count = 2 * mailbox.ROWS + 1
    for i in range(count):
        numbers = torch.tensor([i, -i])
        mailbox.copy_(bytes(numbers.numpy()))
        assert torch.equal(target, numbers)
    for i, source in enumerate(sources):
        assert source.tolist() == [i, -i]
