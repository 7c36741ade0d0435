// The peers of the sorts: CUB's.
#include <cub/cub.cuh>
#include "peer.cuh"
using namespace peer;

template <class T>
Rig sort_keys(T* x, size_t n) {
    auto out = poisoned<T>(n);
    auto sort = [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceRadixSort::SortKeys(scratch, size, x, out, n, 0, int(sizeof(T) * 8), queue);
    };
    return rig(counted_with_scratch(n, sort), out, n);
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
    size_t n = shape[0];
    auto keys = random<uint32_t>(n, seed), values = random<uint32_t>(n, seed ^ 1);
    auto out_keys = poisoned<uint32_t>(n), out_values = poisoned<uint32_t>(n);
    auto sort = [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceRadixSort::SortPairs(scratch, size, keys, out_keys, values, out_values, n, 0, 32, queue);
    };
    return rig(counted_with_scratch(n, sort), out_values, n);
}

int main() { return serve(); }
