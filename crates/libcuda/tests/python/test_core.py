"""cuda.core, NVIDIA's Python interface above cuda-bindings, which numba-cuda builds on."""

import numpy as np
import pytest
from cuda.bindings import driver
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

# NVRTC is of CUDA 13.4 and the driver says 13.0; what PTX it takes is another matter.
pytestmark = pytest.mark.filterwarnings("ignore:The CUDA driver version is older")

SOURCE = """
template <typename T>
__global__ void running_products(const T *x, T *out, size_t n) {
    extern __shared__ unsigned char bytes[];
    T *cells = reinterpret_cast<T *>(bytes);
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    cells[threadIdx.x] = i < n ? x[i] : T(1);
    for (unsigned step = 1; step < blockDim.x; step *= 2) {
        __syncthreads();
        T left = threadIdx.x >= step ? cells[threadIdx.x - step] : T(1);
        __syncthreads();
        cells[threadIdx.x] *= left;
    }
    if (i < n) out[i] = cells[threadIdx.x];
}
"""


@pytest.mark.parametrize("name, dtype", [("float", np.float32), ("long long", np.int64)])
def test_a_template_through_nvrtc(name, dtype):
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel_name = f"running_products<{name}>"
    program = Program(SOURCE, code_type="c++", options=ProgramOptions(arch="sm_90"))
    kernel = program.compile("ptx", name_expressions=(kernel_name,)).get_kernel(kernel_name)
    assert kernel.num_arguments == 3
    assert [info.offset for info in kernel.arguments_info] == [0, 8, 16]
    # Powers of two: products are exact.
    x = 2.0 ** np.random.default_rng(1).integers(-1, 2, 300)
    x = x.astype(dtype) if dtype is np.float32 else np.where(x > 1, -1, 1).astype(dtype)
    source, target = (device.allocate(x.nbytes, stream=stream) for _ in range(2))
    # The memory is there in the stream's order, which the copy is not in; nor does the stream wait for that.
    stream.sync()
    (code,) = driver.cuMemcpyHtoD(int(source.handle), x.ctypes.data, x.nbytes)
    assert int(code) == 0 and int(driver.cuCtxSynchronize()[0]) == 0
    config = LaunchConfig(grid=5, block=64, shmem_size=64 * x.itemsize)
    launch(stream, config, kernel, source, target, np.uint64(x.size))
    stream.sync()
    out = np.zeros_like(x)
    (code,) = driver.cuMemcpyDtoH(out.ctypes.data, int(target.handle), x.nbytes)
    assert int(code) == 0
    padded = np.ones(320, dtype)
    padded[:300] = x
    right = np.cumprod(padded.reshape(5, 64), axis=1, dtype=dtype).ravel()[:300]
    np.testing.assert_array_equal(out, right)
    source.close(stream), target.close(stream)
