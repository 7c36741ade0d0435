// The peers of the reductions: CUB's.
#include <cub/cub.cuh>
#include <cuda/std/functional>
#include "peer.cuh"
using namespace peer;

// A reduction of `n` elements into one value: `reduce(scratch, scratch_bytes, x, out, n)` is CUB's call.
template <class T, class U, class F>
Rig whole(const Shape& shape, uint32_t seed, F reduce) {
    size_t n = shape[0];
    auto x = random<T>(n, seed);
    auto out = poisoned<U>(1);
    auto call = [=](void* scratch, size_t& size, auto n) { return reduce(scratch, size, x, out, n); };
    return rig(counted_with_scratch(n, call), out);
}

template <class T, class U = T>
Rig sum(const Shape& shape, uint32_t seed) {
    return whole<T, U>(shape, seed, [](void* scratch, size_t& size, T* x, U* out, auto n) {
        return cub::DeviceReduce::Reduce(scratch, size, x, out, n, cuda::std::plus<U>{}, U(0), queue);
    });
}

CASE("CUB", "reduce/sum/f32") { return sum<float>(shape, seed); }
CASE("CUB", "reduce/sum/f64") { return sum<double>(shape, seed); }
CASE("CUB", "reduce/sum/i32") { return sum<int>(shape, seed); }
CASE("CUB", "reduce/sum/f16") { return sum<__half, float>(shape, seed); }
CASE("CUB", "reduce/sum/bf16") { return sum<__nv_bfloat16, float>(shape, seed); }

CASE("CUB", "reduce/product/f32") {
    return whole<float, float>(shape, seed, [](void* scratch, size_t& size, float* x, float* out, auto n) {
        return cub::DeviceReduce::Reduce(scratch, size, x, out, n, cuda::std::multiplies<float>{}, 1.0f, queue);
    });
}

CASE("CUB", "reduce/max/f32") {
    return whole<float, float>(shape, seed, [](void* scratch, size_t& size, float* x, float* out, auto n) {
        return cub::DeviceReduce::Max(scratch, size, x, out, n, queue);
    });
}

CASE("CUB", "reduce/argmax/f32") {
    size_t n = shape[0];
    auto x = random<float>(n, seed);
    auto value = poisoned<float>(1);
    auto index = poisoned<int64_t>(1);
    // CUB itself takes lengths beyond an `int` in pieces, and has one call for all of them.
    auto call = [=](void* scratch, size_t& size) {
        return cub::DeviceReduce::ArgMax(scratch, size, x, value, index, int64_t(n), queue);
    };
    return rig(with_scratch(call), value);
}

template <class T>
struct Offset {
    size_t cols;
    __device__ T operator()(size_t row) const { return T(row * cols); }
};

// Sums of the rows of `x`, whose first elements the offsets of type `T` name.
template <class T>
std::function<void()> segments(const float* x, float* out, size_t rows, size_t cols) {
    auto offsets = generate<T>(rows + 1, Offset<T>{cols});
    return with_scratch([=](void* scratch, size_t& size) {
        return cub::DeviceSegmentedReduce::Sum(scratch, size, x, out, rows, offsets, offsets + 1, queue);
    });
}

CASE("CUB", "reduce/segments/f32") {
    size_t rows = shape[0], cols = shape[1];
    auto x = random<float>(rows * cols, seed);
    auto out = poisoned<float>(rows);
    std::vector<Variant> variants{{"int64_t offsets", segments<int64_t>(x, out, rows, cols)}};
    if (rows * cols <= INT_MAX) variants.push_back({"int offsets", segments<int>(x, out, rows, cols)});
    return rig(variants, out, rows);
}

int main() { return serve(); }
