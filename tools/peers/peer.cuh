// What the peers in CUDA C++ share: random data, timing, and the lines of JSON in which `ferrowarp bench` asks.
//
// A peer is a program that registers cases and calls `serve()`:
//
//     CASE("CUB", "reduce/sum/f32") {
//         size_t n = shape[0];
//         auto x = random<float>(n, seed);
//         auto out = poisoned<float>(1);
//         ...
//         return rig([=] { OK(cub::DeviceReduce::Sum(...)); }, out);
//     }
//     int main() { return serve(); }
//
// CUB's header comes before this one, whose `serve` then tells its version.
// A case is called once for each copy of the data and returns what runs on it: one function, or several named variants
// of the same call, all of which are measured, and the fastest of which is what the benchmark quotes. All memory that it takes with
// `random`, `poisoned`, `bytes` or `upload` is given back when the case is over. Work goes to the stream `queue`.
#pragma once
#include <cctype>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace peer {

inline void ok(cudaError_t error, const char* call) {
    if (error != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}
#define OK(...) ::peer::ok((__VA_ARGS__), #__VA_ARGS__)

inline cudaStream_t queue = nullptr;

// ---- memory of the case that is being prepared or run ----

inline std::vector<void*> memory;

template <class T>
T* bytes(size_t size) {
    void* address = nullptr;
    OK(cudaMalloc(&address, size ? size : 1));
    memory.push_back(address);
    return static_cast<T*>(address);
}

// `n` elements whose bytes are all 0xff.
template <class T>
T* poisoned(size_t n) {
    T* address = bytes<T>(n * sizeof(T));
    OK(cudaMemset(address, 0xff, n * sizeof(T)));
    return address;
}

template <class T>
T* upload(const std::vector<T>& values) {
    T* address = bytes<T>(values.size() * sizeof(T));
    OK(cudaMemcpy(address, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return address;
}

template <class T>
std::vector<T> download(const T* address, size_t n) {
    std::vector<T> values(n);
    OK(cudaMemcpy(values.data(), address, n * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
}

// ---- random data: integers over their whole range, floats in -0.5..0.5, halves with magnitudes in 0.25..0.5 ----

__host__ __device__ inline uint32_t hash(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

__host__ __device__ inline uint32_t bits(uint32_t seed, uint64_t place) {
    return hash(uint32_t(place) ^ hash(uint32_t(place >> 32) ^ hash(seed)));
}

__host__ __device__ inline uint64_t long_bits(uint32_t seed, uint64_t i) {
    return uint64_t(bits(seed, 2 * i + 1)) << 32 | bits(seed, 2 * i);
}

template <class T>
struct Value {  // integers
    __host__ __device__ static T at(uint32_t seed, uint64_t i) {
        if (sizeof(T) == 8) return T(long_bits(seed, i));
        constexpr uint64_t per_word = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
        return T(bits(seed, i / per_word) >> (8 * sizeof(T) * (i % per_word)) % 32);
    }
};
template <>
struct Value<float> {
    __host__ __device__ static float at(uint32_t seed, uint64_t i) {
        return float(bits(seed, i) >> 8) / 16777216.0f - 0.5f;
    }
};
template <>
struct Value<double> {
    __host__ __device__ static double at(uint32_t seed, uint64_t i) {
        return double(long_bits(seed, i) >> 11) / 9007199254740992.0 - 0.5;
    }
};
template <>
struct Value<__half> {
    __host__ __device__ static __half at(uint32_t seed, uint64_t i) {
        __half_raw raw;
        raw.x = (Value<uint16_t>::at(seed, i) & 0x83ff) | 0x3400;
        return raw;
    }
};
template <>
struct Value<__nv_bfloat16> {
    __host__ __device__ static __nv_bfloat16 at(uint32_t seed, uint64_t i) {
        __nv_bfloat16_raw raw;
        raw.x = (Value<uint16_t>::at(seed, i) & 0x807f) | 0x3e80;
        return raw;
    }
};

template <class T, class F>
__global__ void fill_kernel(T* out, size_t n, F value) {
    size_t step = size_t(gridDim.x) * blockDim.x;
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) out[i] = value(i);
}

// `n` elements that `value(i)`, a device lambda, gives.
template <class T, class F>
T* generate(size_t n, F value) {
    T* out = bytes<T>(n * sizeof(T));
    fill_kernel<<<2048, 256>>>(out, n, value);
    OK(cudaGetLastError());
    return out;
}

template <class T>
struct RandomValue {
    uint32_t seed;
    __device__ T operator()(size_t i) const { return Value<T>::at(seed, i); }
};

// `n` random elements: those that the host side of the benchmark makes of this seed.
template <class T>
T* random(size_t n, uint32_t seed) {
    return generate<T>(n, RandomValue<T>{seed});
}

// Nearly normal: the sum of four even numbers of 16 bits, with mean 0 and variance 1. The host side makes the same.
__host__ __device__ inline float normal(uint32_t seed, uint64_t i) {
    uint32_t a = bits(seed, i), b = bits(~seed, i);
    int32_t sum = int32_t((a & 0xffff) + (a >> 16) + (b & 0xffff) + (b >> 16));
    return float(sum - 131070) * 2.6429e-5f;
}

struct Below {
    uint32_t seed, limit;
    __host__ __device__ uint32_t operator()(size_t i) const { return uint64_t(bits(seed, i)) * limit >> 32; }
};

// `n` random integers below `limit`: those that the host side of the benchmark makes of this seed.
inline uint32_t* random_below(size_t n, uint32_t seed, uint32_t limit) { return generate<uint32_t>(n, Below{seed, limit}); }

// ---- a case ----

// One of the ways to make the same call.
struct Variant {
    std::string name;
    std::function<void()> run;
};

struct Rig {
    std::vector<Variant> variants;
    // Empty, or what is wrong with the result.
    std::function<std::string()> check;
};

// Whether no run has written the front, the middle or the end of `n` poisoned elements.
template <class T>
std::string still_poisoned(const T* out, size_t n) {
    for (size_t i : {size_t(0), n / 2, n - 1}) {
        T value = download(out + i, 1)[0];
        unsigned char poison[sizeof(T)];
        std::memset(poison, 0xff, sizeof(T));
        if (std::memcmp(&value, poison, sizeof(T)) == 0) return "element " + std::to_string(i) + " was not written";
    }
    return "";
}

inline Rig rig(std::vector<Variant> variants, std::function<std::string()> check) { return {variants, check}; }
inline Rig rig(std::function<void()> run, std::function<std::string()> check) { return {{{"", run}}, check}; }

// A run whose result is checked only for having been written: `n` elements at `out`, poisoned before, none of which
// is all ones in a right result.
template <class T>
Rig rig(std::vector<Variant> variants, const T* out, size_t n = 1) {
    return {variants, [=] { return still_poisoned(out, n); }};
}
template <class T>
Rig rig(std::function<void()> run, const T* out, size_t n = 1) {
    return rig(std::vector<Variant>{{"", run}}, out, n);
}

// A call like those of CUB, `call(scratch, scratch_bytes)`, which says how much scratch it wants where that is null.
template <class Call>
std::function<void()> with_scratch(Call call) {
    size_t scratch_bytes = 0;
    OK(call(nullptr, scratch_bytes));
    auto scratch = bytes<char>(scratch_bytes);
    return [=]() mutable { OK(call(scratch, scratch_bytes)); };
}

// `call(n)` with `n` items counted in an `int` and in a `size_t`: CUB compiles different code for each, and which is the
// faster depends on the algorithm, the type and the length.
template <class Call>
std::vector<Variant> counted(size_t n, Call call) {
    std::vector<Variant> variants;
    if (n <= INT_MAX) variants.push_back({"int", [=] { OK(call(int(n))); }});
    variants.push_back({"size_t", [=] { OK(call(n)); }});
    return variants;
}

// The same for `call(scratch, scratch_bytes, n)`.
template <class Call>
std::vector<Variant> counted_with_scratch(size_t n, Call call) {
    auto with = [=](auto count) {
        return with_scratch([=](void* scratch, size_t& scratch_bytes) { return call(scratch, scratch_bytes, count); });
    };
    std::vector<Variant> variants;
    if (n <= INT_MAX) variants.push_back({"int", with(int(n))});
    variants.push_back({"size_t", with(n)});
    return variants;
}

using Shape = std::vector<size_t>;
using SetUp = std::function<Rig(const Shape& shape, uint32_t seed)>;
struct Case { std::string peer, name; SetUp set_up; };
inline std::vector<Case>& cases() { static std::vector<Case> all; return all; }

struct Registration {
    Registration(const char* peer, const char* name, SetUp set_up) { cases().push_back({peer, name, set_up}); }
};

#define PEER_JOIN2(a, b) a##b
#define PEER_JOIN(a, b) PEER_JOIN2(a, b)
#define PEER_CASE(id, peer_name, case_name)                                                              \
    static ::peer::Rig PEER_JOIN(set_up_, id)(const ::peer::Shape& shape, uint32_t seed);                \
    static ::peer::Registration PEER_JOIN(registration_, id)(peer_name, case_name, PEER_JOIN(set_up_, id)); \
    static ::peer::Rig PEER_JOIN(set_up_, id)([[maybe_unused]] const ::peer::Shape& shape, [[maybe_unused]] uint32_t seed)
// CASE("CUB", "reduce/sum/f32") { ... return rig(...); }, with `shape` and `seed` in scope.
#define CASE(peer_name, case_name) PEER_CASE(__COUNTER__, peer_name, case_name)

// ---- timing ----

static __global__ void hold_kernel(uint64_t nanoseconds) {
    uint64_t start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        __nanosleep(500);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}

struct Ready {
    std::vector<Rig> rigs;
    size_t done = 0;
    // How long the host takes to queue a run of each variant.
    std::vector<uint64_t> queue_ns;

    void next(size_t variant) { rigs[done++ % rigs.size()].variants.at(variant).run(); }

    // Runs each variant on each copy once, and finds out how long the host takes to queue a run.
    void warm_up() {
        for (size_t variant = 0; variant < rigs[0].variants.size(); variant++) {
            for (size_t i = 0; i < rigs.size(); i++) next(variant);
            OK(cudaDeviceSynchronize());
            using namespace std::chrono;
            auto start = steady_clock::now();
            for (int i = 0; i < 10; i++) next(variant);
            queue_ns.push_back(duration_cast<nanoseconds>(steady_clock::now() - start).count() / 10);
            OK(cudaDeviceSynchronize());
        }
    }

    // Milliseconds of one run, of `runs` between two events; the device waits until they are queued.
    float sample(cudaEvent_t begin, cudaEvent_t end, size_t variant, size_t runs) {
        uint64_t wait = queue_ns.at(variant) * runs * 3 / 2 + 20000;
        hold_kernel<<<1, 1, 0, queue>>>(wait < 20000000 ? wait : 20000000);
        OK(cudaEventRecord(begin, queue));
        for (size_t i = 0; i < runs; i++) next(variant);
        OK(cudaEventRecord(end, queue));
        OK(cudaEventSynchronize(end));
        OK(cudaGetLastError());
        float ms = 0;
        OK(cudaEventElapsedTime(&ms, begin, end));
        return ms / float(runs);
    }

    std::string check() {
        size_t last = (done < rigs.size() ? done : rigs.size()) - 1;
        std::string wrong = rigs[0].check();
        return wrong.empty() ? rigs[last].check() : wrong;
    }
};

// ---- the lines of JSON ----

inline std::string text_of(const std::string& line, const std::string& key) {
    size_t at = line.find("\"" + key + "\":\"");
    if (at == std::string::npos) return "";
    at += key.size() + 4;
    return line.substr(at, line.find('"', at) - at);
}

inline std::vector<size_t> numbers_of(const std::string& line, const std::string& key) {
    std::vector<size_t> numbers;
    size_t at = line.find("\"" + key + "\":");
    if (at == std::string::npos) return numbers;
    const char* p = line.c_str() + at + key.size() + 3;
    if (*p == '[') p++;
    while (std::isdigit(static_cast<unsigned char>(*p))) {
        char* end;
        numbers.push_back(std::strtoull(p, &end, 10));
        p = *end == ',' ? end + 1 : end;
    }
    return numbers;
}

inline std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out + "\"";
}

class Server {
    std::map<std::string, Ready> ready;
    std::vector<std::string> versions;
    cudaEvent_t begin, end;

public:
    explicit Server(std::vector<std::string> versions) : versions(std::move(versions)) {
        OK(cudaEventCreate(&begin));
        OK(cudaEventCreate(&end));
    }

    std::string answer(const std::string& line) {
        std::string verb = text_of(line, "do"), peer = text_of(line, "peer");
        if (verb == "list") return list();
        if (verb == "prepare") return prepare(line, peer);
        if (verb == "release") return release();
        auto known = ready.find(peer);
        if (known == ready.end()) throw std::runtime_error("nothing is prepared for " + peer);
        if (verb == "run") {
            size_t variant = numbers_of(line, "variant").at(0), runs = numbers_of(line, "runs").at(0);
            return run(known->second, variant, numbers_of(line, "rounds").at(0), runs);
        }
        if (verb == "check") {
            std::string wrong = known->second.check();
            return wrong.empty() ? "{}" : "{\"wrong\": " + quoted(wrong) + "}";
        }
        throw std::runtime_error("unknown request: " + line);
    }

private:
    std::string list() {
        std::string out = "{\"cases\": [";
        for (size_t i = 0; i < cases().size(); i++)
            out += std::string(i ? ", [" : "[") + quoted(cases()[i].peer) + ", " + quoted(cases()[i].name) + "]";
        out += "], \"versions\": [";
        for (size_t i = 0; i < versions.size(); i++) out += (i ? ", " : "") + quoted(versions[i]);
        return out + "]}";
    }

    std::string prepare(const std::string& line, const std::string& peer) {
        std::string name = text_of(line, "case");
        for (const Case& known : cases()) {
            if (known.peer != peer || known.name != name) continue;
            Ready made;
            Shape shape = numbers_of(line, "shape");
            size_t copies = numbers_of(line, "copies").at(0);
            for (size_t copy = 0; copy < copies; copy++) made.rigs.push_back(known.set_up(shape, uint32_t(1 + copy)));
            OK(cudaDeviceSynchronize());
            made.warm_up();
            std::string names;
            for (const Variant& variant : made.rigs[0].variants) names += (names.empty() ? "" : ", ") + quoted(variant.name);
            ready[peer] = std::move(made);
            return "{\"variants\": [" + names + "]}";
        }
        throw std::runtime_error("no case " + name + " of " + peer);
    }

    std::string run(Ready& one, size_t variant, size_t rounds, size_t runs) {
        std::string out = "{\"ms\": [";
        for (size_t i = 0; i < rounds; i++) {
            char text[40];
            std::snprintf(text, sizeof text, "%s%.7g", i ? ", " : "", one.sample(begin, end, variant, runs));
            out += text;
        }
        return out + "]}";
    }

    std::string release() {
        ready.clear();
        for (void* address : memory) OK(cudaFree(address));
        memory.clear();
        return "{}";
    }
};

// Answers requests until there are no more.
inline int serve() {
    int runtime = 0, driver = 0;
    std::vector<std::string> versions;
#ifdef CUB_VERSION
    auto part = [](int number) { return std::to_string(number); };
    versions.push_back("CUB " + part(CUB_MAJOR_VERSION) + "." + part(CUB_MINOR_VERSION) + "." + part(CUB_SUBMINOR_VERSION));
#endif
    try {
        OK(cudaRuntimeGetVersion(&runtime));
        OK(cudaDriverGetVersion(&driver));
        OK(cudaStreamCreateWithFlags(&queue, cudaStreamNonBlocking));
        auto two = [](int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); };
        versions.push_back("CUDA runtime " + two(runtime) + ", driver's CUDA " + two(driver));
        Server server(versions);
        for (std::string line; std::getline(std::cin, line);) {
            std::string reply;
            try {
                reply = server.answer(line);
            } catch (const std::exception& error) {
                reply = "{\"error\": " + quoted(error.what()) + "}";
                // A device that faulted says so to every later call: the process is of no more use.
                if (cudaDeviceSynchronize() != cudaSuccess) {
                    std::cout << reply << std::endl;
                    return 1;
                }
                cudaGetLastError();
            }
            std::cout << reply << std::endl;
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}

}  // namespace peer
