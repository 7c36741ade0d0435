"""numba-cuda: kernels in Python."""

import math

import numpy as np
import pytest
from numba import cuda, float32, float64, int32

# That a grid is small for a GPU, and that numba links with the driver, is as it should be here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Grid size"),
    pytest.mark.filterwarnings("ignore:cuda.bindings.nvjitlink is not available"),
    pytest.mark.filterwarnings("ignore:Host array used in CUDA kernel"),
]


@cuda.jit
def normal_density(x, mean, deviation, out):
    i = cuda.grid(1)
    if i < x.size:
        z = (x[i] - mean) / deviation
        out[i] = math.exp(-0.5 * z * z) / (deviation * math.sqrt(2 * math.pi))


@pytest.mark.parametrize("n", [1, 127, 128, 129, 5_003])
def test_map(n):
    x = np.linspace(-4, 4, n)
    out = np.full(n, np.nan)
    normal_density[-(-n // 128), 128](x, 0.5, 1.25, out)
    z = (x - 0.5) / 1.25
    right = np.exp(-0.5 * z * z) / (1.25 * np.sqrt(2 * np.pi))
    # The exponential of both is within 1 ulp; the other operations, rounded alike, stay below 8.
    np.testing.assert_allclose(out, right, rtol=8 * 2**-52)


@cuda.jit
def block_sums(x, out):
    cells = cuda.shared.array(256, int32)
    thread = cuda.threadIdx.x
    i = cuda.grid(1)
    cells[thread] = x[i] if i < x.size else 0
    step = 128
    while step > 0:
        cuda.syncthreads()
        if thread < step:
            cells[thread] += cells[thread + step]
        step //= 2
    if thread == 0:
        out[cuda.blockIdx.x] = cells[0]


@pytest.mark.parametrize("n", [1, 256, 257, 40_009])
def test_shared_memory_reduction(n):
    x = np.random.default_rng(n).integers(-1000, 1000, n, dtype=np.int32)
    n_blocks = -(-n // 256)
    out = np.full(n_blocks, -1, np.int32)
    block_sums[n_blocks, 256](x, out)
    padded = np.zeros(n_blocks * 256, np.int32)
    padded[:n] = x
    np.testing.assert_array_equal(out, padded.reshape(-1, 256).sum(axis=1))


@cuda.jit
def warp_sums(x, out):
    value = x[cuda.grid(1)]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
    if cuda.laneid == 0:
        out[cuda.grid(1) // 32] = value


def test_shuffles():
    x = np.arange(256, dtype=np.int64)
    out = np.zeros(8, np.int64)
    warp_sums[2, 128](x, out)
    np.testing.assert_array_equal(out, x.reshape(8, 32).sum(axis=1))


@cuda.jit
def tally(x, bins, extremes, total):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, int(x[i]) // 10, 1)
        cuda.atomic.min(extremes, 0, x[i])
        cuda.atomic.max(extremes, 1, x[i])
        cuda.atomic.add(total, 0, x[i])


def test_atomics():
    # Quarters: every order of adding gives the same sum.
    x = np.random.default_rng(3).integers(0, 400, 9_001) / 4
    bins, total = np.zeros(10, np.int32), np.zeros(1)
    extremes = np.array([np.inf, -np.inf])
    tally[8, 64](x, bins, extremes, total)
    np.testing.assert_array_equal(bins, np.histogram(x, bins=np.arange(0, 101, 10))[0])
    np.testing.assert_array_equal(extremes, [x.min(), x.max()])
    assert total[0] == x.sum()


@cuda.jit
def compare_and_swap(lock, order):
    """Each block takes the lock once and notes its turn."""
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        order[cuda.blockIdx.x] = lock[1]
        lock[1] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


def test_a_lock():
    lock, order = np.zeros(2, np.int32), np.full(12, -1, np.int32)
    compare_and_swap[12, 32](lock, order)
    assert sorted(order) == list(range(12)) and lock[1] == 12


@cuda.jit(device=True)
def around(tile, i, j):
    return tile[i - 1, j] + tile[i + 1, j] + tile[i, j - 1] + tile[i, j + 1]


TILE = 16
WITH_RIM = (TILE + 2, TILE + 2)


@cuda.jit
def relax(old, new):
    tile = cuda.shared.array(WITH_RIM, float32)
    i, j = cuda.grid(2)
    ti, tj = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    height, width = old.shape
    inside = i < height and j < width
    tile[ti, tj] = old[i, j] if inside else 0
    if ti == 1:
        tile[0, tj] = old[i - 1, j] if inside and i > 0 else 0
    if ti == TILE:
        tile[ti + 1, tj] = old[i + 1, j] if j < width and i + 1 < height else 0
    if tj == 1:
        tile[ti, 0] = old[i, j - 1] if inside and j > 0 else 0
    if tj == TILE:
        tile[ti, tj + 1] = old[i, j + 1] if i < height and j + 1 < width else 0
    cuda.syncthreads()
    if inside and 0 < i < height - 1 and 0 < j < width - 1:
        new[i, j] = around(tile, ti, tj) / float32(4)


@pytest.mark.parametrize("shape", [(16, 16), (33, 50), (64, 17)])
def test_stencil_between_device_arrays(shape):
    old = np.random.default_rng(shape[0]).random(shape, dtype=np.float32)
    stream = cuda.stream()
    one, two = cuda.to_device(old, stream=stream), cuda.to_device(old, stream=stream)
    right = old
    for source, target in [(one, two), (two, one), (one, two)]:
        relax[(-(-shape[0] // TILE), -(-shape[1] // TILE)), (TILE, TILE), stream](source, target)
        # The kernel's own order of operations, so that the bits agree.
        sums = right[:-2, 1:-1] + right[2:, 1:-1] + right[1:-1, :-2] + right[1:-1, 2:]
        right = right.copy()
        right[1:-1, 1:-1] = sums / np.float32(4)
    result = two.copy_to_host(stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(result, right)


@cuda.jit
def reversed_in_blocks(x):
    """Shared memory whose size the launch says."""
    cells = cuda.shared.array(0, float64)
    thread, size = cuda.threadIdx.x, cuda.blockDim.x
    cells[thread] = x[cuda.grid(1)]
    cuda.syncthreads()
    x[cuda.grid(1)] = cells[size - 1 - thread]


def test_dynamic_shared_memory():
    x = np.arange(192, dtype=np.float64)
    right = x.reshape(2, 96)[:, ::-1].ravel()
    reversed_in_blocks[2, 96, 0, 96 * 8](x)
    np.testing.assert_array_equal(x, right)


@cuda.jit
def downhill(heights, rounds):
    """Rounds of a mean of both neighbours; the first barrier is for what was read, the second for what was written."""
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    for _ in range(rounds):
        mean = (heights[max(i - 1, 0)] + heights[min(i + 1, heights.size - 1)]) // 2
        grid.sync()
        heights[i] = mean
        grid.sync()


@pytest.mark.parametrize("blocks", [1, 7, 64])
def test_grid_synchronisation(blocks):
    heights = np.random.default_rng(blocks).integers(0, 1 << 40, 32 * blocks)
    right = heights.copy()
    for _ in range(6):
        around = np.concatenate([right[:1], right, right[-1:]])
        right = (around[:-2] + around[2:]) // 2
    downhill[blocks, 32](heights, 6)
    np.testing.assert_array_equal(heights, right)


TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)


@cuda.jit
def from_constants(out):
    table = cuda.const.array_like(TABLE)
    mine = cuda.local.array(4, int32)
    i = cuda.grid(1)
    for k in range(4):
        mine[k] = table[(i + k) % 8]
    total = 0
    for k in range(4):
        total = total * 10 + mine[(k + i) % 4]
    out[i] = total


def test_constant_and_local_arrays():
    out = np.zeros(32, np.int64)
    from_constants[1, 32](out)
    right = []
    for i in range(32):
        mine = [TABLE[(i + k) % 8] for k in range(4)]
        right.append(int("".join(str(mine[(k + i) % 4]) for k in range(4))))
    np.testing.assert_array_equal(out, right)


@cuda.reduce
def largest(a, b):
    return max(a, b)


def test_numbas_own_reduction():
    x = np.random.default_rng(5).random(3_001)
    assert largest(x, init=-1.0) == x.max()


def test_events_and_memory_info():
    start, end = cuda.event(), cuda.event()
    x = cuda.device_array(100, np.float32)
    start.record()
    warm = cuda.to_device(np.ones(100, np.float32))
    end.record()
    end.synchronize()
    assert cuda.event_elapsed_time(start, end) >= 0
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free < total
    np.testing.assert_array_equal(warm.copy_to_host(), np.ones(100))
    assert x.shape == (100,)
