// The peers of the device library's mathematics: CUDA's own functions, called in the same loop.
//
// Usage: math ROUNDS32 ROUNDS64. Reads lines `name low span` and prints `name giga-results-per-second`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define CHECK(call)                                                                    \
    do {                                                                               \
        cudaError_t error = (call);                                                    \
        if (error != cudaSuccess) {                                                    \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));        \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)

__device__ unsigned following(unsigned state) { return state * 1664525u + 1013904223u; }
__device__ float unit(unsigned state, float) { return __uint_as_float(state >> 9 | 0x3f800000u); }
__device__ double unit(unsigned state, double) { return __hiloint2double(state >> 12 | 0x3ff00000u, state); }
__device__ float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }
__device__ double multiply_add(double x, double y, double z) { return fma(x, y, z); }

template <class T, class F>
__global__ void speed(F f, unsigned rounds, T low, T span, T* out) {
    unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned states[4] = {index, index ^ 0x55555555u, index ^ 0x33333333u, index ^ 0x0f0f0f0fu};
    T sums[4] = {0, 0, 0, 0};
    for (unsigned round = 0; round < rounds; round++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            states[i] = following(states[i]);
            sums[i] += f(multiply_add(unit(states[i], T()), span, low));
        }
    }
    out[index] = sums[0] + sums[1] + sums[2] + sums[3];
}

const unsigned BLOCKS = 132 * 8, THREADS = 256;

template <class T, class F>
void measure(const char* name, unsigned rounds, double low, double span, F f) {
    T* out;
    CHECK(cudaMalloc(&out, BLOCKS * THREADS * sizeof(T)));
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    float best = 1e30f;
    for (int i = 0; i < 4; i++) {
        CHECK(cudaEventRecord(start));
        speed<T><<<BLOCKS, THREADS>>>(f, rounds, T(low), T(span), out);
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        if (i > 0) best = std::min(best, ms);
    }
    CHECK(cudaGetLastError());
    CHECK(cudaFree(out));
    std::printf("%s %.4f\n", name, 4.0 * rounds * BLOCKS * THREADS / best * 1e-6);
}

#define SINGLE(function, call) \
    if (name == #function) measure<float>(#function, rounds32, low, span, [] __device__(float x) { return call; });
#define DOUBLE(function, call) \
    if (name == #function) measure<double>(#function, rounds64, low, span, [] __device__(double x) { return call; });

__device__ float both(float x) { float s, c; sincosf(x, &s, &c); return s + c; }
__device__ double both(double x) { double s, c; sincos(x, &s, &c); return s + c; }

int main(int argc, char** argv) {
    unsigned rounds32 = argc > 1 ? std::atoi(argv[1]) : 2048, rounds64 = argc > 2 ? std::atoi(argv[2]) : 512;
    char word[64];
    double low, span;
    while (std::scanf("%63s %lf %lf", word, &low, &span) == 3) {
        std::string name = word;
        SINGLE(nonef, x) SINGLE(expf, expf(x)) SINGLE(exp2f, exp2f(x)) SINGLE(exp10f, exp10f(x)) SINGLE(expm1f, expm1f(x))
        SINGLE(logf, logf(x)) SINGLE(log2f, log2f(x)) SINGLE(log10f, log10f(x)) SINGLE(log1pf, log1pf(x))
        SINGLE(sinf, sinf(x)) SINGLE(cosf, cosf(x)) SINGLE(tanf, tanf(x)) SINGLE(sincosf, both(x)) SINGLE(sinpif, sinpif(x))
        SINGLE(asinf, asinf(x)) SINGLE(acosf, acosf(x)) SINGLE(atanf, atanf(x)) SINGLE(sinhf, sinhf(x)) SINGLE(coshf, coshf(x))
        SINGLE(tanhf, tanhf(x)) SINGLE(asinhf, asinhf(x)) SINGLE(acoshf, acoshf(x)) SINGLE(atanhf, atanhf(x))
        SINGLE(sqrtf, sqrtf(x)) SINGLE(rsqrtf, rsqrtf(x)) SINGLE(cbrtf, cbrtf(x)) SINGLE(rcbrtf, rcbrtf(x))
        SINGLE(erff, erff(x)) SINGLE(erfcf, erfcf(x)) SINGLE(erfinvf, erfinvf(x)) SINGLE(normcdff, normcdff(x))
        SINGLE(tgammaf, tgammaf(x)) SINGLE(lgammaf, lgammaf(x)) SINGLE(powf, powf(x, 2.3f)) SINGLE(atan2f, atan2f(x, 1.5f))
        SINGLE(hypotf, hypotf(x, 1.5f))
        DOUBLE(none, x) DOUBLE(exp, exp(x)) DOUBLE(exp2, exp2(x)) DOUBLE(exp10, exp10(x)) DOUBLE(expm1, expm1(x))
        DOUBLE(log, log(x)) DOUBLE(log2, log2(x)) DOUBLE(log10, log10(x)) DOUBLE(log1p, log1p(x))
        DOUBLE(sin, sin(x)) DOUBLE(cos, cos(x)) DOUBLE(tan, tan(x)) DOUBLE(sincos, both(x)) DOUBLE(sinpi, sinpi(x))
        DOUBLE(asin, asin(x)) DOUBLE(acos, acos(x)) DOUBLE(atan, atan(x)) DOUBLE(sinh, sinh(x)) DOUBLE(cosh, cosh(x))
        DOUBLE(tanh, tanh(x)) DOUBLE(sqrt, sqrt(x)) DOUBLE(rsqrt, rsqrt(x)) DOUBLE(cbrt, cbrt(x)) DOUBLE(erf, erf(x))
        DOUBLE(erfc, erfc(x)) DOUBLE(tgamma, tgamma(x)) DOUBLE(lgamma, lgamma(x)) DOUBLE(pow, pow(x, 2.3))
        DOUBLE(atan2, atan2(x, 1.5)) DOUBLE(hypot, hypot(x, 1.5))
        std::fflush(stdout);
    }
}
