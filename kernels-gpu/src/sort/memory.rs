//! The shared memory of a block that ranks tiles.

use crate::prelude::*;

use super::items::each;
use super::key::RADIX;

/// Words for the place of each digit.
const PLACES: usize = 2 * RADIX;

/// Counters of each digit for each warp, the place of each digit, and `STAGED` words for a tile, of a block of `THREADS`.
#[derive(Clone, Copy)]
pub struct Memory<const THREADS: usize, const STAGED: usize> {
    words: *mut u32,
}

impl<const THREADS: usize, const STAGED: usize> Memory<THREADS, STAGED> {
    /// Words of counters.
    const COUNTERS: usize = THREADS / 32 * RADIX;
    /// Words of all.
    pub const WORDS: usize = Self::COUNTERS + PLACES + STAGED;

    /// Bytes of all where a tile takes no more than these.
    pub const fn bytes(tile_bytes: usize) -> usize {
        (Self::COUNTERS + PLACES) * size_of::<u32>() + tile_bytes
    }

    /// `words` leads to as many as [`WORDS`](Self::WORDS), or as the tile needs, aligned to 16 bytes.
    #[inline(always)]
    pub fn new(words: *mut u32) -> Self {
        Self { words }
    }

    /// A warp's counters of all digits.
    #[inline(always)]
    pub fn counters(self, warp: usize) -> *mut u32 {
        self.words.wrapping_add(warp * RADIX)
    }

    /// Where the keys of each digit go, in elements.
    #[inline(always)]
    pub fn places<T>(self) -> *mut T {
        self.words.wrapping_add(Self::COUNTERS).cast()
    }

    /// The tile's keys or values.
    #[inline(always)]
    pub fn staged<T, const ITEMS: usize>(self) -> *mut T {
        const { assert!(THREADS * ITEMS * size_of::<T>() <= 4 * STAGED) };
        self.words.wrapping_add(Self::COUNTERS + PLACES).cast()
    }

    /// Sets the counters of all warps to 0, 16 bytes a time.
    ///
    /// # Safety
    /// Nobody else reaches them before the next barrier.
    #[inline(always)]
    pub unsafe fn clear(self, thread: usize) {
        let vectors = self.counters(0).cast::<Vec4<u32>>();
        // Counters are those of a warp times warps, so threads times these rounds are all vectors.
        each::<{ RADIX / 32 / 4 }>(|k| {
            // SAFETY: below the number of vectors.
            unsafe { vectors.add(thread + k * THREADS).write(Vec4::splat(0)) };
        });
    }
}
