"""Sums over tensors on a CPU against sums in float64."""

import pytest
import torch

from psilogic.tensors import host_norms, norms

SHAPES = [(), (0,), (3,), (4, 3), (0, 3), (3, 0), (64, 65), (host_norms.SHORT + 1,), (7, 1000), (2, 3, 4, 5), (3,)]


def tensors(dtype, scale=1.0, shapes=SHAPES):
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype) for shape in shapes]


def rows(x):
    """The tensor by rows, in float64: one of them when it has at most one dimension."""
    return x.double().reshape(len(x), -1) if x.ndim > 1 and x.numel() else x.double().reshape(1, -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_where_a_tensor_begins_changes_no_bit(dtype):
    """As a dot product does on some processors: a run that resumes elsewhere in memory has the same bits."""
    x = torch.randn(50001, generator=torch.Generator().manual_seed(0)).to(dtype)
    places = [torch.empty(len(x) + 16, dtype=dtype)[offset:][: len(x)].copy_(x) for offset in range(16)]
    assert len({host_norms.squares([place]).item() for place in places}) == 1


VIEWS = {"transposed": torch.Tensor.t, "strided": lambda x: x[:, ::2], "expanded": lambda x: x.expand(3, *x.shape)}


@pytest.mark.parametrize("view", VIEWS)
def test_squares_of_views(view):
    x = VIEWS[view](torch.randn(100, 170))  # long enough for a separate call
    expected = x.double().square().sum().reshape(1)
    torch.testing.assert_close(host_norms.squares([x]), expected, rtol=3e-6, atol=0.0)
    assert torch.equal(host_norms.squares([x, x[:1, :1]])[:1], host_norms.squares([x]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shapes", [SHAPES, [(3,)] * 9, [(3,)], [(4, 3)]], ids=len)
def test_sums_of_tensors_and_of_rows(dtype, shapes):
    xs = tensors(dtype, shapes=shapes)
    expected = torch.stack([x.double().square().sum() for x in xs])
    torch.testing.assert_close(host_norms.squares(xs), expected, rtol=3e-6, atol=0.0)
    parts = [rows(x) if x.ndim <= 1 or len(x) else x.new_zeros(0, 1).double() for x in xs]
    parts = [x.double().reshape(len(x), -1) if x.shape == (3, 0) else part for x, part in zip(xs, parts, strict=True)]
    squares = torch.cat([part.square().sum(1) for part in parts])
    sums = torch.cat([part.sum(1) * (x.ndim > 1) for x, part in zip(xs, parts, strict=True)])
    torch.testing.assert_close(host_norms.row_sums(xs, False)[0], squares, rtol=3e-6, atol=0.0)
    both = host_norms.row_sums(xs, True)
    torch.testing.assert_close(both[0], squares, rtol=3e-6, atol=0.0)
    torch.testing.assert_close(both[1], sums, rtol=0, atol=1e-4 if dtype == torch.float32 else 1e-3)


@pytest.mark.parametrize("deviation", [0.0, 1e-5, 1e-3, 0.1, 1.0])
def test_what_the_mean_leaves_of_a_row_is_exact(deviation):
    """Also where the mean is nearly all of it: then float32 would leave noise."""
    generator = torch.Generator().manual_seed(1)
    x = (1.0 + deviation * torch.randn(20, 999, generator=generator)).float()
    other = torch.randn(5, 7, generator=generator)
    squares, sums = host_norms.row_sums([other, x, other[0]], True)
    left = (squares - sums.square() / 999)[5:25]
    expected = (x.double() - x.double().mean(1, keepdim=True)).square().sum(1)
    torch.testing.assert_close(left, expected, rtol=1e-5, atol=1e-9)


def test_a_long_sum_of_equal_numbers():
    """In float32 it would be wrong by a percent: it is formed in parts."""
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.full((20_000_001,), 0.1, dtype=dtype)
        rtol = 1e-3  # one sum in float32 is wrong by a percent or so
        exact = x[0].double() ** 2 * len(x)
        for squares in (host_norms.squares([x]), host_norms.row_sums([x[None]], False)[0]):
            torch.testing.assert_close(squares[0], exact, rtol=rtol, atol=0.0)


def test_rows_longer_than_a_part(monkeypatch):
    monkeypatch.setattr(host_norms, "PART", 100)
    xs = [torch.randn(3, 1001), torch.full((2, 250), 0.1), torch.randn(2, 5, 70)]
    squares, sums = host_norms.row_sums(xs, True)
    torch.testing.assert_close(squares, torch.cat([rows(x).square().sum(1) for x in xs]), rtol=1e-6, atol=0.0)
    torch.testing.assert_close(sums, torch.cat([rows(x).sum(1) for x in xs]), rtol=1e-6, atol=1e-4)
    torch.testing.assert_close(host_norms.row_sums(xs, False)[0], squares, rtol=1e-6, atol=0.0)
    left = squares[3:5] - sums[3:5].square() / 250
    assert (left.abs() < 1e-12).all(), "nothing is left of equal elements"


def test_the_sum_of_many_units_does_not_depend_on_threads():
    """Found by the fuzz: clipping by the norm of 50,000 rows."""
    vector, sums = torch.randn(100_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), set()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            sums.add(norms.total(vector).item())
    finally:
        torch.set_num_threads(1)
    assert len(sums) == 1
    torch.testing.assert_close(norms.total(vector), vector.sum(), rtol=1e-12, atol=0)
