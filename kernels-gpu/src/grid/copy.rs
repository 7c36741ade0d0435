//! Three ways to copy an array: the same bytes, very different memory traffic.
//!
//! Memory moves in sectors of 32 bytes. When the 32 lanes of a warp read neighbouring words, a warp's
//! read is four sectors; when they read words `stride` apart, it is up to 32, of which most bytes are thrown away.

use cuda_std::prelude::*;

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

/// The fast form: 16 bytes a thread and step, a quarter of the instructions. `x: [n]`, `out: [n]`, any grid.
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
