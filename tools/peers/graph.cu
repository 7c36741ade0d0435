// The peer of `benches/graphs.rs`, in CUDA C++: the same small kernel, launched one by one and as a graph.
//
// Usage: graph NODES ROUNDS. Prints a JSON line a case: {"name", "us": [one a round, for a launch or a node]}.
#include <cassert>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define CHECK(call)                                                                    \
    do {                                                                               \
        cudaError_t error = (call);                                                    \
        if (error != cudaSuccess) {                                                    \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));        \
            std::exit(1);                                                              \
        }                                                                              \
    } while (0)

constexpr int N = 256;

__global__ void saxpy(float alpha, const float* x, size_t, float* y, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) y[i] += alpha * x[i];
}

__global__ void copy(const float* x, size_t n, float* y, size_t m) {
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
        if (i < m) y[i] = x[i];
}

__global__ void empty() {}

__global__ void slices_unused(const float*, size_t, float*, size_t) {}

__global__ void asserts(float alpha, const float* x, size_t m, float* y, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) {
        assert(i < m);
        y[i] += alpha * x[i];
    }
}

static double now_us() {
    using namespace std::chrono;
    return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}

// `run` gives the time of one round, of which `per` are counted.
template <class Run>
void measure(const char* name, int rounds, double per, Run run) {
    for (int i = 0; i < 3; i++) run();
    std::printf("{\"name\": \"%s\", \"us\": [", name);
    for (int i = 0; i < rounds; i++) std::printf("%s%.6f", i ? ", " : "", run() / per);
    std::printf("]}\n");
}

int main(int argc, char** argv) {
    int nodes = argc > 1 ? std::atoi(argv[1]) : 1000;
    int rounds = argc > 2 ? std::atoi(argv[2]) : 50;
    constexpr int CHAINS = 4;
    float *x, *y[CHAINS];
    CHECK(cudaMalloc(&x, N * sizeof(float)));
    CHECK(cudaMemset(x, 0, N * sizeof(float)));
    for (auto& one : y) {
        CHECK(cudaMalloc(&one, N * sizeof(float)));
        CHECK(cudaMemset(one, 0, N * sizeof(float)));
    }
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaDeviceSynchronize());

    auto launches = [&] {
        for (int i = 0; i < nodes; i++) saxpy<<<1, N, 0, stream>>>(0.5f, x, N, y[0], N);
        CHECK(cudaGetLastError());
    };
    measure("launch: host", rounds, nodes, [&] {
        double start = now_us();
        launches();
        double end = now_us();
        CHECK(cudaStreamSynchronize(stream));
        return end - start;
    });
    measure("launch: whole", rounds, nodes, [&] {
        double start = now_us();
        launches();
        CHECK(cudaStreamSynchronize(stream));
        return now_us() - start;
    });

    float alpha = 0.5f;
    size_t n = N;
    auto build = [&](int chains, std::vector<cudaGraphNode_t>& handles, cudaGraph_t& graph) {
        CHECK(cudaGraphCreate(&graph, 0));
        for (int i = 0; i < nodes; i++) {
            void* args[] = {&alpha, &x, &n, &y[i % chains], &n};
            cudaKernelNodeParams params = {};
            params.func = reinterpret_cast<void*>(saxpy);
            params.gridDim = dim3(1);
            params.blockDim = dim3(N);
            params.kernelParams = args;
            cudaGraphNode_t node;
            const cudaGraphNode_t* before = i < chains ? nullptr : &handles[i - chains];
            CHECK(cudaGraphAddKernelNode(&node, graph, before, i < chains ? 0 : 1, &params));
            handles.push_back(node);
        }
        cudaGraphExec_t exec;
        CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
        return exec;
    };
    std::vector<cudaGraphNode_t> handles, others;
    cudaGraph_t graph, wide;
    cudaGraphExec_t chain = build(1, handles, graph);
    cudaGraphExec_t chains = build(CHAINS, others, wide);
    auto replay = [&](cudaGraphExec_t exec) {
        return [&, exec] {
            double start = now_us();
            CHECK(cudaGraphLaunch(exec, stream));
            CHECK(cudaStreamSynchronize(stream));
            return now_us() - start;
        };
    };
    measure("graph: chain", rounds, nodes, replay(chain));
    auto row = [&](auto* kernel, void** args) {
        cudaGraph_t graph;
        CHECK(cudaGraphCreate(&graph, 0));
        cudaGraphNode_t last = nullptr;
        for (int i = 0; i < nodes; i++) {
            cudaKernelNodeParams params = {};
            params.func = reinterpret_cast<void*>(kernel);
            params.gridDim = dim3(1);
            params.blockDim = dim3(N);
            params.kernelParams = args;
            cudaGraphNode_t node;
            CHECK(cudaGraphAddKernelNode(&node, graph, &last, i == 0 ? 0 : 1, &params));
            last = node;
        }
        cudaGraphExec_t exec;
        CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
        return exec;
    };
    void* slices[] = {&x, &n, &y[0], &n};
    void* scaled[] = {&alpha, &x, &n, &y[0], &n};
    measure("graph: empty", rounds, nodes, replay(row(empty, nullptr)));
    measure("graph: slices unused", rounds, nodes, replay(row(slices_unused, slices)));
    measure("graph: saxpy alone", rounds, nodes, replay(row(saxpy, scaled)));
    measure("graph: copy alone", rounds, nodes, replay(row(copy, slices)));
    measure("graph: copies", rounds, nodes, replay(row(copy, slices)));
    measure("graph: asserts", rounds, nodes, replay(row(asserts, scaled)));
    measure("graph: 4 chains", rounds, nodes, replay(chains));
    measure("graph: set parameter", rounds, nodes, [&] {
        double start = now_us();
        alpha += 1.0f;
        for (int i = 0; i < nodes; i++) {
            void* args[] = {&alpha, &x, &n, &y[0], &n};
            cudaKernelNodeParams params = {};
            params.func = reinterpret_cast<void*>(saxpy);
            params.gridDim = dim3(1);
            params.blockDim = dim3(N);
            params.kernelParams = args;
            CHECK(cudaGraphExecKernelNodeSetParams(chain, handles[i], &params));
        }
        double end = now_us();
        CHECK(cudaGraphLaunch(chain, stream));
        CHECK(cudaStreamSynchronize(stream));
        return end - start;
    });
    measure("graph: build", rounds < 10 ? rounds : 10, nodes, [&] {
        double start = now_us();
        std::vector<cudaGraphNode_t> fresh;
        cudaGraph_t graph;
        cudaGraphExec_t exec = build(1, fresh, graph);
        double end = now_us();
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        return end - start;
    });

    // From here on every node takes longer, whatever it runs.
    cudaStream_t second;
    CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    for (int i = 0; i < 1000; i++) saxpy<<<1, N, 0, second>>>(0.5f, x, N, y[0], N);
    CHECK(cudaStreamSynchronize(second));
    measure("graph: empty, two streams", rounds, nodes, replay(row(empty, nullptr)));
    measure("graph: slices unused, two streams", rounds, nodes, replay(row(slices_unused, slices)));
    measure("graph: saxpy alone, two streams", rounds, nodes, replay(row(saxpy, scaled)));
    measure("graph: copy alone, two streams", rounds, nodes, replay(row(copy, slices)));
    measure("graph: chain, two streams", rounds, nodes, replay(chain));
    measure("graph: copies, two streams", rounds, nodes, replay(row(copy, slices)));
    measure("graph: asserts, two streams", rounds, nodes, replay(row(asserts, scaled)));
    return 0;
}
