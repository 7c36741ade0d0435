// The kernels of test_driver.py. NVRTC compiles them to PTX; it needs no GPU.

extern "C" __global__ void gelu(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i] * (1.0f + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));
}

// out[block] = the sum of the block's elements: warps by shuffles, then their sums in shared memory.
extern "C" __global__ void block_sum(const double *x, double *out, int n) {
    extern __shared__ double sums[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double value = i < n ? x[i] : 0.0;
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0.0;
        for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += sums[warp];
        out[blockIdx.x] = sum;
    }
}

__device__ unsigned long long seen;

// Counts of each value, the largest value, and how many threads came by.
extern "C" __global__ void counts(const unsigned *x, unsigned *bins, unsigned *most, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&bins[x[i]], 1u);
        atomicMax(most, x[i]);
        atomicAdd(&seen, 1ull);
    }
}

struct Size { int width, height; };

// One step of heat flow. The tile and its rim stand in shared memory; outside the picture it is 0.
template <int TILE> __device__ void heat_step(const float *in, float *out, Size size, float rate) {
    __shared__ float tile[TILE + 2][TILE + 2];
    int x0 = blockIdx.x * TILE - 1, y0 = blockIdx.y * TILE - 1;
    int thread = threadIdx.y * TILE + threadIdx.x;
    for (int cell = thread; cell < (TILE + 2) * (TILE + 2); cell += TILE * TILE) {
        int x = x0 + cell % (TILE + 2), y = y0 + cell / (TILE + 2);
        bool inside = x >= 0 && y >= 0 && x < size.width && y < size.height;
        tile[cell / (TILE + 2)][cell % (TILE + 2)] = inside ? in[y * size.width + x] : 0.0f;
    }
    __syncthreads();
    int x = x0 + 1 + threadIdx.x, y = y0 + 1 + threadIdx.y;
    if (x >= size.width || y >= size.height) return;
    int i = threadIdx.x + 1, j = threadIdx.y + 1;
    float around = tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i];
    out[y * size.width + x] = tile[j][i] + rate * (around - 4.0f * tile[j][i]);
}

extern "C" __global__ void heat(const float *in, float *out, Size size, float rate) {
    heat_step<16>(in, out, size, rate);
}

extern "C" __global__ void stray(int *x) { x[1 << 28] = 1; }
