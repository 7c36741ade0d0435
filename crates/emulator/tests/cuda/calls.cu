// Functions: recursion, pointers, virtual calls, switches, values in memory.

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

// Each thread recurses to a depth of its own.
extern "C" __global__ void recursion(unsigned* out) { out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x / 3); }

__device__ __noinline__ void quick_sort(int* a, int low, int high) {
    if (low >= high) return;
    int pivot = a[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (a[i] < pivot) ++i;
        while (a[j] > pivot) --j;
        if (i <= j) {
            int t = a[i];
            a[i++] = a[j];
            a[j--] = t;
        }
    }
    quick_sort(a, low, j);
    quick_sort(a, i, high);
}

// A sort of an array in local memory.
extern "C" __global__ void sort_local(const int* in, int* out) {
    int own[24];
    for (int i = 0; i < 24; ++i) own[i] = in[threadIdx.x * 24 + i];
    quick_sort(own, 0, 23);
    for (int i = 0; i < 24; ++i) out[threadIdx.x * 24 + i] = own[i];
}

__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ __noinline__ float square(float x) { return x * x; }
__device__ __noinline__ float negate(float x) { return -x; }
typedef float (*Function)(float);
__device__ Function table[3] = {twice, square, negate};

// Pointers to functions, in a table and in a parameter of a function.
__device__ __noinline__ float apply(Function f, float x) { return f(f(x)); }
extern "C" __global__ void function_pointers(const float* in, float* out, const int* which) {
    int i = threadIdx.x;
    out[i] = apply(table[which[i]], in[i]) + table[(which[i] + 1) % 3](in[i]);
}

struct Shape {
    __device__ virtual float area() const = 0;
    __device__ virtual const char* name() const { return "shape"; }
    __device__ virtual ~Shape() {}
};
struct Box : Shape {
    float w, h;
    __device__ Box(float w, float h) : w(w), h(h) {}
    __device__ float area() const override { return w * h; }
    __device__ const char* name() const override { return "box"; }
};
struct Disc : Shape {
    float r;
    __device__ explicit Disc(float r) : r(r) {}
    __device__ float area() const override { return 3.0f * r * r; }
};

// Objects in local memory, called through their base.
extern "C" __global__ void virtual_calls(float* areas, char* initials) {
    Box box(threadIdx.x, 2);
    Disc disc(threadIdx.x);
    Shape* shape = threadIdx.x % 3 == 0 ? static_cast<Shape*>(&box) : &disc;
    areas[threadIdx.x] = shape->area();
    initials[threadIdx.x] = shape->name()[1];
}

// A jump through a table.
extern "C" __global__ void switch_table(const int* in, long long* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = in[i];
    long long r = i;
    switch (x) {
        case 0: r += 17; break;
        case 1: r *= 3; break;
        case 2: r ^= 0x55; break;
        case 3: r -= 1000;
        case 4: r <<= 3; break;
        case 5: r = ~r; break;
        case 6: r = r * r; break;
        case 7: r = -r; break;
        case 8: r %= 7; break;
        default: r = -1;
    }
    out[i] = r;
}

struct Particle {
    double position[3];
    float mass;
    short kind;
    char tag;
};
struct Moved {
    Particle particle;
    int steps;
};

__device__ __noinline__ Moved move(Particle p, double dt) {
    for (double& x : p.position) x += dt * p.mass;
    p.tag += 1;
    return {p, p.kind * 2};
}

// Structures as parameters, by value and as results.
extern "C" __global__ void structures(Particle first, Particle* out, int* steps) {
    Particle p = first;
    p.kind = threadIdx.x;
    Moved m = move(p, 0.5 * threadIdx.x);
    out[threadIdx.x] = m.particle;
    steps[threadIdx.x] = m.steps;
}

// An array in local memory with indices known at run time.
extern "C" __global__ void local_arrays(const unsigned char* text, unsigned* counts, int n) {
    unsigned short own[26];
    for (int i = 0; i < 26; ++i) own[i] = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (text[i] >= 'a' && text[i] <= 'z') ++own[text[i] - 'a'];
    for (int i = 0; i < 26; ++i) counts[threadIdx.x * 26 + i] = own[i];
}

// Memory of a size known at run time, on the stack.
__device__ __noinline__ int on_the_stack(int n) {
    int* squares = static_cast<int*>(__builtin_alloca(n * sizeof(int)));
    for (int i = 0; i < n; ++i) squares[i] = i * i;
    int sum = 0;
    for (int i = n - 1; i >= 0; --i) sum = sum * 3 + squares[i];
    return sum;
}
extern "C" __global__ void stack_memory(int* out) { out[threadIdx.x] = on_the_stack(threadIdx.x % 9) + on_the_stack(5); }

template <int N>
struct Power {
    static __device__ float of(float x) { return x * Power<N - 1>::of(x); }
};
template <>
struct Power<0> {
    static __device__ float of(float) { return 1; }
};
template <typename F>
__device__ float map_sum(F f, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += f(i);
    return sum;
}

// Templates and closures.
extern "C" __global__ void templates(float* out) {
    float t = threadIdx.x;
    out[threadIdx.x] = Power<5>::of(t) + map_sum([=](int i) { return i * t; }, 10);
}
