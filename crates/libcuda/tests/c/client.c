/* A plain C program that speaks the CUDA driver API: it links -lcuda, runs four kernels and checks
 * their numbers. Usage: client kernels.ptx
 * It declares the few functions that it calls, so that it needs no CUDA toolkit. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;

CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetName(char *name, int len, CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoad(CUmodule *module, const char *path);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes);
CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t count);
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared_mem_bytes, CUstream stream, void **params, void **extra);
CUresult cuGetErrorName(CUresult code, const char **name);

static void check(CUresult code, const char *call) {
    const char *name = NULL;
    if (code == 0) return;
    cuGetErrorName(code, &name);
    fprintf(stderr, "%s: %d (%s)\n", call, code, name ? name : "?");
    exit(1);
}
#define CHECK(call) check(call, #call)

static void expect(int right, const char *what, unsigned at) {
    if (right) return;
    fprintf(stderr, "%s is wrong at %u\n", what, at);
    exit(1);
}

static CUmodule module;

static CUfunction function(const char *name) {
    CUfunction found;
    CHECK(cuModuleGetFunction(&found, module, name));
    return found;
}

static CUdeviceptr to_device(const void *from, size_t bytes) {
    CUdeviceptr address;
    CHECK(cuMemAlloc_v2(&address, bytes));
    CHECK(cuMemcpyHtoD_v2(address, from, bytes));
    return address;
}

enum { N = 1000, WIDTH = 37, HEIGHT = 23 };

static void map(void) {
    float x[N], y[N], out[N], a = 1.5f;
    unsigned n = N, i;
    for (i = 0; i < N; i++) x[i] = (float)i, y[i] = (float)(N - i);
    CUdeviceptr px = to_device(x, sizeof x), py = to_device(y, sizeof y);
    void *params[] = {&n, &a, &px, &py};
    CHECK(cuLaunchKernel(function("axpy"), (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    CHECK(cuMemcpyDtoH_v2(out, py, sizeof out));
    /* Every number here is exact in a float. */
    for (i = 0; i < N; i++) expect(out[i] == 1.5f * (float)i + (float)(N - i), "the map", i);
    CHECK(cuMemFree_v2(px));
    CHECK(cuMemFree_v2(py));
}

static void reduction(void) {
    enum { BLOCKS = (N + 255) / 256 };
    unsigned x[N], out[BLOCKS], n = N, i, sum = 0;
    for (i = 0; i < N; i++) x[i] = i * i;
    CUdeviceptr px = to_device(x, sizeof x), pout = to_device(out, sizeof out);
    void *params[] = {&n, &px, &pout};
    CHECK(cuLaunchKernel(function("block_sum"), BLOCKS, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    CHECK(cuMemcpyDtoH_v2(out, pout, sizeof out));
    for (i = 0; i < BLOCKS; i++) sum += out[i];
    expect(sum == (unsigned)(N - 1) * N * (2 * N - 1) / 6, "the sum of squares", 0);
    CHECK(cuMemFree_v2(px));
    CHECK(cuMemFree_v2(pout));
}

static void atomics(void) {
    unsigned x[N], bins[16], n = N, i;
    for (i = 0; i < N; i++) x[i] = i * 7;
    CUdeviceptr px = to_device(x, sizeof x), pbins = to_device(bins, sizeof bins);
    CHECK(cuMemsetD32_v2(pbins, 0, 16));
    void *params[] = {&n, &px, &pbins};
    CHECK(cuLaunchKernel(function("histogram"), (N + 63) / 64, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    CHECK(cuMemcpyDtoH_v2(bins, pbins, sizeof bins));
    /* 7 i mod 16 takes every value once in 16 steps; 1000 = 62 * 16 + 8. */
    unsigned left[16] = {0};
    for (i = 0; i < N % 16; i++) left[i * 7 % 16]++;
    for (i = 0; i < 16; i++) expect(bins[i] == N / 16 + left[i], "the histogram", i);
    CHECK(cuMemFree_v2(px));
    CHECK(cuMemFree_v2(pbins));
}

static void stencil(void) {
    static float in[HEIGHT][WIDTH], out[HEIGHT][WIDTH];
    unsigned width = WIDTH, height = HEIGHT, x, y;
    /* Of f(x, y) = x^2 + 3 y^2 the five-point Laplacian is 2 + 6 everywhere. */
    for (y = 0; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++) in[y][x] = (float)(x * x + 3 * y * y);
    CUdeviceptr pin = to_device(in, sizeof in), pout = to_device(out, sizeof out);
    void *params[] = {&width, &height, &pin, &pout};
    CHECK(cuLaunchKernel(function("stencil"), (WIDTH + 7) / 8, (HEIGHT + 7) / 8, 1, 8, 8, 1, 0, NULL,
                         params, NULL));
    CHECK(cuMemcpyDtoH_v2(out, pout, sizeof out));
    for (y = 0; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++) {
            int rim = x == 0 || y == 0 || x == WIDTH - 1 || y == HEIGHT - 1;
            expect(out[y][x] == (rim ? in[y][x] : 8.0f), "the stencil", y * WIDTH + x);
        }
    CHECK(cuMemFree_v2(pin));
    CHECK(cuMemFree_v2(pout));
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    char name[64];
    if (argc != 2) return 2;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuCtxCreate_v2(&context, 0, device));
    CHECK(cuModuleLoad(&module, argv[1]));
    map();
    reduction();
    atomics();
    stencil();
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDestroy_v2(context));
    printf("%s: map, reduction, atomics and stencil are right\n", name);
    return 0;
}
