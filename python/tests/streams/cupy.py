"""A stand-in for CuPy on the emulated driver: as much of it as calls on a library's own stream ask for.

FERROWARP_LIBCUDA names the driver as a shared library (the package `ferrowarp-libcuda`). It is loaded here with the emulator chosen,
and is then the CUDA driver that the package finds. A front refuses Ferrowarp's own library in the place of NVIDIA's, which it
knows by a symbol; in the copy that is loaded here, that symbol has another name.
"""

import ctypes
import os
import tempfile
from pathlib import Path

import numpy

_folder = tempfile.TemporaryDirectory()
_path = Path(_folder.name, "libcuda.so.1")
_mark = b"\0FERROWARP_LIBCUDA\0"
_library = Path(os.environ["FERROWARP_LIBCUDA"]).read_bytes()
assert _library.count(_mark) == 1
_path.write_bytes(_library.replace(_mark, b"\0FERROWARP_STANDIN\0"))

os.environ["FERROWARP_DEVICE"] = "emulator"
driver = ctypes.CDLL(str(_path))


def check(code):
    assert code == 0, f"the driver returned {code}"


check(driver.cuInit(0))
os.environ["FERROWARP_DEVICE"] = "cuda"
os.environ["FERROWARP_CUDA_LIBRARY"] = str(_path)
context = ctypes.c_void_p()
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))


class Stream:
    """A stream of the driver, and the current one in a `with` block."""

    def __init__(self):
        self.handle = ctypes.c_void_p()
        check(driver.cuStreamCreate(ctypes.byref(self.handle), 1))

    @property
    def ptr(self):
        return self.handle.value or 0

    def synchronize(self):
        check(driver.cuStreamSynchronize(self.handle))

    def is_done(self):
        code = driver.cuStreamQuery(self.handle)
        assert code in (0, 600)
        return code == 0

    def destroy(self):
        check(driver.cuStreamDestroy_v2(self.handle))

    def __enter__(self):
        _streams.append(self)
        return self

    def __exit__(self, *_):
        _streams.pop()


_default = Stream.__new__(Stream)
_default.handle = ctypes.c_void_p()
_streams = [_default]


class Device:
    id = 0


class cuda:
    Device = Device

    @staticmethod
    def get_current_stream(device):
        assert device == 0
        return _streams[-1]


class _Memory:
    """Allocated and freed in the order of the stream that was the current one."""

    def __init__(self, bytes):
        self.stream, self.ptr = _streams[-1], 0
        address = ctypes.c_uint64()
        check(driver.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(max(bytes, 1)), self.stream.handle))
        self.ptr = address.value

    def __del__(self):
        if self.ptr:
            driver.cuMemFreeAsync(ctypes.c_uint64(self.ptr), self.stream.handle)


class ndarray:
    device = Device

    def __init__(self, shape, dtype):
        self.shape, self.dtype = tuple(shape), numpy.dtype(dtype)
        like = numpy.empty(self.shape, self.dtype)
        self.strides, self.nbytes = like.strides, like.nbytes
        self.data = _Memory(self.nbytes)

    @property
    def T(self):
        turned = ndarray.__new__(ndarray)
        turned.__dict__.update(self.__dict__, shape=self.shape[::-1], strides=self.strides[::-1])
        return turned

    def __getitem__(self, part):
        assert part.start == 0 and part.step == 1 and len(self.shape) == 1
        front = ndarray.__new__(ndarray)
        bytes = part.stop * self.dtype.itemsize
        front.__dict__.update(self.__dict__, shape=(part.stop,), nbytes=bytes)
        return front

    def get(self):
        host = numpy.empty(self.shape, self.dtype)
        _streams[-1].synchronize()
        if self.nbytes:
            place, address = ctypes.c_void_p(host.ctypes.data), ctypes.c_uint64(self.data.ptr)
            check(driver.cuMemcpyDtoH_v2(place, address, ctypes.c_size_t(self.nbytes)))
        return host

    def set(self, host):
        if self.nbytes:
            place, address = ctypes.c_void_p(host.ctypes.data), ctypes.c_uint64(self.data.ptr)
            check(driver.cuMemcpyHtoD_v2(address, place, ctypes.c_size_t(self.nbytes)))

    def __dlpack__(self, **_):
        raise BufferError("the call has not taken the array's own stream")

    def __dlpack_device__(self):
        return (2, 0)


def empty(shape, dtype):
    return ndarray(shape, dtype)


def array(host):
    own = ndarray(host.shape, host.dtype)
    _streams[-1].synchronize()
    own.set(numpy.ascontiguousarray(host))
    return own
