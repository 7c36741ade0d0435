// The peers of the matrix products: cuBLASLt, with the fastest of the eight algorithms that its heuristic gives first.
// link: -lcublasLt
#include "peer.cuh"
#include <cublasLt.h>
#include <cuda_fp8.h>
#include <memory>
using namespace peer;

static void lt_ok(cublasStatus_t status, const char* call) {
    if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(std::string(call) + ": " + cublasLtGetStatusString(status));
}
#define LT(...) lt_ok((__VA_ARGS__), #__VA_ARGS__)

static cublasLtHandle_t handle() {
    static cublasLtHandle_t made = [] {
        cublasLtHandle_t handle;
        LT(cublasLtCreate(&handle));
        return handle;
    }();
    return made;
}

// The types of a product, and the scale's type.
struct Types {
    cudaDataType_t in, out;
    cublasComputeType_t compute;
    cudaDataType_t scale;
};

// What is made once for a product. Row-major D is column-major for cuBLASLt, so it multiplies the transposes, B first.
struct Plan {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
};

static const size_t WORKSPACE = 64 << 20;

static cublasLtMatrixLayout_t layout(cudaDataType_t type, size_t rows, size_t columns, size_t batches) {
    cublasLtMatrixLayout_t made;
    LT(cublasLtMatrixLayoutCreate(&made, type, rows, columns, rows));
    int32_t count = int32_t(batches);
    int64_t stride = int64_t(rows * columns);
    LT(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    LT(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return made;
}

template <class F>
static float milliseconds(F run) {
    cudaEvent_t begin, end;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    OK(cudaEventRecord(begin, queue));
    for (int i = 0; i < 3; i++) run();
    OK(cudaEventRecord(end, queue));
    OK(cudaEventSynchronize(end));
    float ms = 0;
    OK(cudaEventElapsedTime(&ms, begin, end));
    OK(cudaEventDestroy(begin));
    OK(cudaEventDestroy(end));
    return ms;
}

// D = A B for A of m × k and B of k × n, row-major unless transposed in memory; with a bias for each column and GELU if asked.
template <class T, class D>
static Rig product(Types types, const Shape& sizes, bool a_turned, bool b_turned, const T* a, const T* b, const D* bias, size_t batches, const float* const* blocks = nullptr) {
    size_t m = sizes[0], n = sizes[1], k = sizes[2];
    auto d = poisoned<D>(batches * m * n);
    auto workspace = bytes<char>(WORKSPACE);
    auto plan = std::make_shared<Plan>();
    LT(cublasLtMatmulDescCreate(&plan->product, types.compute, types.scale));
    cublasOperation_t first = b_turned ? CUBLAS_OP_T : CUBLAS_OP_N, second = a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    LT(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    LT(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    if (bias) {
        cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_GELU_BIAS;
        LT(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
        LT(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    }
    if (blocks) {
        // Those of the left operand, which is B, are of blocks of 128 × 128, those of the right one of 128 along K of each row of A.
        cublasLtMatmulMatrixScale_t of_b = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, of_a = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
        LT(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &of_b, sizeof of_b));
        LT(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &of_a, sizeof of_a));
        LT(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &blocks[1], sizeof blocks[1]));
        LT(cublasLtMatmulDescSetAttribute(plan->product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &blocks[0], sizeof blocks[0]));
    }
    plan->b = b_turned ? layout(types.in, k, n, batches) : layout(types.in, n, k, batches);
    plan->a = a_turned ? layout(types.in, m, k, batches) : layout(types.in, k, m, batches);
    plan->d = layout(types.out, n, m, batches);
    bool is_double = types.scale == CUDA_R_64F, is_integer = types.scale == CUDA_R_32I;
    auto run_with = [=](const cublasLtMatmulAlgo_t* algorithm) {
        double one64 = 1, zero64 = 0;
        float one32 = 1, zero32 = 0;
        int32_t one = 1, zero = 0;
        const void* alpha = is_double ? (const void*)&one64 : is_integer ? (const void*)&one : &one32;
        const void* beta = is_double ? (const void*)&zero64 : is_integer ? (const void*)&zero : &zero32;
        LT(cublasLtMatmul(handle(), plan->product, alpha, b, plan->b, a, plan->a, beta, d, plan->d, d, plan->d, algorithm,
                          workspace, WORKSPACE, queue));
    };
    cublasLtMatmulPreference_t preference;
    LT(cublasLtMatmulPreferenceCreate(&preference));
    LT(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE, sizeof WORKSPACE));
    cublasLtMatmulHeuristicResult_t found[8];
    int count = 0;
    LT(cublasLtMatmulAlgoGetHeuristic(handle(), plan->product, plan->b, plan->a, plan->d, plan->d, preference, 8, found, &count));
    LT(cublasLtMatmulPreferenceDestroy(preference));
    if (count == 0) throw std::runtime_error("cuBLASLt has no algorithm for this product");
    float best = -1;
    for (int i = 0; i < count; i++) {
        run_with(&found[i].algo);
        float ms = milliseconds([&] { run_with(&found[i].algo); });
        if (best < 0 || ms < best) {
            best = ms;
            plan->algorithm = found[i].algo;
        }
    }
    OK(cudaMemset(d, 0xff, batches * m * n * sizeof(D)));
    return rig([=] { run_with(&plan->algorithm); }, d, batches * m * n);
}

template <class T>
struct NormalValue {
    uint32_t seed;
    __device__ T operator()(size_t i) const { return T(normal(seed, i)); }
};

// `n` normal elements: those that the host side of the benchmark makes of this seed.
template <class T>
static T* normals(size_t n, uint32_t seed) { return generate<T>(n, NormalValue<T>{seed}); }

static const Types BF16{CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F}, F16{CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F},
    F32{CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F}, TF32{CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F},
    F64{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F}, I8{CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I},
    E4M3{CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};

template <class T>
static Rig plain(Types types, const Shape& shape, uint32_t seed, bool a_turned = false, bool b_turned = false) {
    auto a = normals<T>(shape[0] * shape[2], seed), b = normals<T>(shape[2] * shape[1], seed + 1);
    return product<T, T>(types, shape, a_turned, b_turned, a, b, nullptr, 1);
}

CASE("cuBLASLt", "matmul/nn/bf16") { return plain<__nv_bfloat16>(BF16, shape, seed); }
CASE("cuBLASLt", "matmul/nn/f16") { return plain<__half>(F16, shape, seed); }
CASE("cuBLASLt", "matmul/nt/bf16") { return plain<__nv_bfloat16>(BF16, shape, seed, false, true); }
CASE("cuBLASLt", "matmul/tn/bf16") { return plain<__nv_bfloat16>(BF16, shape, seed, true, false); }
CASE("cuBLASLt", "matmul/tt/bf16") { return plain<__nv_bfloat16>(BF16, shape, seed, true, true); }
CASE("cuBLASLt", "matmul/warps/f16") { return plain<__half>(F16, shape, seed); }
CASE("cuBLASLt", "matmul/nn/f32") { return plain<float>(F32, shape, seed); }
CASE("cuBLASLt", "matmul/three-tf32/f32") { return plain<float>(F32, shape, seed); }
CASE("cuBLASLt", "matmul/tf32/f32") { return plain<float>(TF32, shape, seed); }
CASE("cuBLASLt", "matmul/tf32-nt/f32") { return plain<float>(TF32, shape, seed, false, true); }
CASE("cuBLASLt", "matmul/nn/f64") { return plain<double>(F64, shape, seed); }
// Sums are promoted: the attribute for sums of few bits is off unless it is set.
CASE("cuBLASLt", "matmul/fp8-nt/E4m3") {
    auto a = normals<__nv_fp8_e4m3>(shape[0] * shape[2], seed), b = normals<__nv_fp8_e4m3>(shape[2] * shape[1], seed + 1);
    return product<__nv_fp8_e4m3, __nv_bfloat16>(E4M3, shape, false, true, a, b, nullptr, 1);
}
CASE("cuBLASLt", "matmul/fp8-blocks-nt/E4m3") {
    size_t m = shape[0], n = shape[1], k = shape[2];
    auto a = normals<__nv_fp8_e4m3>(m * k, seed), b = normals<__nv_fp8_e4m3>(k * n, seed + 1);
    const float* scales[] = {normals<float>(m * (k / 128), seed + 2), normals<float>((n + 127) / 128 * (k / 128), seed + 3)};
    return product<__nv_fp8_e4m3, __nv_bfloat16>(E4M3, shape, false, true, a, b, nullptr, 1, scales);
}
CASE("cuBLASLt", "matmul/nt/i8") {
    auto a = random<int8_t>(shape[0] * shape[2], seed), b = random<int8_t>(shape[2] * shape[1], seed + 1);
    return product<int8_t, int32_t>(I8, shape, false, true, a, b, nullptr, 1);
}
CASE("cuBLASLt", "matmul/batched/bf16") {
    Shape sizes{shape[1], shape[2], shape[3]};
    auto a = normals<__nv_bfloat16>(shape[0] * sizes[0] * sizes[2], seed), b = normals<__nv_bfloat16>(shape[0] * sizes[2] * sizes[1], seed + 1);
    return product<__nv_bfloat16, __nv_bfloat16>(BF16, sizes, false, false, a, b, nullptr, shape[0]);
}

int main() { return serve(); }
