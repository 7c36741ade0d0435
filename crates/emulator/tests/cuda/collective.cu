// Reductions, scans, sorts: what threads do together.

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

// A tree in shared memory, 256 threads.
extern "C" __global__ void reduce_tree(const int* in, long long* out, int n) {
    __shared__ long long part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    if (t == 0) atomicAdd(reinterpret_cast<unsigned long long*>(out), (unsigned long long)part[0]);
}

__device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    return v;
}

// Shuffles within a warp, then over the warps.
extern "C" __global__ void reduce_shuffle(const float* in, float* out, int n) {
    __shared__ float sums[32];
    float v = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v += in[i];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
        v = warp_sum(v);
        if (threadIdx.x == 0) *out = v;
    }
}

// Cooperative groups: tiles of eight, and what a labelled partition counts.
extern "C" __global__ void reduce_groups(const int* in, int* sums, int* maxima, int* counts, int n) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = i < n ? in[i] : 0;
    int sum = cg::reduce(tile, v, cg::plus<int>());
    int most = cg::reduce(tile, v, cg::greater<int>());
    if (tile.thread_rank() == 0) {
        sums[i / 8] = sum;
        maxima[i / 8] = most;
    }
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    cg::coalesced_group same = cg::labeled_partition(warp, v % 3);
    counts[i] = same.size() * 100 + same.thread_rank();
}

// A block's inclusive sums, by a scan of cooperative groups.
extern "C" __global__ void scan_groups(const int* in, int* inclusive, int* exclusive) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    inclusive[i] = cg::inclusive_scan(tile, in[i]);
    exclusive[i] = cg::exclusive_scan(tile, in[i], cg::bit_xor<int>());
}

// Hillis and Steele, with two buffers.
extern "C" __global__ void scan_block(const unsigned* in, unsigned* out, int n) {
    extern __shared__ unsigned buffer[];
    unsigned *from = buffer, *to = buffer + blockDim.x;
    int t = threadIdx.x;
    from[t] = t < n ? in[t] : 0;
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        to[t] = from[t] + (t >= d ? from[t - d] : 0);
        unsigned* other = from;
        from = to;
        to = other;
        __syncthreads();
    }
    if (t < n) out[t] = from[t];
}

// One pass over the array: each block looks back at those before it. Flags hold the state in the
// upper half and the sum in the lower; tickets give the blocks their order.
extern "C" __global__ void scan_look_back(const unsigned* in, unsigned* out, unsigned long long* flags, unsigned* ticket, int n) {
    __shared__ unsigned number, before, part[128];
    if (threadIdx.x == 0) number = atomicAdd(ticket, 1u);
    __syncthreads();
    int t = threadIdx.x, i = number * 128 + t;
    unsigned v = i < n ? in[i] : 0;
    part[t] = v;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        unsigned add = t >= d ? part[t - d] : 0;
        __syncthreads();
        part[t] += add;
        __syncthreads();
    }
    if (t == 0) {
        unsigned total = part[127], sum = 0;
        if (number == 0) {
            atomicExch(&flags[0], (2ull << 32) | total);
        } else {
            atomicExch(&flags[number], (1ull << 32) | total);
            for (int look = number - 1; look >= 0;) {
                unsigned long long flag = atomicAdd(&flags[look], 0ull);
                if (flag >> 32 == 0) continue;
                sum += (unsigned)flag;
                if (flag >> 32 == 2) break;
                --look;
            }
            atomicExch(&flags[number], (2ull << 32) | (sum + total));
        }
        before = sum;
    }
    __syncthreads();
    if (i < n) out[i] = before + part[t];
}

// Counts in shared memory, then in global.
extern "C" __global__ void histogram(const unsigned char* in, unsigned* bins, int n) {
    __shared__ unsigned own[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[in[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (own[i]) atomicAdd(&bins[i], own[i]);
}

// Batcher's network on 512 keys with values.
extern "C" __global__ void bitonic_sort(int* keys, unsigned short* values) {
    __shared__ int k[512];
    __shared__ unsigned short v[512];
    for (int i = threadIdx.x; i < 512; i += blockDim.x) k[i] = keys[i], v[i] = values[i];
    for (int size = 2; size <= 512; size *= 2)
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int t = threadIdx.x;
            int low = 2 * t - (t & (stride - 1)), high = low + stride;
            bool up = (low & size) == 0;
            if ((k[low] > k[high]) == up) {
                int key = k[low];
                k[low] = k[high];
                k[high] = key;
                unsigned short value = v[low];
                v[low] = v[high];
                v[high] = value;
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < 512; i += blockDim.x) keys[i] = k[i], values[i] = v[i];
}

// One warp for a row of a sparse matrix.
extern "C" __global__ void spmv_csr(const int* starts, const int* columns, const double* values, const double* x, double* y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    double sum = 0;
    for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum = fma(values[i], __ldg(&x[columns[i]]), sum);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (lane == 0) y[row] = sum;
}

// Votes, matches and integer reductions of a warp.
extern "C" __global__ void warp_questions(const unsigned* in, unsigned* out) {
    unsigned v = in[threadIdx.x], *to = out + threadIdx.x * 12;
    const unsigned all = 0xffffffffu;
    int whole;
    to[0] = __ballot_sync(all, v & 1);
    to[1] = __all_sync(all, v != 7);
    to[2] = __any_sync(all, v == 7);
    to[3] = __match_any_sync(all, v % 5);
    to[4] = __match_all_sync(all, v / 1000, &whole) + whole;
    to[5] = __reduce_add_sync(all, v);
    to[6] = __reduce_min_sync(all, (int)v - 50);
    to[7] = __reduce_max_sync(all, v);
    to[8] = __reduce_and_sync(all, v | 0xff00u);
    to[9] = __reduce_xor_sync(all, v);
    to[10] = __shfl_sync(all, v, (threadIdx.x + 3) % 8, 8);
    to[11] = __uni_sync(all, v > 1000000u);
}

// Barriers that count, and named ones that halves of a block use.
extern "C" __global__ void barrier_counts(const int* in, int* out) {
    __shared__ int seen[2];
    int odd = in[threadIdx.x] & 1;
    int count = __syncthreads_count(odd), any = __syncthreads_or(in[threadIdx.x] == 5), all = __syncthreads_and(in[threadIdx.x] >= 0);
    int half = threadIdx.x / 64;
    if (threadIdx.x % 64 == 0) seen[half] = count + half;
    asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
    out[threadIdx.x] = seen[half] * 100 + any * 10 + all;
}
