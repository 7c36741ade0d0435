//! Rows of a table by their numbers, and the gradient of the table.
//!
//! The gradient of a table's row is the sum of the gradients of all places that took it. A stable sort of the places by their tokens comes first. So a block
//! finds those of its row by a binary search, and sums them in their order: the same bits again and again, with no atomic operation.

use crate::matmul::Value;
use crate::prelude::*;
use cuda_std::{bf16, f16};

/// Threads in a block of [`embedding_gradient`](fn@embedding_gradient).
pub const BLOCK: usize = 128;

/// `out[i] = table[tokens[i]]`, rows of `columns` elements. `table: [entries, columns]`, `tokens: [n]`, `out: [n, columns]`. A number that the table does not
/// have is a panic.
#[kernel(f32, f16, bf16)]
pub fn embedding<T: Value>(
    index: ThreadIndex,
    columns: usize,
    tokens: &[u32],
    table: &[T],
    mut out: DisjointSlice<T>,
) {
    let columns = columns.max(1);
    if let Some(out) = out.get_mut(index) {
        let (place, column) = (index.get() / columns, index.get() % columns);
        *out = table[tokens[place] as usize * columns + column];
    }
}

/// How many tokens are less than `token`.
#[inline(always)]
fn lower_bound(tokens: &[u32], places: &[u32], token: u32) -> usize {
    let (mut first, mut last) = (0, places.len());
    while first < last {
        let middle = first + (last - first) / 2;
        if tokens[places[middle] as usize] < token { first = middle + 1 } else { last = middle }
    }
    first
}

/// `out[entry]` becomes the sum of `gradient[i]` over all `i` with `tokens[i] == entry`. `places: [n]` are the indices that sort `tokens: [n]`, `gradient: [n, columns]`,
/// `out: [entries, columns]`; a block for each entry.
#[kernel(f32, f16, bf16, block = BLOCK)]
pub fn embedding_gradient<T: Value>(
    columns: usize,
    tokens: &[u32],
    places: &[u32],
    gradient: &[T],
    mut out: DisjointSlice<f32>,
) {
    let entry = thread::block_idx_x();
    let first = entry as usize * columns;
    if out.len() < first + columns {
        return;
    }
    let from = lower_bound(tokens, places, entry);
    let mut column = thread::index_in_block() as usize;
    while column < columns {
        let mut sum = 0.0;
        for &place in places[from..].iter().take_while(|place| tokens[**place as usize] == entry) {
            sum += gradient[place as usize * columns + column].widen();
        }
        // SAFETY: inside, in a row of this block alone, and in a place of this thread alone.
        unsafe { out.as_mut_ptr().add(first + column).write(sum) };
        column += BLOCK;
    }
}
