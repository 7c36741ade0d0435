//! Run-length encoding.

use crate::prelude::*;
use cuda_std::dependent;

use super::super::scan::carry::Carry;
use super::super::scan::look_ahead::{States, states_len};
use super::super::scan::marks::Runs;
use super::super::scan::pack::each;
use super::super::scan::ring::{self, PACKS, Part, Stages};
use super::part::{Ranks, copy, note_words, write_rows};
use super::{BLOCK, LEAST_SHARED_BYTES, MAX_REGISTERS, MOST_SHARED_BYTES, PlainOrd, tile_len};

/// Scratch words of [`run_lengths`](fn@run_lengths) for `n_elems` elements of type `T`.
#[must_use]
pub const fn run_scratch_len<T>(n_elems: usize) -> usize {
    states_len(n_elems.div_ceil(tile_len::<T>()), Begun::WORDS)
}

/// Runs that began: how many, and where the last one did.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Begun {
    count: u64,
    last: u64,
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

    const WRITES_MEMORY: bool = true;
    const NOTE_WORDS: usize = note_words::<T>();

    #[inline(always)]
    fn neutral() -> Begun {
        Begun { count: 0, last: 0 }
    }

    #[inline(always)]
    fn join(a: Begun, b: Begun) -> Begun {
        Begun { count: a.count + b.count, last: if b.count > 0 { b.last } else { a.last } }
    }

    #[inline(always)]
    fn reduce(&self, part: Part<'_, T, PACKS>) -> Begun {
        let packs = part.packs(T::zeroed());
        let ranks = Ranks::new(self.warp, part, &packs, Runs::new(self.warp, self.x));
        let mut last = 0;
        each(PACKS, |j| {
            if ranks.marks[j] != 0 {
                last = part.place(j) as u32 + ranks.marks[j].ilog2();
            }
        });
        // SAFETY: until the part is reduced, no other warp uses its memory and its note.
        unsafe {
            ranks.note::<T>(part);
            ranks.compact(self.warp, part, &packs, false);
        }
        let last = part.start as u64 + u64::from(self.warp.max(last));
        Begun { count: ranks.own.into(), last }
    }

    #[inline(always)]
    unsafe fn finish(
        &self,
        part: Part<'_, T, PACKS>,
        before: impl FnOnce() -> (Begun, Begun),
        release: impl FnOnce(),
    ) {
        let (before, own) = before();
        let (at, (values, room)) = (before.count as usize, self.values);
        let kept = (own.count as usize).min(room.saturating_sub(at));
        // SAFETY: the part was compacted and has its note; inside `values` and `lengths`, where `before` counts what other
        // parts write.
        unsafe {
            copy(part.memory(), values.wrapping_add(at), kept, self.lane);
            self.write_lengths(part, &Ranks::noted(self.warp, part), before);
        }
        release();
        if part.is_last() && self.lane == 0 {
            let all = Self::join(before, own);
            let run = all.count as usize - 1;
            if run < self.lengths.1 {
                // SAFETY: inside; the last run is ended here alone.
                unsafe { self.lengths.0.add(run).write((self.x.len() as u64 - all.last) as u32) };
            }
            self.count.store(0, all.count, Relaxed);
        }
    }
}

impl<T: PlainOrd> RunLengths<'_, T> {
    /// Writes the lengths of the runs that end where one of this part begins. As many places of beginnings as the part's
    /// memory holds are put there at a time.
    ///
    /// # Safety
    /// The part's memory is this warp's, and so are the lengths of these runs.
    #[inline(always)]
    unsafe fn write_lengths(&self, part: Part<'_, T, PACKS>, ranks: &Ranks, before: Begun) {
        let (own, places) = (ranks.own as usize, part.memory().cast::<u16>());
        let (at, (lengths, room)) = (before.count as usize, self.lengths);
        // The very first run ends none. Of the places, the first is that of the beginning before.
        let (mut from, most) = (usize::from(at == 0), part.room() * size_of::<T>() / 2 - 1);
        while from < own {
            let len = most.min(own - from);
            self.warp.sync();
            ranks.each_kept::<T>(|rank, j, e| {
                // Elements of more than two bytes leave room for all places.
                if size_of::<T>() > 2 || (rank + 1 >= from && rank < from + len) {
                    let place = part.place(j) + e;
                    // SAFETY: at most `len`, which is below what the memory holds.
                    unsafe { places.add(rank + 1 - from).write(place as u16) };
                }
            });
            self.warp.sync();
            let first = at + from - 1;
            let length = |k: usize| {
                // SAFETY: written before the barrier.
                let begin = |k: usize| u32::from(unsafe { places.add(k).read() });
                if from + k > 0 {
                    begin(k + 1) - begin(k)
                } else {
                    begin(1) + (part.start as u64 - before.last) as u32
                }
            };
            // SAFETY: the caller's promise.
            unsafe {
                let len = len.min(room.saturating_sub(first));
                write_rows(lengths.wrapping_add(first), len, self.lane, length);
            }
            from += len;
        }
    }
}

/// Run-length encoding: `values[r]` becomes what run `r` of equal elements of `x: [n]` is made of, by its bits, and
/// `lengths[r]` how long it is, modulo 2^32; `count: [1]` gets how many runs there are. What `values` and `lengths`
/// have no room for is left out. Launched as [`select_grid`](super::select_grid) is.
///
/// `states`: [`run_scratch_len`]`(n)` words, fewer panic.
///
/// # Safety
/// The words of `states` are 0 before.
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
    dependent::wait_for_previous();
    if x.is_empty() {
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
