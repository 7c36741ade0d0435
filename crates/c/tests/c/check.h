// What the test programs share: checks, and arrays on the device.
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ferrowarp.h"

static ferrowarp_handle *handle;
static int checks;

#define FAIL(...)                                  \
    do {                                           \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
        fprintf(stderr, __VA_ARGS__);              \
        fprintf(stderr, "\n");                     \
        exit(1);                                   \
    } while (0)

#define CHECK(condition, ...)  \
    do {                       \
        checks++;              \
        if (!(condition))      \
            FAIL(__VA_ARGS__); \
    } while (0)

#define OK(call)                                                                       \
    do {                                                                               \
        ferrowarp_status status_ = (call);                                             \
        CHECK(status_ == FERROWARP_STATUS_OK, "status %d: %s", (int)status_, ferrowarp_last_error()); \
    } while (0)

// Device memory with these bytes. Of unwritten memory the bytes are a pattern that no test expects.
static void *upload(const void *host, size_t bytes) {
    void *device = NULL;
    OK(ferrowarp_malloc(handle, &device, (int64_t)bytes));
    OK(ferrowarp_copy_to_device(handle, device, host, (int64_t)bytes));
    return device;
}

static void *room(size_t bytes) {
    void *pattern = malloc(bytes + 1);
    memset(pattern, 0xA5, bytes + 1);
    void *device = upload(pattern, bytes);
    free(pattern);
    return device;
}

static void *download(const void *device, size_t bytes) {
    void *host = malloc(bytes + 1);
    OK(ferrowarp_copy_to_host(handle, host, device, (int64_t)bytes));
    return host;
}

static void release(void *device) { OK(ferrowarp_free(handle, device)); }

// Numbers that look random: a multiplicative generator of 64 bits.
static uint64_t state = 1;

static uint64_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state ^ state >> 33;
}

static int below(int n) { return (int)(next() % (uint64_t)n); }

// Types.
static size_t bytes_of(ferrowarp_type type) {
    static const size_t bytes[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
    return bytes[type];
}

static const ferrowarp_type ALL_TYPES[] = {
    FERROWARP_TYPE_U8,  FERROWARP_TYPE_U16, FERROWARP_TYPE_U32, FERROWARP_TYPE_U64,
    FERROWARP_TYPE_I8,  FERROWARP_TYPE_I16, FERROWARP_TYPE_I32, FERROWARP_TYPE_I64,
    FERROWARP_TYPE_F16, FERROWARP_TYPE_BF16, FERROWARP_TYPE_F32, FERROWARP_TYPE_F64,
};

static int is_float(ferrowarp_type type) { return type >= FERROWARP_TYPE_F16; }

static int is_signed(ferrowarp_type type) { return type >= FERROWARP_TYPE_I8; }

// The number that these 16 bits are.
static double of_half(ferrowarp_type type, uint16_t bits) {
    if (type == FERROWARP_TYPE_BF16) {
        uint32_t word = (uint32_t)bits << 16;
        float value;
        memcpy(&value, &word, 4);
        return value;
    }
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

// The 16 bits of a number, the nearest, ties to even. The number is 0 or normal in the type.
static uint16_t to_half(ferrowarp_type type, double value) {
    uint16_t sign = signbit(value) ? 1u << 15 : 0;
    if (value == 0)
        return sign;
    int digits = type == FERROWARP_TYPE_BF16 ? 8 : 11, bias = type == FERROWARP_TYPE_BF16 ? 127 : 15;
    int exponent;
    double fraction = frexp(fabs(value), &exponent);
    int whole = (int)nearbyint(ldexp(fraction, digits));
    return (uint16_t)(sign | (((exponent - 1 + bias) << (digits - 1)) + whole - (1 << (digits - 1))));
}

static double get(ferrowarp_type type, const void *x, size_t i) {
    switch (type) {
    case FERROWARP_TYPE_U8: return ((const uint8_t *)x)[i];
    case FERROWARP_TYPE_U16: return ((const uint16_t *)x)[i];
    case FERROWARP_TYPE_U32: return ((const uint32_t *)x)[i];
    case FERROWARP_TYPE_U64: return (double)((const uint64_t *)x)[i];
    case FERROWARP_TYPE_I8: return ((const int8_t *)x)[i];
    case FERROWARP_TYPE_I16: return ((const int16_t *)x)[i];
    case FERROWARP_TYPE_I32: return ((const int32_t *)x)[i];
    case FERROWARP_TYPE_I64: return (double)((const int64_t *)x)[i];
    case FERROWARP_TYPE_F32: return ((const float *)x)[i];
    case FERROWARP_TYPE_F64: return ((const double *)x)[i];
    default: return of_half(type, ((const uint16_t *)x)[i]);
    }
}

static void set(ferrowarp_type type, void *x, size_t i, double value) {
    switch (type) {
    case FERROWARP_TYPE_U8: ((uint8_t *)x)[i] = (uint8_t)(int64_t)value; break;
    case FERROWARP_TYPE_U16: ((uint16_t *)x)[i] = (uint16_t)(int64_t)value; break;
    case FERROWARP_TYPE_U32: ((uint32_t *)x)[i] = (uint32_t)(int64_t)value; break;
    case FERROWARP_TYPE_U64: ((uint64_t *)x)[i] = (uint64_t)(int64_t)value; break;
    case FERROWARP_TYPE_I8: ((int8_t *)x)[i] = (int8_t)(int64_t)value; break;
    case FERROWARP_TYPE_I16: ((int16_t *)x)[i] = (int16_t)(int64_t)value; break;
    case FERROWARP_TYPE_I32: ((int32_t *)x)[i] = (int32_t)(int64_t)value; break;
    case FERROWARP_TYPE_I64: ((int64_t *)x)[i] = (int64_t)value; break;
    case FERROWARP_TYPE_F32: ((float *)x)[i] = (float)value; break;
    case FERROWARP_TYPE_F64: ((double *)x)[i] = value; break;
    default: ((uint16_t *)x)[i] = to_half(type, value);
    }
}

// Half a unit in the last place of a number of size 1, of a type of floats.
static double rounding(ferrowarp_type type) {
    return ldexp(1, type == FERROWARP_TYPE_BF16   ? -9
                    : type == FERROWARP_TYPE_F16  ? -12
                    : type == FERROWARP_TYPE_F32  ? -25
                                                  : -54) * 2;
}

#endif
