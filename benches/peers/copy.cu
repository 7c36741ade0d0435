// The peer of the copies: the driver's copy on the device.
#include "peer.cuh"
using namespace peer;

CASE("driver", "copy/array/f32") {
    size_t n = shape[0];
    auto x = random<float>(n, seed);
    auto out = poisoned<float>(n);
    return rig([=] { OK(cudaMemcpyAsync(out, x, n * sizeof(float), cudaMemcpyDeviceToDevice, queue)); }, out, n);
}

int main() { return serve(); }
