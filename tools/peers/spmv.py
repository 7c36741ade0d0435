"""The peers of the sparse products: cuSPARSE's, as CuPy calls it."""

from peer import case, cupy, serve


def product(offsets, columns, rows):
    """A x for random values of both."""
    from cupyx.scipy.sparse import csr_matrix

    values = cupy.random.random(len(columns), dtype=cupy.float32) - 0.5
    x = cupy.random.random(rows, dtype=cupy.float32) - 0.5
    matrix = csr_matrix((values, columns, offsets), shape=(rows, rows))
    return lambda: matrix.dot(x)


@case("cupy.sparse", "spmv/banded/f32")
def _(shape, seed):
    rows, band = shape[0], 27
    entries = cupy.arange(rows * band, dtype=cupy.int64)
    columns = cupy.clip(entries // band + entries % band - band // 2, 0, rows - 1).astype(cupy.int32)
    return product(cupy.arange(rows + 1, dtype=cupy.int32) * band, columns, rows)


@case("cupy.sparse", "spmv/skewed/f32")
def _(shape, seed):
    rows = shape[0]
    lengths = min(200_000, 200 * rows) // (cupy.random.randint(0, 1 << 16, rows, dtype=cupy.int32) + 1)
    lengths = cupy.minimum(lengths, rows)
    offsets = cupy.zeros(rows + 1, dtype=cupy.int64)
    offsets[1:] = cupy.cumsum(lengths)
    # A random column of each of as many equal parts of a row as it has entries: they rise, and none comes twice.
    entries = cupy.arange(int(offsets[-1]), dtype=cupy.int64)
    row = cupy.searchsorted(offsets, entries, side="right") - 1
    own, length = entries - offsets[row], lengths[row]
    first, end = own * rows // length, (own + 1) * rows // length
    columns = first + (cupy.random.random(len(entries)) * (end - first)).astype(cupy.int64)
    return product(offsets.astype(cupy.int32), columns.astype(cupy.int32), rows)


serve()
