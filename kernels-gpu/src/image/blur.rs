//! Gaussian blur, separable: along the rows, then along the columns.
//!
//! A blur of radius `r` in two passes costs `2 (2r + 1)` multiplications a pixel instead of `(2r + 1)²`.
//! Each block loads its stretch of pixels and a halo of `r` on both sides into shared memory once.

use crate::prelude::*;

/// Threads in a block along the direction of the blur.
pub const SPAN: usize = 128;
/// Lines that a block blurs side by side in the column pass, so that its loads are neighbours.
pub const LINES: usize = 8;
/// Largest radius, in pixels: what the halo has room for.
pub const MAX_RADIUS: usize = 32;

const ROW_TILE: usize = SPAN + 2 * MAX_RADIUS;
/// Rows of the column pass's block.
pub const COLUMN_SPAN: usize = 32;
const COLUMN_TILE: usize = COLUMN_SPAN + 2 * MAX_RADIUS;

/// A weighted mean as a byte: rounded to nearest, clamped to 0..=255.
#[inline(always)]
pub fn to_byte(mean: f32) -> u8 {
    (mean + 0.5).clamp(0.0, 255.0) as u8
}

/// `position - radius + offset`, held inside `0..len`: pixels past the edge repeat the edge.
#[inline(always)]
fn clamped(position: usize, offset: usize, radius: usize, len: usize) -> usize {
    (position + offset).saturating_sub(radius).min(len - 1)
}

/// Blurs the rows of `image: [height, width]` bytes into `out: [height, width]` f32.
///
/// `weights: [2r + 1]` sum to 1, with `r <= MAX_RADIUS`. One thread a pixel.
#[kernel(block = SPAN)]
pub fn blur_rows(index: ThreadIndex2, image: &[u8], weights: &[f32], mut out: DisjointGrid<f32>) {
    let (width, radius) = (out.width(), weights.len() / 2);
    let tile = shared_array![u8; ROW_TILE].as_mut_ptr();
    let thread = thread::thread_idx_x() as usize;
    let row = index.y() * width;
    let left = index.x() - thread;

    let mut i = thread;
    while i < (SPAN + 2 * radius).min(ROW_TILE) {
        // SAFETY: `i < ROW_TILE`, and this thread's alone.
        unsafe { *tile.add(i) = image[row + clamped(left, i, radius, width)] };
        i += SPAN;
    }
    // A thread reads what its neighbours loaded.
    thread::sync_threads();

    if let Some(out) = out.get_mut(index) {
        let mut sum = 0.0;
        for (k, weight) in weights.iter().enumerate().take(2 * MAX_RADIUS + 1) {
            // SAFETY: `thread < SPAN` and `k <= 2 * MAX_RADIUS`, so inside the tile, and loaded before the barrier.
            sum += weight * f32::from(unsafe { *tile.add(thread + k) });
        }
        *out = sum;
    }
}

/// Blurs the columns of `rows: [height, width]` f32 into `out: [height, width]` bytes.
///
/// `weights` as for [`blur_rows`](fn@blur_rows). One thread a pixel.
#[kernel(block = (LINES, COLUMN_SPAN))]
pub fn blur_columns(index: ThreadIndex2, rows: &[f32], weights: &[f32], mut out: DisjointGrid<u8>) {
    let (width, height, radius) = (out.width(), out.height(), weights.len() / 2);
    let tile = shared_array![f32; COLUMN_TILE * LINES].as_mut_ptr();
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let x = index.x().min(width - 1);
    let top = index.y() - ty;

    let mut i = ty;
    while i < (COLUMN_SPAN + 2 * radius).min(COLUMN_TILE) {
        // SAFETY: `i < COLUMN_TILE` and `tx < LINES`; the element is this thread's alone.
        unsafe { *tile.add(i * LINES + tx) = rows[clamped(top, i, radius, height) * width + x] };
        i += COLUMN_SPAN;
    }
    // A thread reads what its neighbours loaded.
    thread::sync_threads();

    if let Some(out) = out.get_mut(index) {
        let mut sum = 0.0;
        for (k, weight) in weights.iter().enumerate().take(2 * MAX_RADIUS + 1) {
            // SAFETY: as in `blur_rows`: `ty + k < COLUMN_TILE`, loaded before the barrier.
            sum += weight * unsafe { *tile.add((ty + k) * LINES + tx) };
        }
        *out = to_byte(sum);
    }
}
