// The peers of the scans: CUB's.
#include <cub/cub.cuh>
#include <cuda_fp16.h>
#include "peer.cuh"
using namespace peer;

template <class T>
Rig inclusive(const Shape& shape, uint32_t seed) {
    size_t n = shape[0];
    auto x = random<T>(n, seed);
    auto out = poisoned<T>(n);
    auto scan = [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceScan::InclusiveSum(scratch, size, x, out, n, queue);
    };
    return rig(counted_with_scratch(n, scan), out, n);
}

CASE("CUB", "scan/inclusive/f32") { return inclusive<float>(shape, seed); }
CASE("CUB", "scan/inclusive/f64") { return inclusive<double>(shape, seed); }
CASE("CUB", "scan/inclusive/f16") { return inclusive<__half>(shape, seed); }
CASE("CUB", "scan/inclusive/u8") { return inclusive<uint8_t>(shape, seed); }
CASE("CUB", "scan/inclusive/u16") { return inclusive<uint16_t>(shape, seed); }
CASE("CUB", "scan/inclusive/u32") { return inclusive<uint32_t>(shape, seed); }
CASE("CUB", "scan/inclusive/i64") { return inclusive<int64_t>(shape, seed); }

struct Larger {
    __host__ __device__ float operator()(float a, float b) const { return a > b ? a : b; }
};

CASE("CUB", "scan/max/f32") {
    size_t n = shape[0];
    auto x = random<float>(n, seed);
    auto out = poisoned<float>(n);
    auto scan = [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceScan::InclusiveScan(scratch, size, x, out, Larger(), n, queue);
    };
    return rig(counted_with_scratch(n, scan), out, n);
}

struct Run {
    __host__ __device__ uint32_t operator()(size_t i) const { return i / 64; }
};

CASE("CUB", "scan/by_key/f32") {
    size_t n = shape[0];
    auto x = random<float>(n, seed);
    auto keys = generate<uint32_t>(n, Run());
    auto out = poisoned<float>(n);
    auto scan = [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceScan::InclusiveSumByKey(scratch, size, keys, x, out, n, cuda::std::equal_to<>{}, queue);
    };
    return rig(counted_with_scratch(n, scan), out, n);
}

int main() { return serve(); }
