// Tensor cores and clusters.

#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
namespace cg = cooperative_groups;
using namespace nvcuda;

// c = a b for 16 x 16 tiles of halves, one warp for each.
extern "C" __global__ void wmma_gemm(const __half* a, const __half* b, float* c, int n) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + blockIdx.y * 16 * n + k, n);
        wmma::load_matrix_sync(fb, b + blockIdx.x * 16 * n + k, n);
        wmma::mma_sync(sum, fa, fb, sum);
    }
    wmma::store_matrix_sync(c + blockIdx.y * 16 * n + blockIdx.x * 16, sum, n, wmma::mem_row_major);
}

// One m16n8k16 product of bf16, its operands by ldmatrix from shared memory.
extern "C" __global__ void mma_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
    __shared__ __align__(16) __nv_bfloat16 sa[16][16], sb[8][16];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) sa[i / 16][i % 16] = a[i];
    for (int i = lane; i < 128; i += 32) sb[i / 16][i % 16] = b[i];
    __syncwarp();
    unsigned ra[4], rb[2];
    unsigned from_a = (unsigned)__cvta_generic_to_shared(&sa[lane % 16][lane / 16 * 8]);
    unsigned from_b = (unsigned)__cvta_generic_to_shared(&sb[lane % 8][lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(from_a));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(rb[0]), "=r"(rb[1]) : "r"(from_b));
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    int row = lane / 4, column = lane % 4 * 2;
    c[row * 8 + column] = d[0];
    c[row * 8 + column + 1] = d[1];
    c[(row + 8) * 8 + column] = d[2];
    c[(row + 8) * 8 + column + 1] = d[3];
}

// One m16n8k32 product of signed bytes.
extern "C" __global__ void mma_s8(const int* a, const int* b, int* c) {
    int lane = threadIdx.x, row = lane / 4, part = lane % 4, d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[row * 8 + part]), "r"(a[(row + 8) * 8 + part]), "r"(a[row * 8 + part + 4]),
                   "r"(a[(row + 8) * 8 + part + 4]), "r"(b[row * 8 + part]), "r"(b[row * 8 + part + 4]));
    for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + part * 2 + i % 2] = d[i];
}

// Blocks of a cluster add to each other's shared memory.
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_histogram(const unsigned char* in, unsigned* bins, int n) {
    __shared__ unsigned own[64];
    cg::cluster_group cluster = cg::this_cluster();
    own[threadIdx.x] = 0;
    cluster.sync();
    int start = cluster.block_rank() * blockDim.x + threadIdx.x;
    for (int i = start; i < n; i += cluster.num_blocks() * blockDim.x) {
        unsigned bin = in[i];
        unsigned* there = cluster.map_shared_rank(own, bin / 64);
        atomicAdd(&there[bin % 64], 1);
    }
    cluster.sync();
    bins[cluster.block_rank() * 64 + threadIdx.x] = own[threadIdx.x];
}
