// What is refused, by which status and with which message.
#include "check.h"

#define REFUSED(expected, text, call)                                                                             \
    do {                                                                                                          \
        ferrowarp_status found_ = (call);                                                                         \
        CHECK(found_ == (expected), "status %d in place of %d: %s", (int)found_, (int)(expected), ferrowarp_last_error()); \
        CHECK(strstr(ferrowarp_last_error(), text) != NULL, "the message lacks \"%s\": %s", text, ferrowarp_last_error()); \
    } while (0)

enum { N = 64 };

static const ferrowarp_type F32 = FERROWARP_TYPE_F32;
static const ferrowarp_order ASCENDING = FERROWARP_ORDER_ASCENDING;

static float *x, *y;
static uint32_t *words;
static uint64_t *count;
static uint8_t *flags;

static void test_handles(void) {
    ferrowarp_handle *none = NULL;
    bool emulated;
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "ferrowarp_create: `handle` is null", ferrowarp_create(NULL, 0, NULL));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`device` is -1", ferrowarp_create(&none, -1, NULL));
    REFUSED(FERROWARP_STATUS_DRIVER, "", ferrowarp_create(&none, 1000, NULL));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "cudaStreamPerThread", ferrowarp_create(&none, 0, (struct CUstream_st *)2));
    CHECK(none == NULL, "a refused call has written the handle");
    OK(ferrowarp_create(&none, 0, (struct CUstream_st *)1));
    OK(ferrowarp_destroy(none));
    none = NULL;
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`handle` is null", ferrowarp_sort(NULL, F32, ASCENDING, x, y, N));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`handle` is null", ferrowarp_synchronize(NULL));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`handle` is null", ferrowarp_load_kernels(NULL));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`handle` is null", ferrowarp_is_emulated(NULL, &emulated));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`emulated` is null", ferrowarp_is_emulated(handle, NULL));
    OK(ferrowarp_destroy(NULL));
    OK(ferrowarp_csr_destroy(NULL));
    // Only the emulator's driver looks whether a stream exists.
    OK(ferrowarp_is_emulated(handle, &emulated));
    if (emulated) {
        struct CUstream_st *wrong = (struct CUstream_st *)&none;
        REFUSED(FERROWARP_STATUS_INVALID_STREAM, "primary one of device 0", ferrowarp_create(&none, 0, wrong));
    }
}

static void test_memory(void) {
    void *pointer = NULL;
    char byte = 0;
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`pointer` is null", ferrowarp_malloc(handle, NULL, 4));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`bytes` is -4", ferrowarp_malloc(handle, &pointer, -4));
    REFUSED(FERROWARP_STATUS_OUT_OF_MEMORY, "1152921504606846976 bytes", ferrowarp_malloc(handle, &pointer, (int64_t)1 << 60));
    REFUSED(FERROWARP_STATUS_DRIVER, "cuMemFree", ferrowarp_free(handle, x + 1));
    OK(ferrowarp_free(handle, NULL));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`device` is null", ferrowarp_copy_to_device(handle, NULL, &byte, 1));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`host` is null", ferrowarp_copy_to_host(handle, NULL, x, 1));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`bytes` is -1", ferrowarp_copy_to_host(handle, &byte, x, -1));
}

static void test_pointers(void) {
    float host[N] = {0};
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "ferrowarp_sort: `keys` is null", ferrowarp_sort(handle, F32, ASCENDING, NULL, y, N));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`out` is null", ferrowarp_sort(handle, F32, ASCENDING, x, NULL, N));
    REFUSED(FERROWARP_STATUS_NOT_DEVICE_MEMORY, "byte 0 of `keys`", ferrowarp_sort(handle, F32, ASCENDING, host, y, N));
    REFUSED(FERROWARP_STATUS_NOT_DEVICE_MEMORY, "of `out`", ferrowarp_softmax(handle, F32, false, x, host, 1, N));
    REFUSED(FERROWARP_STATUS_NOT_DEVICE_MEMORY, "byte 1099511627775 of `keys`",
            ferrowarp_sort(handle, F32, ASCENDING, x, y, (int64_t)1 << 38));
    void *odd = (char *)x + 2;
    REFUSED(FERROWARP_STATUS_MISALIGNED, "`keys`", ferrowarp_sort(handle, F32, ASCENDING, odd, y, N / 2));
    REFUSED(FERROWARP_STATUS_MISALIGNED, "not a multiple of 8 bytes",
            ferrowarp_unique(handle, F32, x, N, y, (uint64_t *)((char *)count + 4)));
    REFUSED(FERROWARP_STATUS_OVERLAP, "`out` and `keys`", ferrowarp_sort(handle, F32, ASCENDING, x, x + 1, N / 2));
    REFUSED(FERROWARP_STATUS_OVERLAP, "`out` and `x`", ferrowarp_softmax(handle, F32, false, x, x, 1, N));
    REFUSED(FERROWARP_STATUS_OVERLAP, "`indices` and `out`",
            ferrowarp_top_k(handle, F32, ASCENDING, x, N, 4, y, (uint32_t *)y));
    // Two arrays that are only read may be one.
    OK(ferrowarp_layer_norm(handle, F32, x, x, NULL, NULL, 1e-5f, y, 1, N));
}

static void test_lengths(void) {
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`n` is -1", ferrowarp_sort(handle, F32, ASCENDING, x, y, -1));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`keys` are more than can be addressed",
            ferrowarp_sort(handle, F32, ASCENDING, x, y, INT64_MAX));
    REFUSED(FERROWARP_STATUS_NOT_DEVICE_MEMORY, "byte 9223372036854775806 of `keys`",
            ferrowarp_sort(handle, FERROWARP_TYPE_U8, ASCENDING, x, y, INT64_MAX));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`rows` is -2", ferrowarp_softmax(handle, F32, false, x, y, -2, 4));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "more than can be addressed",
            ferrowarp_softmax(handle, F32, false, x, y, (int64_t)1 << 40, (int64_t)1 << 40));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`k` is 65, and there are 64 elements",
            ferrowarp_top_k(handle, F32, ASCENDING, x, N, N + 1, y, words));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`k` is -1", ferrowarp_top_k(handle, F32, ASCENDING, x, N, -1, y, words));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`offsets` are more than can be addressed",
            ferrowarp_segmented_reduce(handle, F32, FERROWARP_OPERATOR_SUM, x, N, count, INT64_MAX, y));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`batches` is -1",
            ferrowarp_transpose(handle, F32, x, y, 8, 8, -1));
}

static void test_values(void) {
    const double levels[] = {3, 2, 1};
    REFUSED(FERROWARP_STATUS_INVALID_TYPE, "`type` is 12, which is not a `ferrowarp_type`",
            ferrowarp_sort(handle, (ferrowarp_type)12, ASCENDING, x, y, N));
    REFUSED(FERROWARP_STATUS_INVALID_TYPE, "`value_type` is 2147483647",
            ferrowarp_sort_pairs(handle, F32, (ferrowarp_type)2147483647, ASCENDING, x, x, y, words, N));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`order` is 2, which is not a `ferrowarp_order`",
            ferrowarp_sort(handle, F32, (ferrowarp_order)2, x, y, N));
    REFUSED(FERROWARP_STATUS_INVALID_TYPE, "ferrowarp_softmax takes elements of f32, f16, bf16, and these are i32",
            ferrowarp_softmax(handle, FERROWARP_TYPE_I32, false, x, y, 1, N));
    REFUSED(FERROWARP_STATUS_INVALID_TYPE, "and these are u16", ferrowarp_unique(handle, FERROWARP_TYPE_U16, x, N, y, count));
    REFUSED(FERROWARP_STATUS_INVALID_TYPE, "and these are f16",
            ferrowarp_reduce(handle, FERROWARP_TYPE_F16, FERROWARP_OPERATOR_PRODUCT, x, N, y));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`operator` is 6",
            ferrowarp_reduce(handle, F32, (ferrowarp_operator)6, x, N, y));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`operator` has to be",
            ferrowarp_scan(handle, F32, FERROWARP_OPERATOR_PRODUCT, false, x, y, N));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`operator` has to be",
            ferrowarp_segmented_reduce(handle, F32, FERROWARP_OPERATOR_ARGMAX, x, N, count, 0, y));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "there has to be a bin",
            ferrowarp_histogram(handle, F32, x, N, 0, 1, 0, words));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "upper level", ferrowarp_histogram(handle, F32, x, N, 1, 0, 4, words));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`low` is 0.5",
            ferrowarp_histogram(handle, FERROWARP_TYPE_U8, flags, N, 0.5, 8, 4, words));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`high` is -1",
            ferrowarp_histogram(handle, FERROWARP_TYPE_U32, words, N, 0, -1, 4, words + 8));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`levels` is null",
            ferrowarp_histogram_ranges(handle, F32, x, N, NULL, 2, words));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "ascending",
            ferrowarp_histogram_ranges(handle, F32, x, N, levels, 2, words));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "from 5 to below 5",
            ferrowarp_random_integers(handle, FERROWARP_TYPE_U32, words, N, 5, 5, 0, 0));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "of the elements' type",
            ferrowarp_random_integers(handle, FERROWARP_TYPE_U32, words, N, 0, (uint64_t)1 << 33, 0, 0));
}

static void test_matrices(void) {
    const ferrowarp_matrix four = {4, 4, 4, 1, 0, FERROWARP_MATRIX_ORDER_ROW_MAJOR};
    ferrowarp_matrix other = {5, 4, 4, 1, 0, FERROWARP_MATRIX_ORDER_ROW_MAJOR};
    const ferrowarp_precision exact = FERROWARP_PRECISION_DEFAULT;
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "", ferrowarp_matmul(handle, F32, exact, 1, x, &four, x, &other, 0, y, &four));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`b_shape` is null",
            ferrowarp_matmul(handle, F32, exact, 1, x, &four, x, NULL, 0, y, &four));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`precision` is for f32",
            ferrowarp_matmul(handle, FERROWARP_TYPE_F16, FERROWARP_PRECISION_TF32, 1, x, &four, x, &four, 0, y, &four));
    REFUSED(FERROWARP_STATUS_OVERLAP, "`d` and `a`", ferrowarp_matmul(handle, F32, exact, 1, x, &four, x, &four, 0, x + 8, &four));
    other = four, other.leading = 3;
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "leading dimension of 3",
            ferrowarp_matmul(handle, F32, exact, 1, x, &other, x, &four, 0, y, &four));
    other = four, other.order = (ferrowarp_matrix_order)7;
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`a_shape` is 7, which is not a `ferrowarp_matrix_order`",
            ferrowarp_matmul(handle, F32, exact, 1, x, &other, x, &four, 0, y, &four));
    other = four, other.rows = -4;
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`a_shape` is -4",
            ferrowarp_matmul(handle, F32, exact, 1, x, &other, x, &four, 0, y, &four));
    other = four, other.leading = INT64_MAX;
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`a` are more than can be addressed",
            ferrowarp_matmul(handle, F32, exact, 1, x, &other, x, &four, 0, y, &four));

    ferrowarp_csr *matrix = NULL;
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`matrix` is null", ferrowarp_spmv(handle, NULL, x, y));
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`matrix` is null",
            ferrowarp_csr_create(handle, F32, 1, 1, 0, words, words, x, NULL));
    REFUSED(FERROWARP_STATUS_MISALIGNED, "not a multiple of 256 bytes",
            ferrowarp_csr_create(handle, F32, 1, 1, 0, words + 1, words, x, &matrix));
    REFUSED(FERROWARP_STATUS_INVALID_TYPE, "f32, f64", ferrowarp_csr_create(handle, FERROWARP_TYPE_F16, 1, 1, 0, words, words, x, &matrix));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`entries` is -1", ferrowarp_csr_create(handle, F32, 1, 1, -1, words, words, x, &matrix));
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`offsets` are more",
            ferrowarp_csr_create(handle, F32, INT64_MAX, 1, 0, words, words, x, &matrix));
    CHECK(matrix == NULL, "a refused call has written the matrix");
}

static void test_heads(void) {
    const ferrowarp_type half = FERROWARP_TYPE_F16;
    const ferrowarp_heads one = {1, 1, 4, 8, 32, 32, 8};
    ferrowarp_heads other = one;
    REFUSED(FERROWARP_STATUS_NULL_POINTER, "`k_shape` is null",
            ferrowarp_attention(handle, half, x, &one, x, NULL, x, &one, false, -1, 0, y, &one));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "set `is_causal`",
            ferrowarp_attention(handle, half, x, &one, x, &one, x, &one, false, 3, 0, y, &one));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "`window` is 4294967296",
            ferrowarp_attention(handle, half, x, &one, x, &one, x, &one, true, (int64_t)1 << 32, 0, y, &one));
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "", ferrowarp_attention(handle, half, x, &one, x, &one, x, &one, false, -1, -1.0f, y, &one));
    other.depth = 4;
    REFUSED(FERROWARP_STATUS_INVALID_VALUE, "", ferrowarp_attention(handle, half, x, &one, x, &other, x, &one, false, -1, 0, y, &one));
    other = one, other.row_stride = INT64_MAX;
    REFUSED(FERROWARP_STATUS_INVALID_LENGTH, "`q_shape` are more than can be addressed",
            ferrowarp_attention(handle, half, x, &other, x, &one, x, &one, false, -1, 0, y, &one));
    REFUSED(FERROWARP_STATUS_INVALID_TYPE, "f16, bf16",
            ferrowarp_attention(handle, F32, x, &one, x, &one, x, &one, false, -1, 0, y, &one));
}

int main(void) {
    CHECK(*ferrowarp_last_error() == 0, "a message before the first error");
    OK(ferrowarp_create(&handle, 0, NULL));
    float ones[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    x = upload(ones, sizeof ones), y = room(sizeof ones), words = room(4 * N), count = room(16), flags = room(N);
    test_handles();
    test_memory();
    test_pointers();
    test_lengths();
    test_values();
    test_matrices();
    test_heads();

    // The handle is as good as before.
    OK(ferrowarp_sort(handle, F32, ASCENDING, x, y, N));
    float *found = download(y, sizeof ones);
    CHECK(memcmp(found, ones, sizeof ones) == 0, "a sort after all errors");
    CHECK(strstr(ferrowarp_last_error(), "ferrowarp_attention") != NULL, "a call that succeeds keeps the message");
    free(found), release(x), release(y), release(words), release(count), release(flags);
    OK(ferrowarp_destroy(handle));
    printf("every error is the right one, in %d checks\n", checks);
    return 0;
}
