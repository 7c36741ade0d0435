//! The textbook's kernels once with `unsafe` and once without, each pair with the same arithmetic: for a
//! comparison of results and of speed.

use cuda_std::prelude::*;

use crate::textbook::{BLOCK, ROWS, TILE};

/// Row length of the raw tile: one more than the tile, against bank conflicts.
const PITCH: usize = TILE + 1;

/// [`reduce`](fn@crate::textbook::reduce) with a plain array.
#[kernel(block = BLOCK)]
pub fn raw_reduce(index: ThreadIndex, x: &[f32], sums: AtomicSlice<f32>) {
    let tree = shared_array![f32; BLOCK].as_mut_ptr();
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: a thread's own element, or after a barrier.
    unsafe { *tree.add(thread) = x.get(index.get()).copied().unwrap_or(0.0) };
    let mut width = BLOCK / 2;
    while width > 0 {
        thread::sync_threads();
        if thread < width {
            // SAFETY: the lower half is written, the upper half only read.
            unsafe { *tree.add(thread) += *tree.add(thread + width) };
        }
        width /= 2;
    }
    if thread == 0 {
        // SAFETY: written by this thread.
        sums.store(index.get() / BLOCK, unsafe { *tree }, Relaxed);
    }
}

/// [`scan`](fn@crate::textbook::scan) with two plain arrays.
#[kernel(block = BLOCK)]
pub fn raw_scan(index: ThreadIndex, x: &[u32], mut out: DisjointSlice<u32>) {
    let sums = shared_array![[u32; BLOCK]; 2].as_mut_ptr().cast::<u32>();
    let thread = thread::thread_idx_x() as usize;
    let (mut front, mut back) = (0, BLOCK);
    // SAFETY: a thread's own element, or after a barrier.
    unsafe { *sums.add(thread) = x.get(index.get()).copied().unwrap_or(0) };
    thread::sync_threads();
    let mut distance = 1;
    while distance < BLOCK {
        // SAFETY: what is read was written before a barrier; each thread writes its own element.
        unsafe {
            let own = *sums.add(front + thread);
            let left = if thread >= distance { *sums.add(front + thread - distance) } else { 0 };
            *sums.add(back + thread) = own.wrapping_add(left);
        }
        thread::sync_threads();
        (front, back) = (back, front);
        distance *= 2;
    }
    if let Some(out) = out.get_mut(index) {
        // SAFETY: written by this thread.
        *out = unsafe { *sums.add(front + thread) };
    }
}

/// `transpose_tiled` of the kernels that ship, through pointers.
#[kernel(block = (TILE, ROWS))]
pub fn raw_transpose(index: ThreadIndex2, input: &[f32], mut out: DisjointGrid<f32>) {
    let (width, height) = (out.width(), out.height());
    assert!(input.len() == width * height, "`input` and `out` differ in size");
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (left, top) = (index.x() - x, thread::block_idx_y() as usize * TILE);
    let tile = shared_array![f32; TILE * PITCH].as_mut_ptr();
    let (input, out) = (input.as_ptr(), out.as_mut_ptr());
    let inside = (left + TILE <= width && top + TILE <= height).then_some(());
    // SAFETY: the thread's own places of the block's own tile, inside both matrices.
    unsafe {
        match inside {
            Some(()) => carry([left, top, x, y], tile, input, out, [width, height], |_, _| true),
            None => carry([left, top, x, y], tile, input, out, [width, height], |x, y| {
                x < width && y < height
            }),
        }
    }
}

/// # Safety
/// As the caller says.
#[inline(always)]
unsafe fn carry(
    [left, top, x, y]: [usize; 4],
    tile: *mut f32,
    input: *const f32,
    out: *mut f32,
    [width, height]: [usize; 2],
    is_inside: impl Fn(usize, usize) -> bool,
) {
    for step in 0..TILE / ROWS {
        let row = y + step * ROWS;
        if is_inside(left + row, top + x) {
            // SAFETY: inside the input; the place in the tile is this thread's until the barrier.
            unsafe { *tile.add(row * PITCH + x) = *input.add((left + row) * height + top + x) };
        }
    }
    thread::sync_threads();
    for step in 0..TILE / ROWS {
        let row = y + step * ROWS;
        if is_inside(left + x, top + row) {
            // SAFETY: inside `out`, where no other thread writes this element.
            unsafe { *out.add((top + row) * width + left + x) = *tile.add(x * PITCH + row) };
        }
    }
}
