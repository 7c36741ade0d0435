// The peers of `reduce_sum` and `transpose`, in CUDA C++: CUB's sum, the textbook transpose, the driver's copy.
//
// Usage: cub REDUCE_LOG2 SIDE ROUNDS. Prints a JSON line a case: {"name", "n", "bytes", "ms": [one an iteration]}.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cub/cub.cuh>

#define CHECK(call)                                                                    \
    do {                                                                               \
        cudaError_t error = (call);                                                    \
        if (error != cudaSuccess) {                                                    \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));        \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)

__global__ void fill_random(float* x, size_t n, unsigned seed) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        unsigned h = unsigned(i) * 2654435761u + seed;
        h ^= h >> 15; h *= 2246822519u; h ^= h >> 13;
        x[i] = float(h >> 8) * (1.0f / 16777216.0f) - 0.5f;
    }
}

__global__ void transpose_textbook(const float* in, float* out, int side) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int r = 0; r < 32; r += 8) tile[threadIdx.y + r][threadIdx.x] = in[size_t(y + r) * side + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int r = 0; r < 32; r += 8) out[size_t(y + r) * side + x] = tile[threadIdx.x][threadIdx.y + r];
}

template <class Run>
void measure(const char* name, size_t n, size_t bytes, int rounds, Run run) {
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    for (int i = 0; i < 3; i++) run();
    std::printf("{\"name\": \"%s\", \"n\": %zu, \"bytes\": %zu, \"ms\": [", name, n, bytes);
    for (int i = 0; i < rounds; i++) {
        CHECK(cudaEventRecord(start));
        run();
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        std::printf("%s%.6f", i ? ", " : "", ms);
    }
    std::printf("]}\n");
    CHECK(cudaGetLastError());
}

int main(int argc, char** argv) {
    size_t n = size_t(1) << (argc > 1 ? std::atoi(argv[1]) : 28);
    int side = argc > 2 ? std::atoi(argv[2]) : 16384;
    int rounds = argc > 3 ? std::atoi(argv[3]) : 20;
    size_t cells = size_t(side) * side, floats = n > cells ? n : cells;

    float *x, *out, *sum;
    CHECK(cudaMalloc(&x, floats * sizeof(float)));
    CHECK(cudaMalloc(&out, floats * sizeof(float)));
    CHECK(cudaMalloc(&sum, sizeof(float)));
    fill_random<<<1024, 256>>>(x, floats, 1);
    CHECK(cudaMemset(out, 0xFF, floats * sizeof(float)));

    size_t scratch_bytes = 0;
    void* scratch = nullptr;
    CHECK(cub::DeviceReduce::Sum(nullptr, scratch_bytes, x, sum, n));
    CHECK(cudaMalloc(&scratch, scratch_bytes));
    measure("reduce_sum_f32", n, n * 4, rounds,
            [&] { CHECK(cub::DeviceReduce::Sum(scratch, scratch_bytes, x, sum, n)); });
    measure("copy", n, n * 8, rounds,
            [&] { CHECK(cudaMemcpyAsync(out, x, n * 4, cudaMemcpyDeviceToDevice)); });
    measure("transpose_tiled", cells, cells * 8, rounds,
            [&] { transpose_textbook<<<dim3(side / 32, side / 32), dim3(32, 8)>>>(x, out, side); });
    return 0;
}
