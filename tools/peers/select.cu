// The peers of the selections: CUB's.
#include <cub/cub.cuh>
#include "peer.cuh"
using namespace peer;

struct Above {
    uint32_t limit;
    __host__ __device__ bool operator()(uint32_t x) const { return x > limit; }
};

Above above(uint64_t percent) { return Above{uint32_t(0xffffffffu - uint32_t((percent << 32) / 100))}; }

struct Flag {
    __host__ __device__ uint8_t operator()(size_t i) const { return (uint32_t(i) * 0x9e3779b9u) >> 31; }
};

Rig select(const Shape& shape, uint32_t seed, uint64_t percent) {
    size_t n = shape[0];
    auto x = random<uint32_t>(n, seed);
    auto out = poisoned<uint32_t>(n);
    auto count = poisoned<uint64_t>(1);
    return rig(counted_with_scratch(n, [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceSelect::If(scratch, size, x, out, count, n, above(percent), queue);
    }), out);
}

CASE("CUB", "select/above_50/u32") { return select(shape, seed, 50); }
CASE("CUB", "select/above_1/u32") { return select(shape, seed, 1); }
CASE("CUB", "select/above_99/u32") { return select(shape, seed, 99); }

CASE("CUB", "select/partition/u32") {
    size_t n = shape[0];
    auto x = random<uint32_t>(n, seed);
    auto out = poisoned<uint32_t>(n);
    auto count = poisoned<uint64_t>(1);
    return rig(counted_with_scratch(n, [=](void* scratch, size_t& size, auto n) {
        return cub::DevicePartition::If(scratch, size, x, out, count, n, above(50), queue);
    }), out);
}

CASE("CUB", "select/flagged/u32") {
    size_t n = shape[0];
    auto x = random<uint32_t>(n, seed);
    auto flags = generate<uint8_t>(n, Flag());
    auto out = poisoned<uint32_t>(n);
    auto count = poisoned<uint64_t>(1);
    return rig(counted_with_scratch(n, [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceSelect::Flagged(scratch, size, x, flags, out, count, n, queue);
    }), out);
}

CASE("CUB", "select/unique/u32") {
    size_t n = shape[0];
    auto x = random_below(n, seed, 2);
    auto out = poisoned<uint32_t>(n);
    auto count = poisoned<uint64_t>(1);
    return rig(counted_with_scratch(n, [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceSelect::Unique(scratch, size, x, out, count, n, queue);
    }), out);
}

CASE("CUB", "select/run_lengths/u32") {
    size_t n = shape[0];
    auto x = random_below(n, seed, 2);
    auto out = poisoned<uint32_t>(n);
    auto lengths = poisoned<uint32_t>(n);
    auto count = poisoned<uint64_t>(1);
    return rig(counted_with_scratch(n, [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceRunLengthEncode::Encode(scratch, size, x, out, lengths, count, n, queue);
    }), out);
}

int main() { return serve(); }
