//! What comes before a tile, from what each tile before it says of itself.
//!
//! A tile says the join of its own elements, and nothing else, as soon as it has it. A block that works on every
//! hundredth tile or so keeps what comes before its last one, and joins what has been said since (look-ahead: A.
//! Hendriksen's scan in CUB). So no tile waits for another one's prefix, and all that a block looks up for a tile is under
//! way at the same time.
//!
//! 32 tiles in a row, from a multiple of 32 on, are a group, which one warp joins in a fixed order. What comes before a
//! tile is the join of the groups before its own, from left to right, and of the tiles before it in its group: the same
//! whichever block asks, so a sum of floats has the same bits in every run, on every device.

use core::sync::atomic::Ordering::{AcqRel, Relaxed};

use cuda_std::atomic::{self, AtomicSlice, Scope};
use cuda_std::warp::Warp;
use cuda_std::{panic, thread};

use super::carry::{Carry, MOST_WORDS, map_words};
use super::pack::{build, each};

/// Tiles in a group: a lane for each.
const GROUP: usize = 32;
/// Groups that are looked up at the same time: those between two tiles of a block, where 132 blocks run.
const LOOKS: usize = 6;
/// Rounds of looks, one after the other, before a thread gives way to others.
const QUICK_ROUNDS: u32 = 100;
/// In a word of a state beside its 32 bits: that it has been said.
const SAID: u64 = 1 << 32;

/// Words before the states: a ticket, and how many warps have done.
const FRONT: usize = 2;
/// A slice of at most so many words is 0 again when a scan ends.
pub const KEPT_WORDS: usize = 2304;

/// The words of `tiles` tiles of a scan that carries `words` words: two counters, and the states. All are 0 before, and
/// so are at most [`KEPT_WORDS`] afterwards: the next scan needs nobody who clears them.
#[must_use]
pub const fn states_len(tiles: usize, words: usize) -> usize {
    FRONT + tiles * words
}

/// The states of a scan's tiles in device memory.
///
/// A state has a word for each 32 bits of its value, which says that it was said and the bits: a reader that
/// sees it in all words has the whole value, and no other memory needs an order.
#[derive(Clone, Copy)]
pub struct States<'a> {
    words: AtomicSlice<'a, u64>,
    tiles: usize,
}

impl<'a> States<'a> {
    /// The states of `tiles` tiles of a scan that carries `C`. Panics if there are not
    /// [`states_len`]`(tiles, C::WORDS)` words.
    #[inline(always)]
    pub fn new<C: Carry>(words: AtomicSlice<'a, u64>, tiles: usize) -> Self {
        assert!(
            words.len() >= states_len(tiles, C::WORDS),
            "too few words for the states of a scan"
        );
        Self { words, tiles }
    }

    /// The number of the next tile that nobody has taken; `None` if all have been.
    ///
    /// Tiles are taken in order, so all before it are taken by blocks that run, in whatever order blocks start.
    #[inline(always)]
    pub fn take(self) -> Option<usize> {
        let ticket = self.words.fetch_add(0, 1, Relaxed);
        Some(ticket as usize).filter(|&tile| tile < self.tiles)
    }

    /// Says the join of a tile's own elements. One thread calls it.
    ///
    /// # Safety
    /// There is such a tile, of a scan that carries `C`.
    #[inline(always)]
    pub unsafe fn say<C: Carry>(self, tile: usize, own: C) {
        let (words, at) = (own.to_words(), self.at::<C>(tile));
        // SAFETY: the caller's promise.
        each(C::WORDS, |k| unsafe {
            atomic::store(at.add(k), SAID | u64::from(words[k]), Relaxed, Scope::Device);
        });
    }

    /// Says that the warp does not say or look any more; all its lanes call it. The last of so many warps makes all words 0
    /// again, where they are few.
    #[inline(always)]
    pub fn leave(self, warp: Warp, warps: u32) {
        let (len, lane) = (self.words.len(), warp.thread_rank() as usize);
        if len > KEPT_WORDS {
            return;
        }
        // Of all lanes, before the first one says so.
        warp.sync();
        let left = if lane == 0 { self.words.fetch_add(1, 1, AcqRel) } else { 0 };
        if warp.shuffle(left as u32, 0) + 1 == warps {
            for word in (lane..len).step_by(32) {
                // SAFETY: inside the slice.
                unsafe {
                    let word = self.words.as_mut_ptr().add(word);
                    atomic::store(word, 0, Relaxed, Scope::Device);
                }
            }
        }
    }

    /// One look at what a tile has said, and whether it has said all of it.
    ///
    /// # Safety
    /// As [`say`](Self::say).
    #[inline(always)]
    unsafe fn look<C: Carry>(self, tile: usize) -> (C, bool) {
        let (mut words, mut said) = ([0; MOST_WORDS], SAID);
        each(C::WORDS, |k| {
            // SAFETY: the caller's promise.
            let word = unsafe { atomic::load(self.at::<C>(tile).add(k), Relaxed, Scope::Device) };
            said &= word;
            words[k] = word as u32;
        });
        (C::from_words(words), said != 0)
    }

    #[inline(always)]
    fn at<C: Carry>(self, tile: usize) -> *mut u64 {
        self.words.as_mut_ptr().wrapping_add(FRONT + tile * C::WORDS)
    }
}

/// A warp that is asked for tile after tile.
pub struct LookAhead<'a, C, J> {
    states: States<'a>,
    warp: Warp,
    neutral: C,
    join: J,
    /// The first group that is not in `groups`.
    group: usize,
    /// The join of the groups before.
    groups: C,
}

impl<'a, C: Carry, J: Fn(C, C) -> C> LookAhead<'a, C, J> {
    /// Of the calling warp, at the first tile.
    #[inline(always)]
    pub fn new(states: States<'a>, warp: Warp, neutral: C, join: J) -> Self {
        Self { states, warp, neutral, join, group: 0, groups: neutral }
    }

    /// What comes before `tile`, `neutral` before the first. All lanes call it; they wait until the tiles before
    /// have been said.
    ///
    /// # Safety
    /// There is such a tile, of a scan that carries `C`; those before were taken by blocks that say them without
    /// waiting for this one; no tile asked for before was a later one.
    #[inline(always)]
    pub unsafe fn before(&mut self, tile: usize) -> C {
        let last = tile / GROUP;
        loop {
            // SAFETY: the caller's promise.
            let said = unsafe { self.said(tile) };
            let joined = self.joined(said);
            let (first, mut before_in_group) = (self.group, self.neutral);
            each(LOOKS, |k| {
                if first + k < last {
                    self.groups = (self.join)(self.groups, joined[k]);
                    self.group += 1;
                } else if first + k == last {
                    before_in_group = joined[k];
                }
            });
            if first + LOOKS > last {
                return (self.join)(self.groups, before_in_group);
            }
        }
    }

    /// Each group joined as `((t0 t1) (t2 t3)) …`; every lane gets the results. The groups do not wait for one another.
    /// A loop, for its instructions have to be fetched, and of few elements a scan runs through them once.
    #[inline(always)]
    fn joined(&self, mut groups: [C; LOOKS]) -> [C; LOOKS] {
        let lane = self.warp.thread_rank();
        let mut distance = 1;
        while distance < thread::warp_size() {
            let is_first = lane & distance == 0;
            groups = build(|k| {
                let own = groups[k];
                let other = map_words(own, |word| self.warp.shuffle_xor(word, distance));
                let (a, b) = if is_first { (own, other) } else { (other, own) };
                (self.join)(a, b)
            });
            distance *= 2;
        }
        groups
    }

    /// What this lane's tiles of the next groups have said, as far as they are before `tile`.
    ///
    /// # Safety
    /// As [`before`](Self::before).
    #[inline(always)]
    unsafe fn said(&self, tile: usize) -> [C; LOOKS] {
        let slot = |k| (self.group + k) * GROUP + self.warp.thread_rank() as usize;
        let mut looks: [(C, bool); LOOKS] = build(|k| (self.neutral, slot(k) >= tile));
        let mut rounds = 0;
        loop {
            let mut all_said = true;
            each(LOOKS, |k| {
                if !looks[k].1 {
                    // SAFETY: the slot is before `tile`.
                    looks[k] = unsafe { self.states.look(slot(k)) };
                }
            });
            each(LOOKS, |k| all_said &= looks[k].1);
            if all_said {
                return build(|k| looks[k].0);
            }
            rounds += 1;
            if rounds > QUICK_ROUNDS {
                thread::nanosleep(20);
                // The block that has not said anything may have panicked.
                panic::leave_after_panic();
            }
        }
    }
}
