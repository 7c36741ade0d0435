//! All keys, over all threads of a grid.

use crate::prelude::*;

use super::key::Word;

/// Calls `f` with every key once, over the whole grid, whose blocks have `threads` threads: vectors of 16 bytes, and what lies
/// before and behind them.
#[inline(always)]
pub fn each_key<K: Word>(keys: &[K], threads: usize, f: impl FnMut(K)) {
    let first = thread::block_idx_x() as usize * threads + thread::thread_idx_x() as usize;
    each_key_of(keys, first, thread::grid_dim_x() as usize * threads, f);
}

/// Calls `f` with the keys of the thread with the number `first` among `stride` threads, which are 16 or more.
#[inline(always)]
pub fn each_key_of<K: Word>(keys: &[K], first: usize, stride: usize, mut f: impl FnMut(K)) {
    // SAFETY: sixteen bytes of keys are a vector, whatever the keys.
    let (head, body, tail) = unsafe { keys.align_to::<Vec4<u32>>() };
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
