// Integers, bits, halves and packed numbers.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// Products and quotients wider than a register.
extern "C" __global__ void wide_integers(const unsigned long long* in, unsigned long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long a = in[2 * i], b = in[2 * i + 1] | 1, *to = out + 10 * i;
    unsigned __int128 product = (unsigned __int128)a * b, x = product + ((unsigned __int128)b << 70), q = x / b, r = x % (a | 3);
    to[0] = (unsigned long long)product;
    to[1] = (unsigned long long)(product >> 64);
    to[2] = (unsigned long long)q;
    to[3] = (unsigned long long)(q >> 64);
    to[4] = (unsigned long long)r;
    to[5] = a / b;
    to[6] = (unsigned long long)((long long)a % (long long)b);
    to[7] = __umul64hi(a, b);
    to[8] = (unsigned long long)__mul64hi((long long)a, (long long)b);
    to[9] = (unsigned long long)((__int128)(long long)a * (long long)b >> 77);
}

// The intrinsics on bits.
extern "C" __global__ void bit_tricks(const unsigned* in, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = in[i], b = in[(i + 1) % n], *to = out + 16 * i;
    unsigned long long both = (unsigned long long)a << 32 | b;
    to[0] = __popc(a);
    to[1] = __clz(a);
    to[2] = __brev(a);
    to[3] = __ffs(a);
    to[4] = __byte_perm(a, b, b & 0x7777);
    to[5] = __funnelshift_l(a, b, i);
    to[6] = __funnelshift_rc(a, b, i);
    to[7] = __popcll(both) + __clzll(both) * 100 + __ffsll(both) * 10000;
    to[8] = (unsigned)__brevll(both);
    to[9] = __usad(a, b, 7u);
    to[10] = __sad((int)a, (int)b, 9u);
    to[11] = __umul24(a, b) + __mul24((int)a, (int)b);
    to[12] = __uhadd(a, b) ^ (unsigned)__rhadd((int)a, (int)b);
    to[13] = __mulhi((int)a, (int)b) ^ __umulhi(a, b);
    asm("bfe.s32 %0, %1, 5, 9;" : "=r"(to[14]) : "r"(a));
    asm("bfi.b32 %0, %1, %2, 4, 12;" : "=r"(to[15]) : "r"(a), "r"(b));
}

// Dot products of bytes and halves, signed and not.
extern "C" __global__ void dot_products(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int a = in[i], b = in[(i + 1) % n], c = in[(i + 2) % n], *to = out + 6 * i;
    to[0] = __dp4a(a, b, c);
    to[1] = (int)__dp4a((unsigned)a, (unsigned)b, (unsigned)c);
    to[2] = __dp2a_lo(a, b, c);
    to[3] = __dp2a_hi(a, b, c);
    to[4] = (int)__dp2a_lo((unsigned)a, (unsigned)b, (unsigned)c);
    to[5] = (int)__dp2a_hi((unsigned)a, (unsigned)b, (unsigned)c);
}

// SIMD within a word.
extern "C" __global__ void packed_integers(const unsigned* in, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = in[i], b = in[(i + 1) % n], *to = out + 20 * i;
    to[0] = __vadd4(a, b);
    to[1] = __vsub4(a, b);
    to[2] = __vaddus4(a, b);
    to[3] = __vsubss4(a, b);
    to[4] = __vabsdiffu4(a, b);
    to[5] = __vabsdiffs4(a, b);
    to[6] = __vmaxu4(a, b);
    to[7] = __vmins4(a, b);
    to[8] = __vavgu4(a, b);
    to[9] = __vsadu4(a, b);
    to[10] = __vcmpgtu4(a, b);
    to[11] = __vadd2(a, b);
    to[12] = __vabsdiffs2(a, b);
    to[13] = __vmaxs2(a, b);
    to[14] = __vsetleu2(a, b);
    to[15] = __vabsss4(a);
    to[16] = __vnegss2(a);
    to[17] = __vsads2(a, b);
    to[18] = __vhaddu4(a, b);
    to[19] = __viaddmax_s32((int)a, (int)b, 5) ^ __vimin3_u32(a, b, 1u << 30) ^ __vimax_s16x2_relu(a, b);
}

// Halves: arithmetic, comparisons, conversions.
extern "C" __global__ void halves(const unsigned* in, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned ua = in[i], ub = in[(i + 1) % n], *to = out + 16 * i;
    half2 a = *reinterpret_cast<half2*>(&ua), b = *reinterpret_cast<half2*>(&ub);
    half2* h = reinterpret_cast<half2*>(to);
    h[0] = __hadd2(a, b);
    h[1] = __hmul2(a, b);
    h[2] = __hfma2(a, b, a);
    h[3] = __hsub2_sat(a, b);
    h[4] = __hmax2(a, b);
    h[5] = __hmin2_nan(a, b);
    h[6] = __hfma2_relu(a, b, b);
    h[7] = __hneg2(__habs2(a));
    to[8] = __hgt2_mask(a, b);
    to[9] = __hbgeu2(a, b) + 2 * __heq(__low2half(a), __high2half(b)) + 4 * __hisnan(__low2half(a));
    h[10] = __hlt2(a, b);
    to[11] = __half2int_rn(__low2half(a)) * 3 + __half2uint_rz(__high2half(a));
    h[12] = __floats2half2_rn(__low2float(a) * 3.1f, __high2float(b) + 0.7f);
    h[13] = __halves2half2(__int2half_rd(i * 1001), __double2half((double)i / 3));
    h[14] = h2floor(a);
    h[15] = __h2div(a, b);
}

// bf16 and fp8.
extern "C" __global__ void brain_floats(const unsigned* in, unsigned* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned ua = in[i], ub = in[(i + 1) % n], *to = out + 10 * i;
    __nv_bfloat162 a = *reinterpret_cast<__nv_bfloat162*>(&ua), b = *reinterpret_cast<__nv_bfloat162*>(&ub);
    __nv_bfloat162* h = reinterpret_cast<__nv_bfloat162*>(to);
    h[0] = __hadd2(a, b);
    h[1] = __hmul2(a, b);
    h[2] = __hfma2(a, b, a);
    h[3] = __hmax2(a, b);
    h[4] = __hmin2_nan(a, b);
    to[5] = __hgt2_mask(a, b);
    h[6] = __floats2bfloat162_rn(__low2float(a) * 3.1f, __high2float(b) * 0.7f);
    to[7] = __nv_cvt_float2_to_fp8x2(make_float2(__low2float(a), __high2float(b)), __NV_SATFINITE, __NV_E4M3)
        | __nv_cvt_float2_to_fp8x2(make_float2(__low2float(b), __high2float(a)), __NV_SATFINITE, __NV_E5M2) << 16;
    __half2_raw wide = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(ua & 0x7b7b), __NV_E5M2);
    to[8] = wide.x | (unsigned)wide.y << 16;
    to[9] = __hbne2(a, b) + 2 * __hle(__low2bfloat16(a), __high2bfloat16(b));
}

// Every rounding of a conversion.
extern "C" __global__ void conversions(const double* in, unsigned long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = in[i];
    float f = (float)a;
    unsigned long long* to = out + 16 * i;
    to[0] = __double2int_rn(a);
    to[1] = (unsigned)__double2int_rd(a);
    to[2] = __double2uint_ru(a);
    to[3] = __double2ll_rz(a);
    to[4] = __double2ull_rn(a);
    to[5] = __float_as_uint(__double2float_rd(a)) | (unsigned long long)__float_as_uint(__double2float_ru(a)) << 32;
    to[6] = __float2int_ru(f);
    to[7] = __float2ull_rd(f);
    to[8] = __double_as_longlong(rint(a));
    to[9] = __double_as_longlong(trunc(a)) ^ __double_as_longlong(ceil(a));
    to[10] = __float_as_uint(floorf(f)) | (unsigned long long)__float_as_uint(roundf(f)) << 32;
    to[11] = __double_as_longlong(__ll2double_ru((long long)a * 1234567891011ll));
    to[12] = __float_as_uint(__ull2float_rz((unsigned long long)a * 987654321ull));
    to[13] = (unsigned char)(int)f | (unsigned long long)(unsigned short)(short)(int)f << 16 | (unsigned long long)(unsigned)(signed char)(int)f << 32;
    to[14] = (unsigned long long)(long long)f;
    to[15] = __float_as_uint(__saturatef(f));
}
