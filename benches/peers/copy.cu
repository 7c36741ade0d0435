// The peers of the copies: the driver's, CUB's, and plain loops in CUDA C++.
#include <cub/cub.cuh>
#include <cuda/std/tuple>
#include "peer.cuh"
using namespace peer;

CASE("driver", "copy/array/f32") {
    size_t n = shape[0];
    auto x = random<float>(n, seed);
    auto out = poisoned<float>(n);
    return rig([=] { OK(cudaMemcpyAsync(out, x, n * sizeof(float), cudaMemcpyDeviceToDevice, queue)); }, out, n);
}

struct Same {
    __host__ __device__ float operator()(float x) const { return x; }
};

CASE("CUB", "copy/array/f32") {
    size_t n = shape[0];
    auto x = random<float>(n, seed);
    auto out = poisoned<float>(n);
    return rig([=] { OK(cub::DeviceTransform::Transform(cuda::std::make_tuple(x), out, n, Same{}, queue)); }, out, n);
}

CASE("driver", "copy/fill/f32") {
    size_t n = shape[0];
    auto out = poisoned<float>(n);
    return rig([=] { OK(cudaMemsetAsync(out, 0, n * sizeof(float), queue)); }, out, n);
}

// a + 3 b
struct Triad {
    __host__ __device__ float operator()(float a, float b) const { return a + 3.0f * b; }
};

CASE("CUB", "copy/triad/f32") {
    size_t n = shape[0];
    auto a = random<float>(n, seed), b = random<float>(n, seed + 1000);
    auto out = poisoned<float>(n);
    return rig([=] { OK(cub::DeviceTransform::Transform(cuda::std::make_tuple(a, b), out, n, Triad{}, queue)); }, out, n);
}

__global__ void triad(const float4* a, const float4* b, float4* out, size_t n) {
    size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) {
        float4 x = a[i], y = b[i];
        Triad f;
        out[i] = make_float4(f(x.x, y.x), f(x.y, y.y), f(x.z, y.z), f(x.w, y.w));
    }
}

// Four elements at a time: the lengths are multiples of four.
CASE("textbook", "copy/triad/f32") {
    size_t n = shape[0] / 4;
    auto a = random<float>(4 * n, seed), b = random<float>(4 * n, seed + 1000);
    auto out = poisoned<float>(4 * n);
    unsigned blocks = unsigned(n / 256 + 1 < 132 * 16 ? n / 256 + 1 : 132 * 16);
    return rig([=] {
        triad<<<blocks, 256, 0, queue>>>(reinterpret_cast<const float4*>(a), reinterpret_cast<const float4*>(b),
                                         reinterpret_cast<float4*>(out), n);
    }, out, 4 * n);
}

int main() { return serve(); }
