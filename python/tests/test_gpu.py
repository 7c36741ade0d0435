"""On a GPU with PyTorch: every operation against PyTorch's on a side stream, in place, with tensors dropped right after the call.

    pip install ferrowarp-*.whl pytest
    pytest python/tests/test_gpu.py
"""

import os
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU for PyTorch", allow_module_level=True)

import ferrowarp  # noqa: E402

if ferrowarp.device().emulated:
    pytest.skip("the emulator was chosen", allow_module_level=True)

SIZES = [0, 1, 33, 1000, 1 << 20]


def delay():
    """Work that keeps the current stream busy for some milliseconds."""
    torch.cuda._sleep(20_000_000)


@pytest.fixture(autouse=True)
def side_stream():
    """Each test runs on a stream of its own, and no kernel has failed when it ends."""
    with torch.cuda.stream(torch.cuda.Stream()):
        yield
    torch.cuda.synchronize()


def late(make):
    """A tensor that its stream writes after a delay: who does not wait reads zeros."""
    value = make()
    tensor = torch.zeros_like(value)
    torch.cuda.synchronize()
    delay()
    tensor.copy_(value)
    return tensor


def normal(*shape, dtype=torch.float32):
    return late(lambda: torch.randn(shape, device="cuda").to(dtype))


def is_result(found, like):
    assert type(found) is torch.Tensor and found.device == like.device
    return found


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64])
def test_sort(n, dtype):
    x = late(lambda: (1000 * torch.randn(n, device="cuda")).to(dtype))
    found = is_result(ferrowarp.sort(x, descending=True), x)
    assert torch.equal(found, x.sort(descending=True).values)


@pytest.mark.parametrize("n", SIZES)
def test_argsort(n):
    x = normal(n)
    indices = is_result(ferrowarp.argsort(x), x)
    assert torch.equal(indices.to(torch.int64), torch.argsort(x, stable=True))


def test_top_k():
    x = normal(1 << 20)
    values, indices = ferrowarp.top_k(x, 100)
    assert torch.equal(values, x.topk(100).values)
    assert torch.equal(x[indices.to(torch.int64)], values)


@pytest.mark.parametrize("n", SIZES)
def test_scan(n):
    x = late(lambda: torch.randint(-100, 100, (n,), device="cuda", dtype=torch.int32))
    assert torch.equal(ferrowarp.scan(x), x.cumsum(0, dtype=torch.int32))
    if n:
        y = normal(n)
        assert torch.equal(ferrowarp.scan(y, "max"), y.cummax(0).values)


@pytest.mark.parametrize("n", SIZES)
def test_selections(n):
    x = normal(n)
    assert torch.equal(ferrowarp.select(x, x > 0), x[x > 0])
    parts, kept = ferrowarp.partition(x, x > 0)
    assert kept == int((x > 0).sum())
    assert torch.equal(parts, torch.cat([x[x > 0], x[~(x > 0)].flip(0)]))
    whole = late(lambda: torch.randint(0, 50, (n,), device="cuda").sort().values)
    expected, counts = torch.unique_consecutive(whole, return_counts=True)
    assert torch.equal(ferrowarp.unique(whole), expected)
    values, lengths = ferrowarp.run_lengths(whole)
    assert torch.equal(values, expected) and torch.equal(lengths.to(torch.int64), counts)


@pytest.mark.parametrize("n", SIZES)
def test_histogram(n):
    x = late(lambda: torch.randint(0, 256, (n,), device="cuda", dtype=torch.uint8))
    found = is_result(ferrowarp.histogram(x, 256), x)
    assert torch.equal(found.to(torch.int64), torch.bincount(x.to(torch.int64), minlength=256))


def test_segmented_reduce():
    x = late(lambda: torch.randint(0, 100, (1000,), device="cuda", dtype=torch.int32))
    offsets = torch.tensor([0, 0, 10, 500, 1000], device="cuda")
    expected = torch.stack([x[low:high].sum() for low, high in zip(offsets[:-1], offsets[1:])]).to(torch.int32)
    assert torch.equal(ferrowarp.segmented_reduce(x, offsets), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_segmented_sorts(dtype):
    x = late(lambda: (1000 * torch.randn(100_000, device="cuda")).to(dtype))
    ends = [0, 0, 10, 30_000, 100_000]
    offsets = torch.tensor(ends, device="cuda")
    parts = [x[low:high].sort(stable=True) for low, high in zip(ends, ends[1:])]
    assert torch.equal(ferrowarp.segmented_sort(x, offsets), torch.cat([part.values for part in parts]))
    indices = torch.cat([part.indices + low for part, low in zip(parts, ends)])
    assert torch.equal(ferrowarp.segmented_argsort(x, offsets).to(torch.int64), indices)


def test_spmv():
    matrix, x = sparse(), normal(1000)
    own = csr(matrix)
    assert own.shape == (500, 1000) and "cuda:0" in repr(own)
    torch.testing.assert_close(is_result(ferrowarp.spmv(own, x), x), matrix @ x, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="the matrix is on cuda:0 and the vector on cpu"):
        ferrowarp.spmv(own, x.cpu())


def test_stencil():
    x = normal(100, 120)
    found = is_result(ferrowarp.stencil(x, 0.6, [0.1, 0.1], steps=3, boundary="periodic"), x)
    for _ in range(3):
        x = 0.6 * x + 0.1 * sum(x.roll(shift, axis) for shift in (1, -1) for axis in (0, 1))
    torch.testing.assert_close(found, x, rtol=1e-5, atol=1e-5)


TOLERANCE = {torch.float32: 3e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(7, 33), (4, 16, 1024), (64, 8192)])
def test_rows(dtype, shape):
    x, columns, tolerance = normal(*shape, dtype=dtype), shape[-1:], TOLERANCE[dtype]
    # A part of a tensor begins where a buffer does not.
    weight, bias = normal(columns[0] + 1, dtype=dtype)[1:], normal(columns[0], dtype=dtype)
    near = lambda found, expected: torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)  # noqa: E731
    near(is_result(ferrowarp.softmax(x), x), torch.softmax(x, -1))
    near(ferrowarp.softmax(x, log=True), torch.log_softmax(x, -1))
    near(ferrowarp.layer_norm(x, weight, bias), torch.nn.functional.layer_norm(x, columns, weight, bias))
    near(ferrowarp.rms_norm(x, weight, epsilon=1e-5), torch.nn.functional.rms_norm(x, columns, weight, 1e-5))


@pytest.mark.parametrize(
    "dtype, tolerance",
    [(torch.bfloat16, 2e-2), (torch.float16, 2e-3), (torch.float32, 1e-4), (torch.float64, 1e-12)],
)
@pytest.mark.parametrize("m, k, n", [(1, 64, 8), (100, 33, 7), (1024, 512, 768)])
def test_matmul(dtype, tolerance, m, k, n):
    a, b = normal(m, k, dtype=dtype), normal(n, k, dtype=dtype)
    expected = (a.double() @ b.double().T).to(dtype)
    near = lambda found: torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * k**0.5)  # noqa: E731
    near(is_result(ferrowarp.matmul(a, b.T), a))
    near(ferrowarp.matmul(a, b.T.contiguous()))


def test_transpose_and_permute():
    x = normal(33, 65, 7)
    assert torch.equal(ferrowarp.transpose(x), x.mT)
    assert torch.equal(ferrowarp.permute(x, (2, 0, 1)), x.permute(2, 0, 1))


def test_random_numbers():
    like = torch.zeros(0, device="cuda")
    x = is_result(ferrowarp.uniform((1000, 100), seed=1, like=like), like)
    assert x.shape == (1000, 100) and 0 <= x.min() and x.max() < 1
    array = ferrowarp.uniform((1000, 100), seed=1)
    assert array.device == "cuda:0" and torch.equal(torch.from_dlpack(array), x)
    assert abs(ferrowarp.normal(100000, seed=1, like=like).std().item() - 1) < 0.02


# Calls on the caller's own stream.

HALVES = [torch.bfloat16, torch.float16]


def heads(*shape, dtype=torch.bfloat16):
    return normal(*shape, dtype=dtype)


def sparse():
    """A matrix of 500 rows and 1,000 columns, a twentieth of which is there."""
    dense = torch.randn(500, 1000, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    return torch.where(dense > 1.645, dense, 0).to_sparse_csr()


def csr(matrix):
    return ferrowarp.Csr(matrix.crow_indices(), matrix.col_indices(), matrix.values(), matrix.shape[1])


def operations():
    """Functions of tensors that wait for nothing, each with a way to make its arguments."""
    offsets = torch.tensor([0, 10, 10, 1000], device="cuda")
    matrix = csr(sparse())
    return {
        "softmax": (ferrowarp.softmax, lambda: [normal(64, 1000)]),
        "layer_norm": (ferrowarp.layer_norm, lambda: [normal(64, 1024), normal(1024), normal(1024)]),
        "rms_norm": (ferrowarp.rms_norm, lambda: [normal(64, 1024), normal(1025)[1:]]),
        "matmul": (ferrowarp.matmul, lambda: [normal(256, 128), normal(128, 64)]),
        "matmul of halves": (ferrowarp.matmul, lambda: [heads(256, 128), heads(64, 128).T]),
        "matmul of doubles": (ferrowarp.matmul, lambda: [normal(65, 33).double(), normal(33, 9).double()]),
        "attention": (ferrowarp.attention, lambda: [heads(1, 4, 300, 64) for _ in range(3)]),
        "sort": (ferrowarp.sort, lambda: [normal(100_000)]),
        "argsort": (ferrowarp.argsort, lambda: [normal(100_000)]),
        "top_k": (lambda x: ferrowarp.top_k(x, 10)[0], lambda: [normal(100_000)]),
        "scan": (ferrowarp.scan, lambda: [normal(100_000)]),
        "segmented_reduce": (lambda x: ferrowarp.segmented_reduce(x, offsets, "max"), lambda: [normal(1000)]),
        "segmented_sort": (lambda x: ferrowarp.segmented_sort(x, offsets), lambda: [normal(1000)]),
        "segmented_argsort": (lambda x: ferrowarp.segmented_argsort(x, offsets), lambda: [normal(1000)]),
        "spmv": (lambda x: ferrowarp.spmv(matrix, x), lambda: [normal(1000)]),
        "stencil": (lambda x: ferrowarp.stencil(x, 0.6, [0.1, 0.1], steps=7), lambda: [normal(100, 120)]),
        "transpose": (ferrowarp.transpose, lambda: [normal(33, 65)]),
        "uniform": (lambda x: ferrowarp.uniform(1000, seed=1, like=x), lambda: [normal(1)]),
    }


def again(own):
    """A copy of the tensor's whole memory: it depends on where arguments begin which kernel runs, and so in which order sums are added."""
    return own.new_empty(0).set_(own.untyped_storage().clone(), own.storage_offset(), own.size(), own.stride())


@pytest.mark.parametrize("name", operations())
def test_a_call_does_not_wait(name):
    function, make = operations()[name]
    arguments = make()
    expected = function(*arguments)
    torch.cuda.synchronize()
    delay()
    arguments = [again(own) for own in arguments]
    found = function(*arguments)
    assert not torch.cuda.current_stream().query(), "the delay is over: the call has waited"
    del arguments
    assert torch.equal(found, expected)


def test_results_are_of_pytorchs_allocator():
    x = normal(1 << 20)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    found = ferrowarp.sort(x)
    assert torch.cuda.memory_allocated() - before == found.nbytes
    del found
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize("name", sorted(operations().keys() - {"spmv"}))
def test_a_cuda_graph(name):
    function, make = operations()[name]
    arguments = make()
    # What a first launch loads is loaded.
    function(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = function(*arguments)
    for _ in range(3):
        for own in arguments:
            own.copy_(torch.randn(own.shape, device="cuda"))
        expected = function(*arguments)
        graph.replay()
        # Memory that others get meanwhile is not the graph's.
        noise = [ferrowarp.sort(normal(100_000)) for _ in range(3)]
        assert torch.equal(found, expected)
        del noise


def test_what_waits_is_refused_in_a_capture():
    x, matrix = normal(1000), csr(sparse())
    ferrowarp.softmax(x.reshape(10, 100))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ferrowarp.softmax(x.reshape(10, 100))
        with pytest.raises(ferrowarp.Error, match="CUDA graph"):
            ferrowarp.unique(x)
        with pytest.raises(ferrowarp.Error, match="CUDA graph"):
            ferrowarp.spmv(matrix, x)
    graph.replay()
    torch.testing.assert_close(y, torch.softmax(x.reshape(10, 100), -1))


def test_tensors_that_require_gradients_where_none_are_recorded():
    x = normal(4, 100).requires_grad_()
    with torch.no_grad():
        torch.testing.assert_close(ferrowarp.softmax(x), torch.softmax(x, -1))


def test_a_parameter():
    weight = torch.nn.Parameter(normal(100))
    with torch.no_grad():
        found = ferrowarp.sort(weight)
    assert type(found) is torch.Tensor and torch.equal(found, weight.sort().values)


def test_the_current_device_stays():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    x = torch.randn(1000, device="cuda:1")
    assert torch.cuda.current_device() == 0
    found = ferrowarp.sort(x)
    assert found.device == x.device and torch.equal(found, x.sort().values)
    assert torch.cuda.current_device() == 0 and torch.empty(1, device="cuda").device.index == 0


# ferrowarp.torch.


def gradients(function, arguments, cotangent):
    leaves = [own.detach().requires_grad_() for own in arguments]
    result = function(*leaves)
    result.backward(cotangent.to(result.dtype))
    return [result.detach(), *[own.grad for own in leaves]]


def check_gradients(own, reference, arguments, tolerance):
    """Against PyTorch's gradients in float64; tolerances as in test_torch.py."""
    wide = [own.double() for own in arguments]
    cotangent = torch.randn_like(reference(*wide))
    for found, expected in zip(gradients(own, arguments, cotangent), gradients(reference, wide, cotangent)):
        scale = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("columns", [33, 1024, 8192])
def test_gradients_of_rows(dtype, columns):
    import ferrowarp.torch as ft

    functional, tolerance = torch.nn.functional, 4 * TOLERANCE[dtype]
    x, weight, bias = normal(64, columns, dtype=dtype), normal(columns, dtype=dtype), normal(columns, dtype=dtype)
    check_gradients(ft.softmax, lambda x: torch.softmax(x, -1), [x], tolerance)
    check_gradients(
        lambda x: ft.softmax(x, log=True), lambda x: torch.log_softmax(x, -1), [x], tolerance
    )
    check_gradients(
        ft.layer_norm, lambda x, w, b: functional.layer_norm(x, (columns,), w, b), [x, weight, bias], tolerance
    )
    check_gradients(
        ft.rms_norm, lambda x, w: functional.rms_norm(x, (columns,), w, 1e-5), [x, weight], tolerance
    )


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("depth", [64, 128, 192, 256])
def test_gradients_of_attention(dtype, depth):
    import ferrowarp.torch as ft

    sdpa = torch.nn.functional.scaled_dot_product_attention
    arguments = [normal(2, count, 300, depth, dtype=dtype) for count in (4, 2, 2)]
    check_gradients(
        lambda *all: ft.attention(*all, causal=True),
        lambda *all: sdpa(*all, is_causal=True, enable_gqa=True),
        arguments,
        4 * TOLERANCE[dtype],
    )


def test_gradients_of_matmul():
    import ferrowarp.torch as ft

    a, b = normal(3, 100, 64, dtype=torch.bfloat16), normal(64, 72, dtype=torch.bfloat16)
    # A sum of 300 products of numbers about 1 is about 17, and is rounded once.
    check_gradients(ft.matmul, torch.matmul, [a, b], 4 * TOLERANCE[torch.bfloat16])


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_torch_compile(mode):
    import ferrowarp.torch as ft

    def step(x, weight, q):
        y = ft.softmax(ft.matmul(ft.rms_norm(x, weight) * 0.1, x.mT))
        o = ft.attention(q, q, q, causal=True)
        values, indices = ft.top_k(y.detach().reshape(-1), 3)
        return y.square().sum() + o.float().square().sum(), values, ft.sort(y.detach()[0].contiguous())

    arguments = [normal(64, 128), normal(128), normal(1, 2, 64, 64, dtype=torch.bfloat16)]

    def run(function):
        leaves = [own.clone().requires_grad_() for own in arguments]
        loss, *others = function(*leaves)
        loss.backward()
        return [own.clone() for own in (loss.detach(), *others, *[own.grad for own in leaves])]

    compiled = torch.compile(step, fullgraph=True, mode=mode)
    for _ in range(3):
        for found, expected in zip(run(compiled), run(step)):
            # The same kernels; what PyTorch computes between them is rounded elsewhere.
            torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


# Memory and threads.


def test_tensors_that_are_dropped_at_once():
    """PyTorch gives a dropped tensor's memory to the next one, whose work must not meet ours."""
    results = [ferrowarp.sort(normal(1 << 20)) for _ in range(20)]
    overwritten = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(20)]
    for found in results:
        assert not found.isnan().any() and (found[1:] >= found[:-1]).all()
    del overwritten


def test_results_that_are_dropped_while_they_are_used():
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    for _ in range(20):
        found = ferrowarp.sort(x)
        delay()
        copy = found.clone()
        del found
        other = ferrowarp.scan(torch.ones(1 << 20, device="cuda"))
        assert torch.equal(copy, x)
        del other


def test_memory_does_not_grow():
    x = torch.randn(1 << 22, device="cuda")
    ferrowarp.sort(x)
    torch.cuda.synchronize()
    before, _ = torch.cuda.mem_get_info()
    for _ in range(50):
        ferrowarp.sort(x)
    torch.cuda.synchronize()
    after, _ = torch.cuda.mem_get_info()
    # 50 results of 16 MiB.
    assert before - after < 64 << 20


def test_threads_with_a_stream_each():
    failures = []

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            generator = torch.Generator(device="cuda").manual_seed(seed)
            for _ in range(20):
                x = torch.randn(100_000, device="cuda", generator=generator)
                if not torch.equal(ferrowarp.sort(x), x.sort().values):
                    failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_default_stream():
    with torch.cuda.stream(torch.cuda.default_stream()):
        x = normal(1 << 20)
        assert torch.equal(ferrowarp.sort(x), x.sort().values)


def test_no_copy_is_made():
    x = normal(1000)
    y = torch.from_dlpack(ferrowarp.sort(ferrowarp.uniform(1000, seed=1)))
    assert y.is_cuda
    address = x.data_ptr()
    ferrowarp.sort(x)
    assert x.data_ptr() == address


def test_what_is_refused():
    x = torch.randn(10, 10, device="cuda")
    with pytest.raises(ValueError, match=r"contiguous\(\)"):
        ferrowarp.softmax(x.T)
    with pytest.raises(BufferError, match=r"detach\(\)"):
        ferrowarp.softmax(x.clone().requires_grad_())
    with pytest.raises(ValueError, match="move them to one device"):
        ferrowarp.matmul(x, x.cpu())
    with pytest.raises(TypeError, match="bool"):
        ferrowarp.sort(x[0] > 0)


def test_cpu_tensors_are_copied_there_and_back():
    x = torch.randn(1000)
    found = ferrowarp.sort(x)
    assert found.device.type == "cpu" and torch.equal(found, x.sort().values)


def test_a_cuda_tensor_with_the_emulator_chosen():
    program = """
import torch, ferrowarp
try:
    ferrowarp.sort(torch.randn(10, device="cuda"))
except ValueError as error:
    assert "uses the emulator" in str(error), error
else:
    raise AssertionError("no error")
assert ferrowarp.sort(torch.tensor([2.0, 1.0])).tolist() == [1, 2]
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "FERROWARP_DEVICE": "emulator"})


def test_a_second_gpu():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one GPU")
    x = torch.randn(1000, device="cuda:1")
    # PyTorch exports tensors of its current device.
    with torch.cuda.device(1):
        found = ferrowarp.sort(x)
        assert found.device == x.device and torch.equal(found, x.sort().values)
    with pytest.raises(ValueError, match="cuda:1 and on cuda:0"):
        ferrowarp.matmul(x.reshape(1, -1), x.to("cuda:0").reshape(-1, 1))


def test_an_own_kernel_writes_a_tensor_in_place():
    from test_module import PTX

    saxpy = ferrowarp.Module(PTX).function("saxpy")
    x, y = normal(1 << 20), normal(1 << 20)
    expected = 2 * x + y
    saxpy((1 << 20) // 256, 256, y, x, 2.0, 1 << 20)
    torch.testing.assert_close(y, expected)


def test_cupy():
    cupy = pytest.importorskip("cupy")
    x = cupy.random.standard_normal(1000).astype("float32")
    found = ferrowarp.sort(x)
    assert type(found) is cupy.ndarray and bool((found == cupy.sort(x)).all())
    with pytest.raises(ValueError, match="contiguous"):
        ferrowarp.sort(x[::2])


def test_cupys_current_stream():
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(1 << 20, dtype="float32")[::-1].copy()
    expected = cupy.sort(x)
    late = cupy.zeros_like(x)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        # PyTorch's delay, on CuPy's stream.
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            delay()
        late[...] = x
        found = ferrowarp.sort(late)
        assert not stream.done, "the delay is over: the call has waited"
        stream.synchronize()
    assert type(found) is cupy.ndarray and bool((found == expected).all())
    a = cupy.random.standard_normal((33, 20)).astype("float32")
    found = ferrowarp.matmul(a, a.T)
    assert bool(cupy.allclose(found, a @ a.T, rtol=1e-4, atol=1e-4))


def test_jax():
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU")
    x = jax.random.normal(jax.random.key(1), (1000,))
    found = ferrowarp.sort(x)
    assert isinstance(found, jax.Array) and bool((found == jax.numpy.sort(x)).all())
