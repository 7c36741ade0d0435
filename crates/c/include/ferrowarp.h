// Ferrowarp's operations on device memory, for C and C++: link with -lferrowarp.
//
// Written by cbindgen from the sources of the crate ferrowarp-c: change those.
//
// Arrays are in device memory (of cudaMalloc(), cuMemAlloc(), cudaMallocAsync() or ferrowarp_malloc()) of the handle's device, and begin anywhere
// an element may. `x: [n]` in a comment is an array of n elements. An array that is written has no memory in common with another argument,
// unless the function says that it works in place. Arrays of no elements may be null.
//
// An operation is enqueued on the stream of its handle, like a kernel launch, and the call returns without waiting for it, unless its comment says
// otherwise, or a kernel runs for the first time in the process. The arrays have to live until the work is done. The calling thread's current
// context, or device, is left as it was.
//
// Functions may be called from any thread. A stream may be captured into a CUDA graph: operations become a part of it, once their kernels are loaded, but
// for those that wait or allocate, which are refused meanwhile.

#ifndef FERROWARP_H
#define FERROWARP_H

#include <stdbool.h>
#include <stdint.h>

// How a call ended. Of all but `FERROWARP_STATUS_OK`, ferrowarp_last_error() has a message.
//
// A call that refuses an argument has enqueued nothing and written nothing.
typedef enum ferrowarp_status {
  // The work is enqueued; of functions that wait, it is done.
  FERROWARP_STATUS_OK = 0,
  // A pointer is null that must not be.
  FERROWARP_STATUS_NULL_POINTER = 1,
  // A length is negative, too large, or does not fit another one.
  FERROWARP_STATUS_INVALID_LENGTH = 2,
  // No such element type, or not one that the operation takes.
  FERROWARP_STATUS_INVALID_TYPE = 3,
  // Another argument has a value that the operation does not take.
  FERROWARP_STATUS_INVALID_VALUE = 4,
  // An address is not a multiple of what the element type or the function asks for.
  FERROWARP_STATUS_MISALIGNED = 5,
  // Two arrays have memory in common, one of which is written.
  FERROWARP_STATUS_OVERLAP = 6,
  // A pointer is not one to memory of a device that the driver of this process knows.
  FERROWARP_STATUS_NOT_DEVICE_MEMORY = 7,
  // The memory is another device's than the handle's.
  FERROWARP_STATUS_WRONG_DEVICE = 8,
  // The stream is not one of the primary context of the handle's device.
  FERROWARP_STATUS_INVALID_STREAM = 9,
  // The device, or this library, cannot do this.
  FERROWARP_STATUS_UNSUPPORTED = 10,
  // The device's memory does not suffice.
  FERROWARP_STATUS_OUT_OF_MEMORY = 11,
  // A thread of an earlier kernel found a bug and stopped it. The device keeps working.
  FERROWARP_STATUS_KERNEL_PANIC = 12,
  // A fault has ended the device's context. It takes a new process to use the device again.
  FERROWARP_STATUS_DEVICE_LOST = 13,
  // The driver reports an error.
  FERROWARP_STATUS_DRIVER = 14,
  // A bug of this library: the message is that of the panic.
  FERROWARP_STATUS_INTERNAL = 15,
} ferrowarp_status;

// The type of an array's elements.
typedef enum ferrowarp_type {
  // `uint8_t`.
  FERROWARP_TYPE_U8 = 0,
  // `uint16_t`.
  FERROWARP_TYPE_U16 = 1,
  // `uint32_t`.
  FERROWARP_TYPE_U32 = 2,
  // `uint64_t`.
  FERROWARP_TYPE_U64 = 3,
  // `int8_t`.
  FERROWARP_TYPE_I8 = 4,
  // `int16_t`.
  FERROWARP_TYPE_I16 = 5,
  // `int32_t`.
  FERROWARP_TYPE_I32 = 6,
  // `int64_t`.
  FERROWARP_TYPE_I64 = 7,
  // IEEE half precision: CUDA's `__half`.
  FERROWARP_TYPE_F16 = 8,
  // bfloat16: CUDA's `__nv_bfloat16`.
  FERROWARP_TYPE_BF16 = 9,
  // `float`.
  FERROWARP_TYPE_F32 = 10,
  // `double`.
  FERROWARP_TYPE_F64 = 11,
} ferrowarp_type;

// How products of f32 are computed.
typedef enum ferrowarp_precision {
  // What the element type has: f16 and bf16 on tensor cores, added in f32 and rounded once; f64 on tensor cores; f32 by fused
  // multiply-adds.
  FERROWARP_PRECISION_DEFAULT = 0,
  // f32 rounded to TF32, on tensor cores.
  FERROWARP_PRECISION_TF32 = 1,
  // f32 as three products of TF32, on tensor cores.
  FERROWARP_PRECISION_THREE_TF32 = 2,
} ferrowarp_precision;

// Which elements of a matrix are neighbours in memory.
typedef enum ferrowarp_matrix_order {
  // Those of a row, as in C: element (i, j) is at i * leading + j.
  FERROWARP_MATRIX_ORDER_ROW_MAJOR = 0,
  // Those of a column, as in BLAS: element (i, j) is at i + j * leading.
  FERROWARP_MATRIX_ORDER_COLUMN_MAJOR = 1,
} ferrowarp_matrix_order;

// How elements are joined.
typedef enum ferrowarp_operator {
  // The sum. Integers wrap.
  FERROWARP_OPERATOR_SUM = 0,
  // The smallest. NaN is ignored.
  FERROWARP_OPERATOR_MIN = 1,
  // The largest. NaN is ignored.
  FERROWARP_OPERATOR_MAX = 2,
  // The product. Integers wrap.
  FERROWARP_OPERATOR_PRODUCT = 3,
  // The index (`uint64_t`) of the smallest, the first of equal ones; UINT64_MAX where there is no number.
  FERROWARP_OPERATOR_ARGMIN = 4,
  // The index (`uint64_t`) of the largest, the first of equal ones; UINT64_MAX where there is no number.
  FERROWARP_OPERATOR_ARGMAX = 5,
} ferrowarp_operator;

// Which keys come first.
typedef enum ferrowarp_order {
  // The smallest.
  FERROWARP_ORDER_ASCENDING = 0,
  // The largest.
  FERROWARP_ORDER_DESCENDING = 1,
} ferrowarp_order;

// CUDA's stream: `CUstream` of the driver API and `cudaStream_t` of the runtime API are pointers to it.
typedef struct CUstream_st CUstream_st;

// A sparse matrix in compressed rows (CSR): arrays of the caller, and a table of the library's.
typedef struct ferrowarp_csr ferrowarp_csr;

// A stream of the caller's, on which all work of the handle is enqueued, and scratch memory, which grows in the order of the stream to what the
// largest operation took, and is freed by ferrowarp_destroy(). Handles of a device share its kernels.
//
// Any thread may use a handle; calls of several threads with one handle run one after the other.
typedef struct ferrowarp_handle ferrowarp_handle;

// The sizes of a tensor `[batches, heads, rows, depth]`, and where its rows are. The elements of a row are neighbours.
typedef struct ferrowarp_heads {
  // Batches.
  int64_t batches;
  // Heads of a batch.
  int64_t heads;
  // Queries, or keys, of a head.
  int64_t rows;
  // Elements of a row.
  int64_t depth;
  // From a batch to the next, in elements.
  int64_t batch_stride;
  // From a head to the next, in elements.
  int64_t head_stride;
  // From a row to the next, in elements.
  int64_t row_stride;
} ferrowarp_heads;

// The sizes of a batch of matrices, and where their elements are.
typedef struct ferrowarp_matrix {
  // Rows of each matrix.
  int64_t rows;
  // Columns of each matrix.
  int64_t columns;
  // The leading dimension, in elements: from a row to the next, or from a column to the next.
  int64_t leading;
  // Matrices: 1, or as many as the other arguments have.
  int64_t batches;
  // From a matrix to the next, in elements. With 1 batch it is not used.
  int64_t batch_stride;
  // Which elements are neighbours. A transpose is the same memory in the other order, with rows and columns exchanged.
  enum ferrowarp_matrix_order order;
} ferrowarp_matrix;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The message of the last call that failed on this thread; empty if none did. It is valid until the next call of a function of this
// library on the thread.
const char *ferrowarp_last_error(void);

// Creates a handle for the device with that ordinal, from 0, in its primary context, which is the runtime API's. Work of the handle is
// enqueued on `stream`, a stream of that context that exists as long as the handle; null is the default stream.
//
// The environment variable FERROWARP_DEVICE chooses between "cuda" and "emulator" when a process creates its first handle; without it,
// the emulator is taken where no NVIDIA driver finds a device. The driver compiles kernels for the device at their first launch in a
// process, unless its cache has them.
//
// # Safety
// `handle` is null or points to a pointer that can be written; the stream exists until the handle is destroyed.
enum ferrowarp_status ferrowarp_create(struct ferrowarp_handle **handle,
                                       int32_t device,
                                       struct CUstream_st *stream);

// Waits for the stream, and frees the handle's scratch memory. A null handle is left alone.
//
// # Safety
// The handle is null, or was created by ferrowarp_create() and not destroyed; no other thread uses it.
enum ferrowarp_status ferrowarp_destroy(struct ferrowarp_handle *handle);

// Writes whether the handle's device is the emulator inside this process. Its memory is that of ferrowarp_malloc() alone.
//
// # Safety
// `handle` is null or a handle, and `emulated` null or a place that can be written.
enum ferrowarp_status ferrowarp_is_emulated(const struct ferrowarp_handle *handle,
                                            bool *emulated);

// Loads all kernels for the handle's device now, on several threads: some seconds, of which a program that uses a few of the operations needs
// a part. Without it the driver loads a kernel in the first call that needs it, which a capture into a CUDA graph does not allow. May wait for all work on the device.
//
// # Safety
// `handle` is null or a handle.
enum ferrowarp_status ferrowarp_load_kernels(const struct ferrowarp_handle *handle);

// Waits for the stream, and returns what went wrong in its work: FERROWARP_STATUS_KERNEL_PANIC, which no function of CUDA's reports, or
// FERROWARP_STATUS_DEVICE_LOST.
//
// # Safety
// `handle` is null or a handle.
enum ferrowarp_status ferrowarp_synchronize(const struct ferrowarp_handle *handle);

// Allocates device memory, of unknown content, at a multiple of 256 bytes; a null pointer for 0 bytes. On a GPU it is the driver's
// cuMemAlloc(), and cudaMalloc() serves as well. On the emulator all memory that operations use comes from here, and the host must not
// touch it: it is copied.
//
// # Safety
// `handle` is null or a handle, and `pointer` null or a place that can be written.
enum ferrowarp_status ferrowarp_malloc(const struct ferrowarp_handle *handle,
                                       void **pointer,
                                       int64_t bytes);

// Frees memory of ferrowarp_malloc(). A null pointer is left alone. Like cuMemFree() it may wait for all work on the device.
//
// # Safety
// `handle` is null or a handle of the device; the memory is not used again.
enum ferrowarp_status ferrowarp_free(const struct ferrowarp_handle *handle,
                                     void *pointer);

// Copies `bytes` bytes of the host to device memory, after the work that the handle's stream has now. Waits for the stream.
//
// # Safety
// `handle` is null or a handle; the bytes are there.
enum ferrowarp_status ferrowarp_copy_to_device(const struct ferrowarp_handle *handle,
                                               void *device,
                                               const void *host,
                                               int64_t bytes);

// Copies `bytes` bytes of device memory to the host, after the work that the handle's stream has now. Waits for the stream.
//
// # Safety
// `handle` is null or a handle; the bytes are there.
enum ferrowarp_status ferrowarp_copy_to_host(const struct ferrowarp_handle *handle,
                                             void *host,
                                             const void *device,
                                             int64_t bytes);

// Writes softmax(scale * q * k^T) * v to `o`, for each head of each batch. `q: [batches, heads, queries, depth]`, `k` and `v: [batches, heads
// of keys, keys, depth]`; the heads of q are a multiple of those of k and v, which several of them then share.
//
// The last query is aligned with the last key. If `is_causal`, a query sees its own key and those before it, of which no more than `window`
// if that is not negative. `scale` 0 is 1 / sqrt(depth).
//
// Elements of f16, bf16, with a depth of at most 256.
//
// # Safety
// The handle exists; the shapes can be read; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_attention(const struct ferrowarp_handle *handle,
                                          enum ferrowarp_type type,
                                          const void *q,
                                          const struct ferrowarp_heads *q_shape,
                                          const void *k,
                                          const struct ferrowarp_heads *k_shape,
                                          const void *v,
                                          const struct ferrowarp_heads *v_shape,
                                          bool is_causal,
                                          int64_t window,
                                          float scale,
                                          void *o,
                                          const struct ferrowarp_heads *o_shape);

// Counts how many of `x: [n]` fall into each of `bins` bins of equal width, which cover `low` up to below `high`, in `out: [bins]`
// (`uint32_t`). Bin b begins at low + b * (high - low) / bins. What is outside, and NaN, is not counted.
//
// Elements of u8, u16, u32, whose bounds are whole numbers, and f32, whose bounds are rounded to float. With u8 the call copies a table to
// the device and frees it, for which the driver may wait.
//
// # Safety
// The handle exists; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_histogram(const struct ferrowarp_handle *handle,
                                          enum ferrowarp_type type,
                                          const void *x,
                                          int64_t n,
                                          double low,
                                          double high,
                                          uint32_t bins,
                                          uint32_t *out);

// As ferrowarp_histogram(), into bins between neighbours of `levels: [bins + 1]`, which are in ascending order and in the host's memory: bin
// b takes the samples from `levels[b]` to below `levels[b + 1]`. The call copies them to the device and frees them there, for which the driver may wait.
//
// # Safety
// As ferrowarp_histogram(); the levels can be read.
enum ferrowarp_status ferrowarp_histogram_ranges(const struct ferrowarp_handle *handle,
                                                 enum ferrowarp_type type,
                                                 const void *x,
                                                 int64_t n,
                                                 const double *levels,
                                                 uint32_t bins,
                                                 uint32_t *out);

// Writes alpha * A * B + beta * D to D: A is m × k, B is k × n, and D m × n, of the elements' type. If beta is 0, D is not read. A or B of
// 1 batch is used for all of D's.
//
// Elements of f16, bf16, f32, f64; `precision` is for f32. Alpha and beta are rounded to float, but for f64.
//
// # Safety
// The handle exists; the shapes can be read; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_matmul(const struct ferrowarp_handle *handle,
                                       enum ferrowarp_type type,
                                       enum ferrowarp_precision precision,
                                       double alpha,
                                       const void *a,
                                       const struct ferrowarp_matrix *a_shape,
                                       const void *b,
                                       const struct ferrowarp_matrix *b_shape,
                                       double beta,
                                       void *d,
                                       const struct ferrowarp_matrix *d_shape);

// Fills `out: [n]` with uniform random numbers in [0, 1), of Philox4x32-10: elements `offset` and on of the endless array of `seed`. The
// same bits on every device.
//
// Elements of f32, f64.
//
// # Safety
// The handle exists; the array has its elements until its stream has done the work.
enum ferrowarp_status ferrowarp_random_uniform(const struct ferrowarp_handle *handle,
                                               enum ferrowarp_type type,
                                               void *out,
                                               int64_t n,
                                               uint64_t seed,
                                               uint64_t offset);

// Fills `out: [n]` (`float`) with normal random numbers: elements `offset` and on of the endless array of `seed`.
//
// # Safety
// As ferrowarp_random_uniform().
enum ferrowarp_status ferrowarp_random_normal(const struct ferrowarp_handle *handle,
                                              float *out,
                                              int64_t n,
                                              float mean,
                                              float deviation,
                                              uint64_t seed,
                                              uint64_t offset);

// Fills `out: [n]` with random integers from `low` to below `high`, all equally likely: elements `offset` and on of the endless array of
// `seed`. The same bits on every device.
//
// Elements of u32, u64.
//
// # Safety
// As ferrowarp_random_uniform().
enum ferrowarp_status ferrowarp_random_integers(const struct ferrowarp_handle *handle,
                                                enum ferrowarp_type type,
                                                void *out,
                                                int64_t n,
                                                uint64_t low,
                                                uint64_t high,
                                                uint64_t seed,
                                                uint64_t offset);

// Joins all of `x: [n]` to `out: [1]`, in device memory. The sum of f16 and bf16 is a `float`, an index is a `uint64_t`; everything else has
// the elements' type. Of no elements a sum is 0, a product 1, a minimum inf or the type's largest integer, a maximum -inf or its smallest. Floats are joined in
// a fixed order: the same bits in every run.
//
// Elements of f16, bf16, f32, f64, i32, u32, i64, u64; products not of f16 and bf16.
//
// # Safety
// The handle exists; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_reduce(const struct ferrowarp_handle *handle,
                                       enum ferrowarp_type type,
                                       enum ferrowarp_operator operator_,
                                       const void *x,
                                       int64_t n,
                                       void *out);

// Joins each segment of `x: [n]` to an element of `out: [segments]`: segment s is `x[offsets[s]]` to before `x[offsets[s + 1]]`, with
// `offsets: [segments + 1]` (`uint64_t`) in device memory. What of a segment lies outside of `x` is left out. Results are as those of
// ferrowarp_reduce().
//
// Sums of f16, bf16, f32, f64, i32, u32; minima and maxima of f32, i32, u32.
//
// # Safety
// As ferrowarp_reduce().
enum ferrowarp_status ferrowarp_segmented_reduce(const struct ferrowarp_handle *handle,
                                                 enum ferrowarp_type type,
                                                 enum ferrowarp_operator operator_,
                                                 const void *x,
                                                 int64_t n,
                                                 const uint64_t *offsets,
                                                 int64_t segments,
                                                 void *out);

// Writes the softmax of each row of `x: [rows, columns]`, row-major, to `out: [rows, columns]`; its logarithm if `is_log`.
//
// Elements of f32, f16, bf16, computed in f32.
//
// # Safety
// The handle exists; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_softmax(const struct ferrowarp_handle *handle,
                                        enum ferrowarp_type type,
                                        bool is_log,
                                        const void *x,
                                        void *out,
                                        int64_t rows,
                                        int64_t columns);

// Writes the layer norm of each row of `x: [rows, columns]`, row-major, to `out: [rows, columns]`:
// (s - mean) / sqrt(variance + epsilon) * weight + bias with s = x + residual.
//
// `weight: [columns]`, `bias: [columns]` and `residual: [rows, columns]` may be null. Elements of f32, f16, bf16, computed in f32.
//
// # Safety
// As ferrowarp_softmax().
enum ferrowarp_status ferrowarp_layer_norm(const struct ferrowarp_handle *handle,
                                           enum ferrowarp_type type,
                                           const void *x,
                                           const void *residual,
                                           const void *weight,
                                           const void *bias,
                                           float epsilon,
                                           void *out,
                                           int64_t rows,
                                           int64_t columns);

// Writes the RMS norm of each row of `x: [rows, columns]`, row-major, to `out: [rows, columns]`:
// s / sqrt(mean of s^2 + epsilon) * weight with s = x + residual.
//
// `weight: [columns]` and `residual: [rows, columns]` may be null. Elements of f32, f16, bf16, computed in f32.
//
// # Safety
// As ferrowarp_softmax().
enum ferrowarp_status ferrowarp_rms_norm(const struct ferrowarp_handle *handle,
                                         enum ferrowarp_type type,
                                         const void *x,
                                         const void *residual,
                                         const void *weight,
                                         float epsilon,
                                         void *out,
                                         int64_t rows,
                                         int64_t columns);

// Writes each element of `x: [n]` joined with all before it to `out: [n]`; if `is_exclusive`, those before it alone. The first is then 0, or
// of maxima the type's least number, of minima its greatest. Integers wrap; sums of floats have the same bits in every run.
//
// Sums of all types; FERROWARP_OPERATOR_MIN and FERROWARP_OPERATOR_MAX of i32, u32 and f32.
//
// # Safety
// The handle exists; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_scan(const struct ferrowarp_handle *handle,
                                     enum ferrowarp_type type,
                                     enum ferrowarp_operator operator_,
                                     bool is_exclusive,
                                     const void *x,
                                     void *out,
                                     int64_t n);

// Writes the elements of `x: [n]` whose flag (`uint8_t`) in `flags: [n]` is not 0 to the front of `out: [n]`, in their order, and how many they
// are to `count: [1]` (`uint64_t`). All are in device memory, the count too. The rest of `out` stays as it is.
//
// Elements of 1, 4 and 8 bytes.
//
// # Safety
// The handle exists; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_select(const struct ferrowarp_handle *handle,
                                       enum ferrowarp_type type,
                                       const void *x,
                                       const uint8_t *flags,
                                       int64_t n,
                                       void *out,
                                       uint64_t *count);

// As ferrowarp_select(), and the other elements follow in `out: [n]`, in reversed order.
//
// # Safety
// As ferrowarp_select().
enum ferrowarp_status ferrowarp_partition(const struct ferrowarp_handle *handle,
                                          enum ferrowarp_type type,
                                          const void *x,
                                          const uint8_t *flags,
                                          int64_t n,
                                          void *out,
                                          uint64_t *count);

// Writes the elements of `x: [n]` that differ from the one before, and the first, to the front of `out: [n]`, and how many they are to
// `count: [1]` (`uint64_t`): of a sorted array, each value once. The rest of `out` stays as it is. Elements are compared by their bits: a NaN
// equals itself, and the two zeros differ.
//
// Elements of 1, 4 and 8 bytes.
//
// # Safety
// As ferrowarp_select().
enum ferrowarp_status ferrowarp_unique(const struct ferrowarp_handle *handle,
                                       enum ferrowarp_type type,
                                       const void *x,
                                       int64_t n,
                                       void *out,
                                       uint64_t *count);

// Run-length encoding of `x: [n]`: the element of each run of equal ones to the front of `values: [n]`, its length modulo 2^32
// (`uint32_t`) to the front of `lengths: [n]`, and how many runs there are to `count: [1]` (`uint64_t`). Elements are compared as
// ferrowarp_unique() does.
//
// Elements of 1, 4 and 8 bytes.
//
// # Safety
// As ferrowarp_select().
enum ferrowarp_status ferrowarp_run_lengths(const struct ferrowarp_handle *handle,
                                            enum ferrowarp_type type,
                                            const void *x,
                                            int64_t n,
                                            void *values,
                                            uint32_t *lengths,
                                            uint64_t *count);

// Sorts `keys: [n]` to `out: [n]`, which may be `keys` itself. The sort is stable. Floats are in their total order: -NaN, -inf, ...,
// -0.0, 0.0, ..., inf, NaN. Elements of all types.
//
// # Safety
// The handle exists; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_sort(const struct ferrowarp_handle *handle,
                                     enum ferrowarp_type type,
                                     enum ferrowarp_order order,
                                     const void *keys,
                                     void *out,
                                     int64_t n);

// Sorts `keys: [n]` to `out_keys: [n]`, and `values: [n]` to `out_values: [n]` in the order of their keys. Keys and values may both be
// sorted in place. The sort is stable. Keys of all types, values of 4 and 8 bytes.
//
// # Safety
// As ferrowarp_sort().
enum ferrowarp_status ferrowarp_sort_pairs(const struct ferrowarp_handle *handle,
                                           enum ferrowarp_type key_type,
                                           enum ferrowarp_type value_type,
                                           enum ferrowarp_order order,
                                           const void *keys,
                                           const void *values,
                                           void *out_keys,
                                           void *out_values,
                                           int64_t n);

// Writes the indices (`uint32_t`) of the elements of `x: [n]` in order to `indices: [n]`: `x[indices[0]]` is the first. Indices of equal
// elements ascend. Elements of all types; n is at most 2^32.
//
// # Safety
// As ferrowarp_sort().
enum ferrowarp_status ferrowarp_argsort(const struct ferrowarp_handle *handle,
                                        enum ferrowarp_type type,
                                        enum ferrowarp_order order,
                                        const void *x,
                                        uint32_t *indices,
                                        int64_t n);

// Writes the first `k` elements of `x: [n]` in `order` to `out: [k]`, and their indices (`uint32_t`) to `indices: [k]`: the k largest with
// FERROWARP_ORDER_DESCENDING. Of equal elements the first are taken. Elements of all types; n is at most 2^32, and k below 2^31.
//
// # Safety
// As ferrowarp_sort().
enum ferrowarp_status ferrowarp_top_k(const struct ferrowarp_handle *handle,
                                      enum ferrowarp_type type,
                                      enum ferrowarp_order order,
                                      const void *x,
                                      int64_t n,
                                      int64_t k,
                                      void *out,
                                      uint32_t *indices);

// Makes a matrix of `rows` rows, `columns` columns and `entries` entries from arrays in device memory: `offsets: [rows + 1]`,
// `column_indices: [entries]`, both `uint32_t`, and `values: [entries]`. The arrays are not copied: they begin at multiples of 256 bytes, and live unchanged
// until ferrowarp_csr_destroy(), which comes before ferrowarp_destroy(). Enqueues a search for where the blocks of a product begin, which products then save.
//
// Values of f32, f64; fewer than 2^32 rows, columns and entries.
//
// # Safety
// The handle exists, and `matrix` is null or a place that can be written. The offsets rise from 0 to `entries`, and every column is below
// `columns`: they are not looked at.
enum ferrowarp_status ferrowarp_csr_create(const struct ferrowarp_handle *handle,
                                           enum ferrowarp_type type,
                                           int64_t rows,
                                           int64_t columns,
                                           int64_t entries,
                                           const uint32_t *offsets,
                                           const uint32_t *column_indices,
                                           const void *values,
                                           struct ferrowarp_csr **matrix);

// Waits for the stream of the handle that the matrix was made with, and frees what the library has of it: the arrays are the caller's again. A null matrix is left alone.
//
// # Safety
// The matrix is null, or was made by ferrowarp_csr_create() and not destroyed.
enum ferrowarp_status ferrowarp_csr_destroy(struct ferrowarp_csr *matrix);

// Writes A * x to y: `x: [columns]`, `y: [rows]`, of the type of the matrix' values. The same bits in every run.
//
// # Safety
// The handle and the matrix exist; the arrays hold their elements until the stream has done the work.
enum ferrowarp_status ferrowarp_spmv(const struct ferrowarp_handle *handle,
                                     const struct ferrowarp_csr *matrix,
                                     const void *x,
                                     void *y);

// Writes the transpose of each of `batches` matrices `x: [batches, rows, columns]`, row-major, to `out: [batches, columns, rows]`.
//
// Elements of all types.
//
// # Safety
// The handle exists; the arrays hold their elements until its stream has done the work.
enum ferrowarp_status ferrowarp_transpose(const struct ferrowarp_handle *handle,
                                          enum ferrowarp_type type,
                                          const void *x,
                                          void *out,
                                          int64_t rows,
                                          int64_t columns,
                                          int64_t batches);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FERROWARP_H */
