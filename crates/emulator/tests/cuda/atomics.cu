// Read-modify-write of every type, by every road.

#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern "C" __global__ void atomic_integers(unsigned* u, int* s, unsigned long long* w, long long* l) {
    unsigned t = threadIdx.x;
    atomicAdd(&u[0], t);
    atomicSub(&u[1], 3u);
    atomicMin(&u[2], t + 5);
    atomicMax(&u[3], t * 7 % 61);
    atomicInc(&u[4], 99u);
    atomicDec(&u[5], 50u);
    atomicAnd(&u[6], ~(1u << t % 32));
    atomicOr(&u[7], 1u << t % 20);
    atomicXor(&u[8], 1u << t % 7);
    atomicMin(&s[0], (int)t - 100);
    atomicMax(&s[1], (int)t - 100);
    atomicAdd(&w[0], 1ull << t % 60);
    atomicMin(&w[1], (1ull << 40) + t);
    atomicMax(&w[2], (1ull << 40) + t);
    atomicXor(&w[3], (unsigned long long)t << 30);
    atomicMin(&l[0], -(1ll << 40) - t);
    atomicMax(&l[1], -(1ll << 40) - t);
    unsigned was = atomicExch(&u[9], t);
    if (was != 0xffffffffu) atomicAdd(&u[10], was);
}

// The sum of doubles as it was written before the hardware had it.
__device__ double add_by_cas(double* at, double value) {
    unsigned long long* bits = reinterpret_cast<unsigned long long*>(at);
    unsigned long long old = *(volatile unsigned long long*)bits, seen;
    do {
        seen = old;
        old = atomicCAS(bits, seen, __double_as_longlong(value + __longlong_as_double(seen)));
    } while (seen != old);
    return __longlong_as_double(old);
}

extern "C" __global__ void atomic_floats(float* f, double* d, __half2* h, __nv_bfloat162* b, __half* one) {
    int t = threadIdx.x;
    atomicAdd(&f[0], 0.5f * t);
    atomicAdd(&d[0], 0.25 * t);
    add_by_cas(&d[1], t);
    atomicAdd(h, __floats2half2_rn(1, t % 2));
    atomicAdd(b, __floats2bfloat162_rn(1, t % 4));
    atomicAdd(one, __float2half(0.5f));
}

extern "C" __global__ void atomic_shared(unsigned* out) {
    __shared__ unsigned long long sum;
    __shared__ unsigned short small[2];
    __shared__ float most;
    if (threadIdx.x == 0) sum = 0, small[0] = small[1] = 0, most = -1;
    __syncthreads();
    atomicAdd(&sum, (unsigned long long)threadIdx.x << 20);
    unsigned short seen = *(volatile unsigned short*)&small[1], old;
    do {
        old = seen;
        seen = atomicCAS(&small[1], old, (unsigned short)(old + 3));
    } while (seen != old);
    atomicMax(reinterpret_cast<int*>(&most), __float_as_int(threadIdx.x * 1.5f));
    __syncthreads();
    if (threadIdx.x == 0) out[0] = (unsigned)(sum >> 20), out[1] = small[1], out[2] = small[0], out[3] = __float_as_uint(most);
}

// A spin lock that the lanes of a warp take one after the other.
extern "C" __global__ void spin_lock(int* lock, int* value) {
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile int*)value = *(volatile int*)value + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// Orders and scopes of the standard library.
extern "C" __global__ void ordered(int* data, int* flag, int* out, unsigned long long* wide) {
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_system> sum(*wide);
    if (blockIdx.x == 0) {
        data[threadIdx.x] = threadIdx.x * 3 + 1;
        __syncthreads();
        if (threadIdx.x == 0) ready.store(1, cuda::memory_order_release);
    } else {
        while (ready.load(cuda::memory_order_acquire) == 0) {}
        out[(blockIdx.x - 1) * blockDim.x + threadIdx.x] = data[threadIdx.x];
    }
    sum.fetch_add(threadIdx.x, cuda::memory_order_acq_rel);
    sum.fetch_max(5, cuda::memory_order_seq_cst);
    cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_block);
}

// 128 bits at once.
struct alignas(16) Pair {
    unsigned long long low, high;
};
extern "C" __global__ void atomic_pairs(Pair* at, Pair* last) {
    Pair seen = {0, 0}, old;
    do {
        old = seen;
        Pair next = {old.low + 1, old.high + threadIdx.x};
        seen = atomicCAS(at, old, next);
    } while (seen.low != old.low || seen.high != old.high);
    atomicExch(last, Pair{threadIdx.x, ~0ull});
}

// Four floats at once, of Hopper.
extern "C" __global__ void atomic_vectors(float4* sum, float2* pair) {
    atomicAdd(sum, make_float4(1, 2, threadIdx.x, 0.5f));
    atomicAdd(pair, make_float2(1, -1));
}
