//! All keys, over all threads of a grid.

use crate::prelude::*;

use super::key::Word;

/// Calls `f` with every key once, over the whole grid, whose blocks have `threads` threads: vectors of 16 bytes, and what lies
/// before and behind them.
#[inline(always)]
pub fn each_key<K: Word>(keys: &[K], threads: usize, mut f: impl FnMut(K)) {
    // SAFETY: sixteen bytes of keys are a vector, whatever the keys.
    let (head, body, tail) = unsafe { keys.align_to::<Vec4<u32>>() };
    let first = thread::block_idx_x() as usize * threads + thread::thread_idx_x() as usize;
    let stride = thread::grid_dim_x() as usize * threads;
    if let Some(&key) = head.get(first) {
        f(key);
    }
    if let Some(&key) = tail.get(first) {
        f(key);
    }
    let mut i = first;
    while i + stride < body.len() {
        // Two loads are under way before the first key is looked at.
        // SAFETY: both below the length.
        let (a, b) = unsafe { (*body.get_unchecked(i), *body.get_unchecked(i + stride)) };
        K::each_of(a.to_array(), &mut f);
        K::each_of(b.to_array(), &mut f);
        i += 2 * stride;
    }
    if let Some(vector) = body.get(i) {
        K::each_of(vector.to_array(), &mut f);
    }
}
