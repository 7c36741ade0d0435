//! What comes before a tile, found while all tiles are under way.
//!
//! Each tile says the join of its own elements as soon as it has it (decoupled look-back: Merrill and Garland,
//! "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016). Their tiles look back until one says
//! everything before its end, so what is joined with what depends on who was faster. Here it does not: 32
//! tiles are a group, 32 groups are a hall. The last tile of a group says the group's join, and the last tile of a
//! hall says everything up to the hall's end, as soon as those before have said theirs. What comes before a tile is
//! then
//!
//! > (the halls before) (the groups before it in its hall) (the tiles before it in its group),
//!
//! each joined by one warp in a fixed order. A sum of floats has the same bits in every run, on every device.
//! All three are looked up at once, so a tile that comes late enough waits for one trip to the L2 cache.

use core::sync::atomic::Ordering::Relaxed;

use cuda_std::atomic::{self, AtomicSlice, Scope};
use cuda_std::thread;
use cuda_std::warp::Warp;

use super::carry::{Carry, MOST_WORDS, join_lanes};
use super::pack::each;

/// Tiles in a group, and groups in a hall: a lane for each.
const FANOUT: usize = 32;
/// In a word of a state beside its 32 bits: that it has been said.
const SAID: u64 = 1 << 32;

/// Looks at a state, one after the other, before a thread gives way to others.
const QUICK_LOOKS: u32 = 8;

/// The words of `tiles` tiles of a scan that carries `words` words: a ticket, and the states. All are 0 before.
#[must_use]
pub const fn states_len(tiles: usize, words: usize) -> usize {
    let groups = tiles.div_ceil(FANOUT);
    1 + (tiles + groups + groups.div_ceil(FANOUT) + 1) * words
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

/// A state's place, as a number.
type Slot = usize;

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

    /// The number of the next tile that nobody has taken; there may be none of that number.
    ///
    /// Tiles are taken in order, so all before it are taken by blocks that run, in whatever order blocks start.
    #[inline(always)]
    pub fn take(self) -> usize {
        // SAFETY: the first word, which is always there.
        unsafe { atomic::fetch_add(self.words.as_mut_ptr(), 1, Relaxed, Scope::Device) as usize }
    }

    /// Says the join of a tile's own elements. Lane 0 of one warp says it.
    ///
    /// # Safety
    /// There is such a tile.
    #[inline(always)]
    pub unsafe fn say_own<C: Carry>(self, warp: Warp, tile: usize, own: C) {
        // SAFETY: the caller's promise.
        unsafe { self.say(warp, tile, own) };
    }

    /// Says the join of a group, and of a hall, where `tile` is its last; `own` is the tile's. All lanes of one
    /// warp call it, soon after [`say_own`](Self::say_own): it waits for the tiles before.
    ///
    /// # Safety
    /// There is such a tile, of a scan that carries `C`.
    #[inline(always)]
    pub unsafe fn say_groups<C: Carry>(
        self,
        warp: Warp,
        tile: usize,
        own: C,
        neutral: C,
        join: impl Fn(C, C) -> C,
    ) {
        let lane = warp.thread_rank() as usize;
        let (group, hall) = (tile / FANOUT, tile / FANOUT / FANOUT);
        if tile % FANOUT != FANOUT - 1 {
            return;
        }
        let others = lane < FANOUT - 1;
        // SAFETY: all are before this tile.
        unsafe {
            let tiles = self.joined(warp, others, group * FANOUT + lane, neutral, &join);
            let of_group = join(tiles, own);
            self.say(warp, self.group(group), of_group);
            if group % FANOUT != FANOUT - 1 {
                return;
            }
            let groups =
                self.joined(warp, others, self.group(hall * FANOUT + lane), neutral, &join);
            let slot = (hall > 0).then_some(self.hall(hall));
            let halls = self.wait(slot, self.look(slot, neutral));
            self.say(warp, self.hall(hall + 1), join(halls, join(groups, of_group)));
        }
    }

    /// What comes before `tile`; `neutral` if there is nothing. All lanes of one warp call it.
    ///
    /// # Safety
    /// There is such a tile, of a scan that carries `C`.
    #[inline(always)]
    pub unsafe fn before<C: Carry>(
        self,
        warp: Warp,
        tile: usize,
        neutral: C,
        join: impl Fn(C, C) -> C,
    ) -> C {
        let lane = warp.thread_rank() as usize;
        let (group, tiles_before) = (tile / FANOUT, tile % FANOUT);
        let (hall, groups_before) = (group / FANOUT, group % FANOUT);
        let slots = [
            (lane < tiles_before).then_some(group * FANOUT + lane),
            (lane < groups_before).then_some(self.group(hall * FANOUT + lane)),
            (hall > 0).then_some(self.hall(hall)),
        ];
        // SAFETY: all are before this tile. The three looks are under way together.
        unsafe {
            let [tiles, groups, halls] = [
                self.look(slots[0], neutral),
                self.look(slots[1], neutral),
                self.look(slots[2], neutral),
            ];
            let tiles = join_lanes(warp, self.wait(slots[0], tiles), &join);
            let groups = join_lanes(warp, self.wait(slots[1], groups), &join);
            let halls = self.wait(slots[2], halls);
            join(join(halls, groups), tiles)
        }
    }

    /// The states that the lanes ask for, joined, where a lane asks.
    ///
    /// # Safety
    /// The slots are of [`states_len`], and somebody says them without waiting for this tile.
    #[inline(always)]
    unsafe fn joined<C: Carry>(
        self,
        warp: Warp,
        asks: bool,
        slot: Slot,
        neutral: C,
        join: impl Fn(C, C) -> C,
    ) -> C {
        let slot = asks.then_some(slot);
        // SAFETY: the caller's promise.
        join_lanes(warp, unsafe { self.wait(slot, self.look(slot, neutral)) }, join)
    }

    #[inline(always)]
    fn group(self, group: usize) -> Slot {
        self.tiles + group
    }

    #[inline(always)]
    fn hall(self, hall: usize) -> Slot {
        self.tiles + self.tiles.div_ceil(FANOUT) + hall
    }

    /// # Safety
    /// The slot is one of [`states_len`].
    #[inline(always)]
    unsafe fn say<C: Carry>(self, warp: Warp, slot: Slot, value: C) {
        let (words, at) = (value.to_words(), self.at::<C>(slot));
        if warp.thread_rank() == 0 {
            // SAFETY: the caller's promise.
            each(C::WORDS, |k| unsafe {
                atomic::store(at.add(k), SAID | u64::from(words[k]), Relaxed, Scope::Device);
            });
        }
    }

    /// One look at a state: its value, and whether all of it was said. `fallback` where there is no slot.
    ///
    /// # Safety
    /// The slot is one of [`states_len`].
    #[inline(always)]
    unsafe fn look<C: Carry>(self, slot: Option<Slot>, fallback: C) -> (C, bool) {
        let Some(slot) = slot else { return (fallback, true) };
        let (mut words, mut said) = ([0; MOST_WORDS], SAID);
        each(C::WORDS, |k| {
            // SAFETY: the caller's promise.
            let word = unsafe { atomic::load(self.at::<C>(slot).add(k), Relaxed, Scope::Device) };
            said &= word;
            words[k] = word as u32;
        });
        (C::from_words(words), said != 0)
    }

    /// The value of a state at which there was one look, once it is said.
    ///
    /// # Safety
    /// The slot is one of [`states_len`].
    #[inline(always)]
    unsafe fn wait<C: Carry>(self, slot: Option<Slot>, (mut value, mut said): (C, bool)) -> C {
        let mut looks = 0;
        while !said {
            looks += 1;
            if looks > QUICK_LOOKS {
                thread::nanosleep(20);
                // The block that has not said anything may have panicked.
                cuda_std::panic::leave_after_panic();
            }
            // SAFETY: the caller's promise.
            (value, said) = unsafe { self.look(slot, value) };
        }
        value
    }

    #[inline(always)]
    fn at<C: Carry>(self, slot: Slot) -> *mut u64 {
        self.words.as_mut_ptr().wrapping_add(1 + slot * C::WORDS)
    }
}
