//! Ways to copy an array: the same bytes, very different memory traffic; and copies of rows.
//!
//! Memory moves in sectors of 32 bytes. When the 32 lanes of a warp read neighbouring words, a warp's
//! read is four sectors; when they read words `stride` apart, it is up to 32, of which most bytes are thrown away.

use bytemuck::Pod;
use cuda_std::prelude::*;

use super::map::{BLOCK, TILE, VECTORS, map};
use crate::thread::words::{Quad, each, load_part, store_part};

/// The slow form. Thread `t` copies elements `t * per_thread ..`, so neighbouring lanes are `per_thread` apart.
/// `x: [n]`, `out: [n]`, with `n <= threads * per_thread`.
#[kernel]
pub fn copy_strided(index: ThreadIndex, per_thread: u32, x: &[f32], mut out: DisjointSlice<f32>) {
    let per_thread = per_thread as usize;
    let first = index.get() * per_thread;
    let end = x.len().min(out.len()).min(first + per_thread);
    let Some(run) = x.get(first..end) else { return };
    let out = out.as_mut_ptr();
    for (offset, value) in run.iter().enumerate() {
        // SAFETY: below `end`, so inside `out`; two threads' runs are disjoint, since `per_thread` is
        // the same in all.
        unsafe { *out.add(first + offset) = *value };
    }
}

/// The plain form. Thread `t` copies element `t`, then steps by the size of the grid: lanes are neighbours.
/// `x: [n]`, `out: [n]`, any grid.
#[kernel]
pub fn copy_coalesced(index: ThreadIndex, x: &[f32], mut out: DisjointSlice<f32>) {
    for i in index.grid_stride(x.len()) {
        if let Some(out) = out.get_mut(i) {
            *out = x[i.get()];
        }
    }
}

/// A faster form: 16 bytes a thread and step, a quarter of the instructions. `x: [n]`, `out: [n]`, any grid.
#[kernel]
pub fn copy_vectors(index: ThreadIndex, x: &[Vec4<f32>], mut out: DisjointSlice<Vec4<f32>>) {
    for i in index.grid_stride(x.len()) {
        if let Some(out) = out.get_mut(i) {
            // Field by field: a copy of the whole is a `memcpy` to LLVM, which moves 8 bytes at a time.
            let Vec4 { x, y, z, w, .. } = x[i.get()];
            *out = Vec4::new(x, y, z, w);
        }
    }
}

/// Any array of plain values, at the memory's full speed: 16 bytes an instruction and four of them in flight a thread. `x: [n]`,
/// `out: [n]`, in units that divide all addresses and lengths. Launch [`map::blocks`](super::map::blocks)`(n, size of a unit)` blocks.
#[kernel(u8, u32, u64)]
pub fn copy_units<T: Pod>(
    block: Block<BLOCK>,
    index: ThreadIndex,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    map(&block, index, x, &mut out, |x| x);
}

/// Rows at equal distances: `out[row][column] = x[row * pitch + column]`, in units that divide all addresses, widths and
/// pitches. Launch a block for each [`TILE`] units of `out`, or fewer. Panics if the rows are not inside `x`.
///
/// Threads of a block are neighbours in a row, and go on in the next row where it ends, so that narrow rows
/// keep all of them busy.
#[kernel(u8, u32, Quad)]
pub fn copy_rows<T: Pod>(
    block: Block<BLOCK>,
    index: ThreadIndex,
    x: &[T],
    pitch: u64,
    mut out: DisjointPitched<T>,
) {
    let (width, height, pitch) = (out.width(), out.height(), pitch as usize);
    if width == 0 || height == 0 {
        return;
    }
    let end = (height - 1).checked_mul(pitch).and_then(|start| start.checked_add(width));
    assert!(end.is_some_and(|end| end <= x.len()), "the rows end behind their slice");
    let units = width * height;
    let (rows, columns) = divide(BLOCK, width);
    let mut first = index.get() / BLOCK * TILE + block.thread();
    while first < units {
        let mut place = divide(first, width);
        let mut next = || {
            let now = place;
            place = (now.0 + rows, now.1 + columns);
            if place.1 >= width {
                place = (place.0 + 1, place.1 - width);
            }
            now
        };
        let places = [next(), next(), next(), next()];
        // SAFETY: inside, by the comparison above; of rows past the end the last is loaded.
        let of = |k: usize| unsafe {
            let from = places[k].0.min(height - 1) * pitch + places[k].1;
            load_part(x.as_ptr().add(from).cast(), size_of::<T>())
        };
        let loaded = [of(0), of(1), of(2), of(3)];
        each::<VECTORS>(|k| {
            // SAFETY: each unit is one thread's: places of its block's tiles.
            let own = unsafe { ThreadIndex2::new(places[k].1, places[k].0) };
            if let Some(out) = out.get_mut(own) {
                // SAFETY: the thread's own unit, aligned to its size.
                unsafe { store_part((&raw mut *out).cast(), loaded[k].to_array(), size_of::<T>()) };
            }
        });
        first += index.total() / BLOCK * TILE;
    }
}

/// Quotient and remainder, by a division of 32 bits where that is enough.
#[inline(always)]
fn divide(a: usize, b: usize) -> (usize, usize) {
    if (a | b) >> 32 == 0 {
        let (a, b) = (a as u32, (b as u32).max(1));
        ((a / b) as usize, (a % b) as usize)
    } else {
        (a / b.max(1), a % b.max(1))
    }
}
