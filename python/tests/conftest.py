"""What the tests share."""

import numpy
import pytest

import ferrowarp

# They choose a driver of their own: scripts/wheel runs them in another process.
collect_ignore = ["streams"]

# Sizes around those of warps, blocks and tiles, and odd ones.
SIZES = [0, 1, 2, 31, 32, 33, 255, 256, 257, 1000, 1009]

INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "float32", "float64"]

# Results of random numbers are on the device, and NumPy reads memory of the CPU alone.
ON_EMULATOR = pytest.mark.skipif(not ferrowarp.device().emulated, reason="the result is on a GPU")


def numbers(dtype, shape, seed=1):
    """Random numbers: of integers their whole range, of floats a normal distribution."""
    generator = numpy.random.default_rng(seed)
    if numpy.dtype(dtype).kind in "iu":
        limits = numpy.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    return generator.standard_normal(shape).astype(dtype)


@pytest.fixture(params=SIZES)
def n(request):
    return request.param
