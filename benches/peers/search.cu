// The peers of the searches and merges: Thrust's.
#include <cub/cub.cuh>
#include <thrust/binary_search.h>
#include <thrust/execution_policy.h>
#include <thrust/merge.h>
#include <thrust/sort.h>
#include "peer.cuh"
using namespace peer;

uint32_t* sorted(size_t n, uint32_t seed) {
    auto x = random<uint32_t>(n, seed);
    thrust::sort(thrust::cuda::par.on(queue), x, x + n);
    return x;
}

CASE("Thrust", "search/lower_bound/u32") {
    size_t n = shape[0];
    auto x = sorted(n, seed);
    auto values = random<uint32_t>(n, seed + 1);
    auto out = poisoned<uint64_t>(n);
    return rig([=] {
        thrust::lower_bound(thrust::cuda::par_nosync.on(queue), x, x + n, values, values + n, out);
    }, out, n);
}

CASE("Thrust", "search/merge/u32") {
    size_t n = shape[0], half = n / 2;
    auto a = sorted(half, seed);
    auto b = sorted(n - half, seed + 1);
    auto out = poisoned<uint32_t>(n);
    return rig([=] {
        thrust::merge(thrust::cuda::par_nosync.on(queue), a, a + half, b, b + (n - half), out);
    }, out, n);
}

int main() { return serve(); }
