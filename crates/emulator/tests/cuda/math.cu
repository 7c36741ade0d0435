// The mathematical functions of the library, float and double.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void math_f32(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i], *to = out + 24 * i, y = fabsf(x) + 0.01f;
    to[0] = sinf(x);
    to[1] = cosf(x);
    to[2] = tanf(x);
    to[3] = expf(x);
    to[4] = logf(y);
    to[5] = powf(y, 1.7f);
    to[6] = erff(x);
    to[7] = erfcf(x);
    to[8] = lgammaf(y);
    to[9] = tgammaf(y);
    to[10] = cbrtf(x);
    to[11] = atan2f(x, 1.5f);
    to[12] = asinf(fminf(1.0f, y));
    to[13] = sinhf(x);
    to[14] = tanhf(x);
    to[15] = log1pf(y);
    to[16] = expm1f(x);
    to[17] = hypotf(x, 3.0f);
    to[18] = fmodf(x, 0.7f);
    to[19] = exp2f(x);
    to[20] = sqrtf(y);
    to[21] = 1.0f / x;
    to[22] = log10f(y);
    to[23] = acoshf(1.0f + y);
}

extern "C" __global__ void math_f64(const double* in, double* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = in[i], *to = out + 20 * i, y = fabs(x) + 0.01;
    to[0] = sin(x);
    to[1] = cos(x);
    to[2] = tan(x);
    to[3] = exp(x);
    to[4] = log(y);
    to[5] = pow(y, 1.7);
    to[6] = erf(x);
    to[7] = erfc(x);
    to[8] = lgamma(y);
    to[9] = tgamma(y);
    to[10] = cbrt(x);
    to[11] = atan2(x, 1.5);
    to[12] = asin(fmin(1.0, y));
    to[13] = sinh(x);
    to[14] = tanh(x);
    to[15] = log1p(y);
    to[16] = expm1(x);
    to[17] = hypot(x, 3.0);
    to[18] = sqrt(y);
    to[19] = x / y;
}

// The quick and rough ones.
extern "C" __global__ void math_fast(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[i], *to = out + 8 * i, y = fabsf(x) + 0.01f;
    to[0] = __sinf(x);
    to[1] = __cosf(x);
    to[2] = __expf(x);
    to[3] = __logf(y);
    to[4] = __powf(y, 1.7f);
    to[5] = __fdividef(x, y);
    to[6] = __frsqrt_rn(y);
    to[7] = __tanf(x);
}

// Angles so large that the slow reduction runs, with its table in constant or global memory.
extern "C" __global__ void large_angles(const float* in, float* sines, const double* in64, double* sines64, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    sines[i] = sinf(in[i]);
    sines64[i] = cos(in64[i]);
}

extern "C" __global__ void math_half(const __half* in, __half* out, __nv_bfloat16* brains, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half x = in[i];
    out[8 * i] = hsin(x);
    out[8 * i + 1] = hcos(x);
    out[8 * i + 2] = hexp(x);
    out[8 * i + 3] = hlog(__habs(x));
    out[8 * i + 4] = hsqrt(__habs(x));
    out[8 * i + 5] = hrcp(x);
    out[8 * i + 6] = hexp2(x);
    out[8 * i + 7] = htanh_approx(x);
    __nv_bfloat16 b = __float2bfloat16(__half2float(x));
    brains[4 * i] = hexp(b);
    brains[4 * i + 1] = hsin(b);
    brains[4 * i + 2] = hlog2(__habs(b));
    brains[4 * i + 3] = hrsqrt(__habs(b));
}
