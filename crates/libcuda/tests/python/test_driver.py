"""cuda-bindings, the driver API in Python: kernels in CUDA C++, compiled to PTX by NVRTC."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings import driver, nvrtc

HERE = Path(__file__).parent


def ok(answer):
    """The results of a call, which must have succeeded."""
    code, *results = answer
    assert int(code) == 0, code
    return results[0] if len(results) == 1 else results


def compile_ptx(source):
    program = ok(nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], []))
    options = [b"--gpu-architecture=compute_90", b"--fmad=false"]
    (code,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    # Never one byte: Python has only one object for each of those, and NVRTC would write to it.
    log = b" " * (1 + ok(nvrtc.nvrtcGetProgramLogSize(program)))
    ok(nvrtc.nvrtcGetProgramLog(program, log))
    assert int(code) == 0, log.decode()
    ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
    ok(nvrtc.nvrtcGetPTX(program, ptx))
    return ptx


@pytest.fixture(scope="module")
def module():
    context = ok(driver.cuDevicePrimaryCtxRetain(0))
    ok(driver.cuCtxSetCurrent(context))
    loaded = ok(driver.cuModuleLoadData(compile_ptx((HERE / "kernels.cu").read_text())))
    yield loaded
    ok(driver.cuModuleUnload(loaded))
    ok(driver.cuCtxSetCurrent(None))
    ok(driver.cuDevicePrimaryCtxRelease(0))


class OnDevice:
    """An array's copy in device memory."""

    def __init__(self, array):
        self.like = np.ascontiguousarray(array)
        self.address = ok(driver.cuMemAlloc(self.like.nbytes))
        ok(driver.cuMemcpyHtoD(self.address, self.like.ctypes.data, self.like.nbytes))
        # It may be under way still, and non-blocking streams do not wait for it.
        ok(driver.cuCtxSynchronize())

    def back(self):
        host = np.empty_like(self.like)
        ok(driver.cuMemcpyDtoH(host.ctypes.data, self.address, host.nbytes))
        return host

    def free(self):
        ok(driver.cuMemFree(self.address))


def launch(module, name, grid, block, args, types, shared_mem_bytes=0, stream=0):
    function = ok(driver.cuModuleGetFunction(module, name.encode()))
    params = (tuple(args), tuple(types))
    ok(driver.cuLaunchKernel(function, *grid, *block, shared_mem_bytes, stream, params, 0))


def pointer(*arrays):
    return [array.address for array in arrays], [None] * len(arrays)


@pytest.mark.parametrize("n", [1, 31, 256, 257, 10_007])
def test_map(module, n):
    x = np.linspace(-6, 6, n, dtype=np.float32)
    dx, dy = OnDevice(x), OnDevice(np.full(n, np.nan, np.float32))
    args, types = pointer(dx, dy)
    launch(module, "gelu", (-(-n // 256), 1, 1), (256, 1, 1), [*args, n], [*types, ctypes.c_int])
    wide = x.astype(np.float64)
    right = 0.5 * wide * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3)))
    # tanhf is within 2 ulp, and each of the five roundings before it adds half a one. Near -1 all
    # of it, at most 2^-21, stands beside 1 + tanh, and 0.5 |x| is 3 at most.
    np.testing.assert_allclose(dy.back(), right, rtol=2**-20, atol=3 * 2**-21)
    dx.free(), dy.free()


@pytest.mark.parametrize("n", [1, 255, 256, 100_003])
def test_shared_memory_reduction(module, n):
    # Whole numbers, so that every order of adding gives the same sum.
    x = np.random.default_rng(n).integers(-1000, 1000, n).astype(np.float64)
    n_blocks = -(-n // 256)
    dx, dout = OnDevice(x), OnDevice(np.full(n_blocks, np.nan))
    args, types = pointer(dx, dout)
    grid, block, bytes_of_8_warps = (n_blocks, 1, 1), (256, 1, 1), 8 * 8
    types = [*types, ctypes.c_int]
    launch(module, "block_sum", grid, block, [*args, n], types, bytes_of_8_warps)
    padded = np.zeros(n_blocks * 256)
    padded[:n] = x
    np.testing.assert_array_equal(dout.back(), padded.reshape(-1, 256).sum(axis=1))
    dx.free(), dout.free()


def test_atomics(module):
    n = 20_000
    x = np.random.default_rng(7).integers(0, 100, n, dtype=np.uint32)
    dx, bins, most = (OnDevice(a) for a in (x, np.zeros(100, np.uint32), np.zeros(1, np.uint32)))
    seen, bytes_of_seen = ok(driver.cuModuleGetGlobal(module, b"seen"))
    assert bytes_of_seen == 8
    ok(driver.cuMemsetD8(seen, 0, 8))
    args, types = pointer(dx, bins, most)
    launch(module, "counts", (16, 1, 1), (128, 1, 1), [*args, n], [*types, ctypes.c_int])
    np.testing.assert_array_equal(bins.back(), np.bincount(x, minlength=100))
    assert most.back()[0] == x.max()
    total = np.zeros(1, np.uint64)
    ok(driver.cuMemcpyDtoH(total.ctypes.data, seen, 8))
    assert total[0] == n
    dx.free(), bins.free(), most.free()


class Size(ctypes.Structure):
    _fields_ = [("width", ctypes.c_int), ("height", ctypes.c_int)]


@pytest.mark.parametrize("width, height", [(16, 16), (17, 15), (101, 67)])
def test_stencil_on_a_stream(module, width, height):
    picture = np.random.default_rng(width).random((height, width), dtype=np.float32)
    one, two = OnDevice(picture), OnDevice(np.full_like(picture, np.nan))
    stream = ok(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    start, end = (ok(driver.cuEventCreate(0)) for _ in range(2))
    grid, block = (-(-width // 16), -(-height // 16), 1), (16, 16, 1)
    size = Size(width, height)
    right = picture
    ok(driver.cuEventRecord(start, stream))
    for source, target in [(one, two), (two, one), (one, two)]:
        args, types = pointer(source, target)
        args, types = [*args, size, 0.125], [*types, None, ctypes.c_float]
        launch(module, "heat", grid, block, [*args], types, stream=stream)
        rim = np.pad(right, 1)
        # The kernel's own order of operations, so that the bits agree.
        around = rim[1:-1, :-2] + rim[1:-1, 2:] + rim[:-2, 1:-1] + rim[2:, 1:-1]
        right = right + np.float32(0.125) * (around - np.float32(4) * right)
    ok(driver.cuEventRecord(end, stream))
    ok(driver.cuStreamSynchronize(stream))
    assert ok(driver.cuEventElapsedTime(start, end)) > 0
    np.testing.assert_array_equal(two.back(), right)
    ok(driver.cuEventDestroy(start)), ok(driver.cuEventDestroy(end))
    ok(driver.cuStreamDestroy(stream))
    one.free(), two.free()


def test_a_library_and_its_kernels(module):
    ptx = compile_ptx((HERE / "kernels.cu").read_text())
    library = ok(driver.cuLibraryLoadData(ptx, [], [], 0, [], [], 0))
    count = ok(driver.cuLibraryGetKernelCount(library))
    kernels = ok(driver.cuLibraryEnumerateKernels(count, library))
    names = {ok(driver.cuKernelGetName(kernel)) for kernel in kernels}
    assert names == {b"gelu", b"block_sum", b"counts", b"heat", b"stray"}
    heat = ok(driver.cuLibraryGetKernel(library, b"heat"))
    offsets = [ok(driver.cuKernelGetParamInfo(heat, index)) for index in range(4)]
    assert [tuple(map(int, pair)) for pair in offsets] == [(0, 8), (8, 8), (16, 8), (24, 4)]
    assert int(driver.cuKernelGetParamInfo(heat, 4)[0]) == 1
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
    assert ok(driver.cuKernelGetAttribute(attribute, heat, 0)) == 18 * 18 * 4
    # A kernel may stand where a function is asked for.
    x = OnDevice(np.float32([1, 2, 3]))
    gelu = ok(driver.cuLibraryGetKernel(library, b"gelu"))
    params = ((x.address, x.address, 3), (None, None, ctypes.c_int))
    as_function = driver.CUfunction(int(gelu))
    ok(driver.cuLaunchKernel(as_function, 1, 1, 1, 32, 1, 1, 0, 0, params, 0))
    np.testing.assert_allclose(x.back(), [0.841192, 1.954598, 2.996363], rtol=1e-6)
    x.free()
    ok(driver.cuLibraryUnload(library))


def test_bad_ptx_has_a_log():
    log = bytearray(4096)
    options = [driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER]
    options.append(driver.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
    ptx = b".version 8.0\n.target sm_90\n.address_size 64\n.entry k() { nonsense; }\n"
    code, _ = driver.cuModuleLoadDataEx(ptx, len(options), options, [log, len(log)])
    assert code == driver.CUresult.CUDA_ERROR_INVALID_PTX
    assert b"nonsense" in bytes(log), bytes(log).split(b"\0")[0]


STRAY = """
import sys
sys.path.insert(0, sys.argv[1])
from test_driver import *
context = ok(driver.cuInit(0))
ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(0))))
module = ok(driver.cuModuleLoadData(compile_ptx((HERE / "kernels.cu").read_text())))
x = OnDevice(np.zeros(64, np.int32))
launch(module, "stray", (1, 1, 1), (1, 1, 1), *pointer(x))
print(int(driver.cuCtxSynchronize()[0]), int(driver.cuCtxSynchronize()[0]))
"""


def test_a_stray_store_is_reported_and_stays(monkeypatch):
    """In a process of its own, since the fault costs the process the device."""
    monkeypatch.setenv("FERROWARP_VERBOSE", "1")
    command = [sys.executable, "-c", STRAY, str(HERE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["700", "700"]
    assert "stray" in done.stderr, done.stderr
