// The peers of the maps: CUB's transformations, and the driver's fill.
#include <cub/cub.cuh>
#include <cuda/std/functional>
#include <cuda/std/tuple>
#include <thrust/iterator/constant_iterator.h>
#include "peer.cuh"
using namespace peer;

struct Triad {
    __device__ float operator()(float b, float c) const { return fmaf(c, 0.75f, b); }
};

CASE("CUB", "map/triad/f32") {
    size_t n = shape[0];
    auto b = random<float>(n, seed);
    auto c = random<float>(n, seed + 1);
    auto a = poisoned<float>(n);
    return rig(counted(n, [=](auto n) { return cub::DeviceTransform::Transform(cuda::std::make_tuple(b, c), a, n, Triad{}, queue); }), a, n);
}

struct Narrow {
    __device__ __nv_bfloat16 operator()(float x) const { return __float2bfloat16_rn(x); }
};

CASE("CUB", "map/convert/bf16") {
    size_t n = shape[0];
    auto x = random<float>(n, seed);
    auto out = poisoned<__nv_bfloat16>(n);
    return rig(counted(n, [=](auto n) { return cub::DeviceTransform::Transform(x, out, n, Narrow{}, queue); }), out, n);
}

CASE("CUB", "map/fill/f32") {
    size_t n = shape[0];
    auto out = poisoned<float>(n);
    auto fill = [=](auto n) {
        return cub::DeviceTransform::Transform(thrust::make_constant_iterator(1.5f), out, n, cuda::std::identity{}, queue);
    };
    return rig(counted(n, fill), out, n);
}

CASE("driver", "map/fill/f32") {
    size_t n = shape[0];
    auto out = poisoned<float>(n);
    // The driver's fill of words has no counterpart in the runtime: one of bytes moves as many.
    return rig([=] { OK(cudaMemsetAsync(out, 0x3f, n * sizeof(float), queue)); }, out, n);
}

int main() { return serve(); }
