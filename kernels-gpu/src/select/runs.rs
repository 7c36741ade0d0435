//! Run-length encoding.

use crate::prelude::*;
use cuda_std::dependent;

use super::part::{Ranks, write_rows};
use super::{BLOCK, LEAST_SHARED_BYTES, MAX_REGISTERS, MOST_SHARED_BYTES, PlainOrd, tile_len};
use crate::scan::carry::{Carry, MOST_WORDS};
use crate::scan::look_ahead::{States, states_len};
use crate::scan::marks::Runs;
use crate::scan::pack::{build, per_pack};
use crate::scan::ring::{self, PACKS, Part, Stages};

/// Scratch words of [`run_lengths`](fn@run_lengths) for `n_elems` elements of type `T`.
#[must_use]
pub const fn run_scratch_len<T>(n_elems: usize) -> usize {
    states_len(n_elems.div_ceil(tile_len::<T>()), Begun::TILE_WORDS)
}

/// Runs that began: how many, and where the last one did, modulo 2^32 as all lengths are.
#[derive(Clone, Copy)]
struct Begun {
    count: u64,
    last: u32,
}

impl Carry for Begun {
    const WORDS: usize = 3;
    const TILE_WORDS: usize = 2;

    #[inline(always)]
    fn to_words(self) -> [u32; MOST_WORDS] {
        build(|k| [self.last, self.count as u32, (self.count >> 32) as u32, 0, 0][k])
    }

    #[inline(always)]
    fn from_words([last, low, high, ..]: [u32; MOST_WORDS]) -> Self {
        Self { count: u64::from(high) << 32 | u64::from(low), last }
    }
}

/// Run-length encoding's way with the parts of its tiles.
struct RunLengths<'a, T> {
    warp: Warp,
    lane: usize,
    x: &'a [T],
    values: (*mut T, usize),
    lengths: (*mut u32, usize),
    count: AtomicSlice<'a, u64>,
}

impl<T: PlainOrd> Stages<PACKS> for RunLengths<'_, T> {
    type Element = T;
    type Carry = Begun;

    const WRITES_MEMORY: bool = false;
    /// Room for the place of each element.
    const NOTE_WORDS: usize = PACKS * per_pack::<T>() / 2;

    #[inline(always)]
    fn neutral() -> Begun {
        Begun { count: 0, last: 0 }
    }

    #[inline(always)]
    fn join(a: Begun, b: Begun) -> Begun {
        Begun { count: a.count + b.count, last: if b.count > 0 { b.last } else { a.last } }
    }

    #[inline(always)]
    fn join_lanes<const N: usize>(warp: Warp, values: [Begun; N]) -> [Begun; N] {
        build(|k| {
            let Begun { count, last } = values[k];
            // Of the last lane of those in whose tile a run began.
            let lane = 31u32.wrapping_sub(warp.ballot(count > 0).leading_zeros()) % 32;
            // Of so many tiles as lanes, which is far below 2^32.
            Begun { count: warp.sum(count as u32).into(), last: warp.shuffle(last, lane) }
        })
    }

    #[inline(always)]
    fn reduce(&self, part: Part<'_, T, PACKS>) -> Begun {
        let packs = part.packs(T::zeroed());
        let ranks = Ranks::new(self.warp, part, &packs, Runs::new(self.warp, self.x));
        let places = self.places(part);
        // SAFETY: until the part is reduced, no other warp uses its notes; a rank is below the part's length.
        ranks.each_kept::<T>(|rank, j, e| unsafe {
            places.add(rank).write((part.place(j) + e) as u16);
        });
        // The last one may be another lane's.
        self.warp.sync();
        let own = ranks.own as usize;
        // SAFETY: written before the barrier.
        let last = if own > 0 { unsafe { places.add(own - 1).read() } } else { 0 };
        Begun { count: own as u64, last: part.start as u32 + u32::from(last) }
    }

    #[inline(always)]
    unsafe fn finish(
        &self,
        part: Part<'_, T, PACKS>,
        before: impl FnOnce() -> (Begun, Begun),
        release: impl FnOnce(),
    ) {
        let (before, own) = before();
        let (places, elements, len) = (self.places(part), part.elements(), own.count as usize);
        let (at, (values, room)) = (before.count as usize, self.values);
        // SAFETY: the places were written, and are inside the part; inside `values` and `lengths`, where `before` counts
        // what other parts write.
        unsafe {
            let kept = len.min(room.saturating_sub(at));
            write_rows(values.wrapping_add(at), kept, self.lane, |run| {
                elements.add(usize::from(places.add(run).read())).read()
            });
            self.write_lengths(part, before, len);
        }
        release();
        if part.is_last() && self.lane == 0 {
            let all = Self::join(before, own);
            let run = all.count as usize - 1;
            if run < self.lengths.1 {
                // SAFETY: inside; the last run is ended here alone.
                unsafe {
                    self.lengths.0.add(run).write((self.x.len() as u32).wrapping_sub(all.last))
                };
            }
            self.count.store(0, all.count, Relaxed);
        }
    }
}

impl<T: PlainOrd> RunLengths<'_, T> {
    /// Where the runs of the part begin in it: its notes.
    #[inline(always)]
    fn places(&self, part: Part<'_, T, PACKS>) -> *mut u16 {
        part.note().wrapping_sub(self.lane * Self::NOTE_WORDS).cast()
    }

    /// Writes the lengths of the runs that end where one of the `own` of this part begins.
    ///
    /// # Safety
    /// Their places were written; the lengths of these runs are this warp's.
    #[inline(always)]
    unsafe fn write_lengths(&self, part: Part<'_, T, PACKS>, before: Begun, own: usize) {
        // The very first run ends none.
        let (at, skipped) = (before.count as usize, usize::from(before.count == 0));
        let (first, (lengths, room)) = (at + skipped - 1, self.lengths);
        let (places, before_part) =
            (self.places(part), (part.start as u32).wrapping_sub(before.last));
        let len = own.saturating_sub(skipped).min(room.saturating_sub(first));
        let length = |run: usize| {
            // SAFETY: the caller's promise.
            let begin = |run: usize| u32::from(unsafe { places.add(run).read() });
            match run + skipped {
                0 => begin(0) + before_part,
                run => begin(run) - begin(run - 1),
            }
        };
        // SAFETY: the caller's promise.
        unsafe { write_rows(lengths.wrapping_add(first), len, self.lane, length) };
    }
}

/// Run-length encoding: `values[r]` becomes what run `r` of equal elements of `x: [n]` is made of, by its bits, and
/// `lengths[r]` how long it is, modulo 2^32; `count: [1]` gets how many runs there are. What `values` and `lengths`
/// have no room for is left out. Launched as [`select_grid`](super::select_grid) is.
///
/// `states`: at least [`run_scratch_len`]`(n)` words, fewer panic.
///
/// # Safety
/// - The words of `states` are 0, or as the last scan or selection left the same words.
/// - A comparison of `T` does not panic, and no thread of the block has ended before: places come from what all lanes count.
#[kernel(
    u8, u32, u64,
    max_registers = MAX_REGISTERS, dependent, dynamic_shared = LEAST_SHARED_BYTES..=MOST_SHARED_BYTES
)]
pub unsafe fn run_lengths<T: PlainOrd>(
    mut block: Block<BLOCK>,
    x: &[T],
    states: AtomicSlice<u64>,
    mut values: DisjointSlice<T>,
    mut lengths: DisjointSlice<u32>,
    count: AtomicSlice<u64>,
) {
    if x.is_empty() {
        dependent::wait_for_previous();
        block.once(|| count.store(0, 0, Relaxed));
    }
    let states = States::new::<Begun>(states, x.len().div_ceil(tile_len::<T>()));
    let (warp, lane) = (block.whole_warp(), block.lane());
    let values = (values.as_mut_ptr(), values.len());
    let lengths = (lengths.as_mut_ptr(), lengths.len());
    let runs = RunLengths { warp, lane, x, values, lengths, count };
    // SAFETY: the states were made for the tiles of `x`, by a scan that carries where runs began.
    unsafe { ring::run(&mut block, states, x, &runs) };
}
