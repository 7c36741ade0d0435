"""Kernels of one's own."""

import numpy
import pytest

import ferrowarp

PTX = """
.version 7.0
.target sm_70
.address_size 64

// y[i] = a * x[i] + y[i] for i < n
.visible .entry saxpy(.param .u64 out, .param .u64 in, .param .f32 a, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .f32 %f<4>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [in];
    ld.param.f32 %f1, [a];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra end;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.f32 %f2, [%rd5];
    ld.f32 %f3, [%rd4];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.f32 [%rd4], %f3;
end:
    ret;
}

// out[0] = value
.visible .entry put64(.param .u64 out, .param .u64 value)
{
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd2, [value];
    st.u64 [%rd1], %rd2;
    ret;
}

.visible .entry put16(.param .u64 out, .param .u16 value)
{
    .reg .b16 %h<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.param.u16 %h1, [value];
    st.u16 [%rd1], %h1;
    ret;
}

// out[y][x] = x + 10 y, in blocks of one thread
.visible .entry places(.param .u64 out)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ctaid.y;
    mov.u32 %r3, %nctaid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd2, %r4, 4;
    add.s64 %rd3, %rd1, %rd2;
    mad.lo.s32 %r4, %r2, 10, %r1;
    st.u32 [%rd3], %r4;
    ret;
}

.visible .entry nothing()
{
    ret;
}
"""


@pytest.fixture(scope="module")
def module():
    return ferrowarp.Module(PTX)


@pytest.fixture
def saxpy(module):
    return module.function("saxpy")


def test_saxpy(saxpy):
    x, y = numpy.arange(1000, dtype="float32"), numpy.ones(1000, dtype="float32")
    assert saxpy(4, 256, y, x, 2.0, len(x)) is None
    assert (y == 2 * numpy.arange(1000) + 1).all()
    assert (x == numpy.arange(1000)).all()


def test_numbers_of_all_kinds(saxpy):
    x = numpy.ones(4, dtype="float32")
    for a in [2.0, numpy.float32(2), ("float32", 2), ("float32", 2.0)]:
        for n in [3, numpy.uint32(3), numpy.int32(3), ("int32", 3)]:
            y = numpy.zeros(4, dtype="float32")
            saxpy(1, 32, y, x, a, n)
            assert y.tolist() == [2, 2, 2, 0]


def test_wide_and_narrow_numbers(module):
    out = numpy.zeros(1, dtype="uint64")
    for value, word in [(2**64 - 1, 2**64 - 1), (-1, 2**64 - 1), (("int64", -2), 2**64 - 2), (1.0, 0x3FF0000000000000)]:
        module.function("put64")(1, 1, out, value)
        assert int(out[0]) == word
    half = numpy.zeros(1, dtype="float16")
    module.function("put16")(1, 1, half, ("float16", 1.5))
    assert half[0] == 1.5
    module.function("put16")(1, 1, half, ("bfloat16", 1.0))
    assert half.view("uint16")[0] == 0x3F80


def test_grids_of_two_axes(module):
    out = numpy.zeros((2, 3), dtype="uint32")
    module.function("places")((3, 2), 1, out)
    assert out.tolist() == [[0, 1, 2], [10, 11, 12]]


def test_a_kernel_without_arguments(module):
    assert module.function("nothing")(2, 32) is None


def test_arrays_without_elements(saxpy):
    empty = numpy.zeros(0, dtype="float32")
    saxpy(1, 32, empty, empty, 1.0, 0)


def test_an_array_that_is_two_arguments(saxpy):
    y = numpy.ones(4, dtype="float32")
    saxpy(1, 32, y, y, 2.0, 4)
    assert y.tolist() == [3, 3, 3, 3]
    with pytest.raises(ValueError, match="overlap in part"):
        saxpy(1, 32, y[:3], y[1:], 2.0, 3)


def test_a_read_only_array_stays_as_it_is(saxpy):
    x, y = numpy.ones(4, dtype="float32"), numpy.zeros(4, dtype="float32")
    x.flags.writeable = False
    saxpy(1, 32, y, x, 1.0, 4)
    assert y.tolist() == [1, 1, 1, 1]
    y.flags.writeable = False
    saxpy(1, 32, y, x, 1.0, 4)
    assert y.tolist() == [1, 1, 1, 1]


def test_what_a_kernel_is(module, saxpy):
    assert sorted(module.names()) == ["nothing", "places", "put16", "put64", "saxpy"]
    assert (saxpy.name, saxpy.parameter_bytes) == ("saxpy", [8, 8, 4, 4])
    assert "saxpy" in repr(saxpy) and "saxpy" in repr(module)


def test_a_file(tmp_path):
    path = tmp_path / "kernels.ptx"
    path.write_text(PTX)
    for name in [path, str(path)]:
        assert ferrowarp.Module(name).function("saxpy").name == "saxpy"
    with pytest.raises(ferrowarp.Error, match="cannot read .*missing.ptx"):
        ferrowarp.Module(tmp_path / "missing.ptx")


@pytest.mark.parametrize(
    "arguments, text",
    [
        ((), "takes 4 arguments .* is launched with 0"),
        ((1.0, 3), "takes 4 arguments"),
        ((numpy.float64(1), 3), "argument 2: float64 has 8 bytes, and the parameter has 4"),
        ((("float64", 1), 3), "float64 has 8 bytes"),
        ((1.0, 2**32), "argument 3: 4294967296 is not a number of uint32"),
        ((1.0, -(2**31) - 1), "is not a number of int32"),
        ((("real", 1), 3), '"real" is not the name of a type'),
        ((numpy.zeros(3), 3), "an array is a pointer of 8 bytes"),
    ],
)
def test_arguments_that_are_refused(saxpy, arguments, text):
    x = numpy.zeros(3, dtype="float32")
    arrays = (x, x) if len(arguments) == 2 and text != "takes 4 arguments" else (x,) * bool(arguments)
    with pytest.raises(ValueError, match=text):
        saxpy(1, 32, *arrays, *arguments)


def test_what_is_no_argument(saxpy):
    x = numpy.zeros(3, dtype="float32")
    with pytest.raises(TypeError, match="not a list"):
        saxpy(1, 32, x, x, [1.0], 3)


def test_launches_that_are_refused(saxpy):
    x = numpy.zeros(3, dtype="float32")
    with pytest.raises(ValueError, match="2048"):
        saxpy(1, 2048, x, x, 1.0, 3)
    with pytest.raises(ValueError, match="one to three numbers"):
        saxpy((1, 1, 1, 1), 32, x, x, 1.0, 3)


def test_errors_have_the_compilers_text():
    with pytest.raises(ferrowarp.Error, match="no kernel `saxpi` in the module; it has .*saxpy"):
        ferrowarp.Module(PTX).function("saxpi")
    with pytest.raises(ferrowarp.Error, match="line"):
        ferrowarp.Module(PTX.replace("fma.rn.f32", "fma.rn.f33"))


def test_a_fault_is_an_error():
    """In a process of its own: a fault ends the device's context."""
    import subprocess
    import sys

    program = f"""
import numpy, ferrowarp
if not ferrowarp.device().emulated:
    raise SystemExit
x = numpy.zeros(3, dtype="float32")
try:
    ferrowarp.Module({PTX!r}).function("saxpy")(1, 1024, x, x, 1.0, 1000)
except ferrowarp.Error as error:
    assert "out-of-bounds" in str(error), error
else:
    raise AssertionError("no error")
try:
    ferrowarp.sort(x)
except ferrowarp.Error as error:
    assert "new process" in str(error), error
else:
    raise AssertionError("no error")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
