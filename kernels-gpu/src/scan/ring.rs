//! The warp-specialised pipeline of a scan: tiles go round a ring of stages in shared memory.
//!
//! The warps of a block never wait for the whole block. Each has a role, and waits for the barriers of a tile's stage:
//!
//! | warps | wait until the stage is | and then |
//! |---|---|---|
//! | one producer | *empty* | takes a ticket, and starts the copy of that tile |
//! | [`SQUAD`] reducers | *full* | join the elements of the tile |
//! | one publisher | *reduced* | joins what the reducers found, and publishes it to all blocks |
//! | one look-ahead | *full* | finds out what comes before the tile |
//! | [`SQUAD`] writers | *ready* | scan the tile, and write the results |
//!
//! So tickets, copies, and what other blocks publish are under way while other tiles are processed. A block has a multiprocessor
//! and all of its shared memory to itself.

use core::hint::assert_unchecked;

use cuda_std::block::Block;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::{SharedArray, dynamic_shared_bytes, dynamic_shared_mem};
use cuda_std::warp::{Plain, Warp};
use cuda_std::{dependent, shared_array, thread};

use super::carry::{Carry, MOST_WORDS, Slots, join_lanes, map_words, scan_lanes};
use super::fetch::{self, Packs};
use super::look_ahead::{LookAhead, States, Ticket};
use super::pack::{Pack, per_pack};
pub use super::part::Part;
use crate::dependent::let_next_start;

/// Warps that reduce, and warps that write.
pub const SQUAD: usize = 8;
/// Threads in a block.
pub const BLOCK: usize = 32 * (2 * SQUAD + 3);
/// Most registers of a thread, that a multiprocessor has enough for a block.
pub const MAX_REGISTERS: u32 = 96;
/// Packs of 16 bytes of a tile that a lane has, where elements come alone.
pub const PACKS: usize = 8;
/// Bytes of such a tile.
pub const STAGE_BYTES: usize = tile_packs(PACKS) * size_of::<Pack>();
/// Tiles that a block prefetches when it begins.
const PREFETCHED: usize = 4;
/// Fewest stages: every device since `sm_80` has room for them, and a tile with keys of 8 bytes beside it takes most.
const LEAST_STAGES: usize = 3;
/// Most stages.
const MOST_STAGES: usize = 7;
/// Shared memory in bytes for all but the stages, at most.
const OTHER_BYTES: usize = 3 << 10;
/// The least dynamic shared memory of a launch, in bytes.
pub const LEAST_SHARED_BYTES: usize = LEAST_STAGES * STAGE_BYTES;
/// The most dynamic shared memory of a launch, in bytes.
pub const MOST_SHARED_BYTES: usize = MOST_STAGES * STAGE_BYTES;

/// Packs of a tile of which a lane has so many.
const fn tile_packs(packs: usize) -> usize {
    SQUAD * 32 * packs
}

/// Elements in a tile of which a lane has `packs` packs.
#[must_use]
pub const fn tile_len<T>(packs: usize) -> usize {
    SQUAD * part_len::<T>(packs)
}

/// Elements of such a tile that one warp has.
#[must_use]
pub const fn part_len<T>(packs: usize) -> usize {
    32 * packs * per_pack::<T>()
}

/// The dynamic shared memory to launch with, in bytes, where a block can have `of_block` bytes of shared memory.
#[must_use]
pub const fn shared_bytes(of_block: usize) -> usize {
    let stages = of_block.saturating_sub(OTHER_BYTES) / STAGE_BYTES;
    match stages {
        0..LEAST_STAGES => LEAST_SHARED_BYTES,
        LEAST_STAGES..MOST_STAGES => stages * STAGE_BYTES,
        _ => MOST_SHARED_BYTES,
    }
}

/// Blocks to launch for a number of tiles and of multiprocessors.
#[must_use]
pub const fn blocks(tiles: usize, multiprocessors: u32) -> u32 {
    if tiles < multiprocessors as usize { tiles as u32 } else { multiprocessors }
}

/// What a scan does with a warp's part of a tile, of which a lane has `P` packs. All lanes of the warp call each function
/// together. One warp reduces a part, and another one finishes it.
pub trait Stages<const P: usize> {
    /// An element that is read.
    type Element: Plain;

    /// What goes from tile to tile.
    type Carry: Carry;

    /// Whether [`reduce`](Self::reduce) or [`finish`](Self::finish) write the part's shared memory.
    const WRITES_MEMORY: bool;

    /// Words of each lane in [`Part::note`].
    const NOTE_WORDS: usize = 0;

    /// Bytes of another array for each element, which come to shared memory with the elements; see [`Part::beside`].
    const BESIDE: usize = 0;

    /// That array.
    #[inline(always)]
    fn beside(&self) -> &[u8] {
        &[]
    }

    /// What is before the first tile.
    fn neutral() -> Self::Carry;

    /// The join of `a`, and of `b` after it.
    fn join(a: Self::Carry, b: Self::Carry) -> Self::Carry;

    /// The values of all lanes, joined as `((v0 v1) (v2 v3)) …`, for several values; every lane gets the results.
    #[inline(always)]
    fn join_lanes<const N: usize>(warp: Warp, values: [Self::Carry; N]) -> [Self::Carry; N] {
        join_lanes(warp, values, Self::join)
    }

    /// The join of the part's elements, in lane 0. This may write the part's shared memory and its note, which `finish`
    /// then finds.
    fn reduce(&self, part: Part<'_, Self::Element, P>) -> Self::Carry;

    /// Writes the part's results; its note is there. `before` gives the join of all elements before the part, and what the
    /// part was reduced to; it waits, so the later it is called the better. `release` says that the part's shared memory is
    /// not needed any more. Each is called once, in this order.
    ///
    /// # Safety
    /// No other warp of the grid has this part.
    unsafe fn finish(
        &self,
        part: Part<'_, Self::Element, P>,
        before: impl FnOnce() -> (Self::Carry, Self::Carry),
        release: impl FnOnce(),
    );
}

/// The state of a warp in the pipeline: its stage, and the parity of the phase that it waits for there.
#[derive(Clone, Copy)]
struct PipelineState {
    stage: usize,
    parity: u32,
    stages: usize,
}

impl PipelineState {
    #[inline(always)]
    fn first(stages: usize) -> Self {
        Self { stage: 0, parity: 0, stages }
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.stage += 1;
        if self.stage == self.stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// A slot of the stage: a part's, or that of what comes before the tile.
    #[inline(always)]
    fn slot(self, slot: usize) -> usize {
        self.stage * SLOTS + slot
    }
}

/// The barriers of a stage.
#[derive(Clone, Copy)]
enum StageBarrier {
    /// The tile's ticket and elements are there.
    Full,
    /// The reducers have stored what they found in the tile.
    Reduced,
    /// The join of what comes before the tile, and before each part of it, is there.
    Ready,
    /// The stage may be filled again.
    Empty,
}

/// The warps with other roles, behind the reducers and writers.
const PRODUCER: usize = 2 * SQUAD;
const PUBLISHER: usize = PRODUCER + 1;

/// In place of a tile's ticket: there are no more.
const NONE: u64 = u64::MAX;

/// Slots of a stage: what comes before each part in the tile, from the first on; what each part is reduced to, from [`OWN`]
/// on; and what comes before the tile.
const SLOTS: usize = 2 * SQUAD + 1;
const OWN: usize = SQUAD;
const TILE: usize = 2 * SQUAD;

/// Packs of a stage: the tile, and what comes beside it behind one of what comes before.
const fn stage_packs<const P: usize, S: Stages<P>>() -> usize {
    let beside = tile_len::<S::Element>(P) * S::BESIDE / size_of::<Pack>();
    tile_packs(P) + if beside > 0 { 1 + beside } else { 0 }
}

/// What the notes of a stage take.
const fn note_bytes<const P: usize, S: Stages<P>>() -> usize {
    SQUAD * 32 * S::NOTE_WORDS * size_of::<u32>()
}

/// The shared memory of a block. Every role is called once, by the warp whose role it is, when the barriers were made.
#[derive(Clone, Copy)]
struct Ring {
    warp: Warp,
    lane: usize,
    first: PipelineState,
    stages: *mut Pack,
    barriers: SharedArray<u64, { 4 * MOST_STAGES }>,
    tickets: SharedArray<u64, MOST_STAGES>,
    slots: Slots,
}

/// Takes tiles of `x` until there are no more. All threads of the block call it. Panics unless the dynamic shared
/// memory, of the size that [`shared_bytes`] gives, holds a tile with its notes.
///
/// # Safety
/// `states` has the tiles of `x`, of a scan that carries `S::Carry`. The dynamic shared memory is for this alone. `S` stays
/// inside the part's memory and notes in whatever order its functions are called, also when lanes have ended.
#[inline(always)]
pub unsafe fn run<const P: usize, S: Stages<P>>(
    block: &mut Block<BLOCK>,
    states: States,
    x: &[S::Element],
    scan: &S,
) {
    let stage_bytes = stage_packs::<P, S>() * size_of::<Pack>() + note_bytes::<P, S>();
    let stages = (dynamic_shared_bytes() / stage_bytes).min(MOST_STAGES);
    assert_early!(stages > 0, "a scan has memory for a tile");
    let memory = shared_array![u32; MOST_STAGES * SLOTS * MOST_WORDS];
    let ring = Ring {
        warp: block.whole_warp(),
        lane: block.lane(),
        first: PipelineState::first(stages),
        stages: dynamic_shared_mem(),
        barriers: shared_array![u64; 4 * MOST_STAGES],
        tickets: shared_array![u64; MOST_STAGES],
        // SAFETY: as many slots as all stages have.
        slots: unsafe { Slots::new(memory.as_mut_ptr()) },
    };
    let warp = block.warp();
    // Nothing that is prefetched or initialised here depends on the kernel before.
    if warp == PUBLISHER && ring.lane == 0 {
        states.prefetch();
        ring.prefetch_tiles::<P, S>(x, scan);
    }
    if warp == PRODUCER {
        // SAFETY: one warp, before any warp uses them.
        unsafe { ring.init() };
    }
    // The barriers of the stages are initialised before any warp waits for one.
    block.sync(());
    dependent::wait_for_previous();
    // A short array is scanned in less time than a launch takes.
    let_next_start(x);
    // SAFETY: each warp has one role, and the barriers count on all of them.
    unsafe {
        match warp {
            0..SQUAD => ring.reduce(warp, x, scan),
            SQUAD..PRODUCER => ring.finish(warp - SQUAD, x, scan),
            PRODUCER => ring.produce(states, x, scan),
            PUBLISHER => ring.publish::<P, S>(states),
            _ => ring.look_ahead::<P, S>(states),
        }
    }
}

impl Ring {
    /// Makes the barriers, a lane those of a stage. One warp calls it, before a barrier of the block.
    #[inline(always)]
    unsafe fn init(self) {
        if self.lane < self.first.stages {
            let state = PipelineState { stage: self.lane, ..self.first };
            // SAFETY: the caller's promise.
            unsafe {
                self.barrier(StageBarrier::Full, state).init(fetch::ARRIVALS);
                self.barrier(StageBarrier::Reduced, state).init(32 * SQUAD as u32);
                self.barrier(StageBarrier::Ready, state).init(2 * 32);
                self.barrier(StageBarrier::Empty, state).init(32 * SQUAD as u32);
            }
        }
        fetch::fence_init();
    }

    /// The producer's role.
    #[inline(always)]
    unsafe fn produce<const P: usize, S: Stages<P>>(
        self,
        states: States,
        x: &[S::Element],
        scan: &S,
    ) {
        let mut state = self.first;
        loop {
            let full = self.barrier(StageBarrier::Full, state);
            // SAFETY: a stage is empty in its first round, and then when all writers have said so.
            unsafe {
                let mut ticket = NONE;
                if self.lane == 0 {
                    // Not before there is room: other blocks wait for the tile of a ticket.
                    ticket = states.take().map_or(NONE, |ticket| ticket.0);
                    self.tickets.as_mut_ptr().add(state.stage).write(ticket);
                }
                let ticket = self.warp.shuffle(ticket, 0);
                if ticket == NONE {
                    return fetch::nothing(full, self.lane);
                }
                let copies = self.copies::<P, S>(state, Ticket(ticket).tile(), x, scan);
                fetch::tile(copies, full, self.lane);
                state.advance();
                fetch::wait(self.barrier(StageBarrier::Empty, state), state.parity ^ 1);
            }
        }
    }

    /// What comes to a stage: the tile, and what stands beside it.
    #[inline(always)]
    fn copies<const P: usize, S: Stages<P>>(
        self,
        state: PipelineState,
        tile: usize,
        x: &[S::Element],
        scan: &S,
    ) -> [Packs; 2] {
        let start = tile * tile_len::<S::Element>(P);
        let (to, room) = (self.stage::<P, S>(state), tile_packs(P));
        let (element, beside) = (size_of::<S::Element>(), S::BESIDE);
        let own = Packs::new(to, bytemuck::cast_slice(x), start * element, room);
        // What comes beside the tile has a pack of what comes before in front of it.
        let lead = usize::from(start > 0);
        let (to, room) = (to.wrapping_add(room + 1), room * beside / element);
        [own, Packs::new(to, scan.beside(), start * beside, room).with_lead(lead)]
    }

    /// Prefetches some of the tiles that blocks take first to the L2 cache, whichever block takes them. One thread of a block calls
    /// it.
    #[inline(always)]
    fn prefetch_tiles<const P: usize, S: Stages<P>>(self, x: &[S::Element], scan: &S) {
        let (mut tile, blocks) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
        let end = tile + PREFETCHED * blocks;
        while tile < end {
            fetch::prefetch(self.copies::<P, S>(self.first, tile, x, scan));
            tile += blocks;
        }
    }

    /// The publisher's role.
    #[inline(always)]
    unsafe fn publish<const P: usize, S: Stages<P>>(self, states: States) {
        let mut state = self.first;
        // SAFETY: there is such a tile; the slots were put when the stage is reduced, and are read when it is ready.
        unsafe {
            while let Some(ticket) = self.ticket_of(states, state) {
                states.clear_other(ticket, self.lane);
                fetch::wait(self.barrier(StageBarrier::Reduced, state), state.parity);
                let has_part = self.lane < SQUAD;
                let slot = state.slot(self.lane);
                let own = if has_part { self.slots.get(OWN + slot) } else { S::neutral() };
                let upto = scan_lanes(self.warp, SQUAD, own, S::join);
                if self.lane == SQUAD - 1 {
                    states.publish(ticket, upto);
                }
                let before = map_words(upto, |word| self.warp.shuffle_up(word, 1));
                if has_part {
                    self.slots.put(slot, if self.lane == 0 { S::neutral() } else { before });
                }
                self.arrive(StageBarrier::Ready, state);
                state.advance();
            }
        }
    }

    /// The look-ahead's role.
    #[inline(always)]
    unsafe fn look_ahead<const P: usize, S: Stages<P>>(self, states: States) {
        let mut state = self.first;
        let (neutral, join_lanes) = (S::neutral(), |warp, states| S::join_lanes(warp, states));
        let mut ahead = LookAhead::new(states, self.warp, neutral, S::join, join_lanes);
        // SAFETY: there is such a tile; tickets grow, and the tiles before were taken; the slot is read when the stage is ready.
        unsafe {
            while let Some(ticket) = self.ticket_of(states, state) {
                let before = ahead.before(ticket);
                if self.lane == 0 {
                    self.slots.put(state.slot(TILE), before);
                }
                self.arrive(StageBarrier::Ready, state);
                state.advance();
            }
        }
    }

    /// A reducer's role.
    #[inline(always)]
    unsafe fn reduce<const P: usize, S: Stages<P>>(self, part: usize, x: &[S::Element], scan: &S) {
        let mut state = self.first;
        // SAFETY: the part's slot, which the publisher reads when the stage is reduced.
        unsafe {
            while let Some(tile) = self.tile(state) {
                let own = scan.reduce(self.part::<P, S>(part, state, tile, x));
                if self.lane == 0 {
                    self.slots.put(state.slot(OWN + part), own);
                }
                if S::WRITES_MEMORY {
                    fetch::fence();
                }
                self.arrive(StageBarrier::Reduced, state);
                state.advance();
            }
        }
    }

    /// A writer's role.
    #[inline(always)]
    unsafe fn finish<const P: usize, S: Stages<P>>(self, part: usize, x: &[S::Element], scan: &S) {
        let mut state = self.first;
        // SAFETY: the slots were put when the stage is ready; all lanes have done with the tile where they say that it is
        // empty.
        unsafe {
            while let Some(tile) = self.tile(state) {
                if S::NOTE_WORDS > 0 {
                    fetch::wait(self.barrier(StageBarrier::Reduced, state), state.parity);
                }
                let before = || {
                    fetch::wait(self.barrier(StageBarrier::Ready, state), state.parity);
                    let of_tile = self.slots.get(state.slot(TILE));
                    let before = S::join(of_tile, self.slots.get(state.slot(part)));
                    (before, self.slots.get(state.slot(OWN + part)))
                };
                let release = || {
                    if S::WRITES_MEMORY {
                        fetch::fence();
                    }
                    self.arrive(StageBarrier::Empty, state);
                };
                scan.finish(self.part::<P, S>(part, state, tile, x), before, release);
                state.advance();
            }
        }
    }

    /// The number of the tile that fills a stage, once it is there; `None` if there are no more.
    #[inline(always)]
    unsafe fn tile(self, state: PipelineState) -> Option<usize> {
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.ticket(state) };
        (ticket.0 != NONE).then(|| ticket.tile())
    }

    /// The ticket of that tile, which `states` has; [`NONE`] has the number of no tile.
    #[inline(always)]
    unsafe fn ticket_of(self, states: States, state: PipelineState) -> Option<Ticket> {
        // SAFETY: the caller's promise.
        let ticket = unsafe { self.ticket(state) };
        states.has(ticket).then_some(ticket)
    }

    /// The ticket of that tile, or [`NONE`]; any, where the producer has ended early.
    #[inline(always)]
    unsafe fn ticket(self, state: PipelineState) -> Ticket {
        // SAFETY: the caller's promise.
        Ticket(unsafe {
            fetch::wait(self.barrier(StageBarrier::Full, state), state.parity);
            self.tickets.as_mut_ptr().add(state.stage).read()
        })
    }

    /// Arrives at a barrier of the stage. Every lane of the warp arrives: one arrival after a barrier of the warp would be
    /// enough, but then `compute-sanitizer --tool racecheck` does not follow what the other lanes did.
    #[inline(always)]
    unsafe fn arrive(self, barrier: StageBarrier, state: PipelineState) {
        // SAFETY: the caller's promise.
        let _ = unsafe { self.barrier(barrier, state).arrive() };
    }

    #[inline(always)]
    fn part<'a, const P: usize, S: Stages<P>>(
        self,
        part: usize,
        state: PipelineState,
        tile: usize,
        x: &'a [S::Element],
    ) -> Part<'a, S::Element, P> {
        let before = part * part_len::<S::Element>(P);
        let start = tile * tile_len::<S::Element>(P) + before;
        let stage = self.stage::<P, S>(state);
        let memory = stage.wrapping_add(part * 32 * P);
        let beside = stage.wrapping_add(tile_packs(P) + 1).cast::<u8>();
        let beside = beside.wrapping_add(before * S::BESIDE).cast_const();
        // The notes stand behind all stages.
        let stages = self.first.stages * stage_packs::<P, S>();
        let notes = self.stages.wrapping_add(stages).cast::<u32>();
        let lanes_before = (state.stage * SQUAD + part) * 32 + self.lane;
        let note = notes.wrapping_add(lanes_before * S::NOTE_WORDS);
        Part { x, start, lane: self.lane, memory, beside, beside_bytes: S::BESIDE, note }
    }

    #[inline(always)]
    fn stage<const P: usize, S: Stages<P>>(self, state: PipelineState) -> *mut Pack {
        self.stages.wrapping_add(state.stage * stage_packs::<P, S>())
    }

    #[inline(always)]
    fn barrier(self, barrier: StageBarrier, state: PipelineState) -> Mbarrier {
        let index = barrier as usize * MOST_STAGES + state.stage;
        // SAFETY: a state's stage is below `MOST_STAGES`.
        unsafe { assert_unchecked(index < 4 * MOST_STAGES) };
        Mbarrier::new(self.barriers, index)
    }
}
