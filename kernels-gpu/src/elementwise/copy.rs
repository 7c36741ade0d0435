//! Ways to copy an array: the same bytes, very different memory traffic; and copies of rows.
//!
//! Memory moves in sectors of 32 bytes. When the 32 lanes of a warp read neighbouring words, a warp's
//! read is four sectors; when they read words `stride` apart, it is up to 32, of which most bytes are thrown away.

use crate::prelude::*;
use bytemuck::Pod;
use cuda_std::unroll::each;

use super::map::BLOCK;
use crate::dependent::let_next_start;
use crate::quads::{QUAD_BYTES, Quad, load, load_part, store_part};

/// Units of rows that a thread has in flight.
const UNITS: usize = 4;
/// Units that a block takes of rows.
pub const TILE: usize = BLOCK * UNITS;

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

/// The fastest form: a vector of 16 bytes a thread, see [`map`](super::map). `x: [n]`, `out: [n]`; launch
/// [`map::blocks`](super::map::blocks)`(n, 16, 16)` blocks.
#[kernel(dependent, block = BLOCK)]
pub fn copy_quads(index: ThreadIndex, x: &[Quad], mut out: DisjointSlice<Quad>) {
    let_next_start(x);
    let to = out.as_mut_ptr();
    for i in index.grid_stride(x.len().min(out.len())) {
        // SAFETY: inside both, and each index is one thread's.
        unsafe { to.add(i.get()).write(load(x.as_ptr().add(i.get()))) };
    }
}

/// Bytes from anywhere to anywhere: `x: [n]`, `out: [n]`. Launch [`map::blocks`](super::map::blocks)`(n, 1, 1)` blocks.
///
/// A thread stores a quad, aligned. Where the source is aligned otherwise, it is put together from the two of the source
/// that it lies in, of which the second is the neighbour's first: that comes from the cache. What is outside of whole
/// quads goes byte by byte.
#[kernel(dependent, block = BLOCK)]
pub fn copy_bytes(index: ThreadIndex, x: &[u8], mut out: DisjointSlice<u8>) {
    let_next_start(x);
    let n = x.len().min(out.len());
    let (from, to) = (x.as_ptr(), out.as_mut_ptr());
    let aligned = to.addr().wrapping_neg() % QUAD_BYTES;
    // How far into its own quads the source is, where the target's begin.
    let shift = (from.addr() + aligned) % QUAD_BYTES;
    // The first target whose source has its whole quads inside, and the bytes that its last one reads beside it.
    let head = (if aligned < shift { aligned + QUAD_BYTES } else { aligned }).min(n);
    let beside = if shift > 0 { QUAD_BYTES - shift } else { 0 };
    let quads = (n - head).saturating_sub(beside) / QUAD_BYTES;
    for i in index.grid_stride(quads) {
        let at = head + i.get() * QUAD_BYTES;
        // SAFETY: aligned, and inside: from `shift` bytes before `at`, and as far as `beside` behind the quad.
        let words = unsafe {
            let first = from.add(at - shift).cast::<Quad>();
            let low = load(first);
            if shift == 0 { low } else { funnel(low, load(first.add(1)), shift) }
        };
        // SAFETY: aligned, inside, and this thread's alone.
        unsafe { to.add(at).cast::<Quad>().write(words) };
    }
    // Fewer than two quads at either end.
    let end = head + quads * QUAD_BYTES;
    for i in index.grid_stride(3 * QUAD_BYTES) {
        let i = i.get();
        let copy = |at: usize| {
            // SAFETY: inside, and each byte is one thread's: indices of the grid.
            unsafe { to.add(at).write(*from.add(at)) };
        };
        if i < head {
            copy(i);
        }
        if end + i < n {
            copy(end + i);
        }
    }
}

/// The 16 bytes from `shift` on of the 32 of two quads, for shifts from 1 to 15.
#[inline(always)]
fn funnel(low: Quad, high: Quad, shift: usize) -> Quad {
    let ([a, b, c, d], [e, f, g, h]) = (low.to_array(), high.to_array());
    let [a, b, c, d, e, f] = if shift & 8 == 0 { [a, b, c, d, e, f] } else { [c, d, e, f, g, h] };
    let [a, b, c, d, e] = if shift & 4 == 0 { [a, b, c, d, e] } else { [b, c, d, e, f] };
    let bits = 8 * (shift as u32 % 4);
    let word = |low: u32, high: u32| ((u64::from(high) << 32 | u64::from(low)) >> bits) as u32;
    Quad::new(word(a, b), word(b, c), word(c, d), word(d, e))
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
        each::<UNITS>(|k| {
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
