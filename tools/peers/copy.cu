// The peers of the copies: the driver's copies on the device, and CUB's transformation that changes nothing.
#include <cub/cub.cuh>
#include <cuda/std/functional>
#include "peer.cuh"
using namespace peer;

template <class T>
Rig driver(const Shape& shape, uint32_t seed, size_t skipped = 0) {
    size_t n = shape[0];
    auto x = random<T>(n + skipped, seed) + skipped;
    auto out = poisoned<T>(n);
    return rig([=] { OK(cudaMemcpyAsync(out, x, n * sizeof(T), cudaMemcpyDeviceToDevice, queue)); }, out, n);
}

template <class T>
Rig transformed(const Shape& shape, uint32_t seed) {
    size_t n = shape[0];
    auto x = random<T>(n, seed);
    auto out = poisoned<T>(n);
    return rig(counted(n, [=](auto n) { return cub::DeviceTransform::Transform(x, out, n, cuda::std::identity{}, queue); }), out, n);
}

CASE("driver", "copy/array/f32") { return driver<float>(shape, seed); }
CASE("driver", "copy/array/u8") {
    // A random byte can be the poison, so that the result is not looked at.
    Rig copy = driver<uint8_t>(shape, seed);
    return rig(copy.variants, [] { return std::string(); });
}
CASE("driver", "copy/array/bf16") { return driver<__nv_bfloat16>(shape, seed); }
CASE("driver", "copy/misaligned/f32") { return driver<float>(shape, seed, 1); }
CASE("CUB", "copy/array/f32") { return transformed<float>(shape, seed); }
CASE("CUB", "copy/array/bf16") { return transformed<__nv_bfloat16>(shape, seed); }

CASE("driver", "copy/rows/f32") {
    size_t height = shape[0], width = shape[1], pitch = (width + 63) / 64 * 64 + 64;
    auto x = random<float>(pitch * height, seed);
    auto out = poisoned<float>(width * height);
    return rig(
        [=] { OK(cudaMemcpy2DAsync(out, width * 4, x, pitch * 4, width * 4, height, cudaMemcpyDeviceToDevice, queue)); },
        out, width * height);
}

int main() { return serve(); }
