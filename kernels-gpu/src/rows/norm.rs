//! Layer norm and RMS norm of rows, with weights and a residual.
//!
//! Layer norm: `y = (x - mean) / sqrt(var + epsilon) * weight + bias`, with the mean and the variance (of `n`,
//! not of `n - 1`) of the row. RMS norm: a layer norm with a mean of 0, `x / sqrt(mean of x² + epsilon)`.
//!
//! * [`norm_plain`](fn@norm_plain): one block a row, three passes over it: mean, variance, results.
//! * [`norm_registers`](fn@norm_registers), [`norm_clusters`](fn@norm_clusters): one read and one write.
//! * [`norm_pipelined`](fn@norm_pipelined), [`norm_pipelined_small`](fn@norm_pipelined_small): long rows, while those behind are
//!   copied and learnt. Weight and bias stay in registers.
//! * [`norm_streamed`](fn@norm_streamed): rows that do not fit.
//!
//! The variance is stable: each thread computes mean and sum of squared deviations of its own elements in two
//! passes over its registers, and pairs of those are joined by the formula of T. Chan, G. Golub and R. LeVeque
//! ("Updating formulae and a pairwise algorithm for computing sample variances", 1979). No square of an element
//! is subtracted from another one.
//!
//! The backward passes are in [`norm_backward`](super::norm_backward) and [`norm_weights`](super::norm_weights).

// The host's compiler does not know `compute_90`.
#![allow(unexpected_cfgs)]

use crate::prelude::*;
use cuda_std::bf16;
use cuda_std::intrinsics::{fast_fdividef, rsqrtf};
use cuda_std::unroll::{build, each};

use super::forms::row_kernels;
use super::softmax::PLAIN_BLOCK;
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
use super::{CLUSTER, SMALL_CLUSTER};
use super::{
    Lanes, Pack, Place, Reuse, RowOp, Shape, Summary, Value, load_vector, opaque, store_vector,
};

/// Vectors of a row that a thread holds without a residual: packed, so that two blocks of 512 threads or four of 256
/// run at a time, with 64 KiB on the way.
pub const PACKS: usize = 4;

/// What the norms compute.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NormKind {
    /// 1 for layer norm, 0 for RMS norm: whether the mean is subtracted.
    pub is_centered: u32,
    /// Added to the variance.
    pub epsilon: f32,
}

/// `a / n`, to an ulp: an estimate and one step of Newton's.
#[inline(always)]
pub(super) fn quotient(a: f32, n: f32) -> f32 {
    let reciprocal = fast_fdividef(1.0, n);
    let q = a * reciprocal;
    (a - q * n) * reciprocal + q
}

/// Count, mean and sum of squared deviations of some elements. (For RMS norm the mean stays 0.)
#[derive(Clone, Copy)]
pub struct Moments {
    pub(super) count: f32,
    pub(super) mean: f32,
    squares: f32,
}

impl Moments {
    pub(super) const EMPTY: Self = Self { count: 0.0, mean: 0.0, squares: 0.0 };

    /// Those of this thread's vectors `x`, by two passes over them.
    #[inline(always)]
    pub(super) fn of<const V: usize, const K: usize>(
        kind: NormKind,
        x: [[f32; V]; K],
        places: [Place; K],
    ) -> Self {
        let (mut n, mut sum) = (0, 0.0);
        each::<K>(|k| {
            n += places[k].count::<V>();
            each::<V>(|i| sum += x[k][i]);
        });
        let count = n as f32;
        let mean = if kind.is_centered != 0 { quotient(sum, count.max(1.0)) } else { 0.0 };
        let mut squares = 0.0;
        each::<K>(|k| {
            let (place, mut of_vector) = (places[k], 0.0);
            each::<V>(|i| {
                let is_there = place.whole || place.has(i);
                let deviation = if is_there { x[k][i] - mean } else { 0.0 };
                of_vector += deviation * deviation;
            });
            squares += if place.has(0) { of_vector } else { 0.0 };
        });
        Self { count, mean, squares }
    }

    /// With another center in place of the mean, how far is it? Lanes and parts are joined by this.
    #[inline(always)]
    fn moved(self, mean: f32) -> (f32, f32) {
        let distance = self.mean - mean;
        (distance, self.squares + self.count * distance * distance)
    }

    /// The join of each lane's parts, and the distance of their means to the common one.
    #[inline(always)]
    pub(super) fn join<const N: usize>(parts: [Self; N], lanes: impl Lanes) -> (Self, [f32; N]) {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        each::<N>(|k| {
            count += parts[k].count;
            sum += parts[k].mean * parts[k].count;
        });
        let count = lanes.sum(count);
        let mean = quotient(lanes.sum(sum), count.max(1.0));
        let distances = build(|k| {
            let (distance, moved) = parts[k].moved(mean);
            squares += moved;
            distance
        });
        (Self { count, mean, squares: lanes.sum(squares) }, distances)
    }

    /// The same for two parts.
    #[inline(always)]
    pub(super) fn merge(self, later: Self) -> (Self, [f32; 2]) {
        let count = self.count + later.count;
        let sum = self.mean * self.count + later.mean * later.count;
        let mean = quotient(sum, count.max(1.0));
        let ((here, a), (there, b)) = (self.moved(mean), later.moved(mean));
        (Self { count, mean, squares: a + b }, [here, there])
    }

    /// Mean, and reciprocal of the standard deviation.
    #[inline(always)]
    pub(super) fn scale(self, kind: NormKind) -> Scale {
        moments_scale(kind, self.mean, self.squares, self.count.max(1.0))
    }
}

/// What a row is normalised by, from its mean and the sum of its squared deviations.
#[inline(always)]
pub(super) fn moments_scale(kind: NormKind, mean: f32, squares: f32, count: f32) -> Scale {
    // Not `quotient`, of which an infinite sum would be NaN.
    let variance = fast_fdividef(squares, count);
    Scale { mean, reciprocal: rsqrtf(variance + kind.epsilon) }
}

/// What a row is normalised by.
#[derive(Clone, Copy)]
pub struct Scale {
    pub(super) mean: f32,
    pub(super) reciprocal: f32,
}

impl Summary for Moments {
    const EMPTY: Self = Moments::EMPTY;
    const IS_WIDE: bool = false;

    #[inline(always)]
    fn join_parts<const N: usize>(parts: [Self; N], lanes: impl Lanes) -> Self {
        Moments::join(parts, lanes).0
    }

    #[inline(always)]
    fn merge(self, later: Self) -> Self {
        Moments::merge(self, later).0
    }

    #[inline(always)]
    fn to_words(self) -> [Vec4<f32>; 2] {
        [Vec4::new(self.count, self.mean, self.squares, 0.0), Vec4::splat(0.0)]
    }

    #[inline(always)]
    fn from_words([first, _]: [Vec4<f32>; 2]) -> Self {
        Self { count: first.x, mean: first.y, squares: first.z }
    }
}

/// A row that all rows share, or none.
#[derive(Clone, Copy)]
pub(super) struct Shared1<T> {
    pub(super) values: *const T,
    pub(super) is_there: bool,
}

impl<T> Shared1<T> {
    #[inline(always)]
    pub(super) fn new(values: &[T]) -> Self {
        Self { values: values.as_ptr(), is_there: !values.is_empty() }
    }

    /// Its address, with no bit set if it is not there: no elements may begin anywhere.
    #[inline(always)]
    pub(super) fn address(self) -> usize {
        if self.is_there { self.values.addr() } else { 0 }
    }

    /// The elements of `place`'s columns, or `absent` if there are none.
    ///
    /// # Safety
    /// As [`load_vector`].
    #[inline(always)]
    pub(super) unsafe fn load<const V: usize>(self, place: Place, absent: f32) -> Pack
    where
        T: Value<V>,
    {
        if !self.is_there {
            return T::filled(absent);
        }
        // SAFETY: the caller's promise.
        unsafe { load_vector(self.values, place, absent, Reuse::ByEveryRow) }
    }
}

/// The weights and the bias of a norm; those that are not there are empty.
#[derive(Clone, Copy)]
struct Affine<T> {
    weight: Shared1<T>,
    bias: Shared1<T>,
}

impl<T> Affine<T> {
    #[inline(always)]
    fn addresses(self) -> usize {
        self.weight.address() | self.bias.address()
    }

    /// Weights and bias of a vector's columns.
    ///
    /// # Safety
    /// As [`load_vector`].
    #[inline(always)]
    unsafe fn columns<const V: usize>(self, place: Place) -> [Pack; 2]
    where
        T: Value<V>,
    {
        // SAFETY: the caller's promise.
        unsafe { [self.weight.load(place, 1.0), self.bias.load(place, 0.0)] }
    }
}

impl Scale {
    /// The results for `x`, in columns with these weights and biases.
    #[inline(always)]
    fn apply<T: Value<V>, const V: usize>(self, x: [f32; V], columns: [Pack; 2]) -> [f32; V] {
        let [weight, bias] = columns.map(|pack| T::unpack(opaque(pack)));
        let shift = -self.mean * self.reciprocal;
        build(|i| (x[i] * self.reciprocal + shift) * weight[i] + bias[i])
    }
}

/// A norm with its arguments.
#[derive(Clone, Copy)]
struct Norm<T> {
    kind: NormKind,
    x: *const T,
    affine: Affine<T>,
    out: *mut T,
}

impl<T> Norm<T> {
    #[inline(always)]
    fn new(kind: NormKind, x: &[T], weight: &[T], bias: &[T], out: &mut DisjointSlice<T>) -> Self {
        let affine = Affine { weight: Shared1::new(weight), bias: Shared1::new(bias) };
        Self { kind, x: x.as_ptr(), affine, out: out.as_mut_ptr() }
    }
}

impl<T: Value<V>, const V: usize> RowOp<V, 1> for Norm<T> {
    type Element = T;
    type Summary = Moments;
    type Constants = Scale;
    type Kept = Pack;
    type Columns = [Pack; 2];

    #[inline(always)]
    fn inputs(self) -> [*const T; 1] {
        [self.x]
    }

    #[inline(always)]
    fn output(self) -> *mut T {
        self.out
    }

    #[inline(always)]
    fn others(self) -> usize {
        self.affine.addresses()
    }

    #[inline(always)]
    unsafe fn prepare(self, [x]: [Pack; 1], _: Place) -> Pack {
        x
    }

    #[inline(always)]
    fn digest<const K: usize>(self, x: [Pack; K], places: [Place; K]) -> ([Pack; K], Moments) {
        (x, Moments::of::<V, K>(self.kind, x.map(T::unpack), places))
    }

    #[inline(always)]
    fn constants(self, _: Moments, row: Moments) -> Scale {
        row.scale(self.kind)
    }

    #[inline(always)]
    unsafe fn columns(self, place: Place) -> [Pack; 2] {
        // SAFETY: the caller's promise.
        unsafe { self.affine.columns(place) }
    }

    #[inline(always)]
    unsafe fn apply(self, x: Pack, by: Scale, columns: [Pack; 2], _: Place) -> [f32; V] {
        by.apply::<T, V>(T::unpack(x), columns)
    }
}

/// A norm of `x + residual`, which is not rounded before: it is kept as `f32`.
#[derive(Clone, Copy)]
struct NormOfSum<T> {
    norm: Norm<T>,
    residual: Shared1<T>,
    sum: Option<*mut T>,
}

impl<T: Value<V>, const V: usize> RowOp<V, 2> for NormOfSum<T> {
    type Element = T;
    type Summary = Moments;
    type Constants = Scale;
    type Kept = [f32; V];
    type Columns = [Pack; 2];

    #[inline(always)]
    fn inputs(self) -> [*const T; 2] {
        let residual = if self.residual.is_there { self.residual.values } else { self.norm.x };
        [self.norm.x, residual]
    }

    #[inline(always)]
    fn output(self) -> *mut T {
        self.norm.out
    }

    #[inline(always)]
    fn others(self) -> usize {
        self.norm.affine.addresses() | self.sum.map_or(0, |sum| sum.addr())
    }

    #[inline(always)]
    unsafe fn prepare(self, loaded: [Pack; 2], _: Place) -> [f32; V] {
        let [x, residual] = loaded.map(T::unpack);
        build(|i| if self.residual.is_there { x[i] + residual[i] } else { x[i] })
    }

    #[inline(always)]
    unsafe fn pass_on(self, x: [f32; V], place: Place) {
        if let Some(sum) = self.sum {
            // SAFETY: the caller's promise.
            unsafe { store_vector(sum.wrapping_add(place.row), place, x) };
        }
    }

    #[inline(always)]
    fn digest<const K: usize>(
        self,
        x: [[f32; V]; K],
        places: [Place; K],
    ) -> ([[f32; V]; K], Moments) {
        (x, Moments::of::<V, K>(self.norm.kind, x, places))
    }

    #[inline(always)]
    fn constants(self, _: Moments, row: Moments) -> Scale {
        row.scale(self.norm.kind)
    }

    #[inline(always)]
    unsafe fn columns(self, place: Place) -> [Pack; 2] {
        // SAFETY: the caller's promise.
        unsafe { self.norm.affine.columns(place) }
    }

    #[inline(always)]
    unsafe fn apply(self, x: [f32; V], by: Scale, columns: [Pack; 2], _: Place) -> [f32; V] {
        by.apply::<T, V>(x, columns)
    }
}

/// The pointer to memory that may be none.
#[inline(always)]
pub(super) fn optional<T>(mut memory: DisjointSlice<T>) -> Option<*mut T> {
    (!memory.is_empty()).then(|| memory.as_mut_ptr())
}

row_kernels! {
    {
        /// `out` becomes the norm of each row of `x: [rows, columns]`, times `weight`, plus `bias` (`[columns]`).
        /// `weight` and `bias` may be empty.
        (shape: Shape, kind: NormKind, x: &[T], weight: &[T], bias: &[T], mut out: DisjointSlice<T>)
        inputs 1 => Norm::new(kind, x, weight, bias, &mut out)
    }
    registers norm_registers((f32, 4, 4), (f16, 8, 4), (bf16, 8, 4));
    clusters norm_clusters((f32, 4, 4), (f16, 8, 4), (bf16, 8, 4));
    pipelined[CLUSTER] norm_pipelined((f32, 4, 4), (f16, 8, 4), (bf16, 8, 4));
    pipelined[SMALL_CLUSTER] norm_pipelined_small((f32, 4, 4), (f16, 8, 4), (bf16, 8, 4));
    streamed norm_streamed((f32, 4, 4), (f16, 8, 4), (bf16, 8, 4));
}

row_kernels! {
    {
        /// `out` becomes the norm of each row of `x + residual: [rows, columns]`, times `weight`, plus `bias` (`[columns]`);
        /// `sum` becomes `x + residual`. `residual`, `weight`, `bias` and `sum` may be empty.
        (
            shape: Shape, kind: NormKind, x: &[T], residual: &[T], weight: &[T], bias: &[T],
            mut out: DisjointSlice<T>, sum: DisjointSlice<T>
        )
        inputs 2 => NormOfSum {
            norm: Norm::new(kind, x, weight, bias, &mut out),
            residual: Shared1::new(residual),
            sum: optional(sum),
        }
    }
    registers norm_sum_registers((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2));
    clusters norm_sum_clusters((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2));
    streamed norm_sum_streamed((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2));
}

/// The plain form: one block a row, which goes over it three times. `x, out: [rows, columns]`, a block for each row;
/// `weight` and `bias` are `[columns]` or empty. Rows outside of a matrix are left alone.
#[kernel]
#[expect(clippy::too_many_arguments, reason = "a block, four numbers of a norm, and four arrays")]
pub fn norm_plain(
    mut block: Block<{ PLAIN_BLOCK as usize }>,
    columns: usize,
    is_centered: u32,
    epsilon: f32,
    x: &[f32],
    weight: &[f32],
    bias: &[f32],
    mut out: DisjointSlice<f32>,
) {
    let (first, thread) = (thread::block_idx_x() as usize * columns, block.thread());
    let Some(row) = x.get(first..first + columns) else { return };
    if out.len() < first + columns {
        return;
    }
    let own = || row.iter().skip(thread).step_by(PLAIN_BLOCK as usize);

    let mut sum = 0.0;
    own().for_each(|value| sum += value);
    let sum = block.sum(sum);
    let mean = if is_centered != 0 { sum / columns as f32 } else { 0.0 };
    let mut square = 0.0;
    own().for_each(|value| square += (value - mean) * (value - mean));
    let square = block.sum(square);
    let reciprocal = rsqrtf(square / columns as f32 + epsilon);
    let mut i = thread;
    while i < columns {
        let weight = weight.get(i).copied().unwrap_or(1.0);
        let bias = bias.get(i).copied().unwrap_or(0.0);
        let result = (row[i] - mean) * reciprocal * weight + bias;
        // SAFETY: inside of `out`, in a row of this block alone, in a place of this thread alone.
        unsafe { out.as_mut_ptr().add(first + i).write(result) };
        i += PLAIN_BLOCK as usize;
    }
}
