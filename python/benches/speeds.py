"""What the Python package costs on large arrays: operations of the README's table, called from Python and through the C library, in turns
on the same memory and stream.

    pip install ferrowarp-*.whl
    make c
    python python/benches/speeds.py target/c/lib/libferrowarp.so

Times are medians of rounds of calls between two events, in milliseconds. The program fails if Python takes more than 2 % longer.
"""

import ctypes
import statistics
import sys

import torch

import ferrowarp

ROUNDS, CALLS = 15, 5
# The numbers of the header's enumerations.
U32, BF16, F32 = 2, 9, 10


class Matrix(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("rows", "columns", "leading", "batches", "batch_stride")]
    _fields_ += [("order", ctypes.c_int)]


class Heads(ctypes.Structure):
    names = ("batches", "heads", "rows", "depth", "batch_stride", "head_stride", "row_stride")
    _fields_ = [(name, ctypes.c_int64) for name in names]


class Library:
    """The C library with a handle on PyTorch's current stream; what it writes is allocated once."""

    def __init__(self, path):
        self.functions, self.handle = ctypes.CDLL(path), ctypes.c_void_p()
        self.functions.ferrowarp_last_error.restype = ctypes.c_char_p
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.functions.ferrowarp_create(ctypes.byref(self.handle), 0, stream))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.functions.ferrowarp_last_error().decode())

    def call(self, name, *arguments):
        """A function that calls that one with these arguments; tensors are passed as addresses, ints as 64 bits."""
        kinds = {torch.Tensor: lambda own: ctypes.c_void_p(own.data_ptr()), int: ctypes.c_int64}
        converted = [kinds.get(type(own), lambda own: own)(own) for own in arguments]
        function = getattr(self.functions, f"ferrowarp_{name}")
        # What the addresses are of lives as long as the function.
        return lambda keep=arguments: self.check(function(self.handle, *converted))


def enum(value):
    return ctypes.c_int(value)


def rows(library):
    n = 1 << 28
    keys = torch.randint(0, 1 << 32, (n,), device="cuda").to(torch.uint32)
    sorted_keys = torch.empty_like(keys)
    yield "sort of 2^28 u32", lambda: ferrowarp.sort(keys), library.call("sort", enum(U32), enum(0), keys, sorted_keys, n)
    del keys, sorted_keys
    x = torch.rand(n, device="cuda")
    out = torch.empty_like(x)
    yield "scan of 2^28 f32", lambda: ferrowarp.scan(x), library.call("scan", enum(F32), enum(0), False, x, out, n)
    best, indices = torch.empty(128, device="cuda"), torch.empty(128, device="cuda", dtype=torch.uint32)
    first = library.call("top_k", enum(F32), enum(1), x, n, 128, best, indices)
    yield "first 128 of 2^28 f32", lambda: ferrowarp.top_k(x, 128), first
    sides = (32768, 8192)
    m = x.reshape(sides).bfloat16()
    y = torch.empty_like(m)
    yield "softmax, 32768 x 8192 bf16", lambda: ferrowarp.softmax(m), library.call("softmax", enum(BF16), False, m, y, *sides)
    x, weight, bias = x.reshape(sides), torch.rand(8192, device="cuda"), torch.rand(8192, device="cuda")
    norm = library.call("layer_norm", enum(F32), x, None, weight, bias, ctypes.c_float(1e-5), out, *sides)
    yield "layer norm, 32768 x 8192 f32", lambda: ferrowarp.layer_norm(x, weight, bias), norm
    del x, out, m, y
    side = 8192
    a, b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    d, shape = torch.empty_like(a), ctypes.byref(Matrix(side, side, side, 1, 0, 0))
    one, zero = ctypes.c_double(1), ctypes.c_double(0)
    product = library.call("matmul", enum(BF16), enum(0), one, a, shape, b, shape, zero, d, shape)
    yield "matrix product, 8192^3 bf16", lambda: ferrowarp.matmul(a, b), product
    batches, heads, queries, depth = sizes = (4, 16, 8192, 128)
    q, k, v = (torch.randn(sizes, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o, strides = torch.empty_like(q), (heads * queries * depth, queries * depth, depth)
    shape, scale = ctypes.byref(Heads(batches, heads, queries, depth, *strides)), ctypes.c_float(depth**-0.5)
    every = (q, shape, k, shape, v, shape, False, -1, scale, o, shape)
    yield "attention, 4 x 16 heads of 8192 x 128", lambda: ferrowarp.attention(q, k, v), library.call("attention", enum(BF16), *every)


def milliseconds(function):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(CALLS):
        function()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / CALLS


def main(path):
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; milliseconds a call")
    print(f"{'':40}{'Python':>10}{'C':>10}{'ratio':>9}")
    slower = []
    with torch.cuda.stream(torch.cuda.Stream()):
        for name, own, theirs in rows(Library(path)):
            for function in (own, theirs):
                milliseconds(function)
            pairs = [(milliseconds(own), milliseconds(theirs)) for _ in range(ROUNDS)]
            python, c = (statistics.median(times) for times in zip(*pairs))
            print(f"{name:40}{python:10.3f}{c:10.3f}{python / c:9.3f}", flush=True)
            if python > 1.02 * c:
                slower.append(name)
    if slower:
        sys.exit(f"more than 2 % slower from Python: {', '.join(slower)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
