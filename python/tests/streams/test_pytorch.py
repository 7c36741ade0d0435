"""Calls on PyTorch's own stream, on the emulator: tensors of PyTorch in memory of the emulated driver (see cupy.py), which say
that they are on a GPU."""

import ctypes

import cupy
import pytest

torch = pytest.importorskip("torch")
if torch.version.cuda is None:
    pytest.skip("PyTorch was built without CUDA", allow_module_level=True)

import ferrowarp  # noqa: E402

STREAM = cupy.Stream()
# What the package asks for the current stream, when it first meets PyTorch.
torch._C._cuda_getCurrentRawStream = lambda device: STREAM.ptr

# How results were allocated.
allocated = []


class Emulated(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        if function == torch.Tensor.is_cuda.__get__:
            return True
        if function == torch.Tensor.get_device:
            return 0
        if function is torch.empty_like:
            (like,) = arguments
            allocated.append("empty_like")
            return empty(like.shape, like.dtype)
        if function == torch.Tensor.new_empty:
            allocated.append("new_empty")
            return empty(arguments[1:], keywords["dtype"])
        result = super().__torch_function__(function, types, arguments, keywords or {})
        if isinstance(result, cls) and arguments and isinstance(arguments[0], cls):
            result.memory = arguments[0].memory
        return result


def empty(shape, dtype):
    like = torch.empty(shape, dtype=dtype)
    memory = cupy._Memory(like.nbytes)
    bytes = (ctypes.c_uint8 * max(like.nbytes, 1)).from_address(memory.ptr)
    tensor = torch.frombuffer(bytes, dtype=torch.uint8)[: like.nbytes].view(dtype).reshape(shape).as_subclass(Emulated)
    tensor.memory = memory
    return tensor


def emulated(host):
    tensor = empty(host.shape, host.dtype)
    STREAM.synchronize()
    tensor.as_subclass(torch.Tensor).copy_(host)
    return tensor


def result(tensor):
    assert type(tensor) is Emulated
    STREAM.synchronize()
    return tensor.as_subclass(torch.Tensor).clone()


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.fixture(autouse=True)
def on_the_stream():
    """Memory is allocated and freed in the order of the stream."""
    allocated.clear()
    with STREAM:
        yield


def test_results_like_the_first_argument():
    x, m = normal(5000), normal(20, 40)
    assert torch.equal(result(ferrowarp.sort(emulated(x))), x.sort().values)
    torch.testing.assert_close(result(ferrowarp.softmax(emulated(m))), torch.softmax(m, -1))
    assert result(ferrowarp.sort(emulated(x[:0]))).shape == (0,)
    assert allocated == ["empty_like"] * 3


def test_results_of_other_types_and_shapes():
    x, m = normal(5000), normal(20, 40)
    indices = result(ferrowarp.argsort(emulated(x)))
    assert indices.dtype == torch.uint32 and torch.equal(indices.to(torch.int64), x.argsort(stable=True))
    values, _ = ferrowarp.top_k(emulated(x), 7)
    assert torch.equal(result(values), x.topk(7).values)
    assert torch.equal(result(ferrowarp.transpose(emulated(m))), m.T)
    assert allocated == ["new_empty"] * 4


def test_results_whose_length_is_found():
    x, whole = normal(5000), torch.arange(5000) // 3
    found = ferrowarp.select(emulated(x), emulated(x > 0))
    assert torch.equal(result(found), x[x > 0])
    values, lengths = ferrowarp.run_lengths(emulated(whole))
    expected, counts = torch.unique_consecutive(whole, return_counts=True)
    assert torch.equal(result(values), expected) and torch.equal(result(lengths).to(torch.int64), counts)


def test_a_first_argument_that_is_transposed():
    """Of the result's shape and type, and in another order of memory."""
    x = normal(1, 6, 6, 16, dtype=torch.bfloat16)
    q = emulated(x).transpose(1, 2)
    found = result(ferrowarp.attention(q, q, q))
    assert allocated == ["new_empty"] and found.is_contiguous()
    expected = torch.nn.functional.scaled_dot_product_attention(*[x.transpose(1, 2).float()] * 3)
    torch.testing.assert_close(found.float(), expected, rtol=3e-2, atol=3e-2)


def test_gradients_that_are_not_recorded():
    x = normal(100)
    leaf = emulated(x).requires_grad_()
    with pytest.raises(BufferError, match=r"detach\(\)"):
        ferrowarp.sort(leaf)
    with torch.no_grad():
        assert torch.equal(result(ferrowarp.sort(leaf)), x.sort().values)


def test_what_is_refused():
    x = emulated(normal(20, 40))
    with pytest.raises(ValueError, match=r"contiguous\(\)"):
        ferrowarp.softmax(x.T)
    with pytest.raises(ValueError, match="resolve_neg"):
        ferrowarp.softmax(torch._neg_view(x))
    with pytest.raises(TypeError, match="bool"):
        ferrowarp.sort((x > 0)[0])
