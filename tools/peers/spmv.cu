// The peers of the sparse products: cuSPARSE's, by each of its algorithms for CSR, with and without preprocessing.
// link: -lcusparse
#include "peer.cuh"
#include <algorithm>
#include <cusparse.h>
using namespace peer;

static void sparse_ok(cusparseStatus_t status, const char* call) {
    if (status != CUSPARSE_STATUS_SUCCESS) throw std::runtime_error(std::string(call) + ": " + cusparseGetErrorString(status));
}
#define SPARSE(...) sparse_ok((__VA_ARGS__), #__VA_ARGS__)

static cusparseHandle_t handle() {
    static cusparseHandle_t made = [] {
        cusparseHandle_t handle;
        SPARSE(cusparseCreate(&handle));
        SPARSE(cusparseSetStream(handle, queue));
        return handle;
    }();
    return made;
}

// A square matrix of `rows` rows and two vectors on the device.
struct Product {
    size_t rows, entries;
    int *offsets, *columns;
    float *values, *x, *y;
};

// y = A x by one algorithm. The descriptors live as long as the process, which ends with its family of cases:
// preprocessing keeps what it finds in the matrix's, so that each variant has one of its own.
static std::function<void()> multiplied(const Product& p, cusparseSpMVAlg_t algorithm, bool is_preprocessed) {
    cusparseSpMatDescr_t a;
    cusparseDnVecDescr_t x, y;
    SPARSE(cusparseCreateCsr(&a, p.rows, p.rows, p.entries, p.offsets, p.columns, p.values, CUSPARSE_INDEX_32I,
                             CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    SPARSE(cusparseCreateDnVec(&x, p.rows, p.x, CUDA_R_32F));
    SPARSE(cusparseCreateDnVec(&y, p.rows, p.y, CUDA_R_32F));
    float one = 1, zero = 0;
    size_t size = 0;
    SPARSE(cusparseSpMV_bufferSize(handle(), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, x, &zero, y, CUDA_R_32F, algorithm, &size));
    auto scratch = bytes<char>(size);
#if CUSPARSE_VERSION >= 12300
    if (is_preprocessed)
        SPARSE(cusparseSpMV_preprocess(handle(), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, x, &zero, y, CUDA_R_32F, algorithm, scratch));
#endif
    return [=] {
        float one = 1, zero = 0;
        SPARSE(cusparseSpMV(handle(), CUSPARSE_OPERATION_NON_TRANSPOSE, &one, a, x, &zero, y, CUDA_R_32F, algorithm, scratch));
    };
}

// `column(row, i, len, entry)` is that of the i-th of a row's `len` entries, the `entry`-th of all.
template <class Length, class Column>
static Rig product(size_t rows, uint32_t seed, Length length, Column column) {
    std::vector<int> offsets{0}, columns;
    for (size_t row = 0; row < rows; row++) {
        size_t len = length(row);
        for (size_t i = 0; i < len; i++) columns.push_back(int(column(row, i, len, columns.size())));
        offsets.push_back(int(columns.size()));
    }
    Product p{rows, columns.size(), upload(offsets), upload(columns), random<float>(columns.size(), seed),
              random<float>(rows, seed + 2), poisoned<float>(rows)};
    std::vector<Variant> variants{
        {"ALG1", multiplied(p, CUSPARSE_SPMV_CSR_ALG1, false)},
        {"ALG2", multiplied(p, CUSPARSE_SPMV_CSR_ALG2, false)},
    };
#if CUSPARSE_VERSION >= 12300
    variants.push_back({"ALG1, preprocessed", multiplied(p, CUSPARSE_SPMV_CSR_ALG1, true)});
    variants.push_back({"ALG2, preprocessed", multiplied(p, CUSPARSE_SPMV_CSR_ALG2, true)});
#endif
    return rig(variants, p.y, rows);
}

CASE("cuSPARSE", "spmv/banded/f32") {
    const size_t rows = shape[0], band = 27;
    auto column = [=](size_t row, size_t i, size_t, size_t) {
        return std::min(std::max(row + i, band / 2) - band / 2, rows - 1);
    };
    return product(rows, seed, [=](size_t) { return band; }, column);
}

// The lengths of the rows are those of the first copy of the data for all, as on the host side of the benchmark.
CASE("cuSPARSE", "spmv/skewed/f32") {
    const size_t rows = shape[0], longest = std::min<size_t>(200000, 200 * rows);
    auto length = [=](size_t row) { return std::min<size_t>(rows, longest / (Below{0, 1 << 16}(row) + 1)); };
    // A random column of each of as many equal parts of the row as it has entries: they rise.
    auto column = [=](size_t, size_t i, size_t len, size_t entry) {
        size_t begin = i * rows / len, end = (i + 1) * rows / len;
        return begin + Below{1, uint32_t(end - begin)}(entry);
    };
    return product(rows, seed, length, column);
}

int main() { return serve(); }
