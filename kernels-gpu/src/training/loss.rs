//! The cross entropy of rows of logits with a target each, and its gradient.
//!
//! `loss = ln sum exp(x[j]) - x[target]`, and its gradient is `softmax(x)[j] - (j == target)`. A warp has a row: it reads it once for the maximum and the sum,
//! by the online softmax, and once more for the gradient, which is then in the cache.

use crate::matmul::Value;
use crate::prelude::*;
use cuda_std::intrinsics::{fast_expf, logf};
use cuda_std::{bf16, f16};

use crate::rows::{Butterfly, Lanes};

/// Threads in a block.
pub const BLOCK: usize = 128;
/// Rows of a block: one for each warp.
pub const ROWS: usize = BLOCK / 32;

/// What is subtracted from elements whose maximum is `max`: 0 where that would be `-inf - -inf`.
#[inline(always)]
fn center(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// `logits: [rows, columns]`, `targets: [rows]`, `losses: [rows]`, `gradients: [rows, columns]`, or none. A row whose target is not one of its columns has
/// the loss 0 and the gradient 0. Gradients are multiplied by `scale`. Launch a warp for each row.
#[kernel(f32, f16, bf16, block = BLOCK)]
pub fn cross_entropy<T: Value>(
    columns: usize,
    scale: f32,
    logits: &[T],
    targets: &[u32],
    mut losses: DisjointSlice<f32>,
    mut gradients: DisjointSlice<T>,
) {
    let thread = thread::index_in_block() as usize;
    let (row, lane) = (thread::block_idx_x() as usize * ROWS + thread / 32, thread % 32);
    let (first, lanes) = (row * columns, Butterfly::WHOLE_WARP);
    let (Some(x), Some(&target)) = (logits.get(first..first + columns), targets.get(row)) else {
        return;
    };
    let target = target as usize;

    let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
    for x in x.iter().skip(lane).step_by(32) {
        let x = x.widen();
        let larger = max.max(x);
        let shift = center(larger);
        sum = sum * fast_expf(max - shift) + fast_expf(x - shift);
        max = larger;
    }
    let of_lane = max;
    let max = lanes.max(of_lane);
    let shift = center(max);
    let sum = lanes.sum(sum * fast_expf(of_lane - shift));

    let is_counted = target < columns;
    if lane == 0 && row < losses.len() {
        let loss = if is_counted { logf(sum) + (shift - x[target].widen()) } else { 0.0 };
        // SAFETY: inside, and the place of this warp alone.
        unsafe { losses.as_mut_ptr().add(row).write(loss) };
    }
    if gradients.len() < first + columns {
        return;
    }
    let mut column = lane;
    while column < columns {
        let probability = fast_expf(x[column].widen() - shift) / sum;
        let of_target = if column == target { 1.0 } else { 0.0 };
        let gradient = if is_counted { (probability - of_target) * scale } else { 0.0 };
        // SAFETY: inside, and in a row of this warp alone, in a place of this lane alone.
        unsafe { gradients.as_mut_ptr().add(first + column).write(T::narrow(gradient)) };
        column += 32;
    }
}
