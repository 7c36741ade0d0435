// The peers of the histograms: CUB's.
#include <cub/cub.cuh>
#include <cmath>
#include "peer.cuh"
using namespace peer;

// Whether the counts of `bins` bins are those of `n` samples.
static std::function<std::string()> counts_of(const unsigned* counts, size_t bins, size_t n) {
    return [=] {
        size_t sum = 0;
        for (unsigned count : download(counts, bins)) sum += count;
        return sum == n ? std::string() : "the counts' sum is " + std::to_string(sum);
    };
}

template <class T, class L>
Rig even(const T* x, size_t n, int bins, L lower, L upper) {
    auto counts = poisoned<unsigned>(bins);
    auto count = [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceHistogram::HistogramEven(scratch, size, x, counts, bins + 1, lower, upper, n, queue);
    };
    return rig(counted_with_scratch(n, count), counts_of(counts, bins, n));
}

static Rig range(const float* x, size_t n, const std::vector<float>& all) {
    int levels = int(all.size());
    auto level = upload(all);
    auto counts = poisoned<unsigned>(levels - 1);
    auto count = [=](void* scratch, size_t& size, auto n) {
        return cub::DeviceHistogram::HistogramRange(scratch, size, x, counts, levels, level, n, queue);
    };
    return rig(counted_with_scratch(n, count), counts_of(counts, levels - 1, n));
}

static std::vector<float> levels(float (*level)(int)) {
    std::vector<float> all;
    for (int k = 0; k <= 256; k++) all.push_back(level(k));
    return all;
}

CASE("CUB", "histogram/even/u8") { return even(random<uint8_t>(shape[0], seed), shape[0], 256, 0, 256); }
CASE("CUB", "histogram/even/u16") { return even(random<uint16_t>(shape[0], seed), shape[0], 1000, 0, 65536); }
CASE("CUB", "histogram/even/u32") {
    return even(random<uint32_t>(shape[0], seed), shape[0], 5000, uint64_t(0), uint64_t(1) << 32);
}
CASE("CUB", "histogram/even/f32") { return even(random<float>(shape[0], seed), shape[0], 256, -0.5f, 0.5f); }
CASE("CUB", "histogram/given/u32") { return even(random_below(shape[0], seed, 2000), shape[0], 2000, 0u, 2000u); }
CASE("CUB", "histogram/same/u8") {
    uint8_t* x = generate<uint8_t>(shape[0], [] __device__(size_t) { return uint8_t(0); });
    return even(x, shape[0], 256, 0, 256);
}
CASE("CUB", "histogram/range/f32") {
    auto all = levels([](int k) { return (float(k) + (k % 2 ? 0.3f : 0.0f)) / 256.0f - 0.5f; });
    return range(random<float>(shape[0], seed), shape[0], all);
}
CASE("CUB", "histogram/range-squares/f32") {
    auto all = levels([](int k) { return (float(k) / 256.0f) * (float(k) / 256.0f) - 0.5f; });
    return range(random<float>(shape[0], seed), shape[0], all);
}

int main() { return serve(); }
