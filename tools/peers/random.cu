// The peers of the random numbers: cuRAND's host functions with Philox4x32-10.
// link: -lcurand
#include <curand.h>

#include "peer.cuh"
using namespace peer;

static void CURAND_OK(curandStatus_t status) {
    if (status != CURAND_STATUS_SUCCESS) {
        fprintf(stderr, "cuRAND answers %d\n", int(status));
        exit(1);
    }
}

// A generator lives as long as the process: there is one for each copy of the data.
template <class T, class Fill>
Rig filled(const Shape& shape, uint32_t seed, Fill fill) {
    size_t n = shape[0];
    auto out = poisoned<T>(n);
    curandGenerator_t generator;
    CURAND_OK(curandCreateGenerator(&generator, CURAND_RNG_PSEUDO_PHILOX4_32_10));
    CURAND_OK(curandSetPseudoRandomGeneratorSeed(generator, seed));
    CURAND_OK(curandSetStream(generator, queue));
    return rig([=] { CURAND_OK(fill(generator, out, n)); }, out, n);
}

CASE("cuRAND", "random/uniform/f32") { return filled<float>(shape, seed, curandGenerateUniform); }
CASE("cuRAND", "random/uniform/f64") { return filled<double>(shape, seed, curandGenerateUniformDouble); }
CASE("cuRAND", "random/integers/u32") { return filled<unsigned>(shape, seed, curandGenerate); }
CASE("cuRAND", "random/normal/f32") {
    auto fill = [](curandGenerator_t generator, float* out, size_t n) {
        return curandGenerateNormal(generator, out, n, 0.0f, 1.0f);
    };
    return filled<float>(shape, seed, fill);
}

int main() { return serve(); }
