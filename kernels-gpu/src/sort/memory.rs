//! The shared memory of a block that ranks tiles.

use core::sync::atomic::AtomicU32;

use crate::prelude::*;
use cuda_std::unroll::{build, each};

use super::key::{Digit, RADIX, Word};

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
    /// No other thread reaches them before the next barrier.
    #[inline(always)]
    pub unsafe fn clear(self, thread: usize) {
        let vectors = self.counters(0).cast::<Vec4<u32>>();
        // Counters are those of a warp times warps, so threads times these rounds are all vectors.
        each::<{ RADIX / 32 / 4 }>(|k| {
            // SAFETY: below the number of vectors.
            unsafe { vectors.add(thread + k * THREADS).write(Vec4::splat(0)) };
        });
    }
    /// Stores where the keys of a digit go, as 64 bits if `is_wide` and else as 32.
    ///
    /// # Safety
    /// `digit < RADIX`, which no other thread has; no thread reads the places before the next barrier.
    #[inline(always)]
    pub unsafe fn write_place(self, digit: usize, place: u64, is_wide: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            if is_wide {
                self.places::<u64>().add(digit).write(place);
            } else {
                self.places::<u32>().add(digit).write(place as u32);
            }
        }
    }

    /// Counts a key at its digit.
    ///
    /// # Safety
    /// `counters` are those of the calling thread's warp, which are reached atomically until the next barrier.
    #[inline(always)]
    pub unsafe fn count<K: Word>(counters: *mut u32, key: K, digit: Digit) {
        // SAFETY: a counter of the warp.
        let counter = unsafe { counters.byte_add(key.digit(digit, 2) as usize) };
        // SAFETY: aligned; reached atomically.
        unsafe { AtomicU32::from_ptr(counter) }.fetch_add(1, Relaxed);
    }

    /// What each warp has counted of a digit, and the sum.
    ///
    /// # Safety
    /// `digit < RADIX`, and a barrier has come after the last count.
    #[inline(always)]
    pub unsafe fn counts<const WARPS: usize>(self, digit: usize) -> ([u32; WARPS], u32) {
        // SAFETY: the caller's promise.
        let of_warps: [u32; WARPS] = build(|warp| unsafe { self.counters(warp).add(digit).read() });
        let mut sum = 0;
        each::<WARPS>(|warp| sum += of_warps[warp]);
        (of_warps, sum)
    }

    /// Replaces the counts of a digit by where each warp's keys go in the tile, in bytes of keys; those of the first warp go to
    /// key `begin`.
    ///
    /// # Safety
    /// `digit < RADIX`, which no other thread has; the counts have been read.
    #[inline(always)]
    pub unsafe fn write_offsets<K, const WARPS: usize>(
        self,
        digit: usize,
        begin: u32,
        of_warps: [u32; WARPS],
    ) {
        let mut place = begin;
        each::<WARPS>(|warp| {
            // SAFETY: the caller's promise.
            unsafe { self.counters(warp).add(digit).write(place * size_of::<K>() as u32) };
            place += of_warps[warp];
        });
    }
    /// Counts the digits of a tile's keys, in places of each warp, and turns the counts into where each warp's keys of a digit go in
    /// the tile. The number of the digit's keys in the tile, and where they begin in it; each of the first [`RADIX`] threads has
    /// a digit, and the others get 0 keys. Those threads call `publish` with the number as soon as it is known.
    ///
    /// # Safety
    /// All threads of the block call it, with the `counters` of their own warp, of `WARPS`; all counters are clear, and a barrier has come since they were cleared.
    #[inline(always)]
    pub unsafe fn count_tile<K: Word, const ITEMS: usize, const WARPS: usize>(
        self,
        block: &mut Block<THREADS>,
        counters: *mut u32,
        keys: &[K; ITEMS],
        digit: Digit,
        publish: impl FnOnce(u32),
    ) -> (u32, u32) {
        let (thread, own) = (block.thread(), block.thread() % RADIX);
        // SAFETY: the counters are clear, and reached atomically until the barrier.
        each::<ITEMS>(|k| unsafe { Self::count(counters, keys[k], digit) });
        // Every warp has counted.
        block.sync(());
        // SAFETY: `own < RADIX`; the barrier has come after the last count.
        let (of_warps, of_tile) = unsafe { self.counts::<WARPS>(own) };
        let of_tile = if thread < RADIX { of_tile } else { 0 };
        if thread < RADIX {
            publish(of_tile);
        }
        let ([begin], _) = block.exclusive_scan([of_tile], 0, u32::wrapping_add);
        if thread < RADIX {
            // SAFETY: the digit is this thread's; the counts were read before the barrier of the scan.
            unsafe { self.write_offsets::<K, WARPS>(own, begin, of_warps) };
        }
        // Every warp's places are there.
        block.sync(());
        (of_tile, begin)
    }
}
