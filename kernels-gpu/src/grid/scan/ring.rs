//! The order in which a block of a scan does its work: tiles go round a ring of shared memory.
//!
//! The warps of a block never wait for all of it. Each has a duty, and is told by barriers of a tile's stage when it
//! can go on:
//!
//! | warps | wait until the stage is | and then |
//! |---|---|---|
//! | one producer | *empty* | takes a ticket, and starts the copy of that tile |
//! | [`SQUAD`] reducers | *full* | join the elements of the tile |
//! | one publisher | *reduced* | joins what the reducers found, and says it to all blocks |
//! | one look-ahead | *full* | finds out what comes before the tile |
//! | [`SQUAD`] writers | *ready* | scan the tile, and write the results |
//!
//! So tickets, copies, and what other blocks say are under way while other tiles are worked on. A block has a multiprocessor and
//! all its shared memory for itself.

use core::hint::assert_unchecked;

use cuda_std::access::{self, StoreHint};
use cuda_std::block::Block;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::shared::{SharedArray, dynamic_shared_bytes, dynamic_shared_mem};
use cuda_std::shared_array;
use cuda_std::warp::{Plain, Warp};

use super::carry::{Carry, MOST_WORDS, Slots, map_words, scan_lanes};
use super::fetch;
use super::look_ahead::{LookAhead, States};
use super::pack::{Pack, build, each, element, inside, pack_of, per_pack};

/// Warps that reduce, and warps that write.
pub const SQUAD: usize = 8;
/// Threads in a block.
pub const BLOCK: usize = 32 * (2 * SQUAD + 3);
/// Most registers of a thread, that a multiprocessor has enough for a block.
pub const MAX_REGISTERS: u32 = 96;
/// Packs of 16 bytes of a tile that a lane has.
pub const PACKS: usize = 8;
/// Packs of a tile.
const STAGE_PACKS: usize = SQUAD * 32 * PACKS;
/// Bytes of a tile.
pub const STAGE_BYTES: usize = STAGE_PACKS * size_of::<Pack>();
/// Fewest stages: one is filled while one is worked on.
const LEAST_STAGES: usize = 2;
/// Most stages.
const MOST_STAGES: usize = 7;
/// Shared memory in bytes for all but the stages, at most.
const OTHER_BYTES: usize = 3 << 10;
/// The least dynamic shared memory of a launch, in bytes.
pub const LEAST_SHARED_BYTES: usize = LEAST_STAGES * STAGE_BYTES;
/// The most dynamic shared memory of a launch, in bytes.
pub const MOST_SHARED_BYTES: usize = MOST_STAGES * STAGE_BYTES;

/// Elements in a tile.
#[must_use]
pub const fn tile_len<T>() -> usize {
    SQUAD * part_len::<T>()
}

/// Elements of a tile that one warp has.
#[must_use]
pub const fn part_len<T>() -> usize {
    32 * PACKS * per_pack::<T>()
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

/// Blocks to launch for `n_elems` elements of type `T` on so many multiprocessors.
#[must_use]
pub const fn blocks<T>(n_elems: usize, multiprocessors: u32) -> u32 {
    let tiles = n_elems.div_ceil(tile_len::<T>());
    if tiles < multiprocessors as usize { tiles as u32 } else { multiprocessors }
}

/// What a scan does with a warp's part of a tile. All lanes of the warp call each function together.
/// One warp reduces a part, and another one finishes it.
pub trait Stages {
    /// An element that is read.
    type Element: Plain;

    /// What goes from tile to tile.
    type Carry: Carry;

    /// Whether [`reduce`](Self::reduce) or [`finish`](Self::finish) write the part's shared memory.
    const WRITES_MEMORY: bool;

    /// Words of each lane in [`Part::note`].
    const NOTE_WORDS: usize = 0;

    /// Says that the tile that begins at element `start` is reduced soon: time to ask for what else is needed for it. One
    /// thread calls it.
    #[inline(always)]
    fn announce(&self, _start: usize) {}

    /// What is before the first tile.
    fn neutral() -> Self::Carry;

    /// `a`, and `b` behind it.
    fn join(a: Self::Carry, b: Self::Carry) -> Self::Carry;

    /// The join of the part's elements, in lane 0. This may write the part's shared memory and its note, which `finish`
    /// then finds.
    fn reduce(&self, part: Part<'_, Self::Element>) -> Self::Carry;

    /// Writes the part's results. `before` gives the join of all elements before the part, and what the part was reduced
    /// to; it waits, so the later it is called the better. `release` says that the part's shared memory is not needed any more. Each is called once, in this
    /// order.
    ///
    /// # Safety
    /// No other warp of the grid has this part.
    unsafe fn finish(
        &self,
        part: Part<'_, Self::Element>,
        before: impl FnOnce() -> (Self::Carry, Self::Carry),
        release: impl FnOnce(),
    );
}

/// A warp's part of a tile: [`part_len`] elements, of which each lane has packs that are 32 packs apart.
pub struct Part<'a, T> {
    x: &'a [T],
    /// The place of its first element in `x`, which may be past the end.
    pub start: usize,
    lane: usize,
    memory: *mut Pack,
    note: *mut u32,
}

impl<T> Clone for Part<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Part<'_, T> {}

impl<T: Plain> Part<'_, T> {
    /// The place in `x` of the first element of this lane's pack `j`.
    #[inline(always)]
    pub fn first(self, j: usize) -> usize {
        self.start + (32 * j + self.lane) * per_pack::<T>()
    }

    /// The part in shared memory: [`part_len`] elements, aligned to 16 bytes, for this warp alone until it has finished.
    #[inline(always)]
    pub fn memory(self) -> *mut T {
        self.memory.cast()
    }

    /// [`Stages::NOTE_WORDS`] words of this lane.
    #[inline(always)]
    pub fn note(self) -> *mut u32 {
        self.note
    }

    /// How many elements it has.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.x.len().saturating_sub(self.start).min(part_len::<T>())
    }

    /// Whether there are no elements in it.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.start >= self.x.len()
    }

    /// Whether the last of all elements is in it.
    #[inline(always)]
    pub fn is_last(self) -> bool {
        !self.is_empty() && self.x.len() - self.start <= part_len::<T>()
    }

    /// This lane's packs from pack `j` on; `filler` past the end.
    #[inline(always)]
    pub fn packs<const N: usize>(self, j: usize, filler: T) -> [Pack; N] {
        if is_whole(self.x.as_ptr(), self.x.len(), self.start) {
            let own = self.memory.wrapping_add(32 * j + self.lane);
            // SAFETY: the stage is full, with all of this part.
            return build(|k| unsafe { own.add(32 * k).read() });
        }
        build(|k| {
            let elements = self.x.as_ptr().wrapping_add(self.first(j + k));
            let inside = inside::<T>(self.x.len(), self.first(j + k));
            // SAFETY: so many of the pack's elements are inside the slice.
            pack_of(|e| if e < inside { unsafe { elements.add(e).read() } } else { filler })
        })
    }

    /// Writes `N` packs of this lane, from pack `j` on, to the same places of `out`, as far as there are elements.
    ///
    /// # Safety
    /// `out` is valid for writes of as many elements as there are in `x`, and no other warp has this part.
    #[inline(always)]
    pub unsafe fn store<const N: usize>(
        self,
        out: *mut T,
        j: usize,
        mut pack: impl FnMut(usize) -> Pack,
    ) {
        if is_whole(out, self.x.len(), self.start) {
            let own = out.wrapping_add(self.first(j)).cast::<Pack>();
            // SAFETY: inside the memory, at a multiple of 16 bytes. The compiler does not take this store apart to share it
            // with those below.
            return each(N, |k| unsafe {
                access::store(&mut *own.add(32 * k), pack(k), StoreHint::WriteBack);
            });
        }
        each(N, |k| {
            let elements = out.wrapping_add(self.first(j + k));
            let (inside, pack) = (inside::<T>(self.x.len(), self.first(j + k)), pack(k));
            each(per_pack::<T>(), |e| {
                if e < inside {
                    // SAFETY: so many of the pack's elements are inside the memory.
                    unsafe { elements.add(e).write(element(&pack, e)) };
                }
            });
        });
    }
}

/// Whether the part from element `start` on is inside `len` elements, and begins at a multiple of 16 bytes.
#[inline(always)]
fn is_whole<T>(elements: *const T, len: usize, start: usize) -> bool {
    elements.cast::<Pack>().is_aligned() && start + part_len::<T>() <= len
}

/// A place in the ring: a stage, and the parity of its round.
#[derive(Clone, Copy)]
struct Turn {
    stage: usize,
    parity: u32,
    stages: usize,
}

impl Turn {
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

/// What a stage's barriers say.
#[derive(Clone, Copy)]
enum Sign {
    /// The tile's number and elements are there.
    Full,
    /// The reducers have put what they have of the tile.
    Reduced,
    /// What comes before the tile, and before each part of it, is there.
    Ready,
    /// The tile is not needed any more.
    Empty,
}

/// The warps with other duties, behind the reducers and writers.
const PRODUCER: usize = 2 * SQUAD;
const PUBLISHER: usize = PRODUCER + 1;

/// In place of a tile's number: there are no more.
const NONE: u32 = u32::MAX;

/// Slots of a stage: what comes before each part in the tile, from the first on; what each part is reduced to, from [`OWN`]
/// on; and what comes before the tile.
const SLOTS: usize = 2 * SQUAD + 1;
const OWN: usize = SQUAD;
const TILE: usize = 2 * SQUAD;

/// What the notes of a stage take.
const fn note_bytes<S: Stages>() -> usize {
    SQUAD * 32 * S::NOTE_WORDS * size_of::<u32>()
}

/// The shared memory of a block. Every duty is called once, by the warp whose duty it is, when the barriers were made.
#[derive(Clone, Copy)]
struct Ring {
    warp: Warp,
    lane: usize,
    first: Turn,
    stages: *mut Pack,
    barriers: SharedArray<u64, { 4 * MOST_STAGES }>,
    numbers: SharedArray<u32, MOST_STAGES>,
    slots: Slots,
}

/// Takes tiles of `x` until there are no more. All threads of the block call it. Dynamic shared memory of another size than
/// [`shared_bytes`] gives, and the notes beside it, panics.
///
/// # Safety
/// `states` has the tiles of `x`, of a scan that carries `S::Carry`. The dynamic shared memory is for this alone.
#[inline(always)]
pub unsafe fn run<S: Stages>(block: &mut Block<BLOCK>, states: States, x: &[S::Element], scan: &S) {
    let stages = dynamic_shared_bytes() / (STAGE_BYTES + note_bytes::<S>());
    assert!((1..=MOST_STAGES).contains(&stages), "a scan has memory for one to seven tiles");
    let memory = shared_array![u32; MOST_STAGES * SLOTS * MOST_WORDS];
    let ring = Ring {
        warp: block.whole_warp(),
        lane: block.lane(),
        first: Turn::first(stages),
        stages: dynamic_shared_mem(),
        barriers: shared_array![u64; 4 * MOST_STAGES],
        numbers: shared_array![u32; MOST_STAGES],
        // SAFETY: as many slots as all stages have.
        slots: unsafe { Slots::new(memory.as_mut_ptr()) },
    };
    let warp = block.warp();
    // The first ticket is on its way while the block gets ready.
    let mut first = None;
    if block.thread() == 32 * PRODUCER {
        first = states.take();
        // SAFETY: one thread, before anybody uses them.
        unsafe { ring.init() };
    }
    // The barriers are barriers.
    block.sync(());
    // SAFETY: each warp has one duty, and the barriers count on all of them.
    unsafe {
        match warp {
            0..SQUAD => ring.reduce(warp, x, scan),
            SQUAD..PRODUCER => ring.finish(warp - SQUAD, x, scan),
            PRODUCER => ring.produce(first, states, x, scan),
            PUBLISHER => ring.publish::<S>(states),
            _ => ring.look_ahead::<S>(states),
        }
    }
}

impl Ring {
    /// Makes the barriers. One thread calls it, before a barrier of the block.
    #[inline(always)]
    unsafe fn init(self) {
        let mut turn = self.first;
        while turn.parity == 0 {
            // SAFETY: the caller's promise.
            unsafe {
                self.barrier(Sign::Full, turn).init(fetch::ARRIVALS);
                self.barrier(Sign::Reduced, turn).init(32 * SQUAD as u32);
                self.barrier(Sign::Ready, turn).init(2 * 32);
                self.barrier(Sign::Empty, turn).init(32 * SQUAD as u32);
            }
            turn.advance();
        }
        fetch::fence_init();
    }

    /// The producer's duty.
    #[inline(always)]
    unsafe fn produce<S: Stages>(
        self,
        mut tile: Option<usize>,
        states: States,
        x: &[S::Element],
        scan: &S,
    ) {
        let mut turn = self.first;
        loop {
            let full = self.barrier(Sign::Full, turn);
            // SAFETY: a stage is empty in its first round, and then when all writers have said so.
            unsafe {
                let mut number = NONE;
                if self.lane == 0 {
                    number = tile.map_or(NONE, |tile| tile as u32);
                    self.numbers.as_mut_ptr().add(turn.stage).write(number);
                }
                let number = self.warp.shuffle(number, 0);
                if number == NONE {
                    return fetch::nothing(full, self.lane);
                }
                let start = number as usize * tile_len::<S::Element>();
                if self.lane == 0 {
                    scan.announce(start);
                }
                fetch::tile((self.stage(turn), STAGE_PACKS), x, start, full, self.lane);
                turn.advance();
                fetch::wait(self.barrier(Sign::Empty, turn), turn.parity ^ 1);
            }
            // Not before there is room: who has a ticket is waited for by others.
            tile = if self.lane == 0 { states.take() } else { None };
        }
    }

    /// The publisher's duty.
    #[inline(always)]
    unsafe fn publish<S: Stages>(self, states: States) {
        let mut turn = self.first;
        // SAFETY: the slots were put when the stage is reduced, and are read when it is ready.
        unsafe {
            while let Some(tile) = self.tile(turn) {
                fetch::wait(self.barrier(Sign::Reduced, turn), turn.parity);
                let has_part = self.lane < SQUAD;
                let slot = turn.slot(self.lane);
                let own = if has_part { self.slots.get(OWN + slot) } else { S::neutral() };
                let upto = scan_lanes(self.warp, own, S::join);
                if self.lane == SQUAD - 1 {
                    states.say(tile, upto);
                }
                let before = map_words(upto, |word| self.warp.shuffle_up(word, 1));
                if has_part {
                    self.slots.put(slot, if self.lane == 0 { S::neutral() } else { before });
                }
                self.sign(Sign::Ready, turn);
                turn.advance();
            }
        }
    }

    /// The look-ahead's duty.
    #[inline(always)]
    unsafe fn look_ahead<S: Stages>(self, states: States) {
        let mut turn = self.first;
        let mut ahead = LookAhead::new(states, self.warp, S::neutral(), S::join);
        // SAFETY: tickets grow, and the tiles before were taken; the slot is read when the stage is ready.
        unsafe {
            while let Some(tile) = self.tile(turn) {
                let before = ahead.before(tile);
                if self.lane == 0 {
                    self.slots.put(turn.slot(TILE), before);
                }
                self.sign(Sign::Ready, turn);
                turn.advance();
            }
        }
    }

    /// A reducer's duty.
    #[inline(always)]
    unsafe fn reduce<S: Stages>(self, part: usize, x: &[S::Element], scan: &S) {
        let mut turn = self.first;
        // SAFETY: the part's slot, which the publisher reads when the stage is reduced.
        unsafe {
            while let Some(tile) = self.tile(turn) {
                let own = scan.reduce(self.part::<S>(part, turn, tile, x));
                if self.lane == 0 {
                    self.slots.put(turn.slot(OWN + part), own);
                }
                if S::WRITES_MEMORY {
                    fetch::fence();
                }
                self.sign(Sign::Reduced, turn);
                turn.advance();
            }
        }
    }

    /// A writer's duty.
    #[inline(always)]
    unsafe fn finish<S: Stages>(self, part: usize, x: &[S::Element], scan: &S) {
        let mut turn = self.first;
        // SAFETY: the slots were put when the stage is ready; all lanes have done with the tile where they say that it is
        // empty.
        unsafe {
            while let Some(tile) = self.tile(turn) {
                let before = || {
                    fetch::wait(self.barrier(Sign::Ready, turn), turn.parity);
                    let of_tile = self.slots.get(turn.slot(TILE));
                    let before = S::join(of_tile, self.slots.get(turn.slot(part)));
                    (before, self.slots.get(turn.slot(OWN + part)))
                };
                let release = || {
                    if S::WRITES_MEMORY {
                        fetch::fence();
                    }
                    self.sign(Sign::Empty, turn);
                };
                scan.finish(self.part::<S>(part, turn, tile, x), before, release);
                turn.advance();
            }
        }
    }

    /// The number of the tile that fills a stage, once it is there; `None` if there are no more.
    #[inline(always)]
    unsafe fn tile(self, turn: Turn) -> Option<usize> {
        // SAFETY: the producer wrote the number before.
        let number = unsafe {
            fetch::wait(self.barrier(Sign::Full, turn), turn.parity);
            self.numbers.as_mut_ptr().add(turn.stage).read()
        };
        (number != NONE).then_some(number as usize)
    }

    /// Says so, for this lane: all of the warp do. (One arrival behind a barrier of the warp would be enough, but
    /// `compute-sanitizer --tool racecheck` does not follow what the other lanes did then.)
    #[inline(always)]
    unsafe fn sign(self, sign: Sign, turn: Turn) {
        // SAFETY: the caller's promise.
        let _ = unsafe { self.barrier(sign, turn).arrive() };
    }

    #[inline(always)]
    fn part<'a, S: Stages>(
        self,
        part: usize,
        turn: Turn,
        tile: usize,
        x: &'a [S::Element],
    ) -> Part<'a, S::Element> {
        let start = tile * tile_len::<S::Element>() + part * part_len::<S::Element>();
        let memory = self.stage(turn).wrapping_add(part * 32 * PACKS);
        // The notes stand behind all stages.
        let notes = self.stages.wrapping_add(self.first.stages * STAGE_PACKS).cast::<u32>();
        let lanes_before = (turn.stage * SQUAD + part) * 32 + self.lane;
        let note = notes.wrapping_add(lanes_before * S::NOTE_WORDS);
        Part { x, start, lane: self.lane, memory, note }
    }

    #[inline(always)]
    fn stage(self, turn: Turn) -> *mut Pack {
        self.stages.wrapping_add(turn.stage * STAGE_PACKS)
    }

    #[inline(always)]
    fn barrier(self, sign: Sign, turn: Turn) -> Mbarrier {
        let index = sign as usize * MOST_STAGES + turn.stage;
        // SAFETY: a turn's stage is below `MOST_STAGES`.
        unsafe { assert_unchecked(index < 4 * MOST_STAGES) };
        Mbarrier::new(self.barriers, index)
    }
}
