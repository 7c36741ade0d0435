//! The backward passes of layer norm and RMS norm: the gradient by the elements.
//!
//! * [`norm_backward_fused`](fn@norm_backward_fused): rows that fit beside the sums of the gradients by the weights, which
//!   are added up on the way: everything is read once (`sm_90`).
//! * [`norm_backward_registers`](fn@norm_backward_registers), [`norm_backward_streamed`](fn@norm_backward_streamed): all
//!   others. The gradients by the weights are another pass over both inputs: [`norm_weights`](super::norm_weights).
//!
//! `sum g` and `sum g (x - mean)` are carried beside mean and squares, as [`norm`](super::norm) has them.

// The host's compiler does not know `compute_90`.
#![allow(unexpected_cfgs)]

use crate::prelude::*;
use cuda_std::bf16;

use super::norm::{Moments, NormKind, Scale, Shared1, optional, quotient};
use super::registers::{build, each};
use super::softmax::{MAX_SHARED_BYTES, exchange};
use super::{
    Lanes, MAX_THREADS, Pack, Place, Reuse, RowOp, STREAM_THREADS, Shape, Summary, Value,
    in_registers, load_vector, streamed,
};
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
use super::{
    norm::moments_scale,
    stages::{MAX_STAGES, Stages},
    {Butterfly, WARP, anew, store_vector},
};

/// [`Moments`] of `x`, and the sums of `g` and `g (x - mean)`.
#[derive(Clone, Copy)]
pub struct Gradients {
    of_x: Moments,
    sum: f32,
    products: f32,
}

impl Summary for Gradients {
    const EMPTY: Self = Self { of_x: Moments::EMPTY, sum: 0.0, products: 0.0 };
    const IS_WIDE: bool = true;

    #[inline(always)]
    fn join_parts<const N: usize>(parts: [Self; N], lanes: impl Lanes) -> Self {
        let (of_x, distances) = Moments::join(build::<_, N>(|k| parts[k].of_x), lanes);
        let (mut sum, mut products) = (0.0, 0.0);
        each::<N>(|k| {
            sum += parts[k].sum;
            products += parts[k].products + distances[k] * parts[k].sum;
        });
        Self { of_x, sum: lanes.sum(sum), products: lanes.sum(products) }
    }

    #[inline(always)]
    fn merge(self, later: Self) -> Self {
        let (of_x, [here, there]) = self.of_x.merge(later.of_x);
        let products = self.products + here * self.sum + (later.products + there * later.sum);
        Self { of_x, sum: self.sum + later.sum, products }
    }

    #[inline(always)]
    fn to_words(self) -> [Vec4<f32>; 2] {
        [self.of_x.to_words()[0], Vec4::new(self.sum, self.products, 0.0, 0.0)]
    }

    #[inline(always)]
    fn from_words([first, second]: [Vec4<f32>; 2]) -> Self {
        let of_x = Moments::from_words([first, first]);
        Self { of_x, sum: second.x, products: second.y }
    }
}

/// The gradient by the elements. `addend` is what comes to the residual's sum from elsewhere.
#[derive(Clone, Copy)]
struct NormBackward<T> {
    kind: NormKind,
    x: *const T,
    dy: *const T,
    weight: Shared1<T>,
    addend: Shared1<T>,
    dx: *mut T,
    stats: Option<*mut Vec2<f32>>,
}

/// `dx = (g - mean_g - normalised * mean_product) * scale.reciprocal`.
#[derive(Clone, Copy)]
struct Slope {
    scale: Scale,
    mean_g: f32,
    mean_product: f32,
}

impl Slope {
    /// From the sums of `g` and of `g (x - mean)` over `count` elements.
    #[inline(always)]
    fn new(kind: NormKind, scale: Scale, [sum, products]: [f32; 2], count: f32) -> Self {
        let mean_g = if kind.is_centered != 0 { quotient(sum, count) } else { 0.0 };
        Self { scale, mean_g, mean_product: quotient(products, count) * scale.reciprocal }
    }

    /// The gradient by an element, from it as normalised and the gradient `g`.
    #[inline(always)]
    fn at(self, normalised: f32, g: f32) -> f32 {
        (g - self.mean_g - normalised * self.mean_product) * self.scale.reciprocal
    }
}

impl Scale {
    #[inline(always)]
    fn of(self, x: f32) -> f32 {
        (x - self.mean) * self.reciprocal
    }
}

impl<T: Value<V>, const V: usize> RowOp<V, 2> for NormBackward<T> {
    type Element = T;
    type Summary = Gradients;
    type Constants = Slope;
    /// `x`, and the gradient before the weights.
    type Kept = [[f32; V]; 2];
    type Columns = ();

    #[inline(always)]
    fn inputs(self) -> [*const T; 2] {
        [self.x, self.dy]
    }

    #[inline(always)]
    fn output(self) -> *mut T {
        self.dx
    }

    #[inline(always)]
    fn others(self) -> usize {
        self.weight.address() | self.addend.address()
    }

    #[inline(always)]
    unsafe fn prepare(self, [x, dy]: [Pack; 2], place: Place) -> [[f32; V]; 2] {
        // SAFETY: the caller's promise.
        let weight = T::unpack(unsafe { self.weight.load(place, 1.0) });
        let dy = T::unpack(dy);
        [T::unpack(x), build(|i| dy[i] * weight[i])]
    }

    #[inline(always)]
    fn digest<const K: usize>(
        self,
        given: [[[f32; V]; 2]; K],
        places: [Place; K],
    ) -> ([[[f32; V]; 2]; K], Gradients) {
        let of_x = Moments::of::<V, K>(self.kind, given.map(|[x, _]| x), places);
        let (mut sum, mut products) = (0.0, 0.0);
        each::<K>(|k| {
            each::<V>(|i| {
                sum += given[k][1][i];
                // Outside of the row the gradient is 0.
                products += given[k][1][i] * (given[k][0][i] - of_x.mean);
            });
        });
        (given, Gradients { of_x, sum, products })
    }

    #[inline(always)]
    fn constants(self, _: Gradients, row: Gradients) -> Slope {
        let (scale, count) = (row.of_x.scale(self.kind), row.of_x.count.max(1.0));
        Slope::new(self.kind, scale, [row.sum, row.products], count)
    }

    #[inline(always)]
    unsafe fn columns(self, _: Place) {}

    #[inline(always)]
    unsafe fn apply(self, [x, g]: [[f32; V]; 2], by: Slope, (): (), place: Place) -> [f32; V] {
        let dx = build(|i| by.at(by.scale.of(x[i]), g[i]));
        // SAFETY: the caller's promise.
        unsafe { self.addend.add_to(dx, place) }
    }

    #[inline(always)]
    unsafe fn note(self, by: Slope, row: usize) {
        if let Some(stats) = self.stats {
            // SAFETY: a place for each row, and one thread of it.
            unsafe { stats.add(row).write(Vec2::new(by.scale.mean, by.scale.reciprocal)) };
        }
    }
}

impl<T> Shared1<T> {
    /// `dx` and the elements of a matrix, if it is there.
    ///
    /// # Safety
    /// As [`load_vector`].
    #[inline(always)]
    unsafe fn add_to<const V: usize>(self, dx: [f32; V], place: Place) -> [f32; V]
    where
        T: Value<V>,
    {
        if !self.is_there {
            return dx;
        }
        let row = self.values.wrapping_add(place.row);
        // SAFETY: the caller's promise.
        let addend = T::unpack(unsafe { load_vector(row, place, 0.0, Reuse::Once) });
        build(|i| dx[i] + addend[i])
    }
}

/// The arguments of a backward pass, from the parameters of its kernel.
macro_rules! norm_backward {
    ($kind:ident, $x:ident, $dy:ident, $weight:ident, $addend:ident, $dx:ident, $stats:ident) => {
        NormBackward {
            kind: $kind,
            x: $x.as_ptr(),
            dy: $dy.as_ptr(),
            weight: Shared1::new($weight),
            addend: Shared1::new($addend),
            dx: $dx.as_mut_ptr(),
            stats: optional($stats),
        }
    };
}

/// `dx` becomes the gradient by `x: [rows, columns]`, from the gradient `dy` by the norm's results, plus `addend`;
/// `stats: [rows]` mean and reciprocal deviation of each row. `weight`, `addend` and `stats` may be empty.
///
/// # Safety
/// As [`in_registers`]; what is not empty has the stated shape.
#[kernel((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2), max_threads = MAX_THREADS)]
pub unsafe fn norm_backward_registers<T: Value<V>, const V: usize, const K: usize>(
    shape: Shape,
    kind: NormKind,
    x: &[T],
    dy: &[T],
    weight: &[T],
    addend: &[T],
    mut dx: DisjointSlice<T>,
    stats: DisjointSlice<Vec2<f32>>,
) {
    let op = norm_backward!(kind, x, dy, weight, addend, dx, stats);
    // SAFETY: the caller's promise.
    unsafe { in_registers::<_, V, 2, K, false>(op, shape, exchange!()) };
}

/// As [`norm_backward_registers`](fn@norm_backward_registers), for rows of any length, with a block for each.
///
/// # Safety
/// As [`streamed`]; what is not empty has the stated shape.
#[kernel((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2), max_threads = STREAM_THREADS, dynamic_shared = 0..=MAX_SHARED_BYTES)]
pub unsafe fn norm_backward_streamed<T: Value<V>, const V: usize, const K: usize>(
    shape: Shape,
    kind: NormKind,
    x: &[T],
    dy: &[T],
    weight: &[T],
    addend: &[T],
    mut dx: DisjointSlice<T>,
    stats: DisjointSlice<Vec2<f32>>,
) {
    let op = norm_backward!(kind, x, dy, weight, addend, dx, stats);
    // SAFETY: the caller's promise.
    unsafe { streamed::<_, V, 2, K>(op, shape, exchange!()) };
}

/// Threads of a multiprocessor in blocks of [`norm_backward_fused`](fn@norm_backward_fused): each takes 128 registers.
pub const FUSED_THREADS: u32 = 512;
/// Columns of a row that they hold.
pub const FUSED_COLUMNS: usize = 16 * FUSED_THREADS as usize;

/// Blocks of [`norm_backward_fused`](fn@norm_backward_fused): of a shape, not of a device, since it sets the order of the
/// sums. An H100 or H200 runs all at once.
#[must_use]
pub const fn fused_blocks(rows: usize, columns: usize) -> usize {
    let blocks = 128 * (FUSED_COLUMNS / if columns == 0 { 1 } else { columns });
    if rows < blocks { rows } else { blocks }
}

/// Two sums over the block, of which all threads get the same bits. All threads call it; `scratch` has a place for each
/// warp, and is free again behind the next barrier.
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[inline(always)]
fn block_sums([a, b]: [f32; 2], scratch: *mut Vec2<f32>) -> [f32; 2] {
    let (thread, lanes) = (thread::thread_idx_x(), Butterfly::WHOLE_WARP);
    let (warp, lane) = (thread / WARP, thread % WARP);
    let of_warp = Vec2::new(lanes.sum(a), lanes.sum(b));
    if lane == 0 {
        // SAFETY: one writer for each warp.
        unsafe { scratch.add(warp as usize).write(of_warp) };
    }
    // Every warp reads what all have written.
    thread::sync_threads();
    let of_lane = if lane < thread::block_dim_x() / WARP {
        // SAFETY: that warp exists, and wrote before the barrier.
        unsafe { scratch.add(lane as usize).read() }
    } else {
        Vec2::new(0.0, 0.0)
    };
    [lanes.sum(of_lane.x), lanes.sum(of_lane.y)]
}

/// As [`norm_backward_registers`](fn@norm_backward_registers), and `partials: [2, blocks, columns]`, unless empty, become each
/// block's part of the gradients by weight and bias. A block takes every `blocks`th row.
///
/// The rows come by bulk copies, some rows ahead. A thread holds `K` vectors of each of both, and their columns' sums
/// from the first row to the last.
///
/// # Safety
/// - What is not empty has the stated shape, all rows begin at multiples of 16 bytes, and so do the weights.
/// - A block has whole warps that hold a row, `block * K * V >= columns`, and dynamic shared memory for at least one
///   row of both inputs: that of [`shared_bytes`](super::stages::shared_bytes).
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[kernel((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2), max_threads = FUSED_THREADS, dynamic_shared = 0..=MAX_SHARED_BYTES)]
pub unsafe fn norm_backward_fused<T: Value<V>, const V: usize, const K: usize>(
    shape: Shape,
    kind: NormKind,
    x: &[T],
    dy: &[T],
    weight: &[T],
    addend: &[T],
    mut dx: DisjointSlice<T>,
    mut partials: DisjointSlice<f32>,
) {
    let (thread, threads) = (thread::thread_idx_x(), thread::block_dim_x());
    let (first, blocks) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
    let columns = shape.columns;
    let sums = shared_array![Vec2<f32>; 2 * (FUSED_THREADS / WARP) as usize].as_mut_ptr();
    let packs = columns as usize / V;
    let row_bytes = packs as u32 * 16;
    // SAFETY: the caller's promise.
    let mut stages = unsafe { Stages::new(shared_array![u64; MAX_STAGES], 2 * row_bytes) };
    let fill = |stages: Stages, stage: u32, row: usize| {
        if thread == 0 && row < shape.rows {
            let from = |matrix: &[T]| matrix.as_ptr().wrapping_add(row * columns as usize).cast();
            // SAFETY: the caller's promise; the stage was empty, or a barrier stands behind its last read.
            unsafe { stages.fill(stage, [from(x), from(dy)], row_bytes) };
        }
    };
    let mut stage = 0;
    while stage < stages.count() {
        fill(stages, stage, first + stage as usize * blocks);
        stage += 1;
    }

    let place = |row: usize, k: usize| Place {
        row: row * columns as usize,
        column: (k as u32 * threads + thread) * V as u32,
        columns,
        stride: 1,
        whole: true,
    };
    let shared = Shared1::new(weight);
    // SAFETY: the weights exist, and are aligned.
    let weights: [Pack; K] = build(|k| unsafe { shared.load(place(0, k), 1.0) });
    let addend = Shared1::new(addend);
    let mut of_weights = [[0.0; V]; K];
    let mut of_biases = [[0.0; V]; K];
    let count = columns as f32;
    let mut row = first;
    while row < shape.rows {
        // SAFETY: it was filled for this row.
        let full = unsafe { stages.wait() };
        let read = |k: usize, input: usize| -> Pack {
            let at = k as u32 * threads + thread;
            if !place(row, k).has(0) {
                return Pack::splat(0);
            }
            // SAFETY: inside of the stage, which is full.
            unsafe { full.add(input * packs + at as usize).read() }
        };
        let (xs, dys): ([Pack; K], [Pack; K]) = (build(|k| read(k, 0)), build(|k| read(k, 1)));
        // The gradient before the weights; computed again where it is needed.
        let gradient = |k: usize| -> ([f32; V], [f32; V], [f32; V]) {
            let (dy, weight) = (T::unpack(anew(dys[k])), T::unpack(anew(weights[k])));
            (T::unpack(anew(xs[k])), dy, build(|i| dy[i] * weight[i]))
        };
        let (mut sum_x, mut sum_g) = (0.0, 0.0);
        each::<K>(|k| {
            let (x, _, g) = gradient(k);
            each::<V>(|i| {
                sum_x += x[i];
                sum_g += g[i];
            });
        });
        let [sum_x, sum_g] = block_sums([sum_x, sum_g], sums);
        // All have read the stage.
        fill(stages, stages.current(), row + stages.count() as usize * blocks);
        stages.advance();

        let mean = if kind.is_centered != 0 { quotient(sum_x, count) } else { 0.0 };
        let (mut squares, mut products) = (0.0, 0.0);
        each::<K>(|k| {
            let ((x, _, g), mut of_vector) = (gradient(k), 0.0);
            each::<V>(|i| {
                let deviation = x[i] - mean;
                of_vector += deviation * deviation;
                // Outside of the row the gradient is 0.
                products += g[i] * deviation;
            });
            squares += if place(row, k).has(0) { of_vector } else { 0.0 };
        });
        let [squares, products] =
            block_sums([squares, products], sums.wrapping_add((FUSED_THREADS / WARP) as usize));
        let scale = moments_scale(kind, mean, squares, count);
        let by = Slope::new(kind, scale, [sum_g, products], count);
        each::<K>(|k| {
            let (x, dy, g) = gradient(k);
            let results = build(|i| {
                let normalised = by.scale.of(x[i]);
                of_weights[k][i] += dy[i] * normalised;
                of_biases[k][i] += dy[i];
                by.at(normalised, g[i])
            });
            let (to, place) = (dx.as_mut_ptr().wrapping_add(row * columns as usize), place(row, k));
            // SAFETY: the row exists, and this thread alone writes its vector.
            unsafe { store_vector(to, place, addend.add_to(results, place)) };
        });
        row += blocks;
    }
    if partials.is_empty() {
        return;
    }
    let to = partials.as_mut_ptr().wrapping_add(first * columns as usize);
    each::<K>(|k| {
        let place = place(0, k);
        let biases = to.wrapping_add(blocks * columns as usize);
        // SAFETY: the columns' places of this block; the thread's own.
        unsafe {
            store_floats(to, place, of_weights[k]);
            store_floats(biases, place, of_biases[k]);
        }
    });
}

/// Stores the sums of a vector's columns.
///
/// # Safety
/// `row` has the columns of `place`, which no other thread reaches.
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[inline(always)]
unsafe fn store_floats<const V: usize>(row: *mut f32, place: Place, values: [f32; V]) {
    if place.has(0) {
        // SAFETY: the caller's promise.
        each::<V>(|i| unsafe { row.add(place.column as usize + i).write(values[i]) });
    }
}
