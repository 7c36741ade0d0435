"""What arguments may be, and what is said of those that may not."""

import subprocess
import sys

import numpy
import pytest
from conftest import ON_EMULATOR, numbers

import ferrowarp

X = numpy.array([3.0, 1.0, 2.0], dtype="float32")
HEADS = numpy.zeros((1, 2, 3, 8), dtype="float16")


def csr(offsets=(0, 2, 2, 3), columns=(0, 2, 1)):
    """A matrix of three rows and columns; the keywords spoil it."""
    return ferrowarp.Csr(numpy.array(offsets), numpy.array(columns), X, 3)


class Producer:
    """An array of a library that is not known, with the protocol before DLPack 1."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        assert stream is None
        return self.array.__dlpack__()


def test_an_unknown_library_gets_an_array():
    found = ferrowarp.sort(Producer(X.copy()))
    assert type(found) is ferrowarp.Array
    assert (found.shape, found.dtype, len(found)) == ((3,), "float32", 3)
    assert "float32" in repr(found)
    # It can be exported again and again, and is an argument itself.
    for _ in range(3):
        assert numpy.from_dlpack(found).tolist() == [1, 2, 3]
    again = ferrowarp.sort(found, descending=True)
    assert type(again) is ferrowarp.Array and numpy.from_dlpack(again).tolist() == [3, 2, 1]


@ON_EMULATOR
def test_results_can_be_written_and_outlive_what_they_came_from():
    found = ferrowarp.sort(X)
    found += 1
    assert found.tolist() == [2, 3, 4]
    array = ferrowarp.uniform(1000, seed=1)
    view = numpy.from_dlpack(array)
    before = view.copy()
    del array
    assert (view == before).all()


def test_read_only_arrays_are_arguments():
    x = X.copy()
    x.flags.writeable = False
    assert ferrowarp.sort(x).tolist() == [1, 2, 3]
    assert x.tolist() == [3, 1, 2]


def test_arguments_stay_as_they_are():
    x = X.copy()
    ferrowarp.sort(x)
    assert x.tolist() == [3, 1, 2]


def test_a_capsule_is_used_once():
    capsule = X.copy().__dlpack__()
    assert numpy.from_dlpack(ferrowarp.sort(capsule)).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="consumed"):
        ferrowarp.sort(capsule)


@ON_EMULATOR
def test_a_capsule_of_a_result_is_used_once():
    capsule = ferrowarp.uniform(3, seed=1).__dlpack__(max_version=(1, 0))
    ferrowarp.sort(capsule)
    with pytest.raises(ValueError, match="consumed"):
        ferrowarp.sort(capsule)


@pytest.mark.parametrize("argument", [[3, 1, 2], 7, None, "text", object()], ids=lambda own: type(own).__name__)
def test_what_is_no_array(argument):
    with pytest.raises(TypeError, match="sort: `x` is a .*__dlpack__"):
        ferrowarp.sort(argument)


@pytest.mark.parametrize(
    "call, names",
    [
        (lambda: ferrowarp.sort(X > 0), "sort takes elements of uint8, uint16, .*float64, and these are bool"),
        (lambda: ferrowarp.scan(X.astype("float64"), "max"), 'scan by "max" takes elements of uint32, int32, float32'),
        (lambda: ferrowarp.unique(X.astype("uint16")), "unique takes .*uint32.* and these are uint16: convert"),
        (lambda: ferrowarp.histogram(X.astype("float64"), 3), "histogram takes elements of uint8, uint16, uint32, float32"),
        (lambda: ferrowarp.softmax(X.astype("float64")), "softmax takes elements of float32, float16, bfloat16"),
        (lambda: ferrowarp.matmul(numpy.eye(2, dtype="int32"), numpy.eye(2, dtype="int32")), "matmul takes .*float64"),
        (lambda: ferrowarp.matmul(numpy.eye(2), numpy.eye(2, dtype="float32")), "of float64, and `b` of float32"),
        (lambda: ferrowarp.select(X, X), "select with flags takes elements of bool, uint8"),
        (lambda: ferrowarp.layer_norm(X, X.astype("float16")), "`weight` has elements of float16, and `x` of float32"),
        (lambda: ferrowarp.segmented_reduce(X, numpy.array([0, 3], dtype="int32")), "int64, uint64"),
        (lambda: ferrowarp.segmented_sort(X, numpy.array([0, 3], dtype="int32")), "int64, uint64"),
        (lambda: ferrowarp.stencil(numpy.zeros((3, 3), "int32"), 1, [0, 0]), "stencil takes elements of float32, float64"),
        (lambda: ferrowarp.Csr(X[:1], X[:0], X[:0], 3), "Csr with offsets takes elements of int32"),
        (lambda: ferrowarp.spmv(csr(), numpy.zeros(3)), "of float32 and the vector of float64"),
        (lambda: ferrowarp.uniform(3, seed=1, dtype="float16"), "uniform takes elements of float32, float64"),
        (lambda: ferrowarp.uniform(3, seed=1, dtype="nonsense"), "these are nonsense"),
        (lambda: ferrowarp.sort(X.astype("complex64")), "64 bits"),
    ],
)
def test_types_that_are_refused(call, names):
    with pytest.raises(TypeError, match=names):
        call()


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: ferrowarp.sort(numpy.zeros((2, 3))), r"has to have one axis, and its shape is \[2, 3\]"),
        (lambda: ferrowarp.sort(numpy.array(1, dtype="float32")), "one axis"),
        (lambda: ferrowarp.top_k(X, 4), "4 of 3 keys"),
        (lambda: ferrowarp.scan(X, "mean"), '"sum", "max" or "min"'),
        (lambda: ferrowarp.select(X, X[:2] > 0), "3 elements have 2 flags"),
        (lambda: ferrowarp.histogram(X, 3), "need range"),
        (lambda: ferrowarp.histogram(X, [0.0, 1.0], range=(0.0, 1.0)), "leave one of the two out"),
        (lambda: ferrowarp.histogram(X, [1.0, 0.0]), "ascending"),
        (lambda: ferrowarp.histogram(X, 0, range=(0.0, 1.0)), "there has to be a bin"),
        (lambda: ferrowarp.segmented_reduce(X, numpy.zeros(0, dtype="int64")), "one offset more"),
        (lambda: ferrowarp.segmented_reduce(X, numpy.zeros(2, dtype="int64"), "mean"), '"sum", "min" or "max"'),
        (lambda: ferrowarp.segmented_argsort(X, numpy.zeros(0, dtype="int64")), "one offset more"),
        (lambda: ferrowarp.stencil(X, 1, [0]), "`x` has 1 axes, and needs two or three"),
        (lambda: ferrowarp.stencil(numpy.zeros((3, 3)), 1, [0, 0, 0]), "`neighbours` has 3 weights, and `x` 2 axes"),
        (lambda: ferrowarp.stencil(numpy.zeros((3, 3)), 1, [0, 0], boundary="open"), '"fixed", "periodic" or "insulated"'),
        (lambda: csr(offsets=[0, 3, 2, 3]), "must rise from 0"),
        (lambda: csr(columns=[0, 3, 1]), "column 3, of 3 columns"),
        (lambda: csr(columns=[0, -1, 1]), "`columns` has a number that is not one of 32 bits"),
        (lambda: ferrowarp.spmv(csr(), X[:2]), "3 columns, and the vector 2 elements"),
        (lambda: ferrowarp.softmax(numpy.array(1, dtype="float32")), "has to have an axis"),
        (lambda: ferrowarp.layer_norm(X, X[:2]), r"`weight` has the shape \[2\], and needs \[3\]"),
        (lambda: ferrowarp.rms_norm(X, residual=X[:2]), r"`residual` has the shape \[2\]"),
        (lambda: ferrowarp.matmul(numpy.zeros((2, 3)), numpy.zeros((2, 3))), r"\[2, 3\] times \[2, 3\]"),
        (lambda: ferrowarp.attention(HEADS[0], HEADS, HEADS), "four axes"),
        (lambda: ferrowarp.attention(HEADS, HEADS[:, :, :, :4], HEADS), "contiguous"),
        (lambda: ferrowarp.attention(HEADS, HEADS[:, :, :, :4].copy(), HEADS), "1 × 2 × 3 × 4"),
        (lambda: ferrowarp.attention(HEADS, HEADS, HEADS, window=2), "causal=True"),
        (lambda: ferrowarp.attention(HEADS, HEADS, HEADS, scale=-1.0), "positive and finite"),
        (lambda: ferrowarp.matmul(numpy.zeros((2, 3, 3)), numpy.zeros((4, 3, 3))), "batches have to be as many"),
        (lambda: ferrowarp.matmul(numpy.zeros(3), numpy.zeros(3)), "a matrix or a batch"),
        (lambda: ferrowarp.matmul(numpy.zeros((2, 2)), numpy.zeros((2, 2)), precision="tf32"), "precision is for float32"),
        (lambda: ferrowarp.matmul(X.reshape(1, 3), X.reshape(3, 1), precision="half"), '"3xtf32"'),
        (lambda: ferrowarp.transpose(X), "`x` has 1 axes, and needs two or three"),
        (lambda: ferrowarp.permute(X, [1]), "have to be 0 to 0"),
        (lambda: ferrowarp.permute(numpy.zeros((1, 1, 1, 1)), [0, 1, 2, 3]), "one to three"),
        (lambda: ferrowarp.integers(3, 5, 5, seed=1), "the range is empty"),
        (lambda: ferrowarp.integers(3, 0, 2**40, seed=1), "is not a number of uint32"),
        (lambda: ferrowarp.uniform((2**40, 2**40), seed=1), "more elements than can be counted"),
    ],
)
def test_values_that_are_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.parametrize("x", [numbers("float32", 10)[::2], numbers("float32", 10)[::-1]], ids=["gaps", "backwards"])
def test_strides_are_refused(x):
    with pytest.raises(ValueError, match=r"contiguous\(\)"):
        ferrowarp.sort(x)


def test_strides_of_matrices_are_refused():
    x = numbers("float32", (8, 8))
    for matrix in [x[:, ::2], x[::2], x[:4, :4]]:
        with pytest.raises(ValueError, match=r"contiguous\(\)"):
            ferrowarp.matmul(matrix, numpy.eye(matrix.shape[1], dtype="float32"))
    with pytest.raises(ValueError, match=r"contiguous\(\)"):
        ferrowarp.softmax(x.T)
    with pytest.raises(ValueError, match=r"contiguous\(\)"):
        ferrowarp.layer_norm(x[0], x[:, 0])


def test_a_part_of_an_array_is_an_argument():
    x = numbers("float32", 100)
    assert ferrowarp.sort(x[1:]).tolist() == sorted(x[1:].tolist())
    assert ferrowarp.sort(x[99:]).tolist() == [x[99]]


def test_too_much_memory():
    free = ferrowarp.device().total_memory
    with pytest.raises(MemoryError, match="out of GPU memory"):
        ferrowarp.uniform(free, seed=1)


def test_gradients_are_refused():
    class Tensor(Producer):
        requires_grad = True

    with pytest.raises(BufferError, match=r"detach\(\)"):
        ferrowarp.sort(Tensor(X))


def test_a_gpu_and_the_emulator():
    if not ferrowarp.device().emulated:
        pytest.skip("a GPU was chosen")

    class Tensor(Producer):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(ValueError, match="uses the emulator.*FERROWARP_DEVICE"):
        ferrowarp.sort(Tensor(X))


def test_other_devices_are_refused():
    class Tensor(Producer):
        def __dlpack_device__(self):
            return (10, 0)

    with pytest.raises(ValueError, match="on the CPU or on a CUDA device"):
        ferrowarp.sort(Tensor(X))


def test_arrays_in_two_places():
    class Tensor(Producer):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(ValueError, match="cpu and on cuda:0"):
        ferrowarp.layer_norm(X, Tensor(X))


def test_the_device_and_the_version():
    device = ferrowarp.device()
    assert device.ordinal == 0 and device.name and 0 < device.free_memory <= device.total_memory
    assert device.name in repr(device)
    assert ferrowarp.__version__.count(".") == 2
    assert all(getattr(ferrowarp, name).__doc__ for name in ferrowarp.__all__ if name != "__version__")
    with pytest.raises(ferrowarp.Error, match="77"):
        ferrowarp.device(77)


def test_masked_arrays_are_refused():
    with pytest.raises(TypeError, match="masked array"):
        ferrowarp.sort(numpy.ma.masked_array(X, X > 2))


def test_jax_of_the_cpu():
    jax = pytest.importorskip("jax")
    x = jax.random.normal(jax.random.key(1), (1000,))
    for dtype in ["float32", "bfloat16", "float16"]:
        found = ferrowarp.sort(x.astype(dtype))
        assert isinstance(found, jax.Array) and found.dtype == dtype
        assert (found == jax.numpy.sort(x.astype(dtype))).all()
    a = x.reshape(20, 50)
    assert jax.numpy.allclose(
        ferrowarp.matmul(a, a.T.copy()), jax.numpy.matmul(a, a.T, precision="highest"), rtol=1e-3, atol=1e-3
    )


def test_pytorch_of_the_cpu():
    torch = pytest.importorskip("torch")
    x = torch.randn(1000)
    assert torch.equal(ferrowarp.sort(x), x.sort().values)
    assert ferrowarp.sort(x.bfloat16()).dtype == torch.bfloat16
    with pytest.raises(BufferError, match="detach"):
        ferrowarp.sort(x.requires_grad_())


def test_bfloat16_without_ml_dtypes_is_explained():
    program = """
import sys
sys.modules["ml_dtypes"] = None
import numpy, ferrowarp

class BFloat16:
    name = "bfloat16"

class Words(numpy.ndarray):
    dtype = BFloat16()
    def view(self, name):
        return numpy.frombuffer(self.tobytes(), dtype=name)

try:
    ferrowarp.sort(numpy.zeros(4, dtype="uint16").view(Words))
except TypeError as error:
    assert "install the package ml_dtypes" in str(error), error
else:
    raise AssertionError("no error")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_type_stubs_have_all_names():
    import ast
    from pathlib import Path

    body = ast.parse(Path(ferrowarp.__file__).with_suffix(".pyi").read_text()).body
    named = next(node.value for node in body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    assert ast.literal_eval(named) == ferrowarp.__all__
    declared = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert set(ferrowarp.__all__) <= declared | {"__version__"}
