"""Sums over tensors on a CPU against sums in float64."""

import math

import pytest
import torch

from psilogic.tensors import host_norms, norms

SHAPES = [(), (0,), (3,), (4, 3), (0, 3), (3, 0), (64, 65), (host_norms.SHORT + 1,), (7, 1000), (2, 3, 4, 5), (3,)]


def tensors(dtype, scale=1.0, shapes=SHAPES):
    generator = torch.Generator().manual_seed(0)
    made = []
    for shape in shapes:
        values = torch.randn(shape, generator=generator, dtype=torch.float64) * scale
        made.append(values.to(dtype))
    return made


def rows(x):
    """The tensor by rows, in float64: one of them when it has at most one dimension."""
    if x.ndim <= 1:
        return x.double().reshape(1, -1)
    return x.double().reshape(len(x), math.prod(x.shape[1:]))


def squares_of_rows(xs):
    return torch.cat([rows(x).square().sum(1) for x in xs])


def sums_of_rows(xs):
    return torch.cat([rows(x).sum(1) for x in xs])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_where_a_tensor_begins_changes_no_bit(dtype):
    """As a dot product does on some processors: a run that resumes elsewhere in memory has the same bits."""
    x = torch.randn(50001, generator=torch.Generator().manual_seed(0)).to(dtype)
    results = set()
    for offset in range(16):
        room = torch.empty(len(x) + 16, dtype=dtype)
        moved = room[offset : offset + len(x)].copy_(x)
        results.add(host_norms.squares([moved]).item())
    assert len(results) == 1


MATRIX = torch.randn(100, 170)  # long enough for a separate call
VIEWS = {"transposed": MATRIX.t(), "strided": MATRIX[:, ::2], "expanded": MATRIX.expand(3, 100, 170)}


@pytest.mark.parametrize("x", VIEWS.values(), ids=VIEWS)
def test_squares_of_views(x):
    expected = x.double().square().sum().reshape(1)
    torch.testing.assert_close(host_norms.squares([x]), expected, rtol=3e-6, atol=0.0)
    assert torch.equal(host_norms.squares([x, x[:1, :1]])[:1], host_norms.squares([x]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shapes", [SHAPES, [(3,)] * 9, [(3,)], [(4, 3)]], ids=len)
def test_sums_of_tensors_and_of_rows(dtype, shapes):
    xs = tensors(dtype, shapes=shapes)
    expected = torch.stack([x.double().square().sum() for x in xs])
    torch.testing.assert_close(host_norms.squares(xs), expected, rtol=3e-6, atol=0.0)
    expected_squares = squares_of_rows(xs)
    expected_sums = torch.cat([rows(x).sum(1) if x.ndim > 1 else torch.zeros(1) for x in xs])
    without_sums = host_norms.row_sums(xs, False)[0]
    torch.testing.assert_close(without_sums, expected_squares, rtol=3e-6, atol=0.0)
    squares, sums = host_norms.row_sums(xs, True)
    torch.testing.assert_close(squares, expected_squares, rtol=3e-6, atol=0.0)
    atol = 1e-4 if dtype == torch.float32 else 1e-3
    torch.testing.assert_close(sums, expected_sums.double(), rtol=0, atol=atol)


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
        exact = x[0].double() ** 2 * len(x)
        of_tensor = host_norms.squares([x])
        of_row = host_norms.row_sums([x[None]], False)[0]
        torch.testing.assert_close(of_tensor[0], exact, rtol=1e-3, atol=0.0)
        torch.testing.assert_close(of_row[0], exact, rtol=1e-3, atol=0.0)


def test_rows_longer_than_a_part(monkeypatch):
    monkeypatch.setattr(host_norms, "PART", 100)
    xs = [torch.randn(3, 1001), torch.full((2, 250), 0.1), torch.randn(2, 5, 70)]
    squares, sums = host_norms.row_sums(xs, True)
    torch.testing.assert_close(squares, squares_of_rows(xs), rtol=1e-6, atol=0.0)
    torch.testing.assert_close(sums, sums_of_rows(xs), rtol=1e-6, atol=1e-4)
    torch.testing.assert_close(host_norms.row_sums(xs, False)[0], squares, rtol=1e-6, atol=0.0)
    left = squares[3:5] - sums[3:5].square() / 250
    assert (left.abs() < 1e-12).all(), "nothing is left of equal elements"


def test_the_sum_of_many_units_does_not_depend_on_threads():
    """Found by the fuzz: clipping by the norm of 50,000 rows."""
    generator = torch.Generator().manual_seed(0)
    vector = torch.randn(100_000, dtype=torch.float64, generator=generator)
    sums = set()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            sums.add(norms.total(vector).item())
    finally:
        torch.set_num_threads(1)
    assert len(sums) == 1
    torch.testing.assert_close(norms.total(vector), vector.sum(), rtol=1e-12, atol=0)
