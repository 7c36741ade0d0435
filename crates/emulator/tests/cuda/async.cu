// Copies and barriers that do not wait.

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;
// A barrier in shared memory is begun by a thread, not by its declaration.
#pragma nv_diag_suppress static_var_with_dynamic_init

// Two stages: one tile is copied while the other is summed.
extern "C" __global__ void pipeline_sums(const float4* in, float* out, int tiles) {
    __shared__ float4 stage[2][64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&stage[0][t], &in[t], 16);
    __pipeline_commit();
    for (int i = 0; i < tiles; ++i) {
        if (i + 1 < tiles) __pipeline_memcpy_async(&stage[(i + 1) % 2][t], &in[(i + 1) * 64 + t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        float4 v = stage[i % 2][63 - t];
        out[i * 64 + t] = v.x + v.y + v.z + v.w;
        __syncthreads();
    }
}

// A copy by all threads of a block.
extern "C" __global__ void group_copy(const int* in, int* out, int n) {
    extern __shared__ int buffer[];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, buffer, in, n * sizeof(int));
    cg::wait(block);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = buffer[n - 1 - i];
}

// Arrive, do something else, then wait.
extern "C" __global__ void split_barrier(const int* in, int* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ int part[96];
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    int sum = 0;
    for (int round = 0; round < 3; ++round) {
        part[threadIdx.x] = in[threadIdx.x] * (round + 1);
        auto token = barrier.arrive();
        sum += round;
        barrier.wait(std::move(token));
        sum += part[(threadIdx.x + 17) % 96];
        barrier.arrive_and_wait();
    }
    out[threadIdx.x] = sum;
}
