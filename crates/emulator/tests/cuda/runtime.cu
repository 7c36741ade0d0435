// What a kernel asks of the system: printing, memory, assertions, clocks.

#include <cassert>
#include <cstdio>

extern "C" __global__ void print_types(int n) {
    if (threadIdx.x == 0) {
        printf("plain\n");
        printf("%d %i %u %x %X %#o|\n", -n, n, 3000000000u, 255, 255, 8);
        printf("%5d|%-5d|%05d|%+d|% d\n", n, n, n, n, n);
        printf("%ld %lld %llu %zu %hd %hhu\n", -1l, -2ll, 18446744073709551615ull, (size_t)7, (short)-3, (unsigned char)200);
        printf("%f %.2f %10.3f %-10.1f| %e %G\n", 1.5, 3.14159, -2.5, 2.25, 12345.678, 0.00001);
        printf("%c%c %s %.3s %8s| %%\n", 'o', 'k', "text", "truncated", "right");
        printf("%*d %-*d| %.*f\n", 6, n, 4, n, 3, 2.0f);
        printf("%p\n", (void*)0x1234);
    }
}

// Every thread prints once; what printf returns is the number of arguments.
extern "C" __global__ void print_all(int* returned) { returned[threadIdx.x] = printf("thread %d\n", threadIdx.x); }

struct Node {
    int value;
    Node* next;
};

// A list on the device's heap, made by one kernel and read by another.
extern "C" __global__ void build_list(Node** head, int n) {
    Node* list = nullptr;
    for (int i = 0; i < n; ++i) {
        Node* node = static_cast<Node*>(malloc(sizeof(Node)));
        node->value = i * i + threadIdx.x;
        node->next = list;
        list = node;
    }
    head[threadIdx.x] = list;
}
extern "C" __global__ void sum_list(Node** head, int* sums) {
    int sum = 0;
    for (Node* node = head[threadIdx.x]; node;) {
        sum += node->value;
        Node* next = node->next;
        free(node);
        node = next;
    }
    sums[threadIdx.x] = sum;
}

// `new` and `delete`; more than the heap holds gives null.
extern "C" __global__ void heap_limits(unsigned long long huge, int* out) {
    double* some = new double[100];
    for (int i = 0; i < 100; ++i) some[i] = i;
    double sum = 0;
    for (int i = 0; i < 100; ++i) sum += some[i];
    delete[] some;
    void* none = malloc(huge);
    free(nullptr);
    out[0] = none == nullptr;
    out[1] = (int)sum;
}

extern "C" __global__ void heap_overrun(int past) {
    int* p = static_cast<int*>(malloc(16));
    p[past] = 1;
    free(p);
}
extern "C" __global__ void heap_after_free(int* out) {
    int* p = static_cast<int*>(malloc(16));
    p[0] = 3;
    free(p);
    out[0] = *const_cast<volatile int*>(p);
}

extern "C" __global__ void heap_freed_twice() {
    int* p = static_cast<int*>(malloc(16));
    free(p);
    free(p);
}

extern "C" __global__ void check_positive(const int* in) { assert(in[threadIdx.x] > 0); }

// Clocks go forward.
extern "C" __global__ void clocks(unsigned* out) {
    long long before = clock64();
    unsigned long long timer;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(timer));
    __nanosleep(20);
    out[threadIdx.x] = (clock64() > before) + 2 * (timer > 0);
}
