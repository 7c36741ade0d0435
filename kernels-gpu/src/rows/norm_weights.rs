//! Gradients of the norms by their weights: sums over the rows of a matrix, column by column.
//!
//! `dweight[j] = sum over rows of dy[i, j] * (x[i, j] - mean[i]) / deviation[i]`, `dbias[j] = sum of dy[i, j]`.
//!
//! Two stages, each in a fixed order: [`norm_weights_partial`](fn@norm_weights_partial) adds up a chunk of rows,
//! [`norm_weights_finish`](fn@norm_weights_finish) the chunks. How many chunks there are depends on the shape
//! alone, so the sums have the same bits on every device.

use crate::prelude::*;
use cuda_std::bf16;
use cuda_std::unroll::{build, each};

use super::{Place, Reuse, Value, WARP, load_vector};

/// Warps of a block of the first stage, which take rows in turn.
pub const WARPS: u32 = 8;
/// Threads in a block of the first stage.
pub const BLOCK: u32 = WARP * WARPS;
/// Columns of a block of the second stage: one for each lane.
pub const FINISH_COLUMNS: usize = WARP as usize;
/// Warps of a block of the second stage, which take chunks in turn.
const FINISH_WARPS: usize = 32;
/// Threads in a block of the second stage.
pub const FINISH_BLOCK: u32 = WARP * FINISH_WARPS as u32;
/// Rows that a block of the first stage takes at least, where there are so many.
const ROWS_PER_CHUNK: usize = 64;
/// Most chunks.
const MAX_CHUNKS: usize = 128;

/// Chunks into which `rows` are cut.
#[must_use]
pub const fn chunks(rows: usize) -> usize {
    let chunks = rows.div_ceil(ROWS_PER_CHUNK);
    if chunks < MAX_CHUNKS { chunks } else { MAX_CHUNKS }
}

/// Columns of a block of the first stage for elements of `size_bytes`: a vector of 16 bytes for each lane.
#[must_use]
pub const fn columns_per_block(size_bytes: usize) -> usize {
    WARP as usize * (16 / size_bytes)
}

/// The first stage. `x, dy: [rows, columns]`; `stats: [rows]`, mean and reciprocal deviation; `partials: [2, chunks,
/// columns]`, first those of the weights. Launched with a block along x for every [`columns_per_block`] and a
/// block along y for each chunk.
///
/// # Safety
/// All have the stated shapes, and the grid is as stated.
#[kernel((f32, 4), (f16, 8), (bf16, 8), block = BLOCK)]
pub unsafe fn norm_weights_partial<T: Value<V>, const V: usize>(
    rows: usize,
    columns: u32,
    x: &[T],
    dy: &[T],
    stats: &[Vec2<f32>],
    mut partials: DisjointSlice<f32>,
) {
    let (thread, chunk) = (thread::thread_idx_x(), thread::block_idx_y() as usize);
    let (warp, lane) = ((thread / WARP) as usize, thread % WARP);
    let column = (thread::block_idx_x() * WARP + lane) * V as u32;
    let addresses = x.as_ptr().addr() | dy.as_ptr().addr();
    let whole = (addresses | (columns as usize * size_of::<T>())).is_multiple_of(16);

    let chunks = thread::grid_dim_y() as usize;
    let per_chunk = rows.div_ceil(chunks);
    let end = rows.min((chunk + 1) * per_chunk);
    let mut sums = [[0.0; V]; 2];
    let mut row = chunk * per_chunk + warp;
    while row < end {
        let place = Place { row: row * columns as usize, column, columns, stride: 1, whole };
        let load = |from: &[T]| {
            let from = from.as_ptr().wrapping_add(place.row);
            // SAFETY: the row exists, and its elements are aligned if all are.
            T::unpack(unsafe { load_vector(from, place, 0.0, Reuse::Once) })
        };
        let (x, dy) = (load(x), load(dy));
        // SAFETY: the row exists.
        let Vec2 { x: mean, y: reciprocal, .. } = unsafe { *stats.get_unchecked(row) };
        let [weights, biases] = sums;
        sums = [
            build(|i| weights[i] + dy[i] * ((x[i] - mean) * reciprocal)),
            build(|i| biases[i] + dy[i]),
        ];
        row += WARPS as usize;
    }

    // Eight values a lane are enough for every type.
    let scratch = shared_array![f32; 2 * 8 * BLOCK as usize].as_mut_ptr();
    // SAFETY: blocks have different columns or chunks.
    unsafe { sum_warps(sums, scratch, column, columns, partials.as_mut_ptr(), (chunk, chunks)) };
}

/// Sums a block's values of columns over its warps, and writes the sums of the columns below `columns` to `partials:
/// [2, chunks, columns]`, first those of the weights. `column` is the first of a lane's.
///
/// # Safety
/// All threads of the block call it; `scratch` has `16 * BLOCK` elements, and no other block writes the sums.
#[inline(always)]
unsafe fn sum_warps<const V: usize>(
    sums: [[f32; V]; 2],
    scratch: *mut f32,
    column: u32,
    columns: u32,
    partials: *mut f32,
    (chunk, chunks): (usize, usize),
) {
    let thread = thread::thread_idx_x();
    let (warp, lane) = ((thread / WARP) as usize, thread % WARP);
    // Lanes are neighbours, so banks do not collide.
    let word = |kind: usize, i: usize, thread: usize| (kind * 8 + i) * BLOCK as usize + thread;
    each::<2>(|kind| {
        // SAFETY: in bounds, and each thread's own.
        each::<V>(|i| unsafe {
            scratch.add(word(kind, i, thread as usize)).write(sums[kind][i]);
        });
    });
    // The first two warps read what all have written.
    thread::sync_threads();
    if warp < 2 {
        each::<V>(|i| {
            if column + (i as u32) < columns {
                let mut sum = 0.0;
                let mut other = lane;
                while other < BLOCK {
                    // SAFETY: in bounds, and written before the barrier.
                    sum += unsafe { scratch.add(word(warp, i, other as usize)).read() };
                    other += WARP;
                }
                let at = (warp * chunks + chunk) * columns as usize + column as usize + i;
                // SAFETY: one thread writes the column's sum of this chunk.
                unsafe { partials.add(at).write(sum) };
            }
        });
    }
}

/// The second stage: the sums over the chunks, those of each warp in their order, and then the warps'. `partials: [2, chunks,
/// columns]`; `dweight, dbias: [columns]`, either of which may be empty. Launched with a block along x for every
/// [`FINISH_COLUMNS`], and two along y: weights and biases.
///
/// # Safety
/// All have the stated shapes, and the grid is as stated.
#[kernel((f32, 4), (f16, 8), (bf16, 8), block = FINISH_BLOCK)]
pub unsafe fn norm_weights_finish<T: Value<V>, const V: usize>(
    columns: usize,
    partials: &[f32],
    dweight: DisjointSlice<T>,
    dbias: DisjointSlice<T>,
) {
    let (thread, is_bias) = (thread::thread_idx_x() as usize, thread::block_idx_y() != 0);
    let (warp, lane) = (thread / WARP as usize, thread % WARP as usize);
    let column = thread::block_idx_x() as usize * FINISH_COLUMNS + lane;
    let (weights, biases) = partials.split_at(partials.len() / 2);
    let of = if is_bias { biases } else { weights };
    let sums = shared_array![f32; FINISH_BLOCK as usize];
    let mut sum = 0.0;
    let mut at = warp * columns + column;
    while column < columns
        && let Some(partial) = of.get(at)
    {
        sum += partial;
        at += FINISH_WARPS * columns;
    }
    // SAFETY: each thread writes its own element.
    unsafe { sums.set(thread, sum) };
    // The first warp reads what all have written.
    thread::sync_threads();
    let mut out = if is_bias { dbias } else { dweight };
    if warp > 0 || column >= columns || out.is_empty() {
        return;
    }
    let mut total = 0.0;
    for warp in 0..FINISH_WARPS {
        // SAFETY: in bounds, and written before the barrier.
        total += unsafe { sums.get(warp * WARP as usize + lane) };
    }
    // SAFETY: what is not empty has every column, and one thread writes each.
    unsafe { out.as_mut_ptr().add(column).write(T::narrow(total)) };
}
