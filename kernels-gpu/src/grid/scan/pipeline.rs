//! The order in which a block of a scan does its work.

use cuda_std::block::Block;
use cuda_std::shared_array;

use super::carry::{Carry, MOST_WORDS, Slots};
use super::look_back::States;
use super::pack::{BLOCK, WARPS, each};

/// What a scan does with a tile. All threads of the block call each function together.
pub trait Stages {
    /// What goes from tile to tile.
    type Carry: Carry;

    /// What a thread keeps of a tile until it is written.
    type Kept: Copy;

    /// What is before the first tile.
    fn neutral() -> Self::Carry;

    /// `a`, and `b` behind it.
    fn join(a: Self::Carry, b: Self::Carry) -> Self::Carry;

    /// Nothing kept: for a block that has had no tile yet.
    fn nothing(&self) -> Self::Kept;

    /// Starts to fetch the tile of a number, which is the next that is read.
    fn fetch(&mut self, number: usize);

    /// Reads the tile that was fetched. Every lane gets the join of its warp's elements.
    fn read(&mut self, number: usize) -> (Self::Carry, Self::Kept);

    /// Told the join of what the warps before this one have of the tile.
    fn settle(&mut self, kept: Self::Kept, warps_before: Self::Carry) -> Self::Kept;

    /// Writes the tile, before which comes `before`, and which itself joins to `own`.
    ///
    /// # Safety
    /// There is such a tile, and no other block writes it.
    unsafe fn write(
        &mut self,
        number: usize,
        kept: &Self::Kept,
        before: Self::Carry,
        own: Self::Carry,
    );
}

/// Takes tiles of `states` until there are no more.
///
/// A block has three tiles: one is on its way, one is read and said, and the one before that is finished. So everybody
/// has said his tile long before others look for it, and the memory is never idle.
///
/// # Safety
/// `states` has `tiles` tiles, of a scan that carries `S::Carry`.
#[inline(always)]
pub unsafe fn run<S: Stages>(
    block: &mut Block<BLOCK>,
    states: States,
    tiles: usize,
    stages: &mut S,
) {
    let memory = shared_array![u32; (WARPS + 2) * MOST_WORDS];
    // SAFETY: a slot for each warp, one for what comes before the tile, and one for the ticket.
    let slots = unsafe { Slots::new(memory.as_mut_ptr()) };
    let (warp, thread) = (block.whole_warp(), block.thread());

    let (mut last, mut last_kept) = (usize::MAX, stages.nothing());
    let mut last_own = S::neutral();
    let ticket = block.once(|| states.take()).unwrap_or(0);
    let mut number = block.broadcast(ticket as u64, 0) as usize;
    if number < tiles {
        stages.fetch(number);
    }
    loop {
        let is_tile = number < tiles;
        let (mut kept, mut own, mut next) = (stages.nothing(), S::neutral(), usize::MAX);
        if is_tile {
            let ticket = if thread == 0 { states.take() } else { 0 };
            let of_warp;
            (of_warp, kept) = stages.read(number);
            // SAFETY: a slot for each warp and one for the ticket; the last reads lie behind a barrier.
            unsafe {
                if block.lane() == 0 {
                    slots.put(block.warp(), of_warp);
                }
                if thread == 0 {
                    slots.put(WARPS + 1, ticket as u64);
                }
            }
        }
        // The warps' joins are there; what comes before the last tile has been read.
        block.sync(());
        if is_tile {
            let before;
            (before, own) = join_warps::<S>(slots, block.warp());
            kept = stages.settle(kept, before);
            // SAFETY: put before the barrier.
            next = unsafe { slots.get::<u64>(WARPS + 1) } as usize;
            // The next tile is under way while this block looks back and writes.
            if next < tiles {
                stages.fetch(next);
            }
        }
        // SAFETY: the tiles are there; one thread puts a slot that nobody reads before the barrier.
        unsafe {
            match block.warp() {
                0 => {
                    if is_tile {
                        states.say_own(warp, number, own);
                    }
                    if last < tiles {
                        let before = states.before(warp, last, S::neutral(), S::join);
                        if thread == 0 {
                            slots.put(WARPS, before);
                        }
                    }
                }
                1 if is_tile => states.say_groups(warp, number, own, S::neutral(), S::join),
                _ => {}
            }
        }
        // What comes before the last tile is there.
        block.sync(());
        if last < tiles {
            // SAFETY: put before the barrier; a ticket is taken once, so the tile is this block's.
            unsafe { stages.write(last, &last_kept, slots.get(WARPS), last_own) };
        }
        if !is_tile {
            return;
        }
        (last, last_kept, last_own) = (number, kept, own);
        number = next;
    }
}

/// What the warps before this one join to, and all warps of the block; a slot for each was put before a barrier.
#[inline(always)]
fn join_warps<S: Stages>(slots: Slots, warp: usize) -> (S::Carry, S::Carry) {
    let (mut before, mut all) = (S::neutral(), S::neutral());
    each(WARPS, |w| {
        if w == warp {
            before = all;
        }
        // SAFETY: put before the barrier.
        all = S::join(all, unsafe { slots.get(w) });
    });
    (before, all)
}
