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
use cuda_std::unroll::{build, each};

use super::forms::row_kernels;
use super::norm::{Moments, NormKind, Scale, Shared1, optional, quotient};
use super::{Lanes, Pack, Place, Reuse, RowOp, Shape, Summary, Value, load_vector};
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
use super::{
    norm::moments_scale,
    softmax::MAX_SHARED_BYTES,
    stages::{MAX_STAGES, Stages},
    {Butterfly, WARP, opaque, store_vector},
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

row_kernels! {
    {
        /// `dx` becomes the gradient by `x: [rows, columns]`, from the gradient `dy` by the norm's results, plus `addend`;
        /// `stats: [rows]` mean and reciprocal deviation of each row. `weight`, `addend` and `stats` may be empty.
        (
            shape: Shape, kind: NormKind, x: &[T], dy: &[T], weight: &[T], addend: &[T],
            mut dx: DisjointSlice<T>, stats: DisjointSlice<Vec2<f32>>
        )
        inputs 2 => NormBackward {
            kind,
            x: x.as_ptr(),
            dy: dy.as_ptr(),
            weight: Shared1::new(weight),
            addend: Shared1::new(addend),
            dx: dx.as_mut_ptr(),
            stats: optional(stats),
        }
    }
    registers norm_backward_registers((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2));
    streamed norm_backward_streamed((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2));
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

/// Copies of rows of `x` and `dy` to the stages of shared memory.
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
struct RowCopies<T> {
    shape: Shape,
    inputs: [*const T; 2],
    row_bytes: u32,
    stages: Stages,
}

#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
impl<T> RowCopies<T> {
    /// Starts the copies of a row, if there is such a row. One thread of the block does it.
    ///
    /// # Safety
    /// The rows begin at multiples of 16 bytes. The stage was empty, or a barrier has come after its last read.
    #[inline(always)]
    unsafe fn fill(&self, stage: u32, row: usize) {
        if thread::thread_idx_x() == 0 && row < self.shape.rows {
            let offset = row * self.shape.columns as usize;
            let from = self.inputs.map(|matrix| matrix.wrapping_add(offset).cast());
            // SAFETY: the row exists; the caller's promise.
            unsafe { self.stages.fill(stage, from, self.row_bytes) };
        }
    }
}

/// A thread of [`norm_backward_fused`](fn@norm_backward_fused): its `K` vectors of columns are the same in every row.
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
struct FusedThread<T, const V: usize, const K: usize> {
    shape: Shape,
    weights: [Pack; K],
    addend: Shared1<T>,
    dx: *mut T,
    /// The columns' parts of the gradients by weight and bias, of the rows so far.
    of_weights: [[f32; V]; K],
    of_biases: [[f32; V]; K],
    /// Threads of the block.
    threads: u32,
}

/// A thread's vectors of a row, as they lay in memory.
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
struct FusedRow<const K: usize> {
    x: [Pack; K],
    dy: [Pack; K],
}

#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
impl<T: Value<V>, const V: usize, const K: usize> FusedThread<T, V, K> {
    /// The thread's `k`th vector of a row.
    #[inline(always)]
    fn place(shape: Shape, row: usize, k: usize) -> Place {
        Place {
            row: row * shape.columns as usize,
            column: (k as u32 * thread::block_dim_x() + thread::thread_idx_x()) * V as u32,
            columns: shape.columns,
            stride: 1,
            whole: true,
        }
    }

    /// Reads the thread's vectors of a row.
    ///
    /// # Safety
    /// The stage at `full` is full, of this row.
    #[inline(always)]
    unsafe fn read(&self, full: *const Pack, row: usize) -> FusedRow<K> {
        let packs = self.shape.columns as usize / V;
        let read = |k: usize, input: usize| -> Pack {
            let at = k as u32 * self.threads + thread::thread_idx_x();
            if !Self::place(self.shape, row, k).has(0) {
                return Pack::splat(0);
            }
            // SAFETY: inside of the stage, which is full.
            unsafe { full.add(input * packs + at as usize).read() }
        };
        FusedRow { x: build(|k| read(k, 0)), dy: build(|k| read(k, 1)) }
    }

    /// Vector `k` of `x`, of `dy`, and of the gradient before the weights, `dy * weight`. It is computed again where it is
    /// needed: kept as `f32`, the vectors would take twice the registers.
    #[inline(always)]
    fn gradient(&self, row: &FusedRow<K>, k: usize) -> [[f32; V]; 3] {
        let (dy, weight) = (T::unpack(opaque(row.dy[k])), T::unpack(opaque(self.weights[k])));
        [T::unpack(opaque(row.x[k])), dy, build(|i| dy[i] * weight[i])]
    }

    /// The thread's sums of `x` and of the gradient.
    #[inline(always)]
    fn sums(&self, row: &FusedRow<K>) -> [f32; 2] {
        let (mut sum_x, mut sum_g) = (0.0, 0.0);
        each::<K>(|k| {
            let [x, _, g] = self.gradient(row, k);
            each::<V>(|i| {
                sum_x += x[i];
                sum_g += g[i];
            });
        });
        [sum_x, sum_g]
    }

    /// The thread's sums of `(x - mean)²` and of the gradient times `x - mean`.
    #[inline(always)]
    fn deviations(&self, row: &FusedRow<K>, number: usize, mean: f32) -> [f32; 2] {
        let (mut squares, mut products) = (0.0, 0.0);
        each::<K>(|k| {
            let ([x, _, g], mut of_vector) = (self.gradient(row, k), 0.0);
            each::<V>(|i| {
                let deviation = x[i] - mean;
                of_vector += deviation * deviation;
                // Outside of the row the gradient is 0.
                products += g[i] * deviation;
            });
            squares += if Self::place(self.shape, number, k).has(0) { of_vector } else { 0.0 };
        });
        [squares, products]
    }

    /// Writes the thread's gradients of a row, and adds to the gradients by weight and bias.
    ///
    /// # Safety
    /// The row exists.
    #[inline(always)]
    unsafe fn write(&mut self, row: &FusedRow<K>, number: usize, by: Slope) {
        each::<K>(|k| {
            let [x, dy, g] = self.gradient(row, k);
            let results = build(|i| {
                let normalised = by.scale.of(x[i]);
                self.of_weights[k][i] += dy[i] * normalised;
                self.of_biases[k][i] += dy[i];
                by.at(normalised, g[i])
            });
            let to = self.dx.wrapping_add(number * self.shape.columns as usize);
            let place = Self::place(self.shape, number, k);
            // SAFETY: the row exists, and this thread alone writes its vector.
            unsafe { store_vector(to, place, self.addend.add_to(results, place)) };
        });
    }

    /// Stores this block's part of the gradients by weight and bias.
    ///
    /// # Safety
    /// `partials` leads to `[2, blocks, columns]`, of which no other block writes row `block`.
    #[inline(always)]
    unsafe fn store(&self, partials: *mut f32, block: usize, blocks: usize) {
        let columns = self.shape.columns as usize;
        let weights = partials.wrapping_add(block * columns);
        each::<K>(|k| {
            let place = Self::place(self.shape, 0, k);
            let biases = weights.wrapping_add(blocks * columns);
            // SAFETY: this block's columns; the thread's own.
            unsafe {
                store_floats(weights, place, self.of_weights[k]);
                store_floats(biases, place, self.of_biases[k]);
            }
        });
    }
}

/// `dx` becomes the gradient by `x: [rows, columns]`, as of [`norm_backward_registers`](fn@norm_backward_registers), and
/// `partials: [2, blocks, columns]`, unless empty, each block's part of the gradients by weight and bias. A block takes every
/// `blocks`th row.
///
/// The rows come by bulk copies, some rows ahead. A thread holds `K` vectors of each of both, and their columns' sums
/// from the first row to the last.
///
/// # Safety
/// - What is not empty has the stated shape, all rows begin at multiples of 16 bytes, and so do the weights.
/// - A block has whole warps that hold a row, `block * K * V >= columns`, and dynamic shared memory for at least one
///   row of both inputs: that of [`shared_bytes`](super::stages::shared_bytes).
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[kernel((f32, 4, 4), (f16, 8, 2), (bf16, 8, 2), max_threads = FUSED_THREADS, min_blocks = 1, dynamic_shared = 0..=MAX_SHARED_BYTES)]
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
    let (first, blocks) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
    let scratch = shared_array![Vec2<f32>; 2 * (FUSED_THREADS / WARP) as usize].as_mut_ptr();
    let row_bytes = shape.columns / V as u32 * 16;
    // SAFETY: the caller's promise.
    let stages = unsafe { Stages::new(shared_array![u64; MAX_STAGES], 2 * row_bytes) };
    let mut copies = RowCopies { shape, inputs: [x.as_ptr(), dy.as_ptr()], row_bytes, stages };
    let mut stage = 0;
    while stage < stages.count() {
        // SAFETY: the stage is empty; rows are aligned by the caller's promise.
        unsafe { copies.fill(stage, first + stage as usize * blocks) };
        stage += 1;
    }
    let weight = Shared1::new(weight);
    let place = |k| FusedThread::<T, V, K>::place(shape, 0, k);
    let mut own = FusedThread::<T, V, K> {
        shape,
        // SAFETY: the weights exist, and are aligned.
        weights: build(|k| unsafe { weight.load(place(k), 1.0) }),
        addend: Shared1::new(addend),
        dx: dx.as_mut_ptr(),
        of_weights: [[0.0; V]; K],
        of_biases: [[0.0; V]; K],
        threads: thread::block_dim_x(),
    };
    let mut row = first;
    while row < shape.rows {
        // SAFETY: rows are filled and read in the same order.
        let packs = unsafe { own.read(copies.stages.wait(), row) };
        let [sum_x, sum_g] = block_sums(own.sums(&packs), scratch);
        let next = row + copies.stages.count() as usize * blocks;
        // SAFETY: all have read the stage before the barrier of the sums.
        unsafe { copies.fill(copies.stages.current(), next) };
        copies.stages.advance();

        let count = shape.columns as f32;
        let mean = if kind.is_centered != 0 { quotient(sum_x, count) } else { 0.0 };
        let second = scratch.wrapping_add((FUSED_THREADS / WARP) as usize);
        let [squares, products] = block_sums(own.deviations(&packs, row, mean), second);
        let scale = moments_scale(kind, mean, squares, count);
        // SAFETY: the row exists.
        unsafe { own.write(&packs, row, Slope::new(kind, scale, [sum_g, products], count)) };
        row += blocks;
    }
    if !partials.is_empty() {
        // SAFETY: the caller's promise; blocks have different numbers.
        unsafe { own.store(partials.as_mut_ptr(), first, blocks) };
    }
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
