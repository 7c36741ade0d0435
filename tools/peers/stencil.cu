// The peers of the stencils: the textbook's, a thread a cell. Several steps are as many launches.
#include "peer.cuh"
using namespace peer;

template <class T>
__global__ void volume(const T* x, T* out, int width, int height, int depth, T centre, T side) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    int plane = blockIdx.z;
    if (column >= width || row >= height) return;
    size_t area = size_t(width) * height, i = plane * area + size_t(row) * width + column;
    bool edge = column == 0 || row == 0 || plane == 0 || column == width - 1 || row == height - 1 || plane == depth - 1;
    out[i] = edge ? x[i]
                  : centre * x[i] + side * (x[i - 1] + x[i + 1]) + side * (x[i - width] + x[i + width]) +
                        side * (x[i - area] + x[i + area]);
}

// The textbook's faster one: columns through the planes, with three planes in registers.
template <class T>
__global__ void streamed(const T* x, T* out, int width, int height, int depth, T centre, T side) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    int begin = blockIdx.z * 64, end = min(depth, begin + 64);
    size_t area = size_t(width) * height, i = begin * area + size_t(row) * width + column;
    bool rim = column == 0 || row == 0 || column == width - 1 || row == height - 1;
    T before = begin > 0 ? x[i - area] : T(0), here = x[i];
    for (int plane = begin; plane < end; plane++, i += area) {
        T behind = plane + 1 < depth ? x[i + area] : T(0);
        bool edge = rim || plane == 0 || plane == depth - 1;
        out[i] = edge ? here
                      : centre * here + side * (x[i - 1] + x[i + 1]) + side * (x[i - width] + x[i + width]) +
                            side * (before + behind);
        before = here;
        here = behind;
    }
}

__global__ void plane(const float* x, float* out, int width, int height, float centre, float side) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column >= width || row >= height) return;
    size_t i = size_t(row) * width + column;
    bool edge = column == 0 || row == 0 || column == width - 1 || row == height - 1;
    out[i] = edge ? x[i] : centre * x[i] + side * (x[i - 1] + x[i + 1]) + side * (x[i - width] + x[i + width]);
}

template <class T>
Rig volumes(const Shape& shape, uint32_t seed, int steps, bool streams) {
    int depth = int(shape[0]), height = int(shape[1]), width = int(shape[2]);
    size_t n = shape[0] * shape[1] * shape[2];
    auto x = random<T>(n, seed);
    auto out = poisoned<T>(n);
    auto between = steps > 1 ? poisoned<T>(n) : out;
    dim3 block(64, 4), grid((width + 63) / 64, (height + 3) / 4, streams ? (depth + 63) / 64 : depth);
    auto step = [=](const T* from, T* to) {
        if (streams) streamed<T><<<grid, block, 0, queue>>>(from, to, width, height, depth, T(0.25), T(0.125));
        else volume<T><<<grid, block, 0, queue>>>(from, to, width, height, depth, T(0.25), T(0.125));
        OK(cudaGetLastError());
    };
    auto run = [=] {
        if (steps == 1) return step(x, out);
        step(x, between);
        step(between, out);
    };
    return rig(run, out, n);
}

static Rig planes(const Shape& shape, uint32_t seed, int steps) {
    int height = int(shape[0]), width = int(shape[1]);
    size_t n = shape[0] * shape[1];
    auto x = random<float>(n, seed);
    float* buffers[2] = {poisoned<float>(n), poisoned<float>(n)};
    dim3 block(64, 4), grid((width + 63) / 64, (height + 3) / 4);
    float *a = buffers[0], *b = buffers[1];
    auto run = [=] {
        for (int step = 0; step < steps; step++) {
            // The last step's result is in `a`.
            bool to_a = (steps - step) % 2 == 1;
            const float* from = step == 0 ? x : to_a ? b : a;
            plane<<<grid, block, 0, queue>>>(from, to_a ? a : b, width, height, 0.2f, 0.2f);
            OK(cudaGetLastError());
        }
    };
    return rig(run, a, n);
}

CASE("textbook", "stencil/volume/f32") { return volumes<float>(shape, seed, 1, false); }
CASE("textbook", "stencil/volume/f64") { return volumes<double>(shape, seed, 1, false); }
CASE("textbook", "stencil/volume-twice/f32") { return volumes<float>(shape, seed, 2, false); }
CASE("textbook, streamed", "stencil/volume/f32") { return volumes<float>(shape, seed, 1, true); }
CASE("textbook, streamed", "stencil/volume-twice/f32") { return volumes<float>(shape, seed, 2, true); }
CASE("textbook", "stencil/plane/f32") { return planes(shape, seed, 1); }
CASE("textbook", "stencil/plane-twice/f32") { return planes(shape, seed, 2); }
CASE("textbook", "stencil/plane-four-times/f32") { return planes(shape, seed, 4); }

int main() { return serve(); }
