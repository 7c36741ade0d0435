"""Calls on the stream of the caller's library, on the emulator: see cupy.py. scripts/wheel runs them in a process of their own."""

import ctypes
import threading

import cupy
import numpy
import pytest

import ferrowarp
from ferrowarp import _ferrowarp


def normal(shape, dtype="float32", seed=1):
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.fixture(params=["default", "own"])
def stream(request):
    if request.param == "default":
        yield cupy.cuda.get_current_stream(0)
    else:
        with cupy.Stream() as own:
            yield own
            own.synchronize()


OFFSETS = numpy.array([0, 10, 10, 3000])
BESIDE = {"causal": True, "window": None, "scale": None}
HEADS = [normal((1, 2, 9, 16), "float16", seed) for seed in range(3)]
O, LSE = _ferrowarp.attention_with_lse(*HEADS, **BESIDE)
MATRIX, ROW = normal((20, 40)), normal(40, seed=2)
NORM = {"is_centered": True, "epsilon": 1e-5}

# Functions of arrays, and arrays.
OPERATIONS = {
    "softmax": (ferrowarp.softmax, [MATRIX]),
    "softmax_backward": (lambda y, dy: _ferrowarp.softmax_backward(y, dy, True), [MATRIX, MATRIX]),
    "layer_norm": (ferrowarp.layer_norm, [MATRIX, ROW, ROW]),
    "rms_norm": (lambda x, w: ferrowarp.rms_norm(x, w, residual=x), [MATRIX, ROW]),
    "norm_backward": (
        lambda x, dy, w: _ferrowarp.norm_backward(x, dy, w, for_weight=True, for_bias=True, **NORM),
        [MATRIX, MATRIX, ROW],
    ),
    "matmul": (lambda a, b: ferrowarp.matmul(a, b.T), [MATRIX, MATRIX]),
    "matmul of halves": (lambda a, b: ferrowarp.matmul(a, b.T), [MATRIX.astype("float16")] * 2),
    "matmul of doubles": (lambda a, b: ferrowarp.matmul(a, b.T), [MATRIX.astype("float64")] * 2),
    "attention": (ferrowarp.attention, HEADS),
    "attention_with_lse": (lambda *all: _ferrowarp.attention_with_lse(*all, **BESIDE), HEADS),
    "attention_backward": (lambda *all: _ferrowarp.attention_backward(*all, **BESIDE), [*HEADS, O, LSE, O]),
    "sort": (ferrowarp.sort, [normal(5000)]),
    "sort of nothing": (ferrowarp.sort, [normal(0)]),
    "argsort": (ferrowarp.argsort, [normal(5000)]),
    "top_k": (lambda x: ferrowarp.top_k(x, 7), [normal(5000)]),
    "scan": (ferrowarp.scan, [normal(5000)]),
    "segmented_reduce": (ferrowarp.segmented_reduce, [normal(3000), OFFSETS]),
    "segmented_sort": (ferrowarp.segmented_sort, [normal(3000), OFFSETS]),
    "segmented_argsort": (ferrowarp.segmented_argsort, [normal(3000), OFFSETS]),
    "stencil": (lambda x: ferrowarp.stencil(x, 0.6, [0.1, 0.1], steps=7), [MATRIX]),
    "transpose": (ferrowarp.transpose, [MATRIX]),
    "uniform": (lambda like: ferrowarp.uniform((3, 5), seed=1, like=like), [MATRIX]),
    "integers": (lambda like: ferrowarp.integers(100, 3, 9, seed=1, like=like), [MATRIX]),
}


# Those that wait for the length of their results.
FLAGS = numpy.arange(5000) % 3 == 0
MEASURED = {
    "select": (ferrowarp.select, [normal(5000), FLAGS]),
    "select of nothing": (ferrowarp.select, [normal(0), FLAGS[:0]]),
    "partition": (ferrowarp.partition, [normal(5000), FLAGS]),
    "unique": (ferrowarp.unique, [numpy.arange(5000) // 3]),
    "run_lengths": (ferrowarp.run_lengths, [numpy.arange(5000) // 3]),
}


def flat(results):
    return [own for own in (results if isinstance(results, (tuple, list)) else [results]) if own is not None]


@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_those_of_a_call_that_waits(name, stream):
    function, arguments = OPERATIONS[name]
    expected = flat(function(*arguments))
    found = flat(function(*map(cupy.array, arguments)))
    assert len(found) == len(expected)
    for own, other in zip(found, expected):
        assert type(own) is cupy.ndarray and own.dtype == other.dtype and own.shape == other.shape
        assert numpy.array_equal(own.get(), other)


@pytest.mark.parametrize("name", MEASURED)
def test_results_whose_length_is_found(name, stream, request):
    function, arguments = MEASURED[name]
    expected = flat(function(*arguments))
    arrays = [cupy.array(own) for own in arguments]
    gate = request.getfixturevalue("gate")
    # The call waits for the stream, which is opened meanwhile.
    threading.Timer(0.05, gate.set).start()
    found = flat(function(*arrays))
    for own, other in zip(found, expected):
        if isinstance(other, int):
            assert own == other
        else:
            assert type(own) is cupy.ndarray and own.dtype == other.dtype and numpy.array_equal(own.get(), other)


def test_what_waits_is_refused_in_a_capture():
    with cupy.Stream() as stream:
        x, graph = cupy.array(normal(100)), ctypes.c_void_p()
        cupy.check(cupy.driver.cuStreamBeginCapture_v2(stream.handle, 0))
        with pytest.raises(ferrowarp.Error, match="CUDA graph"):
            ferrowarp.unique(x)
        cupy.check(cupy.driver.cuStreamEndCapture(stream.handle, ctypes.byref(graph)))


@pytest.fixture
def gate(stream):
    """Closes the stream until it is set."""
    opened = threading.Event()
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: opened.wait(60))
    cupy.check(cupy.driver.cuLaunchHostFunc(stream.handle, function, None))
    yield opened
    opened.set()
    stream.synchronize()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_call_does_not_wait(name, stream, request):
    function, arguments = OPERATIONS[name]
    expected = flat(function(*arguments))
    arrays = [cupy.array(own) for own in arguments]
    gate = request.getfixturevalue("gate")
    found = flat(function(*arrays))
    del arrays
    assert not stream.is_done()
    gate.set()
    for own, other in zip(found, expected):
        assert numpy.array_equal(own.get(), other)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_captured_graph(name, monkeypatch):
    function, arguments = OPERATIONS[name]
    with cupy.Stream() as stream:
        arrays = [cupy.array(own) for own in arguments]
        # Memory of results is no node of the graph, as that of PyTorch is not.
        spare = flat(function(*arrays))
        expected = [own.get() for own in spare]
        monkeypatch.setattr(cupy, "empty", lambda shape, dtype: spare.pop(0))
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        cupy.check(cupy.driver.cuStreamBeginCapture_v2(stream.handle, 0))
        found = flat(function(*arrays))
        cupy.check(cupy.driver.cuStreamEndCapture(stream.handle, ctypes.byref(graph)))
        cupy.check(cupy.driver.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0)))
        for _ in range(2):
            for own in found:
                own.set(numpy.full(own.shape, 3, own.dtype))
            cupy.check(cupy.driver.cuGraphLaunch(executable, stream.handle))
            for own, other in zip(found, expected):
                assert numpy.array_equal(own.get(), other)


def test_what_has_to_wait_asks_for_the_array_by_dlpack():
    x = cupy.array(normal(100))
    with pytest.raises(BufferError, match="own stream"):
        ferrowarp.histogram(x, 3, (0, 1))
    with pytest.raises(ValueError, match="move them to one device"):
        ferrowarp.matmul(cupy.array(MATRIX), MATRIX.T.copy())


def test_arguments_are_checked():
    x = cupy.array(MATRIX)
    with pytest.raises(ValueError, match="strides"):
        ferrowarp.softmax(x.T)
    with pytest.raises(ValueError, match="needs"):
        ferrowarp.rms_norm(x, cupy.array(ROW[1:]))
    with pytest.raises(TypeError, match="of one type"):
        ferrowarp.rms_norm(x, cupy.array(ROW.astype("float16")))
    with pytest.raises(ValueError, match="more than there are"):
        ferrowarp.top_k(cupy.array(ROW), 41)


def test_streams_that_are_destroyed():
    x = normal(3000)
    for _ in range(5):
        with cupy.Stream() as stream:
            array = cupy.array(x)
            found = ferrowarp.sort(array)
            assert numpy.array_equal(found.get(), numpy.sort(x))
            del array, found
            stream.synchronize()
        stream.destroy()


def test_the_current_context_stays():
    def current():
        context = ctypes.c_void_p()
        cupy.check(cupy.driver.cuCtxGetCurrent(ctypes.byref(context)))
        return context.value

    x = cupy.array(MATRIX)
    with cupy.Stream():
        ferrowarp.softmax(x)
        assert current() == cupy.context.value
        cupy.check(cupy.driver.cuCtxSetCurrent(None))
        try:
            with pytest.raises(ValueError, match="strides"):
                ferrowarp.softmax(x.T)
            assert current() is None
        finally:
            cupy.check(cupy.driver.cuCtxSetCurrent(cupy.context))
