//! Softmax and log-softmax of rows, and their backward passes.
//!
//! `y[i] = exp(x[i] - max) / sum exp(x[j] - max)`; log-softmax is its logarithm, `x[i] - max - ln sum`.
//!
//! * [`softmax_plain`](fn@softmax_plain): one block a row, three passes over it: maximum, sum, results.
//! * [`softmax_registers`](fn@softmax_registers), [`softmax_clusters`](fn@softmax_clusters): one read and one
//!   write. Each thread subtracts the maximum of its own elements, so one exponential an element and one
//!   reduction are enough: the sums are brought to the common maximum when they meet (M. Milakov and
//!   N. Gimelshein, "Online normalizer calculation for softmax", 2018).
//! * [`softmax_staged`](fn@softmax_staged), [`softmax_staged_pairs`](fn@softmax_staged_pairs): long rows, each in shared
//!   memory, while the next one is copied.
//! * [`softmax_streamed`](fn@softmax_streamed): rows that do not fit.
//!
//! Exponentials are `ex2.approx.ftz` of `(x - max) * log2 e`: to 2 ulp and `2^-23` of the exponent's magnitude;
//! results below 2^-126 may become 0. NaN, or positive infinity, in a row makes all of it NaN; so does a row of
//! nothing but negative infinity, whose sum is 0. A single negative infinity becomes 0 (log-softmax: itself).

// The host's compiler does not know `compute_90`.
#![allow(unexpected_cfgs)]

use core::f32::consts::LOG2_E;

use crate::prelude::*;
use cuda_std::intrinsics::{fast_fdividef, logf};
use cuda_std::{bf16, gpu_only};

use super::registers::{build, each};
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
use super::{
    CLUSTER,
    staged::{THREADS as STAGED_THREADS, staged, staged_memory},
};
use super::{
    Lanes, MAX_THREADS, Pack, Place, RowOp, STREAM_THREADS, Shape, Summary, Value, in_registers,
    streamed,
};

/// Threads in a block of [`softmax_plain`](fn@softmax_plain).
pub const PLAIN_BLOCK: u32 = 256;

/// Most dynamic shared memory of a block, in bytes, on any device so far.
pub const MAX_SHARED_BYTES: u32 = 227 * 1024;

/// `2^x` by one instruction, to 2 ulp; results below 2^-126 are 0.
#[gpu_only]
#[inline(always)]
fn exp2_flushed(x: f32) -> f32 {
    let result;
    // SAFETY: arithmetic in registers.
    unsafe {
        core::arch::asm!("ex2.approx.ftz.f32 {r}, {x};", r = out(reg32) result, x = in(reg32) x,
            options(pure, nomem, nostack, preserves_flags));
    }
    result
}

/// `e^x`. The product is rounded before the power is taken, whatever the size of the row's elements: `x` is a
/// difference to the maximum.
#[inline(always)]
fn exp(x: f32) -> f32 {
    exp2_flushed(x * LOG2_E)
}

/// The same number, of which the compiler does not know that it is.
#[inline(always)]
fn apart(x: f32) -> f32 {
    #[cfg(target_os = "cuda")]
    {
        let mut x = x;
        // SAFETY: a comment.
        unsafe {
            core::arch::asm!("// {0}", inout(reg32) x, options(nomem, nostack, preserves_flags));
        }
        x
    }
    #[cfg(not(target_os = "cuda"))]
    x
}

/// What is subtracted from elements whose maximum is `max`: 0 where that would be `-inf - -inf`.
#[inline(always)]
fn center(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// The maximum of some elements, and the sum of `exp(x - center(max))`.
#[derive(Clone, Copy)]
pub struct Exponentials {
    max: f32,
    sum: f32,
}

impl Exponentials {
    /// The sum relative to a maximum that is not less.
    #[inline(always)]
    fn sum_below(self, max: f32) -> f32 {
        self.sum * exp(self.max - center(max))
    }
}

impl Summary for Exponentials {
    const EMPTY: Self = Self { max: f32::NEG_INFINITY, sum: 0.0 };
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn join_parts<const N: usize>(parts: [Self; N], lanes: impl Lanes) -> Self {
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
        each::<N>(|k| max = max.max(parts[k].max));
        let max = lanes.max(max);
        each::<N>(|k| sum += parts[k].sum_below(max));
        Self { max, sum: lanes.sum(sum) }
    }

    #[inline(always)]
    fn merge(self, later: Self) -> Self {
        let max = self.max.max(later.max);
        Self { max, sum: self.sum_below(max) + later.sum_below(max) }
    }

    #[inline(always)]
    fn to_words(self) -> [Vec4<f32>; 2] {
        [Vec4::new(self.max, self.sum, 0.0, 0.0), Vec4::splat(0.0)]
    }

    #[inline(always)]
    fn from_words([first, _]: [Vec4<f32>; 2]) -> Self {
        Self { max: first.x, sum: first.y }
    }
}

/// Softmax, or its logarithm.
#[derive(Clone, Copy)]
struct Softmax<T> {
    is_log: bool,
    x: *const T,
    out: *mut T,
}

/// A result is `(kept - shift) * scale + offset`.
#[derive(Clone, Copy)]
struct Line {
    shift: f32,
    scale: f32,
    offset: f32,
}

impl<T: Value<V>, const V: usize> RowOp<V, 1> for Softmax<T> {
    type Element = T;
    type Summary = Exponentials;
    type Constants = Line;
    /// The elements, and then their exponentials (of log-softmax, still the elements).
    type Kept = [f32; V];
    type Columns = ();

    const ABSENT: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn inputs(self) -> [*const T; 1] {
        [self.x]
    }

    #[inline(always)]
    fn output(self) -> *mut T {
        self.out
    }

    #[inline(always)]
    unsafe fn prepare(self, [x]: [Pack; 1], _: Place) -> [f32; V] {
        T::unpack(x)
    }

    #[inline(always)]
    fn digest<const K: usize>(
        self,
        x: [[f32; V]; K],
        _: [Place; K],
    ) -> ([[f32; V]; K], Exponentials) {
        let mut max = f32::NEG_INFINITY;
        each::<K>(|k| each::<V>(|i| max = max.max(x[k][i])));
        let (center, mut sum) = (center(max), 0.0);
        if self.is_log {
            // Told apart, lest the compiler compute the powers once for both and keep them beside the elements.
            let center = apart(center);
            each::<K>(|k| each::<V>(|i| sum += exp(x[k][i] - center)));
            return (x, Exponentials { max, sum });
        }
        let powers = build(|k| {
            build(|i| {
                let power = exp(x[k][i] - center);
                sum += power;
                power
            })
        });
        (powers, Exponentials { max, sum })
    }

    #[inline(always)]
    fn settle(self, x: [f32; V], row: Exponentials) -> [f32; V] {
        let center = center(row.max);
        build(|i| if self.is_log { x[i] } else { exp(x[i] - center) })
    }

    #[inline(always)]
    fn constants(self, own: Exponentials, row: Exponentials) -> Line {
        if self.is_log {
            return Line { shift: row.max, scale: 1.0, offset: -logf(row.sum) };
        }
        let scale = fast_fdividef(exp(own.max - center(row.max)), row.sum);
        Line { shift: 0.0, scale, offset: 0.0 }
    }

    #[inline(always)]
    unsafe fn columns(self, _: Place) {}

    #[inline(always)]
    unsafe fn apply(self, kept: [f32; V], line: Line, (): (), _: Place) -> [f32; V] {
        build(|i| (kept[i] - line.shift) * line.scale + line.offset)
    }
}

/// The sum of one number of each element.
#[derive(Clone, Copy)]
pub struct Sum(f32);

impl Summary for Sum {
    const EMPTY: Self = Self(0.0);
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn join_parts<const N: usize>(parts: [Self; N], lanes: impl Lanes) -> Self {
        let mut sum = 0.0;
        each::<N>(|k| sum += parts[k].0);
        Self(lanes.sum(sum))
    }

    #[inline(always)]
    fn merge(self, later: Self) -> Self {
        Self(self.0 + later.0)
    }

    #[inline(always)]
    fn to_words(self) -> [Vec4<f32>; 2] {
        [Vec4::splat(self.0), Vec4::splat(0.0)]
    }

    #[inline(always)]
    fn from_words([first, _]: [Vec4<f32>; 2]) -> Self {
        Self(first.x)
    }
}

/// From the results and the gradient by them, the gradient by the inputs.
#[derive(Clone, Copy)]
struct SoftmaxBackward<T> {
    is_log: bool,
    y: *const T,
    dy: *const T,
    dx: *mut T,
}

impl<T: Value<V>, const V: usize> RowOp<V, 2> for SoftmaxBackward<T> {
    type Element = T;
    type Summary = Sum;
    type Constants = f32;
    /// The probabilities and the gradient.
    type Kept = [[f32; V]; 2];
    type Columns = ();

    #[inline(always)]
    fn inputs(self) -> [*const T; 2] {
        [self.y, self.dy]
    }

    #[inline(always)]
    fn output(self) -> *mut T {
        self.dx
    }

    #[inline(always)]
    unsafe fn prepare(self, given: [Pack; 2], _: Place) -> [[f32; V]; 2] {
        let [y, dy] = given.map(T::unpack);
        [build(|i| if self.is_log { exp(y[i]) } else { y[i] }), dy]
    }

    #[inline(always)]
    fn digest<const K: usize>(
        self,
        given: [[[f32; V]; 2]; K],
        _: [Place; K],
    ) -> ([[[f32; V]; 2]; K], Sum) {
        let mut sum = 0.0;
        each::<K>(|k| {
            let [p, dy] = given[k];
            each::<V>(|i| sum += if self.is_log { dy[i] } else { p[i] * dy[i] });
        });
        (given, Sum(sum))
    }

    #[inline(always)]
    fn constants(self, _: Sum, row: Sum) -> f32 {
        row.0
    }

    #[inline(always)]
    unsafe fn columns(self, _: Place) {}

    #[inline(always)]
    unsafe fn apply(self, [p, dy]: [[f32; V]; 2], sum: f32, (): (), _: Place) -> [f32; V] {
        build(|i| if self.is_log { dy[i] - p[i] * sum } else { p[i] * (dy[i] - sum) })
    }
}

/// The shared memory of the reductions.
macro_rules! exchange {
    () => {
        $crate::rows::Exchange {
            warps: shared_array![Vec4<f32>; 2 * $crate::rows::group::MAX_WARPS],
            blocks: shared_array![Vec4<f32>; 2 * $crate::rows::CLUSTER as usize],
        }
    };
}
pub(super) use exchange;

/// `out` becomes the softmax (with `is_log` the log-softmax) of each row of `x: [rows, columns]`.
///
/// # Safety
/// As [`in_registers`].
#[kernel((f32, 4, 8), (f16, 8, 4), (bf16, 8, 4), max_threads = MAX_THREADS)]
pub unsafe fn softmax_registers<T: Value<V>, const V: usize, const K: usize>(
    shape: Shape,
    is_log: bool,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let op = Softmax { is_log, x: x.as_ptr(), out: out.as_mut_ptr() };
    // SAFETY: the caller's promise.
    unsafe { in_registers::<_, V, 1, K, false>(op, shape, exchange!()) };
}

/// As [`softmax_registers`](fn@softmax_registers), with a cluster for each row.
///
/// # Safety
/// As [`in_registers`].
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[kernel((f32, 4, 8), (f16, 8, 4), (bf16, 8, 4), max_threads = MAX_THREADS, cluster = CLUSTER)]
pub unsafe fn softmax_clusters<T: Value<V>, const V: usize, const K: usize>(
    shape: Shape,
    is_log: bool,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let op = Softmax { is_log, x: x.as_ptr(), out: out.as_mut_ptr() };
    // SAFETY: the caller's promise.
    unsafe { in_registers::<_, V, 1, K, true>(op, shape, exchange!()) };
}

/// As [`softmax_registers`](fn@softmax_registers), of long rows one after the other, each in the shared memory of a
/// block.
///
/// # Safety
/// As [`staged`].
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[kernel((f32, 4), (f16, 8), (bf16, 8), max_threads = STAGED_THREADS, min_blocks = 1, dynamic_shared = 0..=MAX_SHARED_BYTES)]
pub unsafe fn softmax_staged<T: Value<V>, const V: usize>(
    shape: Shape,
    is_log: bool,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let op = Softmax { is_log, x: x.as_ptr(), out: out.as_mut_ptr() };
    // SAFETY: the caller's promise.
    unsafe { staged::<_, V, 1>(op, shape, staged_memory!(1)) };
}

/// As [`softmax_staged`](fn@softmax_staged), each in that of two blocks.
///
/// # Safety
/// As [`staged`].
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[kernel((f32, 4), (f16, 8), (bf16, 8), max_threads = STAGED_THREADS, min_blocks = 1, cluster = 2, dynamic_shared = 0..=MAX_SHARED_BYTES)]
pub unsafe fn softmax_staged_pairs<T: Value<V>, const V: usize>(
    shape: Shape,
    is_log: bool,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let op = Softmax { is_log, x: x.as_ptr(), out: out.as_mut_ptr() };
    // SAFETY: the caller's promise.
    unsafe { staged::<_, V, 2>(op, shape, staged_memory!(2)) };
}

/// As [`softmax_registers`](fn@softmax_registers), for rows of any length, with a block for each.
///
/// # Safety
/// As [`streamed`].
#[kernel((f32, 4, 8), (f16, 8, 4), (bf16, 8, 4), max_threads = STREAM_THREADS, dynamic_shared = 0..=MAX_SHARED_BYTES)]
pub unsafe fn softmax_streamed<T: Value<V>, const V: usize, const K: usize>(
    shape: Shape,
    is_log: bool,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let op = Softmax { is_log, x: x.as_ptr(), out: out.as_mut_ptr() };
    // SAFETY: the caller's promise.
    unsafe { streamed::<_, V, 1, K>(op, shape, exchange!()) };
}

/// `dx` becomes the gradient by the inputs of softmax (with `is_log`, log-softmax), from its results `y` and
/// the gradient `dy` by them; all `[rows, columns]`.
///
/// # Safety
/// As [`in_registers`].
#[kernel((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2), max_threads = MAX_THREADS)]
pub unsafe fn softmax_backward_registers<T: Value<V>, const V: usize, const K: usize>(
    shape: Shape,
    is_log: bool,
    y: &[T],
    dy: &[T],
    mut dx: DisjointSlice<T>,
) {
    let op = SoftmaxBackward { is_log, y: y.as_ptr(), dy: dy.as_ptr(), dx: dx.as_mut_ptr() };
    // SAFETY: the caller's promise.
    unsafe { in_registers::<_, V, 2, K, false>(op, shape, exchange!()) };
}

/// As [`softmax_backward_registers`](fn@softmax_backward_registers), for rows of any length, with a block for each.
///
/// # Safety
/// As [`streamed`].
#[kernel((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2), max_threads = STREAM_THREADS, dynamic_shared = 0..=MAX_SHARED_BYTES)]
pub unsafe fn softmax_backward_streamed<T: Value<V>, const V: usize, const K: usize>(
    shape: Shape,
    is_log: bool,
    y: &[T],
    dy: &[T],
    mut dx: DisjointSlice<T>,
) {
    let op = SoftmaxBackward { is_log, y: y.as_ptr(), dy: dy.as_ptr(), dx: dx.as_mut_ptr() };
    // SAFETY: the caller's promise.
    unsafe { streamed::<_, V, 2, K>(op, shape, exchange!()) };
}

/// The plain form: one block a row, which goes over it three times. `x, out: [rows, columns]`, a block for each
/// row. Rows outside of either are left alone.
#[kernel]
pub fn softmax_plain(
    mut block: Block<{ PLAIN_BLOCK as usize }>,
    columns: usize,
    is_log: bool,
    x: &[f32],
    mut out: DisjointSlice<f32>,
) {
    let (first, thread) = (thread::block_idx_x() as usize * columns, block.thread());
    let Some(row) = x.get(first..first + columns) else { return };
    if out.len() < first + columns {
        return;
    }

    let mut max = f32::NEG_INFINITY;
    for &value in row.iter().skip(thread).step_by(PLAIN_BLOCK as usize) {
        max = max.max(value);
    }
    let max = block.max(max);
    let mut sum = 0.0;
    for &value in row.iter().skip(thread).step_by(PLAIN_BLOCK as usize) {
        sum += exp(value - max);
    }
    let sum = block.sum(sum);
    let mut i = thread;
    while i < columns {
        let shifted = row[i] - max;
        let result = if is_log { shifted - logf(sum) } else { exp(shifted) / sum };
        // SAFETY: inside of `out`, in a row of this block alone, in a place of this thread alone.
        unsafe { out.as_mut_ptr().add(first + i).write(result) };
        i += PLAIN_BLOCK as usize;
    }
}
