//! The consumers: two warpgroups, each of which takes 64 rows of a tile.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::hopper::consume::{
    Consumer, OwnRows, Shared, multiply_keys, queries_of, release, write, writers,
};
use super::super::hopper::{Block, Half, KeyTile, QueryTile, SPAN_OF_VALUES, queue};
use super::super::output::Output;
use super::super::scores::{Scores, unmerged};
use super::super::softmax::{Rows, add_pair, exp2_flushed};
use super::super::{Batches, Problem, Schedule, Score, factor_of};
use super::{HeadScales, ROWS_OF_TILE, SHIFT};
use crate::prelude::*;
use bytemuck::Zeroable;
use cuda_std::copy::*;
use cuda_std::matrix::*;
use cuda_std::number::E4m3;
use cuda_std::unroll::{build, each_below};
use cuda_std::vector::Vec4;
use cuda_std::{gpu_only, unrolled};

/// What brings a sum of exponentials back.
const UNSHIFTED: f32 = 1.0 / (1u32 << SHIFT) as f32;

/// Blocks of keys whose products are summed in the tensor core, before they are added to the others.
const BLOCKS_OF_PART: u32 = 4;

/// Whether there is memory for the sums of parts.
pub(super) const fn has_parts(depth: usize) -> bool {
    depth <= 128
}

/// Bytes of the sums of parts, of rows of `depth` elements.
pub(super) const fn bytes_of_parts(depth: usize) -> usize {
    if has_parts(depth) { ROWS_OF_TILE * depth * size_of::<f32>() } else { 0 }
}

/// Computes this consumer's rows of the tiles of this block.
///
/// # Safety
/// All threads of a consumer call this together, with what the producer goes by.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn all<
    T,
    C,
    const D: usize,
    const BOXES: usize,
    const E: usize,
    const N: usize,
    const F: usize,
    const G: usize,
    const S: usize,
>(
    block: Block<ROWS_OF_TILE, BOXES, N, S>,
    (schedule, problem, batches): (&Schedule, &Problem, Batches<'_>),
    (score, scales): (C, HeadScales<'_>),
    output: Output<'_, T>,
    own: usize,
) where
    T: Half,
    C: Score,
    Columns<N>: Instruction<E4m3, E4m3, f32>,
    Columns<D>: Instruction<E4m3, E4m3, f32>,
{
    let (row, column) = Accumulator::<f32, D>::position(thread_in_warpgroup(), 0);
    let len = schedule.len(problem);
    let tile = |index| {
        let sizes = (ROWS_OF_TILE as u32, N as u32);
        let work = schedule.work(problem, score, index, sizes, batches);
        let (scaled, of_values) = scales.applied(problem, &work);
        (work, scaled, of_values * UNSHIFTED)
    };
    // SAFETY: the caller's promise.
    unsafe {
        let mut consumer = Consumer::begin(block, own);
        while consumer.index < len {
            let (work, scaled, _) = tile(consumer.index);
            let first = work.row + (own * ROWS + row) as u32;
            let factor = factor_of::<C>(&scaled);
            let (problem, work, lists) = (&scaled, &work, batches.lists);
            let own_rows = OwnRows { problem, work, score, lists, factor, own, row: first, column };
            let (mut rows, mut sums) = (Rows::EMPTY, Accumulator::<f32, D>::zeroed());
            add::<C, D, BOXES, N, F, G, S>(&own_rows, &mut consumer.shared, &mut sums, &mut rows);
            let totals = rows.whole_sums().map(|sum| sum * UNSHIFTED);
            // Computed again, so that it takes no registers until here.
            let (work, scaled, of_values) = tile(unmerged(consumer.index));
            let first = work.row + (own * ROWS + row) as u32;
            let to = output.with_factors((factor_of::<C>(&scaled), of_values));
            write::<T, D, E>(&sums, &to, &work, (first, column), (rows.max, totals));
            to.finish(&work, ROWS_OF_TILE as u32, writers::<ROWS_OF_TILE>(block.queue));
            consumer.step();
        }
        consumer.end();
    }
}

/// Multiplies the rows with all of their keys and values.
///
/// # Safety
/// As [`all`].
#[gpu_only]
#[inline(always)]
unsafe fn add<
    C: Score,
    const D: usize,
    const BOXES: usize,
    const N: usize,
    const F: usize,
    const G: usize,
    const S: usize,
>(
    own: &OwnRows<'_, C>,
    (queries, ring): &mut Shared<ROWS_OF_TILE, BOXES, N, S>,
    sums: &mut Accumulator<f32, D>,
    rows: &mut Rows,
) where
    Columns<N>: Instruction<E4m3, E4m3, f32>,
    Columns<D>: Instruction<E4m3, E4m3, f32>,
{
    let mut scores = Accumulator::<f32, N>::zeroed();
    let (first, end) = own.work.blocks;
    let Some(mut at) = end.checked_sub(1).filter(|last| *last >= first) else { return };
    // SAFETY: the caller's promise. A stage is released when the products with it are done.
    unsafe {
        let mut parts = Parts::<D>::new::<BOXES, N, S>(own.own);
        let q = queries_of(queries.wait(), own.own);
        own.begin_turn();
        multiply_keys::<E4m3, ROWS_OF_TILE, N, BOXES>(&mut scores, q, ring.wait());
        (own.end_turn::<ROWS_OF_TILE>(), ring.step());
        scores.wait::<0>();
        let (mut next, mut scales) = exchanged::<C, N, F>(own, &mut scores, rows, at);
        let weights = loop {
            // The products with the values of the previous block overlap the exponentials. ptxas hoists this wait to the top of its basic block: here that is the top
            // of the loop, next to the exponentials it would be before them.
            sums.wait::<0>();
            release(ring, 1);
            let weights = operands(next);
            if at == first {
                break weights;
            }
            at -= 1;
            own.begin_turn();
            multiply_keys::<E4m3, ROWS_OF_TILE, N, BOXES>(&mut scores, q, ring.wait());
            ring.step();
            // While the keys are multiplied.
            parts.rescale(sums, scales);
            multiply_values::<D, BOXES, N, F, G>(sums, weights, ring.wait(), parts.blocks > 0);
            parts.blocks += 1;
            (ring.step(), own.end_turn::<ROWS_OF_TILE>());
            scores.wait::<G>();
            release(ring, 2);
            (next, scales) = exchanged::<C, N, F>(own, &mut scores, rows, at);
        };
        parts.rescale(sums, scales);
        multiply_values::<D, BOXES, N, F, G>(sums, weights, ring.wait(), parts.blocks > 0);
        (queries.step(), ring.step());
        sums.wait::<0>();
        release(queries, 1);
        release(ring, 1);
        parts.finish(sums);
    }
}

/// Starts to add products of exponentials and values: `G` groups.
///
/// # Safety
/// As [`all`]; the values are there.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_values<
    const D: usize,
    const BOXES: usize,
    const N: usize,
    const F: usize,
    const G: usize,
>(
    sums: &mut Accumulator<f32, D>,
    weights: [[u32; 4]; F],
    values: *const KeyTile<N, BOXES>,
    accumulate: bool,
) where
    Columns<D>: Instruction<E4m3, E4m3, f32>,
{
    const { assert!(F * 32 == N && G * SPAN_OF_VALUES == N && BOXES * 128 == D) };
    let v = values.cast::<Tile<[[u8; SPAN_OF_VALUES]; D], Swizzle64>>();
    let v = Descriptor::of_rows(v, 0);
    unrolled!(G, |span| {
        let two = [weights[2 * span], weights[2 * span + 1]];
        let v = v.advanced((span * SPAN_OF_VALUES * D) as u32);
        // SAFETY: the caller's promise.
        unsafe { sums.multiply_fragments::<E4m3, E4m3, 2, false>(two, v, accumulate || span > 0) };
    });
}

/// The sums of a thread over blocks of keys that are done, in shared memory: the tensor core rounds sums of its own to 13 bits of fraction, so that they stay
/// short.
struct Parts<const D: usize> {
    /// The thread's first four sums; the next ones are a warpgroup apart.
    sums: *mut Vec4<f32>,
    /// By what those are multiplied, as the maxima grew since: for each of the two rows.
    scales: [f32; 2],
    /// Whether there are any.
    is_written: bool,
    /// Blocks of keys that the accumulator has.
    blocks: u32,
}

impl<const D: usize> Parts<D>
where
    Columns<D>: Width<f32>,
{
    /// None, of this consumer.
    ///
    /// # Safety
    /// As [`all`].
    #[gpu_only]
    #[inline(always)]
    unsafe fn new<const BOXES: usize, const N: usize, const S: usize>(own: usize) -> Self {
        let tiles =
            size_of::<QueryTile<ROWS_OF_TILE, BOXES>>() + S * size_of::<KeyTile<N, BOXES>>();
        let offset = tiles + ((2 + 2 * S) * 8 + queue::BYTES).next_multiple_of(16);
        let first = DynamicSharedArray::<u8, 1024>::get().wrapping_add(offset).cast::<Vec4<f32>>();
        let sums = first.wrapping_add(own * ROWS * D / 4 + thread_in_warpgroup());
        Self { sums, scales: [1.0; 2], is_written: false, blocks: 0 }
    }

    /// The maxima grew: multiplies all sums by these factors. The accumulator, of which no product is under way, begins again when it has the sums of enough blocks of
    /// keys.
    ///
    /// # Safety
    /// As [`all`].
    #[gpu_only]
    #[inline(always)]
    unsafe fn rescale(&mut self, sums: &mut Accumulator<f32, D>, scales: [f32; 2]) {
        if has_parts(D) && self.blocks == BLOCKS_OF_PART {
            // SAFETY: the caller's promise; the memory is this thread's.
            unsafe {
                self.add_to(sums);
                for_each_four(sums, |four, values| self.sums.add(four * WARPGROUP).write(values));
            }
            (self.scales, self.is_written, self.blocks) = ([1.0; 2], true, 0);
        }
        sums.map(|index, sum| sum * scales[index / 2 % 2]);
        if has_parts(D) {
            self.scales = [self.scales[0] * scales[0], self.scales[1] * scales[1]];
        }
    }

    /// Adds everything to the accumulator.
    ///
    /// # Safety
    /// As [`all`].
    #[gpu_only]
    #[inline(always)]
    unsafe fn finish(&self, sums: &mut Accumulator<f32, D>) {
        // SAFETY: the caller's promise.
        unsafe { self.add_to(sums) }
    }

    /// Adds the sums of parts to those of an accumulator, if there are any.
    ///
    /// # Safety
    /// As [`all`].
    #[gpu_only]
    #[inline(always)]
    unsafe fn add_to(&self, sums: &mut Accumulator<f32, D>) {
        if has_parts(D) && self.is_written {
            let Self { sums: parts, scales, .. } = *self;
            // SAFETY: this thread wrote them.
            sums.map(|index, sum| unsafe {
                let four = parts.add(index / 4 * WARPGROUP).read();
                let part = four.to_array()[index % 4];
                part.mul_add(scales[index / 2 % 2], sum)
            });
        }
    }
}

/// Gives `f` the sums of an accumulator of `D` columns, four at a time.
#[inline(always)]
fn for_each_four<const D: usize>(sums: &Accumulator<f32, D>, f: impl Fn(usize, Vec4<f32>))
where
    Columns<D>: Width<f32>,
{
    each_below::<64>(D / 8, |four| {
        let ([x, y], [z, w]) = (sums.pair(4 * four), sums.pair(4 * four + 2));
        f(four, Vec4::new(x, y, z, w));
    });
}

/// Exponentials of the scores of block `at`, masked, times `2^SHIFT`, as left operands, rounded to nearest, with the halves of each register exchanged. Of the four numbers of a register,
/// two are of keys `8 e` and `8 e + 1` of a thread, and two of the next `e`: [`values`](super::values) have their keys in the same order. Also returns the factors
/// of earlier exponentials, as [`Rows::exponentials`] does.
///
/// The operands of products under way must not be written. These are other registers; [`operands`], which is called after the wait, exchanges the halves back. (A
/// plain copy in its place is coalesced by ptxas, which then serializes the products: C7513.)
///
/// # Safety
/// As [`all`].
#[gpu_only]
#[inline(always)]
unsafe fn exchanged<C: Score, const N: usize, const F: usize>(
    own: &OwnRows<'_, C>,
    scores: &mut Accumulator<f32, N>,
    rows: &mut Rows,
    at: u32,
) -> ([[u32; 4]; F], [f32; 2])
where
    Columns<N>: Width<f32>,
{
    own.mask(scores, at);
    let factor = own.factor;
    // SAFETY: the caller's promise.
    let (scales, offsets) = unsafe { rows.raise(scores, factor) };
    let offsets = offsets.map(|offset| offset + SHIFT as f32);
    let mut sums = [[0.0f32; 2]; 2];
    let exchanged = build(|step| {
        // Scores 4 e + 2 b are of row b.
        let mut four = |e: usize, row: usize| {
            let [first, second] = [e, e + 1].map(|e| {
                let pair = scores.pair(16 * step + 4 * e + 2 * row);
                let pair = pair.map(|score| exp2_flushed(score.mul_add(factor, offsets[row])));
                add_pair(&mut sums[row], pair);
                pair
            });
            bytes_of(second, first)
        };
        [four(0, 0), four(0, 1), four(2, 0), four(2, 1)]
    });
    rows.add(sums, scales);
    (exchanged, scales)
}

/// Left operands from those of [`exchanged`].
#[inline(always)]
fn operands<const F: usize>(exchanged: [[u32; 4]; F]) -> [[u32; 4]; F] {
    build(|step| exchanged[step].map(|four| four.rotate_left(16)))
}

/// Four numbers, rounded to nearest, in one register, the first in its lowest byte. (Pairs that Rust shifts into their places take instructions of their own.)
#[gpu_only]
#[inline(always)]
fn bytes_of(first: [f32; 2], second: [f32; 2]) -> u32 {
    let four;
    // SAFETY: arithmetic in registers.
    unsafe {
        core::arch::asm!(
            "{{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, {b}, {a};",
            " cvt.rn.satfinite.e4m3x2.f32 high, {d}, {c}; mov.b32 {four}, {{low, high}}; }}",
            four = out(reg32) four,
            a = in(reg32) first[0],
            b = in(reg32) first[1],
            c = in(reg32) second[0],
            d = in(reg32) second[1],
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    four
}
