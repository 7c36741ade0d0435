// The peers of the reductions: CUB's.
#include <cub/cub.cuh>
#include <cuda/std/functional>
#include "peer.cuh"
using namespace peer;

// A reduction of `n` elements into one value: `reduce(scratch, scratch_bytes, x, out)` is CUB's call.
template <class T, class U, class F>
Rig whole(const Shape& shape, uint32_t seed, F reduce) {
    size_t n = shape[0], scratch_bytes = 0;
    auto x = random<T>(n, seed);
    auto out = poisoned<U>(1);
    OK(reduce(nullptr, scratch_bytes, x, out, n));
    auto scratch = bytes<char>(scratch_bytes);
    return rig([=]() mutable { OK(reduce(scratch, scratch_bytes, x, out, n)); }, out);
}

template <class T, class U = T>
Rig sum(const Shape& shape, uint32_t seed) {
    return whole<T, U>(shape, seed, [](void* scratch, size_t& size, T* x, U* out, size_t n) {
        return cub::DeviceReduce::Reduce(scratch, size, x, out, n, cuda::std::plus<U>{}, U(0), queue);
    });
}

CASE("CUB", "reduce/sum/f32") { return sum<float>(shape, seed); }
CASE("CUB", "reduce/sum/f64") { return sum<double>(shape, seed); }
CASE("CUB", "reduce/sum/i32") { return sum<int>(shape, seed); }
CASE("CUB", "reduce/sum/f16") { return sum<__half, float>(shape, seed); }
CASE("CUB", "reduce/sum/bf16") { return sum<__nv_bfloat16, float>(shape, seed); }

CASE("CUB", "reduce/product/f32") {
    return whole<float, float>(shape, seed, [](void* scratch, size_t& size, float* x, float* out, size_t n) {
        return cub::DeviceReduce::Reduce(scratch, size, x, out, n, cuda::std::multiplies<float>{}, 1.0f, queue);
    });
}

CASE("CUB", "reduce/max/f32") {
    return whole<float, float>(shape, seed, [](void* scratch, size_t& size, float* x, float* out, size_t n) {
        return cub::DeviceReduce::Max(scratch, size, x, out, n, queue);
    });
}

CASE("CUB", "reduce/argmax/f32") {
    size_t n = shape[0], scratch_bytes = 0;
    auto x = random<float>(n, seed);
    auto value = poisoned<float>(1);
    auto place = poisoned<int64_t>(1);
    OK(cub::DeviceReduce::ArgMax(nullptr, scratch_bytes, x, value, place, int64_t(n), queue));
    auto scratch = bytes<char>(scratch_bytes);
    return rig([=]() mutable { OK(cub::DeviceReduce::ArgMax(scratch, scratch_bytes, x, value, place, int64_t(n), queue)); }, value);
}

struct Offset {
    size_t cols;
    __device__ int64_t operator()(size_t row) const { return int64_t(row * cols); }
};

CASE("CUB", "reduce/segments/f32") {
    size_t rows = shape[0], cols = shape[1], scratch_bytes = 0;
    auto x = random<float>(rows * cols, seed);
    auto offsets = generate<int64_t>(rows + 1, Offset{cols});
    auto out = poisoned<float>(rows);
    OK(cub::DeviceSegmentedReduce::Sum(nullptr, scratch_bytes, x, out, rows, offsets, offsets + 1, queue));
    auto scratch = bytes<char>(scratch_bytes);
    return rig([=]() mutable { OK(cub::DeviceSegmentedReduce::Sum(scratch, scratch_bytes, x, out, rows, offsets, offsets + 1, queue)); }, out, rows);
}

int main() { return serve(); }
