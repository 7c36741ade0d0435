// Every operation, against plain loops. Runs on the emulator and on a GPU.
#include "check.h"

#define LEN(array) (sizeof(array) / sizeof *(array))

// Sizes that hurt: nothing, one, around a warp and a block, an odd prime.
static const int SIZES[] = {0, 1, 33, 257, 3001};

// A word whose unsigned order is that of the element.
static uint64_t order_of(ferrowarp_type type, const void *x, size_t i) {
    size_t bytes = bytes_of(type);
    uint64_t word = 0;
    memcpy(&word, (const char *)x + i * bytes, bytes);
    uint64_t sign = 1ull << (8 * bytes - 1), all = sign | (sign - 1);
    if (!is_signed(type))
        return word;
    if (is_float(type) && word & sign)
        return ~word & all;
    return word ^ sign;
}

static uint64_t *sorted_by;

static int compare(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (sorted_by[i] != sorted_by[j])
        return sorted_by[i] < sorted_by[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

// The stable order of the elements.
static uint32_t *order(ferrowarp_type type, int descending, const void *x, int n) {
    uint32_t *indices = malloc(4 * n + 1);
    sorted_by = malloc(8 * n + 1);
    for (int i = 0; i < n; i++) {
        indices[i] = i;
        uint64_t word = order_of(type, x, i);
        sorted_by[i] = descending ? ~word : word;
    }
    qsort(indices, n, 4, compare);
    free(sorted_by);
    return indices;
}

static void *gather(const void *x, const uint32_t *indices, int n, size_t bytes) {
    char *out = malloc(n * bytes + 1);
    for (int i = 0; i < n; i++)
        memcpy(out + i * bytes, (const char *)x + indices[i] * bytes, bytes);
    return out;
}

// Elements of any bits, of which some are equal.
static void *any(ferrowarp_type type, int n) {
    size_t bytes = bytes_of(type);
    char *x = malloc(n * bytes + 1);
    for (int i = 0; i < n; i++) {
        uint64_t word = next();
        if (i > 0 && below(4) == 0)
            memcpy(x + i * bytes, x + below(i) * bytes, bytes);
        else
            memcpy(x + i * bytes, &word, bytes);
    }
    return x;
}

static void same(const char *what, const void *device, const void *expected, size_t bytes) {
    void *found = download(device, bytes);
    CHECK(memcmp(found, expected, bytes) == 0, "%s: other bytes", what);
    free(found);
}

static void test_sort(ferrowarp_type type, int n) {
    size_t bytes = bytes_of(type);
    void *x = any(type, n), *keys = upload(x, n * bytes);
    uint64_t *values = malloc(8 * n + 1);
    for (int i = 0; i < n; i++)
        values[i] = next();
    for (int descending = 0; descending < 2; descending++) {
        ferrowarp_order by = descending ? FERROWARP_ORDER_DESCENDING : FERROWARP_ORDER_ASCENDING;
        uint32_t *indices = order(type, descending, x, n);
        void *sorted = gather(x, indices, n, bytes), *out = room(n * bytes);
        OK(ferrowarp_sort(handle, type, by, keys, out, n));
        same("sort", out, sorted, n * bytes);
        void *in_place = upload(x, n * bytes);
        OK(ferrowarp_sort(handle, type, by, in_place, in_place, n));
        same("sort in place", in_place, sorted, n * bytes);

        uint32_t *found = room(4 * n);
        OK(ferrowarp_argsort(handle, type, by, keys, found, n));
        same("argsort", found, indices, 4 * n);

        for (int wide = 0; wide < 2; wide++) {
            size_t size = wide ? 8 : 4;
            ferrowarp_type value = wide ? FERROWARP_TYPE_F64 : FERROWARP_TYPE_I32;
            void *moved = gather(values, indices, n, size), *y = upload(values, n * size), *out_y = room(n * size);
            OK(ferrowarp_sort_pairs(handle, type, value, by, keys, y, out, out_y, n));
            same("sorted keys", out, sorted, n * bytes);
            same("sorted values", out_y, moved, n * size);
            OK(ferrowarp_copy_to_device(handle, in_place, x, n * bytes));
            OK(ferrowarp_sort_pairs(handle, type, value, by, in_place, y, in_place, y, n));
            same("keys sorted in place", in_place, sorted, n * bytes);
            same("values sorted in place", y, moved, n * size);
            release(y), release(out_y), free(moved);
        }

        int k = n / 3;
        void *first = room(k * bytes);
        OK(ferrowarp_top_k(handle, type, by, keys, n, k, first, found));
        same("top k", first, sorted, k * bytes);
        same("indices of the top k", found, indices, 4 * k);
        release(out), release(in_place), release(found), release(first), free(indices), free(sorted);
    }
    release(keys), free(x), free(values);
}

// Small whole numbers, which sums of few of them have exactly.
static void *small(ferrowarp_type type, int n, int most) {
    void *x = malloc(n * bytes_of(type) + 1);
    for (int i = 0; i < n; i++)
        set(type, x, i, is_signed(type) ? below(2 * most + 1) - most : below(most + 1));
    return x;
}

static void test_scan(ferrowarp_type type, int n) {
    size_t bytes = bytes_of(type);
    int most = bytes == 2 && is_float(type) ? (n <= 300 ? 1 : 0) : 5;
    void *x = small(type, n, most), *device = upload(x, n * bytes), *out = room(n * bytes);
    void *expected = malloc(n * bytes + 1);
    int has_extremes = type == FERROWARP_TYPE_U32 || type == FERROWARP_TYPE_I32 || type == FERROWARP_TYPE_F32;
    const ferrowarp_operator operators[] = {FERROWARP_OPERATOR_SUM, FERROWARP_OPERATOR_MIN, FERROWARP_OPERATOR_MAX};
    for (int o = 0; o < (has_extremes ? 3 : 1); o++)
        for (int exclusive = 0; exclusive < 2; exclusive++) {
            double total = 0;
            if (o > 0) {
                double most = type == FERROWARP_TYPE_F32 ? INFINITY : type == FERROWARP_TYPE_I32 ? 2147483647.0 : 4294967295.0;
                double least = type == FERROWARP_TYPE_F32 ? -INFINITY : type == FERROWARP_TYPE_I32 ? -2147483648.0 : 0;
                total = o == 1 ? most : least;
            }
            for (int i = 0; i < n; i++) {
                double value = get(type, x, i);
                double joined = o == 0 ? total + value : o == 1 ? fmin(total, value) : fmax(total, value);
                set(type, expected, i, exclusive ? total : joined);
                total = joined;
            }
            OK(ferrowarp_scan(handle, type, operators[o], exclusive, device, out, n));
            same("scan", out, expected, n * bytes);
        }
    release(device), release(out), free(x), free(expected);
}

static void count_is(const uint64_t *device, uint64_t expected) {
    same("count", device, &expected, 8);
}

static void test_select(ferrowarp_type type, int n) {
    size_t bytes = bytes_of(type);
    char *x = any(type, n), *kept = malloc(n * bytes + 1), *split = malloc(n * bytes + 1);
    uint8_t *flags = malloc(n + 1);
    int selected = 0, others = 0;
    for (int i = 0; i < n; i++) {
        flags[i] = below(3) == 0 ? (uint8_t)(1 + below(255)) : 0;
        if (flags[i])
            memcpy(kept + selected++ * bytes, x + i * bytes, bytes);
        else
            memcpy(split + (n - ++others) * bytes, x + i * bytes, bytes);
    }
    memcpy(split, kept, selected * bytes);
    void *device = upload(x, n * bytes), *out = room(n * bytes);
    uint8_t *device_flags = upload(flags, n);
    uint64_t *count = room(8);
    OK(ferrowarp_select(handle, type, device, device_flags, n, out, count));
    count_is(count, selected);
    same("select", out, kept, selected * bytes);
    char *rest = download(out, n * bytes);
    for (size_t i = selected * bytes; i < n * bytes; i++)
        CHECK((uint8_t)rest[i] == 0xA5, "select wrote behind the selected elements");
    OK(ferrowarp_partition(handle, type, device, device_flags, n, out, count));
    count_is(count, selected);
    same("partition", out, split, n * bytes);
    release(device), release(out), release(device_flags), release(count);
    free(x), free(kept), free(split), free(flags), free(rest);
}

static void test_runs(ferrowarp_type type, int n) {
    size_t bytes = bytes_of(type);
    char *x = malloc(n * bytes + 1), *values = malloc(n * bytes + 1);
    uint32_t *lengths = malloc(4 * n + 1);
    int runs = 0;
    for (int i = 0; i < n; i++) {
        set(type, x, i, below(3));
        if (i == 0 || memcmp(x + i * bytes, x + (i - 1) * bytes, bytes) != 0) {
            memcpy(values + runs * bytes, x + i * bytes, bytes);
            lengths[runs++] = 0;
        }
        lengths[runs - 1]++;
    }
    void *device = upload(x, n * bytes), *out = room(n * bytes);
    uint32_t *out_lengths = room(4 * n);
    uint64_t *count = room(8);
    OK(ferrowarp_unique(handle, type, device, n, out, count));
    count_is(count, runs);
    same("unique", out, values, runs * bytes);
    release(out);
    out = room(n * bytes);
    OK(ferrowarp_run_lengths(handle, type, device, n, out, out_lengths, count));
    count_is(count, runs);
    same("values of runs", out, values, runs * bytes);
    same("lengths of runs", out_lengths, lengths, 4 * runs);
    release(device), release(out), release(out_lengths), release(count), free(x), free(values), free(lengths);
}

static void test_histogram(ferrowarp_type type, int n) {
    enum { BINS = 8 };
    const double levels[BINS + 1] = {10, 11, 13, 13, 20, 40, 41, 60, 90};
    size_t bytes = bytes_of(type);
    void *x = malloc(n * bytes + 1);
    uint32_t even[BINS] = {0}, ranges[BINS] = {0};
    for (int i = 0; i < n; i++) {
        double value = below(120);
        set(type, x, i, value);
        // Bins of 10 from 10 up to below 90: the boundaries are whole numbers, so that no rounding matters.
        if (value >= 10 && value < 90) {
            even[(int)(value - 10) / 10]++;
            for (int b = 0; b < BINS; b++)
                ranges[b] += levels[b] <= value && value < levels[b + 1];
        }
    }
    void *device = upload(x, n * bytes);
    uint32_t *out = room(sizeof even);
    OK(ferrowarp_histogram(handle, type, device, n, 10, 90, BINS, out));
    same("histogram", out, even, sizeof even);
    OK(ferrowarp_histogram_ranges(handle, type, device, n, levels, BINS, out));
    same("histogram of ranges", out, ranges, sizeof ranges);
    release(device), release(out), free(x);
}

static double extreme(ferrowarp_type type, int is_largest) {
    static const double LARGEST[] = {0, 0, 4294967295.0, 18446744073709551615.0, 0, 0, 2147483647.0, 9223372036854775807.0};
    if (is_float(type))
        return is_largest ? INFINITY : -INFINITY;
    return is_largest ? LARGEST[type] : is_signed(type) ? -LARGEST[type] - 1 : 0;
}

// Numbers whose sums, products and extremes are exact: a product of more than a few is 0 or of ones.
static void test_reduce(ferrowarp_type type, int n) {
    size_t bytes = bytes_of(type);
    int is_half = bytes == 2;
    ferrowarp_type total = is_half ? FERROWARP_TYPE_F32 : type;
    void *x = small(type, n, 3);
    double sum = 0, product = 1, least = extreme(type, 1), most = extreme(type, 0);
    uint64_t argmin = UINT64_MAX, argmax = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        double value = get(type, x, i);
        sum += value, product *= value;
        if (argmin == UINT64_MAX || value < least)
            least = value, argmin = i;
        if (argmax == UINT64_MAX || value > most)
            most = value, argmax = i;
    }
    void *device = upload(x, n * bytes), *out = room(8);
    uint64_t expected = 0;
    set(total, &expected, 0, sum);
    OK(ferrowarp_reduce(handle, type, FERROWARP_OPERATOR_SUM, device, n, out));
    same("sum", out, &expected, bytes_of(total));
    OK(ferrowarp_reduce(handle, type, FERROWARP_OPERATOR_ARGMIN, device, n, out));
    same("argmin", out, &argmin, 8);
    OK(ferrowarp_reduce(handle, type, FERROWARP_OPERATOR_ARGMAX, device, n, out));
    same("argmax", out, &argmax, 8);
    if (n > 0) {
        set(type, &expected, 0, least);
        OK(ferrowarp_reduce(handle, type, FERROWARP_OPERATOR_MIN, device, n, out));
        same("min", out, &expected, bytes);
        set(type, &expected, 0, most);
        OK(ferrowarp_reduce(handle, type, FERROWARP_OPERATOR_MAX, device, n, out));
        same("max", out, &expected, bytes);
    }
    if (!is_half && n < 10) {
        set(type, &expected, 0, product);
        OK(ferrowarp_reduce(handle, type, FERROWARP_OPERATOR_PRODUCT, device, n, out));
        same("product", out, &expected, bytes);
    }
    release(device), release(out), free(x);
}

// A product of whole numbers stays exact only where there are few.
static void test_reduce_of_few(ferrowarp_type type) {
    if (is_float(type) || bytes_of(type) >= 4)
        test_reduce(type, 9);
}

static void test_segments(ferrowarp_type type) {
    enum { N = 3000, SEGMENTS = 5 };
    const uint64_t offsets[SEGMENTS + 1] = {0, 0, 1, 700, 2999, N};
    size_t bytes = bytes_of(type);
    ferrowarp_type total = bytes == 2 ? FERROWARP_TYPE_F32 : type;
    void *x = small(type, N, 3), *device = upload(x, N * bytes), *out = room(SEGMENTS * 8);
    uint64_t *device_offsets = upload(offsets, sizeof offsets);
    int has_extremes = type == FERROWARP_TYPE_U32 || type == FERROWARP_TYPE_I32 || type == FERROWARP_TYPE_F32;
    const ferrowarp_operator operators[] = {FERROWARP_OPERATOR_SUM, FERROWARP_OPERATOR_MIN, FERROWARP_OPERATOR_MAX};
    for (int o = 0; o < (has_extremes ? 3 : 1); o++) {
        uint64_t expected[SEGMENTS] = {0};
        for (int s = 0; s < SEGMENTS; s++) {
            double joined = o == 0 ? 0 : extreme(type, o == 1);
            for (uint64_t i = offsets[s]; i < offsets[s + 1]; i++) {
                double value = get(type, x, i);
                joined = o == 0 ? joined + value : o == 1 ? fmin(joined, value) : fmax(joined, value);
            }
            set(total, expected, s, joined);
        }
        OK(ferrowarp_segmented_reduce(handle, type, operators[o], device, N, device_offsets, SEGMENTS, out));
        same("segmented reduction", out, expected, SEGMENTS * bytes_of(total));
    }
    release(device), release(out), release(device_offsets), free(x);
}

static void near(const char *what, ferrowarp_type type, const void *found, size_t i, double expected, double tolerance) {
    double value = get(type, found, i);
    // What the type rounds comes on top; below 2^-14 the values of f16 are 2^-24 apart.
    tolerance += rounding(type) * (fabs(expected) + tolerance) + (type == FERROWARP_TYPE_F16 ? ldexp(1, -25) : 0);
    CHECK(fabs(value - expected) <= tolerance, "%s[%zu] is %.9g, and should be %.9g within %.3g", what, i, value, expected,
          tolerance);
}

static void *rows_of(ferrowarp_type type, int n) {
    void *x = malloc(n * bytes_of(type) + 1);
    for (int i = 0; i < n; i++)
        set(type, x, i, (below(2001) - 1000) / 256.0);
    return x;
}

static void test_softmax(ferrowarp_type type, int rows, int columns) {
    size_t bytes = rows * columns * bytes_of(type);
    void *x = rows_of(type, rows * columns), *device = upload(x, bytes), *out = room(bytes);
    for (int is_log = 0; is_log < 2; is_log++) {
        OK(ferrowarp_softmax(handle, type, is_log, device, out, rows, columns));
        void *found = download(out, bytes);
        for (int r = 0; r < rows; r++) {
            double most = -INFINITY, sum = 0;
            for (int c = 0; c < columns; c++)
                most = fmax(most, get(type, x, r * columns + c));
            for (int c = 0; c < columns; c++)
                sum += exp(get(type, x, r * columns + c) - most);
            for (int c = 0; c < columns; c++) {
                // The bounds that the library documents for f32, before the result is rounded.
                double distance = most - get(type, x, r * columns + c), log_of = -distance - log(sum);
                double expected = is_log ? log_of : exp(log_of);
                double bound = is_log ? (128 + 2 * fabs(log_of)) * ldexp(1, -24) : (96 + 3 * distance) * ldexp(1, -24) * expected;
                near("softmax", type, found, r * columns + c, expected, bound);
            }
        }
        free(found);
    }
    release(device), release(out), free(x);
}

static void test_norm(ferrowarp_type type, int rows, int columns, int is_centered, int with) {
    const double epsilon = 0.125;
    int n = rows * columns;
    size_t size = bytes_of(type);
    void *host[4] = {rows_of(type, n), rows_of(type, n), rows_of(type, columns), rows_of(type, columns)}, *device[4];
    for (int i = 0; i < 4; i++)
        device[i] = upload(host[i], (i < 2 ? n : columns) * size);
    void *out = room(n * size), *residual = with ? device[1] : NULL, *weight = with ? device[2] : NULL;
    void *bias = with && is_centered ? device[3] : NULL;
    if (is_centered)
        OK(ferrowarp_layer_norm(handle, type, device[0], residual, weight, bias, (float)epsilon, out, rows, columns));
    else
        OK(ferrowarp_rms_norm(handle, type, device[0], residual, weight, (float)epsilon, out, rows, columns));
    void *found = download(out, n * size);
    for (int r = 0; r < rows; r++) {
        double mean = 0, square = 0, most = 0;
        for (int c = 0; c < columns; c++) {
            double s = get(type, host[0], r * columns + c) + (with ? get(type, host[1], r * columns + c) : 0);
            mean += s / columns, most = fmax(most, fabs(s));
        }
        mean = is_centered ? mean : 0;
        for (int c = 0; c < columns; c++) {
            double s = get(type, host[0], r * columns + c) + (with ? get(type, host[1], r * columns + c) : 0);
            square += (s - mean) * (s - mean) / columns;
        }
        double deviation = sqrt(square + epsilon);
        for (int c = 0; c < columns; c++) {
            double s = get(type, host[0], r * columns + c) + (with ? get(type, host[1], r * columns + c) : 0);
            double w = with ? get(type, host[2], c) : 1, b = bias ? get(type, host[3], c) : 0;
            double normed = (s - mean) / deviation * w;
            // The library's bound: 2^-18 of the result and of the largest element over the deviation, both times the
            // weight; and the rounding of the last addition.
            double bound = ldexp(1, -18) * (fabs(normed) + most / deviation * fabs(w)) + ldexp(1, -24) * fabs(normed + b);
            near("norm", type, found, r * columns + c, normed + b, bound);
        }
    }
    for (int i = 0; i < 4; i++)
        release(device[i]), free(host[i]);
    release(out), free(found);
}

static void test_transpose(ferrowarp_type type) {
    enum { BATCHES = 3, ROWS = 37, COLUMNS = 50 };
    size_t bytes = bytes_of(type), all = BATCHES * ROWS * COLUMNS * bytes;
    char *x = any(type, BATCHES * ROWS * COLUMNS), *expected = malloc(all);
    for (int b = 0; b < BATCHES; b++)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                memcpy(expected + ((b * COLUMNS + c) * ROWS + r) * bytes, x + ((b * ROWS + r) * COLUMNS + c) * bytes, bytes);
    void *device = upload(x, all), *out = room(all);
    OK(ferrowarp_transpose(handle, type, device, out, ROWS, COLUMNS, BATCHES));
    same("transpose", out, expected, all);
    release(device), release(out), free(x), free(expected);
}

static void test_spmv(ferrowarp_type type) {
    enum { ROWS = 700, COLUMNS = 90 };
    uint32_t offsets[ROWS + 1] = {0}, *columns = malloc(4 * ROWS * COLUMNS);
    int entries = 0;
    for (int r = 0; r < ROWS; r++) {
        // Empty rows, short ones and a full one.
        for (int c = 0; c < COLUMNS; c++)
            if (r == 5 || (r % 3 && below(10) == 0))
                columns[entries++] = c;
        offsets[r + 1] = entries;
    }
    size_t bytes = bytes_of(type);
    void *values = small(type, entries, 4), *x = small(type, COLUMNS, 4), *expected = malloc(ROWS * bytes);
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (uint32_t i = offsets[r]; i < offsets[r + 1]; i++)
            sum += get(type, values, i) * get(type, x, columns[i]);
        set(type, expected, r, sum);
    }
    uint32_t *device_offsets = upload(offsets, sizeof offsets), *device_columns = upload(columns, 4 * entries);
    void *device_values = upload(values, entries * bytes), *device_x = upload(x, COLUMNS * bytes), *y = room(ROWS * bytes);
    ferrowarp_csr *matrix = NULL;
    OK(ferrowarp_csr_create(handle, type, ROWS, COLUMNS, entries, device_offsets, device_columns, device_values, &matrix));
    for (int again = 0; again < 2; again++) {
        OK(ferrowarp_spmv(handle, matrix, device_x, y));
        same("spmv", y, expected, ROWS * bytes);
    }
    OK(ferrowarp_csr_destroy(matrix));
    release(device_offsets), release(device_columns), release(device_values), release(device_x), release(y);
    free(columns), free(values), free(x), free(expected);
}

// Philox4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
static uint32_t philox(uint64_t seed, uint64_t index) {
    uint32_t c[4] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), 0, 0}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t mixed[4] = {(uint32_t)(b >> 32) ^ c[1] ^ key[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ key[1], (uint32_t)a};
        memcpy(c, mixed, sizeof c);
        key[0] += 0x9E3779B9, key[1] += 0xBB67AE85;
    }
    return c[index % 4];
}

static uint64_t philox_pair(uint64_t seed, uint64_t index) {
    return (uint64_t)philox(seed, 2 * index + 1) << 32 | philox(seed, 2 * index);
}

static void test_random(void) {
    enum { N = 1001 };
    const uint64_t seed = 0x123456789ABCDEFu, offset = 77;
    void *out = room(8 * N);
    float singles[N];
    double doubles[N];
    uint32_t words[N];
    uint64_t pairs[N];
    for (int i = 0; i < N; i++) {
        singles[i] = (float)(philox(seed, offset + i) >> 8) / 16777216.0f;
        doubles[i] = (double)(philox_pair(seed, offset + i) >> 11) / 9007199254740992.0;
        // From a range of a power of two every word is fair, and the upper bits are the number.
        words[i] = 100 + (philox(seed, offset + i) >> 24);
        pairs[i] = 5 + (philox_pair(seed, offset + i) >> 16);
    }
    OK(ferrowarp_random_uniform(handle, FERROWARP_TYPE_F32, out, N, seed, offset));
    same("uniform floats", out, singles, sizeof singles);
    OK(ferrowarp_random_uniform(handle, FERROWARP_TYPE_F64, out, N, seed, offset));
    same("uniform doubles", out, doubles, sizeof doubles);
    OK(ferrowarp_random_integers(handle, FERROWARP_TYPE_U32, out, N, 100, 356, seed, offset));
    same("integers of 32 bits", out, words, sizeof words);
    OK(ferrowarp_random_integers(handle, FERROWARP_TYPE_U64, out, N, 5, 5 + (1ull << 48), seed, offset));
    same("integers of 64 bits", out, pairs, sizeof pairs);

    const double turn = 6.283185307179586 / 4294967296.0;
    OK(ferrowarp_random_normal(handle, out, N, 10, 3, seed, offset));
    float *normal = download(out, 4 * N);
    for (int i = 0; i < N; i++) {
        uint64_t index = offset + i, even = index / 2 * 2;
        double radius = sqrt(-2 * log((philox(seed, even) + 0.5) / 4294967296.0));
        double angle = (int32_t)philox(seed, even + 1) * turn;
        double expected = 10 + 3 * radius * (index % 2 ? sin(angle) : cos(angle));
        // The library's bound, 2^-18 of the radius, and three roundings of the scale and the sum.
        near("normal", FERROWARP_TYPE_F32, normal, i, expected, 3 * radius * ldexp(1, -18) + ldexp(3, -24) * (10 + 3 * radius));
    }
    release(out), free(normal);
}

static size_t element(const ferrowarp_matrix *shape, int64_t batch, int64_t i, int64_t j) {
    int64_t in = shape->order == FERROWARP_MATRIX_ORDER_ROW_MAJOR ? i * shape->leading + j : i + j * shape->leading;
    return batch * (shape->batches == 1 ? 0 : shape->batch_stride) + in;
}

static size_t elements(const ferrowarp_matrix *shape) {
    return 1 + element(shape, shape->batches - 1, shape->rows - 1, shape->columns - 1);
}

// Whole numbers so small that every sum is exact in every type and precision.
static void test_matmul(ferrowarp_type type, ferrowarp_precision precision, int column_major) {
    const ferrowarp_matrix_order order = column_major ? FERROWARP_MATRIX_ORDER_COLUMN_MAJOR : FERROWARP_MATRIX_ORDER_ROW_MAJOR;
    const ferrowarp_matrix a = {40, 17, column_major ? 48 : 24, 3, 2000, order};
    const ferrowarp_matrix b = {17, 33, column_major ? 17 : 33, 1, 0, order};
    const ferrowarp_matrix d = {40, 33, 40, 3, 40 * 40, FERROWARP_MATRIX_ORDER_ROW_MAJOR};
    size_t bytes = bytes_of(type), n = elements(&d);
    void *x = small(type, elements(&a), 2), *y = small(type, elements(&b), 2), *before = small(type, n, 2);
    void *expected = malloc(n * bytes);
    memcpy(expected, before, n * bytes);
    for (int64_t batch = 0; batch < d.batches; batch++)
        for (int64_t i = 0; i < d.rows; i++)
            for (int64_t j = 0; j < d.columns; j++) {
                double sum = 0;
                for (int64_t k = 0; k < a.columns; k++)
                    sum += get(type, x, element(&a, batch, i, k)) * get(type, y, element(&b, batch, k, j));
                size_t at = element(&d, batch, i, j);
                set(type, expected, at, 2 * sum - 3 * get(type, before, at));
            }
    void *device_a = upload(x, elements(&a) * bytes), *device_b = upload(y, elements(&b) * bytes), *out = upload(before, n * bytes);
    OK(ferrowarp_matmul(handle, type, precision, 2, device_a, &a, device_b, &b, -3, out, &d));
    // Gaps between rows stay as they are.
    same("matmul", out, expected, n * bytes);
    release(device_a), release(device_b), release(out), free(x), free(y), free(before), free(expected);
}

static void test_attention(ferrowarp_type type, int is_causal, int64_t window, float scale) {
    enum { BATCHES = 2, HEADS = 4, SHARED = 2, QUERIES = 9, KEYS = 20, DEPTH = 32 };
    // Queries and results as a linear layer has them, keys and values head by head.
    const ferrowarp_heads q = {BATCHES, HEADS, QUERIES, DEPTH, QUERIES * HEADS * DEPTH, DEPTH, HEADS * DEPTH};
    const ferrowarp_heads k = {BATCHES, SHARED, KEYS, DEPTH, SHARED * KEYS * DEPTH, KEYS * DEPTH, DEPTH};
    size_t bytes = bytes_of(type), n_q = BATCHES * HEADS * QUERIES * DEPTH, n_k = BATCHES * SHARED * KEYS * DEPTH;
    void *x = rows_of(type, n_q), *y = rows_of(type, n_k), *z = rows_of(type, n_k);
    void *dq = upload(x, n_q * bytes), *dk = upload(y, n_k * bytes), *dv = upload(z, n_k * bytes), *out = room(n_q * bytes);
    OK(ferrowarp_attention(handle, type, dq, &q, dk, &k, dv, &k, is_causal, window, scale, out, &q));
    void *found = download(out, n_q * bytes);
    double factor = scale == 0 ? 1 / sqrt(DEPTH) : scale;
    for (int row = 0; row < BATCHES * HEADS * QUERIES; row++) {
        int batch = row / (HEADS * QUERIES), head = row / QUERIES % HEADS, query = row % QUERIES;
        size_t at = batch * q.batch_stride + head * q.head_stride + query * q.row_stride;
        size_t keys = batch * k.batch_stride + head / (HEADS / SHARED) * k.head_stride;
        int own = query + KEYS - QUERIES, first = is_causal && window >= 0 && own > window ? own - (int)window : 0;
        int last = is_causal ? own : KEYS - 1;
        double score[KEYS], most = -INFINITY, sum = 0, size = 0;
        for (int i = first; i <= last; i++) {
            score[i] = 0;
            for (int d = 0; d < DEPTH; d++)
                score[i] += get(type, x, at + d) * get(type, y, keys + i * DEPTH + d);
            score[i] *= factor, most = fmax(most, score[i]);
        }
        for (int i = first; i <= last; i++)
            sum += exp(score[i] - most), size = fmax(size, fabs(score[i]));
        for (int d = 0; d < DEPTH; d++) {
            double value = 0, largest = 0;
            for (int i = first; i <= last; i++) {
                double v = get(type, z, keys + i * DEPTH + d);
                value += exp(score[i] - most) / sum * v, largest = fmax(largest, fabs(v));
            }
            // Weights are rounded to the type, in the numerator and perhaps in the sum; scores are sums of f32, whose
            // error the exponential takes over: 2^-18 of the largest one is more than 32 roundings of it.
            near("attention", type, found, at + d, value, largest * (2 * rounding(type) + ldexp(1, -18) * (1 + size)));
        }
    }
    release(dq), release(dk), release(dv), release(out), free(x), free(y), free(z), free(found);
}

// Arrays that begin anywhere an element may: behind the first elements of an allocation.
static void test_offsets(void) {
    enum { N = 500, FRONT = 3 };
    float *x = rows_of(FERROWARP_TYPE_F32, N + FRONT), *weight = rows_of(FERROWARP_TYPE_F32, N + FRONT);
    float *device = upload(x, 4 * (N + FRONT)), *device_weight = upload(weight, 4 * (N + FRONT)), *out = room(4 * (N + FRONT));
    OK(ferrowarp_sort(handle, FERROWARP_TYPE_F32, FERROWARP_ORDER_ASCENDING, device + FRONT, out + FRONT, N));
    uint32_t *indices = order(FERROWARP_TYPE_F32, 0, x + FRONT, N);
    float *sorted = gather(x + FRONT, indices, N, 4);
    same("sort of a part", out + FRONT, sorted, 4 * N);
    OK(ferrowarp_rms_norm(handle, FERROWARP_TYPE_F32, device + FRONT, NULL, device_weight + FRONT, 0, out + FRONT, 1, N));
    float *found = download(out, 4 * (N + FRONT));
    double square = 0, most = 0;
    for (int i = FRONT; i < N + FRONT; i++)
        square += (double)x[i] * x[i] / N, most = fmax(most, fabs(x[i]));
    for (int i = FRONT; i < N + FRONT; i++) {
        double normed = x[i] / sqrt(square) * weight[i];
        near("norm of a part", FERROWARP_TYPE_F32, found, i, normed,
             ldexp(1, -18) * (fabs(normed) + most / sqrt(square) * fabs(weight[i])));
    }
    for (size_t i = 0; i < 4 * FRONT; i++)
        CHECK(((uint8_t *)found)[i] == 0xA5, "an operation wrote before its array");
    release(device), release(device_weight), release(out), free(x), free(weight), free(indices), free(sorted), free(found);
}

int main(void) {
    OK(ferrowarp_create(&handle, 0, NULL));
    bool emulated = false;
    OK(ferrowarp_is_emulated(handle, &emulated));
    // One by one the driver compiles them for longer than the rest takes.
    if (!emulated)
        OK(ferrowarp_load_kernels(handle));
    for (size_t t = 0; t < LEN(ALL_TYPES); t++) {
        ferrowarp_type type = ALL_TYPES[t];
        for (size_t s = 0; s < LEN(SIZES); s++) {
            int n = SIZES[s];
            test_sort(type, n);
            test_scan(type, n);
            if (bytes_of(type) != 2)
                test_select(type, n), test_runs(type, n);
            if (is_float(type) || bytes_of(type) >= 4)
                test_reduce(type, n);
        }
        test_reduce_of_few(type);
        test_transpose(type);
    }
    const ferrowarp_type counted[] = {FERROWARP_TYPE_U8, FERROWARP_TYPE_U16, FERROWARP_TYPE_U32, FERROWARP_TYPE_F32};
    for (size_t t = 0; t < LEN(counted); t++)
        test_histogram(counted[t], 0), test_histogram(counted[t], 3001);
    const ferrowarp_type summed[] = {FERROWARP_TYPE_F16, FERROWARP_TYPE_BF16, FERROWARP_TYPE_F32,
                                     FERROWARP_TYPE_F64, FERROWARP_TYPE_I32,  FERROWARP_TYPE_U32};
    for (size_t t = 0; t < LEN(summed); t++)
        test_segments(summed[t]);
    const ferrowarp_type rows[] = {FERROWARP_TYPE_F32, FERROWARP_TYPE_F16, FERROWARP_TYPE_BF16};
    for (size_t t = 0; t < LEN(rows); t++) {
        test_softmax(rows[t], 5, 300), test_softmax(rows[t], 1, 1), test_softmax(rows[t], 0, 7);
        for (int form = 0; form < 4; form++)
            test_norm(rows[t], 4, 259, form & 1, form >> 1);
    }
    test_spmv(FERROWARP_TYPE_F32), test_spmv(FERROWARP_TYPE_F64);
    test_random();
    for (int column_major = 0; column_major < 2; column_major++) {
        test_matmul(FERROWARP_TYPE_F16, FERROWARP_PRECISION_DEFAULT, column_major);
        test_matmul(FERROWARP_TYPE_BF16, FERROWARP_PRECISION_DEFAULT, column_major);
        test_matmul(FERROWARP_TYPE_F64, FERROWARP_PRECISION_DEFAULT, column_major);
        test_matmul(FERROWARP_TYPE_F32, FERROWARP_PRECISION_DEFAULT, column_major);
        test_matmul(FERROWARP_TYPE_F32, FERROWARP_PRECISION_TF32, column_major);
        test_matmul(FERROWARP_TYPE_F32, FERROWARP_PRECISION_THREE_TF32, column_major);
    }
    test_attention(FERROWARP_TYPE_F16, 0, -1, 0), test_attention(FERROWARP_TYPE_BF16, 1, -1, 0.5f);
    test_attention(FERROWARP_TYPE_BF16, 1, 4, 0);
    test_offsets();
    OK(ferrowarp_synchronize(handle));
    OK(ferrowarp_destroy(handle));
    printf("%s: every operation is right, in %d checks\n", emulated ? "emulator" : "GPU", checks);
    return 0;
}
