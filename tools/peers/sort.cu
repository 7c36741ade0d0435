// The peers of the sorts: CUB's.
#include <cub/cub.cuh>
#include "peer.cuh"
using namespace peer;

// CUB takes 32-bit places where the number of items is an int.
template <class T>
Rig sort_keys(T* x, size_t n) {
    size_t scratch_bytes = 0;
    auto out = poisoned<T>(n);
    OK(cub::DeviceRadixSort::SortKeys(nullptr, scratch_bytes, x, out, int(n), 0, int(sizeof(T) * 8), queue));
    auto scratch = bytes<char>(scratch_bytes);
    return rig([=] () mutable {
        OK(cub::DeviceRadixSort::SortKeys(scratch, scratch_bytes, x, out, int(n), 0, int(sizeof(T) * 8), queue));
    }, out, n);
}

struct Index {
    __host__ __device__ uint32_t operator()(size_t i) const { return uint32_t(i); }
};

CASE("CUB", "sort/keys/u32") { return sort_keys(random<uint32_t>(shape[0], seed), shape[0]); }
CASE("CUB", "sort/keys/u64") { return sort_keys(random<uint64_t>(shape[0], seed), shape[0]); }
CASE("CUB", "sort/keys/f32") { return sort_keys(random<float>(shape[0], seed), shape[0]); }
CASE("CUB", "sort/few/u32") { return sort_keys(random_below(shape[0], seed, 16), shape[0]); }
CASE("CUB", "sort/sorted/u32") { return sort_keys(generate<uint32_t>(shape[0], Index{}), shape[0]); }

CASE("CUB", "sort/pairs/u32") {
    size_t n = shape[0], scratch_bytes = 0;
    auto keys = random<uint32_t>(n, seed), values = random<uint32_t>(n, seed ^ 1);
    auto out_keys = poisoned<uint32_t>(n), out_values = poisoned<uint32_t>(n);
    OK(cub::DeviceRadixSort::SortPairs(nullptr, scratch_bytes, keys, out_keys, values, out_values, int(n), 0, 32, queue));
    auto scratch = bytes<char>(scratch_bytes);
    return rig([=] () mutable {
        OK(cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys, out_keys, values, out_values, int(n), 0, 32, queue));
    }, out_values, n);
}

int main() { return serve(); }
