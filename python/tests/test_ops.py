"""Every function against NumPy, on small arrays."""

import math

import ml_dtypes
import numpy
import pytest
from conftest import FLOATS, INTEGERS, numbers

import ferrowarp

BFLOAT16 = numpy.dtype(ml_dtypes.bfloat16)
KEYS = [*INTEGERS, *FLOATS, BFLOAT16]


def check(found, expected):
    assert type(found) is numpy.ndarray
    assert found.dtype == expected.dtype and found.shape == expected.shape
    numpy.testing.assert_array_equal(found, expected)


def near(found, expected, relative, absolute=0.0):
    """Compares with a result in float64."""
    assert type(found) is numpy.ndarray and found.shape == expected.shape
    numpy.testing.assert_allclose(found.astype("float64"), expected, rtol=relative, atol=absolute)


@pytest.mark.parametrize("dtype", KEYS, ids=str)
def test_sort_of_each_type(dtype):
    x = numbers(dtype, 1000)
    check(ferrowarp.sort(x), numpy.sort(x))
    check(ferrowarp.sort(x, descending=True), numpy.sort(x)[::-1])


def test_sort_of_each_size(n):
    x = numbers("float32", n)
    check(ferrowarp.sort(x), numpy.sort(x))


def test_sort_puts_nan_last_and_keeps_zeros_apart():
    x = numpy.array([numpy.nan, 1.0, 0.0, -0.0, -numpy.inf], dtype="float32")
    found = ferrowarp.sort(x)
    check(found, numpy.array([-numpy.inf, -0.0, 0.0, 1.0, numpy.nan], dtype="float32"))
    assert math.copysign(1, found[1]) == -1


@pytest.mark.parametrize("dtype", KEYS, ids=str)
def test_argsort(dtype):
    x = numbers(dtype, 1000)
    check(ferrowarp.argsort(x), numpy.argsort(x, kind="stable").astype("uint32"))


def test_argsort_of_each_size(n):
    x = numbers("int32", n) % 7
    check(ferrowarp.argsort(x), numpy.argsort(x, kind="stable").astype("uint32"))
    backwards = numpy.argsort(-x.astype("int64"), kind="stable").astype("uint32")
    check(ferrowarp.argsort(x, descending=True), backwards)


@pytest.mark.parametrize("dtype", KEYS, ids=str)
@pytest.mark.parametrize("k", [0, 1, 33, 1000])
def test_top_k(dtype, k):
    x = numbers(dtype, 1000)
    values, indices = ferrowarp.top_k(x, k)
    check(values, numpy.sort(x)[::-1][:k])
    check(x[indices], values)
    values, indices = ferrowarp.top_k(x, k, largest=False)
    check(values, numpy.sort(x)[:k])
    check(indices, numpy.argsort(x, kind="stable")[:k].astype("uint32"))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_scan_of_integers_wraps(dtype):
    x = numbers(dtype, 1000)
    expected = numpy.cumsum(x, dtype=dtype)
    check(ferrowarp.scan(x), expected)
    check(ferrowarp.scan(x, exclusive=True), expected - x)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float32", "float64"], ids=str)
def test_scan_of_floats(dtype):
    # Whole numbers whose sums each type holds.
    x = numpy.ones(200).astype(dtype)
    check(ferrowarp.scan(x), numpy.arange(1, 201).astype(dtype))


def test_scan_of_each_size(n):
    x = numbers("uint32", n)
    check(ferrowarp.scan(x), numpy.cumsum(x, dtype="uint32"))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
def test_scan_by_max_and_min(dtype):
    x = numbers(dtype, 1009)
    check(ferrowarp.scan(x, "max"), numpy.maximum.accumulate(x))
    check(ferrowarp.scan(x, op="min"), numpy.minimum.accumulate(x))
    before = ferrowarp.scan(x, "max", exclusive=True)
    check(before[1:], numpy.maximum.accumulate(x)[:-1])


SELECTED = ["uint8", "uint32", "uint64", "int8", "int32", "int64", "float32", "float64"]


@pytest.mark.parametrize("dtype", SELECTED)
def test_select_and_partition(dtype):
    x = numbers(dtype, 1009)
    flags = numbers("uint8", 1009, seed=2) % 3 == 0
    check(ferrowarp.select(x, flags), x[flags])
    check(ferrowarp.select(x, flags.astype("uint8")), x[flags])
    parts, kept = ferrowarp.partition(x, flags)
    assert kept == flags.sum()
    check(parts, numpy.concatenate([x[flags], x[~flags][::-1]]))


def test_select_of_each_size(n):
    x = numbers("float32", n)
    check(ferrowarp.select(x, x > 0), x[x > 0])
    assert ferrowarp.partition(x, x > 0)[1] == (x > 0).sum()


@pytest.mark.parametrize("dtype", SELECTED)
def test_unique_and_runs(dtype):
    x = numpy.repeat(numpy.array([3, 1, 2, 1, 5]), [1, 40, 300, 2, 700]).astype(dtype)
    check(ferrowarp.unique(x), numpy.array([3, 1, 2, 1, 5]).astype(dtype))
    values, lengths = ferrowarp.run_lengths(x)
    check(values, numpy.array([3, 1, 2, 1, 5]).astype(dtype))
    check(lengths, numpy.array([1, 40, 300, 2, 700], dtype="uint32"))


def test_unique_of_sorted_elements(n):
    x = numpy.sort(numbers("int32", n) % 50)
    check(ferrowarp.unique(x), numpy.unique(x))
    values, lengths = ferrowarp.run_lengths(x)
    expected, counts = numpy.unique(x, return_counts=True)
    check(values, expected)
    check(lengths, counts.astype("uint32"))


def test_histogram_of_bytes(n):
    x = numbers("uint8", n)
    check(ferrowarp.histogram(x, 256), numpy.bincount(x, minlength=256).astype("uint32"))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_histogram_of_integers(dtype):
    x = (numbers(dtype, 1009) % 100).astype(dtype)
    check(ferrowarp.histogram(x, 100), numpy.bincount(x, minlength=100).astype("uint32"))
    evens = ferrowarp.histogram(x, 10, range=(0, 100))
    check(evens, numpy.bincount(x // 10, minlength=10).astype("uint32"))
    expected = [numpy.sum((x >= low) & (x < high)) for low, high in [(5, 20), (20, 90)]]
    check(ferrowarp.histogram(x, [5, 20, 90]), numpy.array(expected, dtype="uint32"))


def test_histogram_of_floats():
    x = numpy.array([0.1, 0.3, 0.35, 0.9, 7.0, numpy.nan], dtype="float32")
    check(ferrowarp.histogram(x, 4, range=(0.0, 1.0)), numpy.array([1, 2, 0, 1], dtype="uint32"))
    levels = [0.0, 0.32, numpy.inf]
    check(ferrowarp.histogram(x, levels), numpy.array([2, 3], dtype="uint32"))


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float32", "float64", "int32", "uint32"], ids=str)
def test_segmented_sum(dtype):
    x = (numbers("uint8", 1000) % 8).astype(dtype)
    offsets = numpy.array([0, 0, 1, 100, 700, 1000], dtype="int64")
    total = "float32" if numpy.dtype(dtype).itemsize == 2 else dtype
    expected = [x[low:high].astype("int64").sum() for low, high in zip(offsets, offsets[1:])]
    check(ferrowarp.segmented_reduce(x, offsets), numpy.array(expected).astype(total))
    check(ferrowarp.segmented_reduce(x, offsets.astype("uint64")), numpy.array(expected).astype(total))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_segmented_extremes(dtype):
    x = numbers(dtype, 1000)
    offsets = numpy.array([0, 1, 100, 1000], dtype="int64")
    check(ferrowarp.segmented_reduce(x, offsets, "min"), numpy.minimum.reduceat(x, offsets[:-1]))
    check(ferrowarp.segmented_reduce(x, offsets, op="max"), numpy.maximum.reduceat(x, offsets[:-1]))
    assert ferrowarp.segmented_reduce(x, offsets[:1]).shape == (0,)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("descending", [False, True])
def test_segmented_sorts(dtype, descending):
    x = numbers(dtype, 1000)
    offsets = numpy.array([0, 0, 1, 100, 700, 1000], dtype="int64")
    order = numpy.concatenate([low + stable_order(x[low:high], descending) for low, high in zip(offsets, offsets[1:])])
    check(ferrowarp.segmented_argsort(x, offsets, descending=descending), order.astype("uint32"))
    check(ferrowarp.segmented_sort(x, offsets.astype("uint64"), descending=descending), x[order])


def stable_order(x, descending):
    """The stable order of numbers of which none is NaN."""
    if not descending:
        return numpy.argsort(x, kind="stable")
    return len(x) - 1 - numpy.argsort(x[::-1], kind="stable")[::-1]


def sparse(dtype, rows, width):
    """A matrix with rows of 0 to 40 entries: offsets, columns, values, and the same one as a dense array."""
    generator = numpy.random.default_rng(2)
    dense = numpy.zeros((rows, width), dtype)
    for row in range(rows):
        columns = generator.choice(width, min(row % 41, width), replace=False)
        dense[row, columns] = generator.standard_normal(len(columns))
    places = dense != 0
    offsets = numpy.concatenate([[0], numpy.cumsum(places.sum(1))])
    return offsets, numpy.nonzero(places)[1], dense[places], dense


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("float64", 1e-12)])
@pytest.mark.parametrize("rows, width", [(0, 3), (1, 1), (150, 77), (7, 1000)])
def test_spmv(dtype, tolerance, rows, width):
    offsets, columns, values, dense = sparse(dtype, rows, width)
    x = numbers(dtype, width)
    for index in ["int32", "int64", "uint32", "uint64"]:
        matrix = ferrowarp.Csr(offsets.astype(index), columns.astype(index), values, width)
        assert (matrix.shape, matrix.entries, matrix.dtype) == ((rows, width), len(values), dtype)
        found = ferrowarp.spmv(matrix, x)
        assert found.dtype == x.dtype
        numpy.testing.assert_allclose(found, dense.astype("float64") @ x, rtol=tolerance, atol=tolerance)
    assert f"({rows}, {width})" in repr(matrix)


def heat(x, centre, neighbours, boundary):
    """One step, by NumPy."""
    modes = {"fixed": "edge", "periodic": "wrap", "insulated": "edge"}
    padded = numpy.pad(x, 1, mode=modes[boundary])
    if boundary == "insulated":
        # The mirror image of the grid: the cell beyond an edge is the one at the edge.
        padded = numpy.pad(x, 1, mode="symmetric")
    inner = tuple(slice(1, -1) for _ in x.shape)
    out = centre * x
    for axis, weight in enumerate(neighbours):
        for shift in (slice(0, -2), slice(2, None)):
            out = out + weight * padded[inner[:axis] + (shift,) + inner[axis + 1 :]]
    if boundary == "fixed":
        kept = numpy.ones(x.shape, bool)
        kept[inner] = False
        out[kept] = x[kept]
    return out


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-13)])
@pytest.mark.parametrize("boundary", ["fixed", "periodic", "insulated"])
@pytest.mark.parametrize("shape, weights", [((9, 21), (0.1, 0.2)), ((5, 6, 17), (0.05, 0.1, 0.15))])
def test_stencil(dtype, tolerance, boundary, shape, weights):
    x = numbers(dtype, shape)
    centre = 1 - 2 * sum(weights)
    expected = x.astype("float64")
    for steps in range(8):
        found = ferrowarp.stencil(x, centre, weights, steps=steps, boundary=boundary)
        assert found.dtype == x.dtype
        numpy.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        expected = heat(expected, centre, weights, boundary)


# An element is off by its own rounding: 2^-11 of float16, 2^-8 of bfloat16.
ROUNDING = [("float32", 1e-5), ("float16", 1e-3), (BFLOAT16, 1e-2)]
ROWS = [(0, 5), (5, 0), (1, 1), (3, 33), (2, 3, 257), (1000,)]


@pytest.mark.parametrize("dtype, tolerance", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", ROWS, ids=str)
def test_softmax(dtype, tolerance, shape):
    x = numbers("float32", shape).astype(dtype)
    wide = x.astype("float64")
    exponentials = numpy.exp(wide - wide.max(axis=-1, keepdims=True, initial=-1e30))
    expected = exponentials / exponentials.sum(axis=-1, keepdims=True)
    found = ferrowarp.softmax(x)
    assert found.dtype == x.dtype
    near(found, expected, tolerance, 1e-7)
    near(ferrowarp.softmax(x, log=True), numpy.log(expected), tolerance, tolerance)


def layer_norm(x, weight, bias, epsilon=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / numpy.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon) * weight + bias


def rms_norm(x, weight, epsilon=1e-5):
    return x / numpy.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * weight


@pytest.mark.parametrize("dtype, tolerance", ROUNDING, ids=str)
@pytest.mark.parametrize("shape", [(0, 5), (3, 33), (2, 3, 257), (1000,)], ids=str)
def test_norms(dtype, tolerance, shape):
    columns = shape[-1]
    x, residual = (numbers("float32", shape, seed).astype(dtype) for seed in (1, 2))
    weight, bias = (numbers("float32", columns, seed).astype(dtype) for seed in (3, 4))
    wide, sums = x.astype("float64"), x.astype("float64") + residual.astype("float64")
    w, b = weight.astype("float64"), bias.astype("float64")
    near(ferrowarp.layer_norm(x), layer_norm(wide, 1, 0), tolerance, 4 * tolerance)
    near(ferrowarp.layer_norm(x, weight, bias), layer_norm(wide, w, b), tolerance, 4 * tolerance)
    near(ferrowarp.rms_norm(x, weight, epsilon=0.1), rms_norm(wide, w, 0.1), tolerance, 4 * tolerance)
    near(ferrowarp.layer_norm(x, bias=bias, residual=residual), layer_norm(sums, 1, b), tolerance, 4 * tolerance)
    near(ferrowarp.rms_norm(x, residual=residual), rms_norm(sums, 1), tolerance, 4 * tolerance)


PRODUCTS = [("float16", 1e-3), (BFLOAT16, 1e-2), ("float32", 1e-5), ("float64", 1e-13)]
SIDES = [(1, 1, 1), (3, 5, 7), (33, 32, 31), (64, 48, 80), (2, 0, 3), (0, 4, 3)]


@pytest.mark.parametrize("dtype, tolerance", PRODUCTS, ids=str)
@pytest.mark.parametrize("m, k, n", SIDES)
def test_matmul(dtype, tolerance, m, k, n):
    a, b = numbers("float64", (m, k)).astype(dtype), numbers("float64", (k, n), 2).astype(dtype)
    expected = a.astype("float64") @ b.astype("float64")
    found = ferrowarp.matmul(a, b)
    assert found.dtype == a.dtype
    near(found, expected, tolerance, 4 * tolerance)
    # A transpose is used as it is.
    near(ferrowarp.matmul(numpy.ascontiguousarray(a.T).T, b), expected, tolerance, 4 * tolerance)
    near(ferrowarp.matmul(a, numpy.ascontiguousarray(b.T).T), expected, tolerance, 4 * tolerance)


def attended(q, k, v, before=None, scale=None):
    """Attention in float64; with `before`, a query sees its own key and so many before."""
    queries, keys, depth = q.shape[2], k.shape[2], q.shape[3]
    group = q.shape[1] // k.shape[1]
    k, v = numpy.repeat(k, group, axis=1), numpy.repeat(v, group, axis=1)
    scores = q @ numpy.swapaxes(k, 2, 3) * (scale or depth**-0.5)
    if before is not None:
        own = numpy.arange(queries)[:, None] + keys - queries
        key = numpy.arange(keys)[None]
        scores = numpy.where((key <= own) & (key >= own - before), scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(axis=3, keepdims=True))
    return weights / weights.sum(axis=3, keepdims=True) @ v


@pytest.mark.parametrize("dtype, tolerance", [("float16", 4e-3), (BFLOAT16, 3e-2)], ids=str)
@pytest.mark.parametrize("queries, keys, depth", [(1, 1, 8), (5, 70, 64), (70, 90, 40)])
def test_attention(dtype, tolerance, queries, keys, depth):
    q = numbers("float64", (2, 4, queries, depth)).astype(dtype)
    k, v = (numbers("float64", (2, 2, keys, depth), seed).astype(dtype) for seed in (2, 3))
    wide = [x.astype("float64") for x in (q, k, v)]
    found = ferrowarp.attention(q, k, v)
    assert found.dtype == q.dtype
    near(found, attended(*wide), tolerance, tolerance)
    near(ferrowarp.attention(q, k, v, causal=True), attended(*wide, before=keys), tolerance, tolerance)
    near(ferrowarp.attention(q, k, v, causal=True, window=3), attended(*wide, before=3), tolerance, tolerance)
    near(ferrowarp.attention(q, k, v, scale=0.3), attended(*wide, scale=0.3), tolerance, tolerance)
    # Rows of all heads side by side, as a linear layer gives them.
    turned = [numpy.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (q, k, v)]
    near(ferrowarp.attention(*turned, causal=True), attended(*wide, before=keys), tolerance, tolerance)


@pytest.mark.parametrize("dtype, tolerance", PRODUCTS, ids=str)
def test_matmul_of_batches(dtype, tolerance):
    a, b = (numbers("float64", shape).astype(dtype) for shape in [(3, 17, 9), (3, 9, 20)])
    wide = a.astype("float64"), b.astype("float64")
    near(ferrowarp.matmul(a, b), wide[0] @ wide[1], tolerance, 4 * tolerance)
    near(ferrowarp.matmul(a, b[1]), wide[0] @ wide[1][1], tolerance, 4 * tolerance)
    near(ferrowarp.matmul(a[2], b), wide[0][2] @ wide[1], tolerance, 4 * tolerance)


@pytest.mark.parametrize("precision, tolerance", [("float32", 1e-5), ("tf32", 2e-3), ("3xtf32", 1e-5)])
def test_matmul_with_a_precision(precision, tolerance):
    a, b = numbers("float32", (33, 40)), numbers("float32", (40, 31), 2)
    expected = a.astype("float64") @ b.astype("float64")
    near(ferrowarp.matmul(a, b, precision=precision), expected, tolerance, 8 * tolerance)


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATS, BFLOAT16], ids=str)
def test_transpose_of_each_type(dtype):
    x = (numbers("uint8", (33, 65)) % 2).astype(dtype)
    check(ferrowarp.transpose(x), numpy.ascontiguousarray(x.T))


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (31, 1000), (2, 33, 5)], ids=str)
def test_transpose_of_each_shape(shape):
    x = numbers("float32", shape)
    check(ferrowarp.transpose(x), numpy.ascontiguousarray(numpy.swapaxes(x, -1, -2)))


@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1), (2, 1, 0), (1, 0), (0,)])
def test_permute(axes):
    x = numbers("int64", (3, 33, 5)[: len(axes)])
    check(ferrowarp.permute(x, axes), numpy.ascontiguousarray(numpy.transpose(x, axes)))


def test_random_numbers(n):
    like = numpy.zeros(0)
    for make in [
        lambda n, offset: ferrowarp.uniform(n, seed=42, offset=offset, like=like),
        lambda n, offset: ferrowarp.uniform(n, seed=42, offset=offset, dtype="float64", like=like),
        lambda n, offset: ferrowarp.normal(n, seed=42, offset=offset, like=like),
        lambda n, offset: ferrowarp.integers(n, 10, 20, seed=42, offset=offset, like=like),
    ]:
        whole = make(2000, 0)
        check(make(n, 300), whole[300 : 300 + n])


def test_random_distributions():
    like = numpy.zeros(0)
    uniform = ferrowarp.uniform((100, 100), seed=1, like=like)
    assert uniform.shape == (100, 100) and uniform.dtype == "float32"
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    normal = ferrowarp.normal(10000, seed=1, mean=3.0, deviation=2.0, like=like)
    assert abs(normal.mean() - 3) < 0.1 and abs(normal.std() - 2) < 0.1
    integers = ferrowarp.integers(10000, 2**40, 2**40 + 3, seed=1, dtype="uint64", like=like)
    assert set(integers.tolist()) == {2**40, 2**40 + 1, 2**40 + 2}
    assert (ferrowarp.uniform(100, seed=1, like=like) != ferrowarp.uniform(100, seed=2, like=like)).any()
