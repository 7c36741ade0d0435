// The peers of the transposes: the textbook's, by a tile of 32 rows of 33 elements in shared memory.
#include "peer.cuh"
using namespace peer;

template <class T>
__global__ void tiled(const T* x, T* out, int width, int height) {
    __shared__ T tile[32][33];
    size_t left = blockIdx.x * size_t(32), top = blockIdx.y * size_t(32);
    size_t column = left + threadIdx.x;
    for (int k = 0; k < 32; k += 8) {
        size_t row = top + threadIdx.y + k;
        if (column < width && row < height) tile[threadIdx.y + k][threadIdx.x] = x[row * width + column];
    }
    __syncthreads();
    column = top + threadIdx.x;
    for (int k = 0; k < 32; k += 8) {
        size_t row = left + threadIdx.y + k;
        if (column < height && row < width) out[row * height + column] = tile[threadIdx.x][threadIdx.y + k];
    }
}

template <class T>
Rig textbook(const Shape& shape, uint32_t seed) {
    size_t height = shape[0], width = shape[1], n = width * height;
    auto x = random<T>(n, seed);
    auto out = poisoned<T>(n);
    dim3 grid((width + 31) / 32, (height + 31) / 32);
    auto run = [=] {
        tiled<T><<<grid, dim3(32, 8), 0, queue>>>(x, out, int(width), int(height));
        OK(cudaGetLastError());
    };
    auto check = [=] {
        for (size_t i : {size_t(0), n / 3, n - 1}) {
            T expected = Value<T>::at(seed, i % height * width + i / height);
            if (download(out + i, 1)[0] != expected) return "element " + std::to_string(i) + " is another one";
        }
        return std::string();
    };
    return rig(run, check);
}

CASE("textbook", "transpose/square/f32") { return textbook<float>(shape, seed); }
CASE("textbook", "transpose/square/u8") { return textbook<uint8_t>(shape, seed); }
CASE("textbook", "transpose/square/u16") { return textbook<uint16_t>(shape, seed); }
CASE("textbook", "transpose/square/u64") { return textbook<uint64_t>(shape, seed); }
CASE("textbook", "transpose/rectangular/f32") { return textbook<float>(shape, seed); }
CASE("textbook", "transpose/ragged/f32") { return textbook<float>(shape, seed); }

int main() { return serve(); }
