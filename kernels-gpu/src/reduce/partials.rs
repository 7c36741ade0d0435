//! How blocks hand over: a partial value each, in words of global memory, and a count of those that are done.

use crate::prelude::*;
use cuda_std::atomic::{self, Scope};
use cuda_std::block::Item;

use super::BLOCK;
use crate::quads::each;

/// The token of a block of these kernels.
pub type Team = Block<{ BLOCK as usize }>;

/// Words of a value.
const fn words<V>() -> usize {
    size_of::<V>().div_ceil(4)
}

/// Partial values, in words that blocks read and write atomically.
#[derive(Clone, Copy)]
pub struct Partials<'a> {
    words: AtomicSlice<'a, u32>,
}

impl<'a> Partials<'a> {
    /// Room for `values` values. Panics where the words are too few.
    #[inline(always)]
    pub fn new<V: Item>(words: AtomicSlice<'a, u32>, values: usize) -> Self {
        const { assert!(size_of::<V>() <= 16, "a partial value has at most 16 bytes") };
        assert!(words.len() / self::words::<V>() >= values, "too few words for partial values");
        Self { words }
    }

    /// Writes value `at`.
    ///
    /// # Safety
    /// `at` is below the number that [`new`](Self::new) was asked for.
    #[inline(always)]
    pub unsafe fn store<V: Item>(self, at: usize, value: V) {
        let mut padded = [0u32; 4];
        // SAFETY: a value has at most 16 bytes.
        unsafe { padded.as_mut_ptr().cast::<V>().write_unaligned(value) };
        // SAFETY: inside, and reached atomically alone.
        let store = |k, word| unsafe {
            let to = self.words.as_mut_ptr().add(at * words::<V>() + k);
            atomic::store(to, word, Relaxed, Scope::Device);
        };
        each::<4>(|k| {
            if k < const { self::words::<V>() } {
                store(k, padded[k]);
            }
        });
    }

    /// Value `at`.
    ///
    /// # Safety
    /// As for [`store`](Self::store).
    #[inline(always)]
    pub unsafe fn load<V: Item>(self, at: usize) -> V {
        // SAFETY: inside where `k` is below the number of words, and reached atomically alone.
        let load = |k| unsafe {
            if k < words::<V>() {
                atomic::load(
                    self.words.as_mut_ptr().add(at * words::<V>() + k),
                    Relaxed,
                    Scope::Device,
                )
            } else {
                0
            }
        };
        let words = [load(0), load(1), load(2), load(3)];
        // SAFETY: a value has at most 16 bytes, and any bits are one.
        unsafe { words.as_ptr().cast::<V>().read_unaligned() }
    }
}

/// Counts this block as done at `counter`, which `blocks` blocks share; whether it is the last of them, in every thread.
/// Thread 0 has written what the block hands over; to the last block all of it is visible. The counter, 0 before
/// the launch, is 0 again afterwards. All threads of the block call it.
#[inline(always)]
pub fn is_last(block: &mut Team, finished: AtomicSlice<u32>, counter: usize, blocks: u32) -> bool {
    // Release: what was written is seen before the count. Acquire: the last block sees it all.
    let before = block.once(|| finished.fetch_add(counter, 1, AcqRel));
    let last = before.is_some_and(|before| before == blocks - 1);
    if last {
        finished.store(counter, 0, Relaxed);
    }
    block.broadcast(u32::from(last), 0) != 0
}

/// Joins the values of `own` over all blocks of the grid: `Some` in thread 0 of one block.
///
/// All threads of all blocks call it once. Blocks are joined in the order of their numbers, the last to finish does it.
#[inline(always)]
pub fn join_grid<V: Item>(
    block: &mut Team,
    own: V,
    identity: V,
    join: impl Fn(V, V) -> V + Copy,
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
) -> Option<V> {
    let blocks = thread::grid_dim_x();
    let of_block = block.reduce_to_first(own, join);
    if blocks == 1 {
        return of_block;
    }
    let partials = Partials::new::<V>(partials, blocks as usize);
    if let Some(value) = of_block {
        // SAFETY: a block's number is below their count.
        unsafe { partials.store(thread::block_idx_x() as usize, value) };
    }
    if !is_last(block, finished, 0, blocks) {
        return None;
    }
    let all = join_strided(block.thread(), blocks as usize, identity, join, |at| {
        // SAFETY: `at < blocks`.
        unsafe { partials.load(at) }
    });
    block.reduce_to_first(all, join)
}

/// The values at `first`, `first + BLOCK`, … below `len`, in order; four loads at a time are under way.
#[inline(always)]
fn join_strided<V: Copy>(
    first: usize,
    len: usize,
    identity: V,
    join: impl Fn(V, V) -> V,
    load: impl Fn(usize) -> V,
) -> V {
    let mut all = identity;
    let mut at = first;
    while at < len {
        // What is past the end is loaded from the last place, and left out.
        let of = |k: usize| load((at + k * BLOCK as usize).min(len - 1));
        let loaded = [of(0), of(1), of(2), of(3)];
        each::<4>(|k| {
            if at + k * (BLOCK as usize) < len {
                all = join(all, loaded[k]);
            }
        });
        at += 4 * BLOCK as usize;
    }
    all
}

/// Writes element `at` of `out`, where it has one.
///
/// # Safety
/// No other thread of the grid writes or reads the element.
#[inline(always)]
pub unsafe fn put<T>(out: &mut DisjointSlice<T>, at: usize, value: T) {
    if at < out.len() {
        // SAFETY: inside, and nobody else's by the caller's promise.
        unsafe { out.as_mut_ptr().add(at).write(value) };
    }
}
