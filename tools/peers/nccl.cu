// NCCL by itself: the collectives of `ferrowarp dist bench`, called from C++ as nccl-tests calls them.
//
//     nvcc -O3 -o nccl tools/peers/nccl.cu -lnccl && ./nccl 2 [MOST MIB]
//
// One process a device, as under a launcher: the ranks are forked before any of them starts CUDA, and the first sends the
// identity through pipes. A row is the median over the rounds of the time of one call, between two events on the stream around
// as many calls; the slower rank of each round counts. Sizes are those of the larger buffer, in bytes, of f32.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

static void check(cudaError_t code, const char* call) {
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
    exit(1);
}

static void check(ncclResult_t code, const char* call) {
    if (code == ncclSuccess) return;
    fprintf(stderr, "%s: %s\n", call, ncclGetErrorString(code));
    exit(1);
}

#define CHECK(call) check(call, #call)

constexpr int ROUNDS = 9;
size_t most_bytes = size_t(1) << 30;

// Calls of a round: many of small messages, few of large ones.
static int calls(size_t bytes) { return bytes <= (1 << 20) ? 100 : bytes <= (64 << 20) ? 20 : 5; }

struct Rank {
    int rank, ranks;
    ncclComm_t comm;
    cudaStream_t stream;
    cudaEvent_t begin, end;
    float *from, *to, *longest;

    // The time of one call in microseconds: the median over the rounds of the slowest rank's.
    double time(size_t bytes, const std::function<void()>& call) {
        for (int i = 0; i < 5; ++i) call();
        CHECK(cudaStreamSynchronize(stream));
        std::vector<double> all;
        for (int round = 0; round < ROUNDS; ++round) {
            align();
            CHECK(cudaEventRecord(begin, stream));
            for (int i = 0; i < calls(bytes); ++i) call();
            CHECK(cudaEventRecord(end, stream));
            CHECK(cudaStreamSynchronize(stream));
            float passed_ms;
            CHECK(cudaEventElapsedTime(&passed_ms, begin, end));
            all.push_back(slowest(1e3 * passed_ms / calls(bytes)));
        }
        std::sort(all.begin(), all.end());
        return all[ROUNDS / 2];
    }

    // All ranks come here before one goes on.
    void align() { slowest(0); }

    double slowest(double own) {
        float value = float(own);
        CHECK(cudaMemcpyAsync(longest, &value, sizeof value, cudaMemcpyHostToDevice, stream));
        CHECK(ncclAllReduce(longest, longest, 1, ncclFloat, ncclMax, comm, stream));
        CHECK(cudaMemcpyAsync(&value, longest, sizeof value, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        return value;
    }

    void row(const char* name, size_t bytes, const std::function<void()>& call) {
        double us = time(bytes, call);
        if (rank == 0) printf("%-16s %12zu %12.2f\n", name, bytes, us);
    }

    void run() {
        for (size_t bytes = 1 << 10; bytes <= most_bytes; bytes *= 4) {
            size_t n = bytes / sizeof(float), share = n / ranks;
            row("all-reduce", bytes, [&] { CHECK(ncclAllReduce(from, to, n, ncclFloat, ncclSum, comm, stream)); });
            row("reduce-scatter", bytes, [&] { CHECK(ncclReduceScatter(from, to, share, ncclFloat, ncclSum, comm, stream)); });
            row("all-gather", bytes, [&] { CHECK(ncclAllGather(from, to, share, ncclFloat, comm, stream)); });
            row("broadcast", bytes, [&] { CHECK(ncclBroadcast(to, to, n, ncclFloat, 0, comm, stream)); });
            row("all-to-all", bytes, [&] {
                CHECK(ncclGroupStart());
                for (int peer = 0; peer < ranks; ++peer) {
                    CHECK(ncclSend(from + peer * share, share, ncclFloat, peer, comm, stream));
                    CHECK(ncclRecv(to + peer * share, share, ncclFloat, peer, comm, stream));
                }
                CHECK(ncclGroupEnd());
            });
        }
    }
};

static void run(int rank, int ranks, ncclUniqueId id) {
    Rank own{rank, ranks};
    CHECK(cudaSetDevice(rank));
    CHECK(ncclCommInitRank(&own.comm, ranks, id, rank));
    CHECK(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&own.begin));
    CHECK(cudaEventCreate(&own.end));
    CHECK(cudaMalloc(&own.from, most_bytes));
    CHECK(cudaMalloc(&own.to, most_bytes));
    CHECK(cudaMalloc(&own.longest, sizeof(float)));
    CHECK(cudaMemset(own.from, 0, most_bytes));
    if (rank == 0) {
        int version;
        CHECK(ncclGetVersion(&version));
        printf("NCCL %d on %d devices\n%-16s %12s %12s\n", version, ranks, "collective", "bytes", "us");
    }
    own.run();
    CHECK(ncclCommDestroy(own.comm));
}

int main(int count, char** args) {
    int ranks = count > 1 ? atoi(args[1]) : 2;
    if (count > 2) most_bytes = size_t(atoll(args[2])) << 20;
    std::vector<int> to;
    for (int rank = 1; rank < ranks; ++rank) {
        int ends[2];
        if (pipe(ends) != 0) return perror("pipe"), 1;
        if (fork() == 0) {
            ncclUniqueId id;
            if (read(ends[0], &id, sizeof id) != sizeof id) return perror("read"), 1;
            return run(rank, ranks, id), 0;
        }
        to.push_back(ends[1]);
    }
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id));
    for (int end : to)
        if (write(end, &id, sizeof id) != sizeof id) return perror("write"), 1;
    run(0, ranks, id);
    int failed = 0;
    for (int rank = 1, status; rank < ranks; ++rank) {
        wait(&status);
        failed |= status;
    }
    return failed != 0;
}
