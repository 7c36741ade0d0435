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

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::access::{self, CacheLevel};
use cuda_std::atomic::{self, AtomicSlice, Scope};
use cuda_std::unroll::{build, each, each_below};
use cuda_std::warp::Warp;
use cuda_std::{panic, thread};

use super::carry::{Carry, MOST_WORDS};

/// Tiles in a group: a lane for each.
const GROUP: usize = 32;
/// Groups that are looked up at the same time: those between two tiles of a block, where 132 blocks run.
const LOOKS: usize = 6;
/// Rounds of looks, one after the other, before a thread gives way to others.
const QUICK_ROUNDS: u32 = 100;
/// In a word of a state beside its 32 bits: that it has been said.
const SAID: u64 = 1 << 32;

/// Words before the states: the next ticket.
const FRONT: usize = 1;
/// In a ticket's lower 32 bits: that its scan works in the second half of the states.
const SECOND_HALF: u32 = 1 << 31;
/// Words that are kept between scans, for those of few elements.
pub const KEPT_WORDS: usize = FRONT + 2 * 2304;

/// The words of `tiles` tiles of which each says `words` words: the next ticket, and the states twice. A scan works in one
/// half of them and makes the other one 0, for the next scan with the same words. Before the first, all are 0.
#[must_use]
pub const fn states_len(tiles: usize, words: usize) -> usize {
    FRONT + 2 * tiles * words
}

/// A tile that was taken: its number, in which half of the states its scan works, and above these 32 bits how many words of
/// the other half the scan before has used.
#[derive(Clone, Copy)]
pub struct Ticket(pub u64);

impl Ticket {
    /// Its number.
    #[inline(always)]
    pub fn tile(self) -> usize {
        (self.0 as u32 & !SECOND_HALF) as usize
    }

    #[inline(always)]
    fn half(self) -> u32 {
        self.0 as u32 & SECOND_HALF
    }

    #[inline(always)]
    fn used_before(self) -> usize {
        (self.0 >> 32) as usize
    }
}

/// The states of a scan's tiles in device memory.
///
/// A state has a word for each 32 bits of its value, which says that it was said and the bits: a reader that
/// sees it in all words has the whole value, and no other memory needs an order.
#[derive(Clone, Copy)]
pub struct States<'a> {
    words: AtomicSlice<'a, u64>,
    tiles: usize,
    /// Words of the half that the scan works in.
    used: usize,
}

impl<'a> States<'a> {
    /// The states of `tiles` tiles of a scan that carries `C`. Panics if there are not
    /// [`states_len`]`(tiles, C::TILE_WORDS)` words.
    #[inline(always)]
    pub fn new<C: Carry>(words: AtomicSlice<'a, u64>, tiles: usize) -> Self {
        const { assert!(C::TILE_WORDS <= MOST_WORDS) };
        assert_early!(
            words.len() >= states_len(tiles, C::TILE_WORDS),
            "too few words for the states of a scan"
        );
        Self { words, tiles, used: tiles * C::TILE_WORDS }
    }

    /// The next tile that no block has taken; `None` if all have been. Each block asks until there are no more.
    ///
    /// Tiles are taken in order, so all before it are taken by blocks that run, in whatever order blocks start.
    #[inline(always)]
    pub fn take(self) -> Option<Ticket> {
        let ticket = Ticket(self.words.fetch_add(0, 1, Relaxed));
        let end = self.tiles + thread::grid_dim_x() as usize;
        if ticket.tile() + 1 == end {
            // Nobody takes another one. The next scan works in the half that this one makes 0, if it has tiles.
            let (half, used) = match self.used {
                0 => (ticket.half(), ticket.used_before()),
                used => (ticket.half() ^ SECOND_HALF, used),
            };
            self.words.store(0, (used as u64) << 32 | u64::from(half), Relaxed);
        }
        (ticket.tile() < self.tiles).then_some(ticket)
    }

    /// Whether a ticket is one of [`take`](Self::take)'s: shared memory may hold another one where a thread ended early.
    #[inline(always)]
    pub fn has(self, ticket: Ticket) -> bool {
        ticket.tile() < self.tiles
    }

    /// Asks for the ticket's word to come to the L2 cache.
    #[inline(always)]
    pub fn prefetch(self) {
        access::prefetch(self.words.get(0), CacheLevel::L2);
    }

    /// Says the join of a tile's own elements. One thread calls it.
    ///
    /// # Safety
    /// There is such a tile, of a scan that carries `C`.
    #[inline(always)]
    pub unsafe fn publish<C: Carry>(self, ticket: Ticket, own: C) {
        let (words, at) = (own.to_words(), self.at::<C>(ticket, ticket.tile()));
        // SAFETY: the caller's promise.
        each_below::<MOST_WORDS>(C::TILE_WORDS, |k| unsafe {
            atomic::store(at.add(k), SAID | u64::from(words[k]), Relaxed, Scope::Device);
        });
    }

    /// Makes a tile's share of what was used of the other half 0. All lanes of a warp call it, once for each tile.
    #[inline(always)]
    pub fn clear_other(self, ticket: Ticket, lane: usize) {
        let other = self.half(ticket.half() ^ SECOND_HALF);
        let used = ticket.used_before().min(self.half_len());
        let mut word = 32 * ticket.tile() + lane;
        while word < used {
            // SAFETY: inside the half.
            unsafe { atomic::store(other.add(word), 0, Relaxed, Scope::Device) };
            word += 32 * self.tiles;
        }
    }

    /// One look at what a tile has said, and whether it has said all of it.
    ///
    /// # Safety
    /// As [`say`](Self::say).
    #[inline(always)]
    unsafe fn look<C: Carry>(self, ticket: Ticket, tile: usize) -> (C, bool) {
        let (at, mut words, mut said) = (self.at::<C>(ticket, tile), [0; MOST_WORDS], SAID);
        each_below::<MOST_WORDS>(C::TILE_WORDS, |k| {
            // SAFETY: the caller's promise.
            let word = unsafe { atomic::load(at.add(k), Relaxed, Scope::Device) };
            said &= word;
            words[k] = word as u32;
        });
        (C::from_words(words), said != 0)
    }

    /// The state of a tile in the half of the ticket.
    #[inline(always)]
    fn at<C: Carry>(self, ticket: Ticket, tile: usize) -> *mut u64 {
        self.half(ticket.half()).wrapping_add(tile * C::TILE_WORDS)
    }

    #[inline(always)]
    fn half(self, half: u32) -> *mut u64 {
        let before = if half == 0 { 0 } else { self.half_len() };
        self.words.as_mut_ptr().wrapping_add(FRONT + before)
    }

    #[inline(always)]
    fn half_len(self) -> usize {
        (self.words.len() - FRONT) / 2
    }
}

/// A warp that is asked for tile after tile.
pub struct LookAhead<'a, C, J, L> {
    states: States<'a>,
    warp: Warp,
    neutral: C,
    join: J,
    join_lanes: L,
    /// The first group that is not in `groups`.
    group: usize,
    /// The join of the groups before.
    groups: C,
}

impl<'a, C, J, L> LookAhead<'a, C, J, L>
where
    C: Carry,
    J: Fn(C, C) -> C,
    L: Fn(Warp, [C; LOOKS]) -> [C; LOOKS],
{
    /// Of the calling warp, at the first tile. `join_lanes` joins what all lanes have.
    #[inline(always)]
    pub fn new(states: States<'a>, warp: Warp, neutral: C, join: J, join_lanes: L) -> Self {
        Self { states, warp, neutral, join, join_lanes, group: 0, groups: neutral }
    }

    /// What comes before a tile, `neutral` before the first. All lanes call it; they wait until the tiles before
    /// have been said.
    ///
    /// # Safety
    /// There is such a tile, of a scan that carries `C`; those before were taken by blocks that say them without
    /// waiting for this one; no tile asked for before was a later one.
    #[inline(always)]
    pub unsafe fn before(&mut self, ticket: Ticket) -> C {
        let last = ticket.tile() / GROUP;
        loop {
            // SAFETY: the caller's promise.
            let said = unsafe { self.said(ticket) };
            let joined = (self.join_lanes)(self.warp, said);
            let (first, mut before_in_group) = (self.group, self.neutral);
            each::<LOOKS>(|k| {
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

    /// What this lane's tiles of the next groups have said, as far as they are before the one taken.
    ///
    /// # Safety
    /// As [`before`](Self::before).
    #[inline(always)]
    unsafe fn said(&self, ticket: Ticket) -> [C; LOOKS] {
        let slot = |k| (self.group + k) * GROUP + self.warp.thread_rank() as usize;
        let mut looks: [(C, bool); LOOKS] = build(|k| (self.neutral, slot(k) >= ticket.tile()));
        let mut rounds = 0;
        loop {
            let mut all_said = true;
            each::<LOOKS>(|k| {
                if !looks[k].1 {
                    // SAFETY: the slot is before the tile.
                    looks[k] = unsafe { self.states.look(ticket, slot(k)) };
                }
            });
            each::<LOOKS>(|k| all_said &= looks[k].1);
            if all_said {
                return build(|k| looks[k].0);
            }
            // Counted no further, so that the emulator sees that a round is as the one before: a wait without an end is reported.
            rounds = (rounds + 1).min(QUICK_ROUNDS + 1);
            if rounds > QUICK_ROUNDS {
                thread::nanosleep(20);
                // The block that has not said anything may have panicked.
                panic::leave_after_panic();
            }
        }
    }
}
