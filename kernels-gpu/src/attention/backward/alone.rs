//! The gradients of keys alone, and those of values alone, of rows of more than 128 elements: registers do not hold both.
//!
//! What a lane has is what it has in [`keys`](super::keys).

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::halves::{Halves, each_block};
use super::keys::{Sixteen, kept_operands};
use super::memory::{Memory, Pair, copy_numbers};
use super::{Operands, ROWS, rows_of_block};
use crate::attention::Score;
use crate::attention::hopper::Half;
use crate::attention::scores::Tiles;
use crate::attention::warps::Multiplies;
use crate::attention::warps::products::{multiply_keys, multiply_values};
use cuda_std::gpu_only;

/// The gradients of keys by all blocks of `8 E`, or `16 G`, queries. The warp has the rows from `own_row` on.
///
/// # Safety
/// As [`keys::add`](super::keys::add).
#[gpu_only]
#[inline(always)]
pub unsafe fn keys<
    T: Half + Multiplies,
    C: Score,
    const D: usize,
    const COLUMNS: usize,
    const E: usize,
    const G: usize,
>(
    own: &Sixteen<'_, C>,
    operands: Operands<'_, T>,
    own_row: usize,
) -> Tiles<COLUMNS> {
    let (tiles, place) = (Memory::<D>::get().tiles(), own.tile.place_of_keys());
    let of = Alone::<T, C, D, COLUMNS, E> { own, operands, own_row, sums: Tiles::zeroed() };
    let (mut of, len) = (OfKeys::<T, C, D, COLUMNS, E, G>(of), own.tile.len(own.problem));
    // SAFETY: the caller's promise.
    unsafe {
        if len > 0 {
            Pair::of_keys(own.problem, operands).copy::<D>(tiles, place);
        }
        each_block(&mut of, len);
    }
    of.0.sums
}

/// The gradients of values by all blocks of `8 E`, or `16 G`, queries. The warp has the rows from `own_row` on.
///
/// # Safety
/// As [`keys::add`](super::keys::add).
#[gpu_only]
#[inline(always)]
pub unsafe fn values<
    T: Half + Multiplies,
    C: Score,
    const D: usize,
    const COLUMNS: usize,
    const E: usize,
    const G: usize,
>(
    own: &Sixteen<'_, C>,
    operands: Operands<'_, T>,
    own_row: usize,
) -> Tiles<COLUMNS> {
    const { assert!(ROWS + 2 * 8 * E <= 2 * ROWS + 2 * rows_of_block(D)) };
    let ([k, _], place) = (Memory::<D>::get().tiles(), own.tile.place_of_keys());
    let of = Alone::<T, C, D, COLUMNS, E> { own, operands, own_row, sums: Tiles::zeroed() };
    let (mut of, len) = (OfValues::<T, C, D, COLUMNS, E, G>(of), own.tile.len(own.problem));
    // SAFETY: the caller's promise.
    unsafe {
        if len > 0 {
            Pair::of_keys(own.problem, operands).copy_one::<D>(0, k, ROWS, place);
        }
        each_block(&mut of, len);
    }
    of.0.sums
}

/// What both have.
struct Alone<'a, T, C, const D: usize, const COLUMNS: usize, const E: usize> {
    own: &'a Sixteen<'a, C>,
    operands: Operands<'a, T>,
    /// The warp's first row of the tile.
    own_row: usize,
    sums: Tiles<COLUMNS>,
}

impl<T: Half, C: Score, const D: usize, const COLUMNS: usize, const E: usize>
    Alone<'_, T, C, D, COLUMNS, E>
{
    /// Where the warp's keys and values are in shared memory.
    #[gpu_only]
    #[inline(always)]
    fn keys(&self) -> [*mut u8; 2] {
        Memory::<D>::get().tiles().map(|rows| rows.wrapping_add(self.own_row * 2 * D))
    }

    /// Where queries and gradients of results are in shared memory, after that many tiles.
    #[gpu_only]
    #[inline(always)]
    fn queries(&self, tiles: usize) -> [*mut u8; 2] {
        Memory::<D>::get().halves(tiles, 8 * E)
    }

    /// The logarithms of the sums of a block's queries, and then their `delta`.
    #[gpu_only]
    #[inline(always)]
    fn numbers(&self) -> *mut f32 {
        Memory::<D>::get().numbers(0)
    }

    /// Starts to copy queries, and their numbers.
    ///
    /// # Safety
    /// As [`copy_first`](Halves::copy_first).
    #[gpu_only]
    #[inline(always)]
    unsafe fn copy_queries(&self, to: *mut u8, at: u32) {
        let Self { own, operands, .. } = *self;
        let place = own.tile.place_of_queries(own.problem, at);
        // SAFETY: the caller's promise.
        unsafe {
            Pair::of_queries(own.problem, operands).copy_one::<D>(0, to, 8 * E, place);
            copy_numbers(own.problem, operands, self.numbers(), 8 * E, place);
        }
    }

    /// Starts to copy gradients of results.
    ///
    /// # Safety
    /// As [`copy_first`](Halves::copy_first).
    #[gpu_only]
    #[inline(always)]
    unsafe fn copy_results(&self, to: *mut u8, at: u32) {
        let Self { own, operands, .. } = *self;
        let place = own.tile.place_of_queries(own.problem, at);
        // SAFETY: the caller's promise.
        unsafe { Pair::of_queries(own.problem, operands).copy_one::<D>(1, to, 8 * E, place) };
    }
}

/// Gradients of keys: gradients of results are the first half.
struct OfKeys<'a, T, C, const D: usize, const COLUMNS: usize, const E: usize, const G: usize>(
    Alone<'a, T, C, D, COLUMNS, E>,
);

impl<T, C, const D: usize, const COLUMNS: usize, const E: usize, const G: usize> Halves
    for OfKeys<'_, T, C, D, COLUMNS, E, G>
where
    T: Half + Multiplies,
    C: Score,
{
    type Between = Tiles<E>;

    #[gpu_only]
    #[inline(always)]
    unsafe fn copy_first(&self, at: u32) {
        let [_, d_o] = self.0.queries(2);
        // SAFETY: the caller's promise.
        unsafe { self.0.copy_results(d_o, at) };
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn copy_second(&self, at: u32) {
        let [q, _] = self.0.queries(2);
        // SAFETY: the caller's promise.
        unsafe { self.0.copy_queries(q, at) };
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn first(&mut self, _: u32) -> Tiles<E> {
        let ([_, v], [_, d_o]) = (self.0.keys(), self.0.queries(2));
        // SAFETY: the caller's promise.
        unsafe { multiply_keys::<T, D, E>(v, d_o, self.0.own.lane) }
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn second(&mut self, at: u32, gradients: Tiles<E>) {
        let Alone { own, .. } = self.0;
        let ([k, _], [q, _], numbers) = (self.0.keys(), self.0.queries(2), self.0.numbers());
        // SAFETY: the caller's promise.
        unsafe {
            let found = own.weights::<T, D, E>([k, q], numbers, at);
            let of_scores = (found, own.kept::<E>(at), numbers.cast_const());
            let operands = own.of_scores::<T, E, G>(gradients, of_scores);
            multiply_values::<T, D, COLUMNS, G>(&mut self.0.sums, operands, q, own.lane);
        }
    }
}

/// Gradients of values: queries are the first half.
struct OfValues<'a, T, C, const D: usize, const COLUMNS: usize, const E: usize, const G: usize>(
    Alone<'a, T, C, D, COLUMNS, E>,
);

impl<T, C, const D: usize, const COLUMNS: usize, const E: usize, const G: usize> Halves
    for OfValues<'_, T, C, D, COLUMNS, E, G>
where
    T: Half + Multiplies,
    C: Score,
{
    /// Weights, as left operands.
    type Between = [[u32; 4]; G];

    #[gpu_only]
    #[inline(always)]
    unsafe fn copy_first(&self, at: u32) {
        let [q, _] = self.0.queries(1);
        // SAFETY: the caller's promise.
        unsafe { self.0.copy_queries(q, at) };
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn copy_second(&self, at: u32) {
        let [_, d_o] = self.0.queries(1);
        // SAFETY: the caller's promise.
        unsafe { self.0.copy_results(d_o, at) };
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn first(&mut self, at: u32) -> [[u32; 4]; G] {
        let Alone { own, .. } = self.0;
        let ([k, _], [q, _], numbers) = (self.0.keys(), self.0.queries(1), self.0.numbers());
        // SAFETY: the caller's promise.
        unsafe {
            let [weights, _] = own.weights::<T, D, E>([k, q], numbers, at);
            kept_operands::<T, E, G>(&weights, own.kept::<E>(at))
        }
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn second(&mut self, _: u32, weights: [[u32; 4]; G]) {
        let ([_, d_o], lane) = (self.0.queries(1), self.0.own.lane);
        // SAFETY: the caller's promise.
        unsafe { multiply_values::<T, D, COLUMNS, G>(&mut self.0.sums, weights, d_o, lane) };
    }
}
