// A program that uses the driver itself, with its own memory, streams and graphs, beside the library. For a GPU; in the tests, the emulated
// driver as a shared library stands in for NVIDIA's. The argument is the binary logarithm of how many words are sorted.
#define _DEFAULT_SOURCE
#include <dlfcn.h>

#include "check.h"

typedef unsigned long long address;

#define DRIVER(name, ...)                                          \
    do {                                                           \
        int (*function_)() = (int (*)())dlsym(driver, #name);      \
        CHECK(function_ != NULL, "libcuda has no " #name);         \
        int code_ = function_(__VA_ARGS__);                        \
        CHECK(code_ == 0, #name " returned %d", code_);            \
    } while (0)

static void *driver;

// Sorts n words on the program's own stream, between its own asynchronous copies, round after round, and never waits in between.
static void test_order(struct CUstream_st *own, int n, int rounds) {
    address x, y;
    uint32_t *host, *back;
    OK(ferrowarp_create(&handle, 0, own));
    DRIVER(cuMemAlloc_v2, &x, (size_t)4 * n);
    DRIVER(cuMemAlloc_v2, &y, (size_t)4 * n);
    DRIVER(cuMemHostAlloc, (void **)&host, (size_t)4 * n * rounds, 0u);
    DRIVER(cuMemHostAlloc, (void **)&back, (size_t)4 * n * rounds, 0u);
    for (int i = 0; i < n * rounds; i++)
        host[i] = (uint32_t)next();
    for (int r = 0; r < rounds; r++) {
        DRIVER(cuMemcpyHtoDAsync_v2, x, (void *)(host + r * n), (size_t)4 * n, own);
        OK(ferrowarp_sort(handle, FERROWARP_TYPE_U32, FERROWARP_ORDER_ASCENDING, (void *)x, (void *)y, n));
        DRIVER(cuMemcpyDtoHAsync_v2, (void *)(back + r * n), y, (size_t)4 * n, own);
    }
    DRIVER(cuStreamSynchronize, own);
    for (int r = 0; r < rounds; r++) {
        uint64_t sum = 0, expected = 0;
        for (int i = 0; i < n; i++) {
            sum += back[r * n + i], expected += host[r * n + i];
            CHECK(i == 0 || back[r * n + i - 1] <= back[r * n + i], "round %d is not sorted at %d", r, i);
        }
        CHECK(sum == expected, "round %d has other words", r);
    }
    DRIVER(cuMemFree_v2, x);
    DRIVER(cuMemFree_v2, y);
    DRIVER(cuMemFreeHost, (void *)host);
    DRIVER(cuMemFreeHost, (void *)back);
    OK(ferrowarp_destroy(handle));
}

// Memory of the driver's pool, freed in the order of the stream.
static void test_pool(struct CUstream_st *own, int n) {
    address x;
    uint64_t count = 0;
    OK(ferrowarp_create(&handle, 0, own));
    DRIVER(cuMemAllocAsync, &x, (size_t)4 * n + 8, own);
    DRIVER(cuMemsetD32Async, x, 7u, (size_t)n, own);
    OK(ferrowarp_reduce(handle, FERROWARP_TYPE_U32, FERROWARP_OPERATOR_SUM, (void *)x, n, (void *)(x + 4 * (address)n)));
    DRIVER(cuMemcpyDtoHAsync_v2, (void *)&count, x + 4 * (address)n, (size_t)4, own);
    DRIVER(cuMemFreeAsync, x, own);
    DRIVER(cuStreamSynchronize, own);
    CHECK(count == 7u * (uint64_t)n, "a sum of %llu", (unsigned long long)count);
    OK(ferrowarp_destroy(handle));
}

static void test_foreign_context(int device) {
    void *before, *now;
    struct CUstream_st *own;
    DRIVER(cuCtxGetCurrent, &before);
    void *other;
    DRIVER(cuCtxCreate_v2, &other, 0u, device);
    DRIVER(cuStreamCreate, (void **)&own, 1u);
    ferrowarp_status status = ferrowarp_create(&handle, device, own);
    CHECK(status == FERROWARP_STATUS_INVALID_STREAM, "status %d: %s", (int)status, ferrowarp_last_error());
    DRIVER(cuCtxGetCurrent, &now);
    CHECK(now == other, "the call has changed the current context");
    DRIVER(cuCtxDestroy_v2, other);
    DRIVER(cuCtxSetCurrent, before);
}

// A sort, a scan and a softmax as a graph, run again and again on new data.
static void test_capture(struct CUstream_st *own) {
    enum { N = 100000, COLUMNS = 1000 };
    void *graph, *run;
    address x, sorted, sums, rows;
    uint32_t *host = malloc(4 * N), *back = malloc(4 * N);
    OK(ferrowarp_create(&handle, 0, own));
    DRIVER(cuMemAlloc_v2, &x, (size_t)4 * N);
    DRIVER(cuMemAlloc_v2, &sorted, (size_t)4 * N);
    DRIVER(cuMemAlloc_v2, &sums, (size_t)4 * N);
    DRIVER(cuMemAlloc_v2, &rows, (size_t)4 * N);
    for (int captured = 0; captured < 2; captured++) {
        // Once without a capture: kernels are loaded at their first launch.
        if (captured)
            DRIVER(cuStreamBeginCapture_v2, own, 2);
        else
            DRIVER(cuMemsetD32Async, x, 0u, (size_t)N, own);
        OK(ferrowarp_sort(handle, FERROWARP_TYPE_U32, FERROWARP_ORDER_ASCENDING, (void *)x, (void *)sorted, N));
        OK(ferrowarp_scan(handle, FERROWARP_TYPE_U32, FERROWARP_OPERATOR_SUM, false, (void *)sorted, (void *)sums, N));
        OK(ferrowarp_softmax(handle, FERROWARP_TYPE_F32, false, (void *)x, (void *)rows, N / COLUMNS, COLUMNS));
        if (captured)
            DRIVER(cuStreamEndCapture, own, &graph);
    }
    DRIVER(cuGraphInstantiateWithFlags, &run, graph, 0ull);
    for (int round = 0; round < 3; round++) {
        uint32_t sum = 0;
        float value;
        for (int i = 0; i < N; i++)
            value = (float)below(1000) / 500, memcpy(host + i, &value, 4);
        DRIVER(cuMemcpyHtoDAsync_v2, x, (void *)host, (size_t)4 * N, own);
        // Work of the handle beside the graph's runs, which has scratch memory of its own.
        DRIVER(cuGraphLaunch, run, own);
        OK(ferrowarp_sort(handle, FERROWARP_TYPE_U32, FERROWARP_ORDER_ASCENDING, (void *)x, (void *)sorted, N));
        DRIVER(cuGraphLaunch, run, own);
        DRIVER(cuStreamSynchronize, own);
        DRIVER(cuMemcpyDtoH_v2, (void *)back, sorted, (size_t)4 * N);
        for (int i = 1; i < N; i++)
            CHECK(back[i - 1] <= back[i], "round %d is not sorted at %d", round, i);
        for (int i = 0; i < N; i++)
            sum += back[i];
        DRIVER(cuMemcpyDtoH_v2, (void *)&value, sums + 4 * (N - 1), (size_t)4);
        CHECK(memcmp(&value, &sum, 4) == 0, "the sum of round %d", round);
        DRIVER(cuMemcpyDtoH_v2, (void *)back, rows, (size_t)4 * N);
        for (int r = 0; r < N / COLUMNS; r++) {
            double total = 0;
            for (int c = 0; c < COLUMNS; c++)
                memcpy(&value, back + r * COLUMNS + c, 4), total += value;
            // Each of the values is off by less than 2^-17 of itself.
            CHECK(fabs(total - 1) < ldexp(1, -17), "row %d adds up to %g", r, total);
        }
    }
    DRIVER(cuGraphExecDestroy, run);
    DRIVER(cuGraphDestroy, graph);
    DRIVER(cuMemFree_v2, x);
    DRIVER(cuMemFree_v2, sorted);
    DRIVER(cuMemFree_v2, sums);
    DRIVER(cuMemFree_v2, rows);
    OK(ferrowarp_destroy(handle));
    free(host), free(back);
}

int main(int argc, char **argv) {
    int bits = argc > 1 ? atoi(argv[1]) : 20;
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    CHECK(driver != NULL, "%s", dlerror());
    int device = 0;
    void *context;
    struct CUstream_st *own;
    DRIVER(cuInit, 0u);
    // The library takes this driver, and not the emulator that it carries.
    setenv("FERROWARP_DEVICE", "cuda", 1);
    DRIVER(cuDevicePrimaryCtxRetain, &context, device);
    DRIVER(cuCtxSetCurrent, context);
    DRIVER(cuStreamCreate, (void **)&own, 1u);
    bool emulated = true;
    OK(ferrowarp_create(&handle, device, own));
    OK(ferrowarp_is_emulated(handle, &emulated));
    CHECK(!emulated, "this is the emulator");
    OK(ferrowarp_destroy(handle));
    test_order(own, 1 << bits, 20);
    test_order(NULL, 1 << bits, 20);
    test_pool(own, 100000);
    test_foreign_context(device);
    test_capture(own);
    DRIVER(cuStreamDestroy_v2, own);
    DRIVER(cuDevicePrimaryCtxRelease_v2, device);
    printf("beside libcuda: right, in %d checks\n", checks);
    return 0;
}
