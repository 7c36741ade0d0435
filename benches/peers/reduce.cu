// The peers of the reductions: CUB's.
#include <cub/cub.cuh>
#include "peer.cuh"
using namespace peer;

CASE("CUB", "reduce/sum/f32") {
    size_t n = shape[0], scratch_bytes = 0;
    auto x = random<float>(n, seed);
    auto out = poisoned<float>(1);
    OK(cub::DeviceReduce::Sum(nullptr, scratch_bytes, x, out, n, queue));
    auto scratch = bytes<char>(scratch_bytes);
    return rig([=] () mutable { OK(cub::DeviceReduce::Sum(scratch, scratch_bytes, x, out, n, queue)); }, out);
}

int main() { return serve(); }
