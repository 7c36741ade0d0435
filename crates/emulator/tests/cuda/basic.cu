// Maps, tiles and stencils: the kernels of a first course.

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

// A grid-stride loop.
extern "C" __global__ void saxpy(float a, const float* __restrict__ x, float* __restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = fmaf(a, x[i], y[i]);
}

// 16-byte accesses for the bulk, scalar ones for the ragged end.
extern "C" __global__ void scale_vec4(const float4* x, float4* y, float s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int whole = n / 4;
    if (i < whole) {
        float4 v = x[i];
        y[i] = make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
    }
    if (i < n % 4) {
        const float* tail = reinterpret_cast<const float*>(x + whole);
        reinterpret_cast<float*>(y + whole)[i] = tail[i] * s;
    }
}

// c = a b for square matrices, in tiles of 16 x 16.
extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
    __shared__ float ta[16][16], tb[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        int ka = k + threadIdx.x, kb = k + threadIdx.y;
        ta[threadIdx.y][threadIdx.x] = row < n && ka < n ? a[row * n + ka] : 0;
        tb[threadIdx.y][threadIdx.x] = kb < n && col < n ? b[kb * n + col] : 0;
        __syncthreads();
#pragma unroll
        for (int j = 0; j < 16; ++j) sum = fmaf(ta[threadIdx.y][j], tb[j][threadIdx.x], sum);
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}

// Through a padded tile of shared memory, 32 x 8 threads.
template <typename T>
__device__ void transpose(const T* in, T* out, int width, int height) {
    __shared__ T tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        int y = blockIdx.y * 32 + j;
        if (x < width && y < height) tile[j][threadIdx.x] = in[y * width + x];
    }
    __syncthreads();
    int tx = blockIdx.y * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        int ty = blockIdx.x * 32 + j;
        if (tx < height && ty < width) out[ty * height + tx] = tile[threadIdx.x][j];
    }
}

extern "C" __global__ void transpose_f32(const float* in, float* out, int w, int h) { transpose(in, out, w, h); }
extern "C" __global__ void transpose_u8(const unsigned char* in, unsigned char* out, int w, int h) { transpose(in, out, w, h); }

// Five points of a periodic plane.
extern "C" __global__ void stencil_2d(const float* in, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int left = (x + w - 1) % w, right = (x + 1) % w, up = (y + h - 1) % h, down = (y + 1) % h;
    out[y * w + x] = 0.25f * (in[y * w + left] + in[y * w + right] + in[up * w + x] + in[down * w + x]);
}

// Seven points; the column of z is kept in registers.
extern "C" __global__ void stencil_3d(const double* in, double* out, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    size_t plane = (size_t)nx * ny, at = (size_t)y * nx + x;
    double below = in[at], here = in[at + plane];
    for (int z = 1; z < nz - 1; ++z) {
        size_t i = at + z * plane;
        double above = in[i + plane];
        out[i] = (in[i - 1] + in[i + 1]) + (in[i - nx] + in[i + nx]) + (below + above) - 6.0 * here;
        below = here;
        here = above;
    }
}

// The weights are in constant memory.
__constant__ float weights[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
__constant__ int taps[3] = {-1, 0, 1};

extern "C" __global__ void convolve(const float* in, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 3; ++i) {
            int sx = min(max(x + taps[i], 0), w - 1), sy = min(max(y + taps[j], 0), h - 1);
            sum = fmaf(weights[j * 3 + i], in[sy * w + sx], sum);
        }
    out[y * w + x] = sum / 16;
}

// Escape times.
extern "C" __global__ void mandelbrot(unsigned* out, int w, int h, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    double cr = -2.0 + 3.0 * x / w, ci = -1.5 + 3.0 * y / h, zr = 0, zi = 0;
    int n = 0;
    while (n < limit && __dadd_rn(__dmul_rn(zr, zr), __dmul_rn(zi, zi)) <= 4.0) {
        double t = __dadd_rn(__dsub_rn(__dmul_rn(zr, zr), __dmul_rn(zi, zi)), cr);
        zi = __dadd_rn(__dmul_rn(2.0 * zr, zi), ci);
        zr = t;
        ++n;
    }
    out[y * w + x] = n;
}

// One step of gravity; tiles of bodies in dynamic shared memory.
extern "C" __global__ void nbody(const float4* bodies, float4* forces, int n) {
    extern __shared__ float4 tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 own = i < n ? bodies[i] : make_float4(0, 0, 0, 0);
    float3 force = make_float3(0, 0, 0);
    for (int start = 0; start < n; start += blockDim.x) {
        int j = start + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < blockDim.x; ++k) {
            float4 other = tile[k];
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float d2 = dx * dx + dy * dy + dz * dz + 1e-2f;
            float inverse = rsqrtf(d2);
            float s = other.w * inverse * inverse * inverse;
            force.x += dx * s;
            force.y += dy * s;
            force.z += dz * s;
        }
        __syncthreads();
    }
    if (i < n) forces[i] = make_float4(force.x, force.y, force.z, 0);
}
