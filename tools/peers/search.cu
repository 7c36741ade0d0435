// The peers of the searches and merges: Thrust's, and CUB's merge.
#include <cub/cub.cuh>
#include <cuda/std/functional>
#include <thrust/binary_search.h>
#include <thrust/execution_policy.h>
#include <thrust/merge.h>
#include "peer.cuh"
using namespace peer;

// Rising numbers, as far apart as `n` of them can be, each moved up by less than that.
struct Rising {
    uint64_t step;
    __host__ __device__ uint32_t operator()(size_t i) const {
        return uint32_t(i * step + (uint32_t(i) * 0x9e3779b9u) % step);
    }
};

uint32_t* sorted(size_t n) { return generate<uint32_t>(n, Rising{(uint64_t(1) << 32) / n}); }

CASE("Thrust", "search/lower_bound/u32") {
    size_t n = shape[0];
    auto x = sorted(n);
    auto values = random<uint32_t>(n, seed + 1);
    auto out = poisoned<uint64_t>(n);
    return rig([=] {
        thrust::lower_bound(thrust::cuda::par_nosync.on(queue), x, x + n, values, values + n, out);
    }, out, n);
}

CASE("Thrust", "search/merge/u32") {
    size_t n = shape[0], half = n / 2;
    auto a = sorted(half);
    auto b = sorted(n - half);
    auto out = poisoned<uint32_t>(n);
    return rig([=] {
        thrust::merge(thrust::cuda::par_nosync.on(queue), a, a + half, b, b + (n - half), out);
    }, out, n);
}

CASE("CUB", "search/merge/u32") {
    size_t n = shape[0], half = n / 2;
    auto a = sorted(half);
    auto b = sorted(n - half);
    auto out = poisoned<uint32_t>(n);
    auto merge = [=](void* scratch, size_t& size) {
        return cub::DeviceMerge::MergeKeys(
            scratch, size, a, int64_t(half), b, int64_t(n - half), out, cuda::std::less<>{}, queue);
    };
    return rig(with_scratch(merge), out, n);
}

int main() { return serve(); }
