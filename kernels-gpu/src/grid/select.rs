//! Selections: the elements that are marked, in their order, one behind the other.
//!
//! * [`select_running`](fn@select_running): one block goes through the array, with a running count.
//! * [`select_grid`]: all blocks at once. A block puts what it keeps of a tile together in shared memory, finds out by the
//!   states of a [scan](super::scan) how many elements the tiles before keep, and writes its own in one coalesced
//!   go. Each element is read once, and written if it is kept. While a tile waits in shared memory, the next one
//!   is read and counted.
//!
//! Its forms differ in what marks an element: a predicate ([`select_above`](fn@select_above), [`select_nonzero`](fn@select_nonzero)), a flag
//! ([`select_flagged`](fn@select_flagged)), or another neighbour before it ([`select_unique`](fn@select_unique)). With `split`, those that are
//! not kept stand behind, in reversed order. [`run_lengths`](fn@run_lengths) tells how long each run of equal elements is, in the
//! same pass: it carries along where the last run began.

use cuda_std::prelude::*;
use cuda_std::warp::Plain;

use super::scan::carry::{Carry, scan_lanes};
use super::scan::look_back::{States, states_len};
use super::scan::marks::{Flags, Marks, MaybeZero, Runs, Where};
use super::scan::pack::{
    self, BLOCK, Pack, build, each, element, inside, per_pack, place, tile_len,
};
use super::scan::pipeline::{self, Stages};

/// Bytes of shared memory for what a tile keeps; a block has it twice.
const STAGE_BYTES: usize = 16 << 10;
/// Most blocks of a launch: three for each of 132 multiprocessors, whatever the device has.
pub const MAX_BLOCKS: usize = 3 * 132;

/// Packs of 16 bytes that each thread takes at a time.
pub const PACKS: usize = STAGE_BYTES / 16 / BLOCK;

/// Packs of 16 bytes that each thread of [`run_lengths`](fn@run_lengths) takes at a time: shared memory has 2 bytes for each element.
#[must_use]
pub const fn run_packs<T>() -> usize {
    if size_of::<T>() == 1 { PACKS / 2 } else { PACKS }
}

/// Blocks to launch for `n_elems` elements of type `T` with `packs` packs a thread, at least one.
#[must_use]
pub const fn blocks<T>(n_elems: usize, packs: usize) -> u32 {
    let tiles = n_elems.div_ceil(BLOCK * packs * per_pack::<T>());
    match tiles {
        0 => 1,
        1..MAX_BLOCKS => tiles as u32,
        _ => MAX_BLOCKS as u32,
    }
}

/// Scratch words for a selection from `n_elems` elements of type `T`.
#[must_use]
pub const fn scratch_len<T>(n_elems: usize) -> usize {
    states_len(n_elems.div_ceil(tile_len::<T, PACKS>()), <u64 as Carry>::WORDS)
}

/// Scratch words of [`run_lengths`](fn@run_lengths) for `n_elems` elements of type `T`.
#[must_use]
pub const fn run_scratch_len<T>(n_elems: usize) -> usize {
    states_len(n_elems.div_ceil(BLOCK * run_packs::<T>() * per_pack::<T>()), Begun::WORDS)
}

/// The plain form: keeps the elements above `threshold`. Launched with one block. `x: [n]`; `count: [1]`.
#[kernel]
pub fn select_running(
    mut block: Block<BLOCK>,
    x: &[u32],
    threshold: u32,
    out: AtomicSlice<u32>,
    count: AtomicSlice<u64>,
) {
    let mut kept = 0;
    for start in (0..x.len()).step_by(BLOCK) {
        let item = x.get(start + block.thread()).copied().filter(|&item| item > threshold);
        let ([before], all) = block.exclusive_scan([usize::from(item.is_some())], 0, |a, b| a + b);
        if let Some(item) = item
            && kept + before < out.len()
        {
            out.store(kept + before, item, Relaxed);
        }
        kept += all;
    }
    block.once(|| count.store(0, kept as u64, Relaxed));
}

/// Declares the entries of [`select_grid`]: what marks the elements.
macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident[$($instance:ty),+] <$t:ident: $bound:path>
        ($($arg:ident: $ty:ty),*) |$x:ident| $marks:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The words of `states` are 0 before.
        #[kernel($($instance),+, max_registers = 80)]
        pub unsafe fn $name<$t: $bound>(
            block: Block<BLOCK>,
            $x: &[$t],
            $($arg: $ty,)*
            split: bool,
            states: AtomicSlice<u64>,
            out: DisjointSlice<$t>,
            count: AtomicSlice<u64>,
        ) {
            // SAFETY: the caller's promise.
            unsafe { select_grid(block, $x, $marks, split, states, out, count) }
        }
    )*};
}

entries! {
    /// Keeps the elements that are greater than `threshold`. See [`select_grid`].
    select_above[u32, i32, f32] <T: PlainOrd>(threshold: T) |x| Where(move |x: T| x > threshold);

    /// Keeps the elements that are not zero. See [`select_grid`].
    select_nonzero[u8, u32, f32] <T: MaybeZero>() |x| Where(|x: T| !x.is_zero());

    /// Keeps the elements whose flag is not 0. See [`select_grid`].
    select_flagged[u8, u32, u64] <T: Plain>(flags: &[u8]) |x| Flags(flags);

    /// Keeps the elements that differ from the one before, by their bits, and the first. See [`select_grid`].
    select_unique[u8, u32, u64] <T: PlainOrd>() |x| Runs(x);
}

/// Plain numbers that can be compared.
pub trait PlainOrd: Plain + PartialOrd {}

impl<T: Plain + PartialOrd> PlainOrd for T {}

/// The marks of this thread's packs, and how many marked elements of the warp come before each.
#[derive(Clone, Copy)]
struct Ranks<const PACKS: usize> {
    marks: [u32; PACKS],
    before: [u32; PACKS],
    of_warp: u32,
}

impl<const PACKS: usize> Ranks<PACKS> {
    const NONE: Self = Self { marks: [0; PACKS], before: [0; PACKS], of_warp: 0 };

    /// All lanes of the warp call it.
    #[inline(always)]
    fn new(warp: Warp, marks: [u32; PACKS]) -> Self {
        // Counts of two packs go through one scan: a warp has at most 512 elements in a step.
        let halves: [u32; PACKS] = build(|j| match j {
            j if j % 2 == 1 => 0,
            j if j + 1 < PACKS => marks[j].count_ones() | marks[j + 1].count_ones() << 16,
            j => marks[j].count_ones(),
        });
        let upto: [u32; PACKS] =
            build(|j| if j % 2 == 0 { scan_lanes(warp, halves[j], |a, b| a + b) } else { 0 });
        let mut of_warp = 0;
        let mut before = [0; PACKS];
        each(PACKS, |j| {
            let (pair, shift) = (j - j % 2, j % 2 * 16);
            let all = warp.shuffle(upto[pair], 31);
            before[j] = of_warp + ((upto[pair] - halves[pair]) >> shift & 0xffff);
            of_warp += all >> shift & 0xffff;
        });
        Self { marks, before, of_warp }
    }
}

/// A selection's way with its tiles, which wait in shared memory.
struct Select<'a, T, M> {
    warp: Warp,
    thread: usize,
    x: &'a [T],
    /// The packs of the tile that is read next.
    fetched: [Pack; PACKS],
    marks: M,
    split: bool,
    /// Two tiles, the one that is written next at `turn`.
    stages: *mut T,
    turn: usize,
    out: (*mut T, usize),
    count: AtomicSlice<'a, u64>,
}

/// A thread's part of a tile, and in which of the stages it is.
#[derive(Clone, Copy)]
struct Part<const PACKS: usize> {
    packs: [Pack; PACKS],
    ranks: Ranks<PACKS>,
    turn: usize,
}

impl<const PACKS: usize> Part<PACKS> {
    const NOTHING: Self = Self { packs: [Pack::splat(0); PACKS], ranks: Ranks::NONE, turn: 0 };

    /// The part of the tile that begins at `start`, whose packs these are.
    #[inline(always)]
    fn new<T: Plain>(
        packs: [Pack; PACKS],
        (warp, thread): (Warp, usize),
        x: &[T],
        start: usize,
        marks: impl Marks<T>,
    ) -> Self {
        let marks = build(|j| {
            let first = start + place::<T, PACKS>(thread, j);
            marks.of(first, &packs[j]) & ((1 << inside::<T>(x.len(), first)) - 1)
        });
        Self { packs, ranks: Ranks::new(warp, marks), turn: 0 }
    }
}

impl<T: Plain, M: Marks<T>> Stages for Select<'_, T, M> {
    type Carry = u64;
    type Kept = Part<PACKS>;

    #[inline(always)]
    fn neutral() -> u64 {
        0
    }

    #[inline(always)]
    fn join(a: u64, b: u64) -> u64 {
        a + b
    }

    #[inline(always)]
    fn nothing(&self) -> Self::Kept {
        Part::NOTHING
    }

    #[inline(always)]
    fn fetch(&mut self, number: usize) {
        let start = number * tile_len::<T, PACKS>();
        self.fetched = pack::load(self.x, start, self.thread, T::zeroed());
    }

    #[inline(always)]
    fn read(&mut self, number: usize) -> (u64, Self::Kept) {
        let start = number * tile_len::<T, PACKS>();
        let own = (self.warp, self.thread);
        let part = Part::new(self.fetched, own, self.x, start, self.marks);
        (part.ranks.of_warp.into(), part)
    }

    #[inline(always)]
    fn settle(&mut self, part: Self::Kept, warps_before: u64) -> Self::Kept {
        let whole = tile_len::<T, PACKS>();
        let stage = self.stages.wrapping_add(self.turn * whole);
        each(PACKS, |j| {
            let mut rank = warps_before as usize + part.ranks.before[j] as usize;
            // Those that are not kept stand at the stage's end, the first of the tile last.
            let mut other = (whole - 1).wrapping_sub(place::<T, PACKS>(self.thread, j) - rank);
            each(per_pack::<T>(), |e| {
                let x = element::<T>(&part.packs[j], e);
                // SAFETY: a rank is below the tile's length, and no two elements have the same.
                unsafe {
                    if part.ranks.marks[j] >> e & 1 != 0 {
                        stage.add(rank).write(x);
                        rank += 1;
                    } else if self.split {
                        stage.add(other).write(x);
                        other = other.wrapping_sub(1);
                    }
                }
            });
        });
        let turn = self.turn;
        self.turn = 1 - turn;
        Part { turn, ..part }
    }

    #[inline(always)]
    unsafe fn write(&mut self, number: usize, part: &Self::Kept, before: u64, own: u64) {
        let (whole, n, (out, room)) = (tile_len::<T, PACKS>(), self.x.len(), self.out);
        let (start, stage) = (number * whole, self.stages.wrapping_add(part.turn * whole));
        let (before, own) = (before as usize, own as usize);
        let mut rank = self.thread;
        while rank < own.min(room.saturating_sub(before)) {
            // SAFETY: the stage was filled so far before a barrier; inside `out`, where `before` counts what
            // other tiles write.
            unsafe { out.add(before + rank).write(stage.add(rank).read()) };
            rank += BLOCK;
        }
        if self.split {
            let others_before = start.wrapping_sub(before);
            let mut rank = self.thread;
            while rank < (n - start).min(whole) - own {
                let at = n.wrapping_sub(1).wrapping_sub(others_before.wrapping_add(rank));
                if at < room {
                    // SAFETY: as above; the others of the tiles before stand behind.
                    unsafe { out.add(at).write(stage.add(whole - 1 - rank).read()) };
                }
                rank += BLOCK;
            }
        }
        if start + whole >= n && self.thread == 0 {
            self.count.store(0, (before + own) as u64, Relaxed);
        }
    }
}

/// The body of every fast form but [`run_lengths`](fn@run_lengths): what `marks` says is kept. All blocks of the launch call it.
///
/// `x: [n]`; `count: [1]` gets how many are kept; `out` gets them, as many as it has room for. With `split`,
/// `out: [n]`, and the others stand behind in reversed order. Launch [`blocks`]`(n, `[`PACKS`]`)` blocks.
/// `states`: [`scratch_len`]`(n)` words, fewer panic.
///
/// # Safety
/// The words of `states` are 0 before: else two blocks may write the same place.
#[inline(always)]
pub unsafe fn select_grid<T: Plain, M: Marks<T>>(
    mut block: Block<BLOCK>,
    x: &[T],
    marks: M,
    split: bool,
    states: AtomicSlice<u64>,
    mut out: DisjointSlice<T>,
    count: AtomicSlice<u64>,
) {
    assert!(!split || x.len() == out.len(), "a split has as many results as elements");
    let tiles = x.len().div_ceil(tile_len::<T, PACKS>());
    if tiles == 0 {
        block.once(|| count.store(0, 0, Relaxed));
    }
    let states = States::new::<u64>(states, tiles);
    let (warp, thread, out) = (block.whole_warp(), block.thread(), (out.as_mut_ptr(), out.len()));
    let stages = shared_array![u128; 2 * STAGE_BYTES / 16].as_mut_ptr().cast();
    let fetched = [Pack::splat(0); PACKS];
    let mut select = Select { warp, thread, x, fetched, marks, split, stages, turn: 0, out, count };
    // SAFETY: the states were made for so many tiles that carry counts.
    unsafe { pipeline::run(&mut block, states, tiles, &mut select) };
}

/// Runs that began: how many, and where the last one did.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Begun {
    count: u64,
    last: u64,
}

impl Begun {
    const NONE: Self = Self { count: 0, last: 0 };

    #[inline(always)]
    fn join(a: Self, b: Self) -> Self {
        Self { count: a.count + b.count, last: if b.count > 0 { b.last } else { a.last } }
    }
}

/// Run-length encoding's way with its tiles, of which the places where runs begin wait in shared memory.
struct RunLengths<'a, T, const PACKS: usize> {
    warp: Warp,
    thread: usize,
    x: &'a [T],
    /// The packs of the tile that is read next.
    fetched: [Pack; PACKS],
    /// The places in two tiles, those that are written next at `turn`.
    stages: *mut u16,
    turn: usize,
    values: (*mut T, usize),
    lengths: (*mut u32, usize),
    count: AtomicSlice<'a, u64>,
}

impl<T: Plain + PartialEq, const PACKS: usize> Stages for RunLengths<'_, T, PACKS> {
    type Carry = Begun;
    type Kept = Part<PACKS>;

    #[inline(always)]
    fn neutral() -> Begun {
        Begun::NONE
    }

    #[inline(always)]
    fn join(a: Begun, b: Begun) -> Begun {
        Begun::join(a, b)
    }

    #[inline(always)]
    fn nothing(&self) -> Self::Kept {
        Part::NOTHING
    }

    #[inline(always)]
    fn fetch(&mut self, number: usize) {
        let start = number * tile_len::<T, PACKS>();
        self.fetched = pack::load(self.x, start, self.thread, T::zeroed());
    }

    #[inline(always)]
    fn read(&mut self, number: usize) -> (Begun, Self::Kept) {
        let (runs, start) = (&*self, number * tile_len::<T, PACKS>());
        let own = (runs.warp, runs.thread);
        let part = Part::new(runs.fetched, own, runs.x, start, Runs(runs.x));
        let mut last = 0;
        each(PACKS, |j| {
            let marks = part.ranks.marks[j];
            if marks != 0 {
                last = place::<T, PACKS>(runs.thread, j) as u32 + marks.ilog2();
            }
        });
        let last = start as u64 + u64::from(runs.warp.max(last));
        (Begun { count: part.ranks.of_warp.into(), last }, part)
    }

    #[inline(always)]
    fn settle(&mut self, part: Self::Kept, warps_before: Begun) -> Self::Kept {
        let runs = &mut *self;
        let stage = runs.stages.wrapping_add(runs.turn * tile_len::<T, PACKS>());
        each(PACKS, |j| {
            let mut rank = warps_before.count as usize + part.ranks.before[j] as usize;
            let place = place::<T, PACKS>(runs.thread, j);
            each(per_pack::<T>(), |e| {
                if part.ranks.marks[j] >> e & 1 != 0 {
                    // SAFETY: a rank is below the tile's length, and no two elements have the same.
                    unsafe { stage.add(rank).write((place + e) as u16) };
                    rank += 1;
                }
            });
        });
        let turn = runs.turn;
        runs.turn = 1 - turn;
        Part { turn, ..part }
    }

    #[inline(always)]
    unsafe fn write(&mut self, number: usize, part: &Self::Kept, before: Begun, own: Begun) {
        let (runs, whole) = (&*self, tile_len::<T, PACKS>());
        let (start, n, runs_before) = (number * whole, runs.x.len(), before.count as usize);
        let stage = runs.stages.wrapping_add(part.turn * whole);
        // SAFETY: the stage was filled so far before a barrier.
        let begin = |rank: usize| start + usize::from(unsafe { stage.add(rank).read() });
        // A run ends where the next one begins, or at the end.
        let end = |run: usize, begin: usize, end: usize| {
            if run < runs.lengths.1 {
                // SAFETY: inside `lengths`; one thread of the grid finds the run's end.
                unsafe { runs.lengths.0.add(run).write((end - begin) as u32) };
            }
        };
        let mut rank = runs.thread;
        while rank < own.count as usize {
            let (run, here) = (runs_before + rank, begin(rank));
            if let Some(&value) = runs.x.get(here)
                && run < runs.values.1
            {
                // SAFETY: inside `values`, where `before` counts what other tiles write.
                unsafe { runs.values.0.add(run).write(value) };
            }
            if run > 0 {
                let last = if rank > 0 { begin(rank - 1) } else { before.last as usize };
                end(run - 1, last, here);
            }
            rank += BLOCK;
        }
        if start + whole >= n && runs.thread == 0 {
            let all = Begun::join(before, own);
            end((all.count as usize).wrapping_sub(1), all.last as usize, n);
            runs.count.store(0, all.count, Relaxed);
        }
    }
}

/// Run-length encoding: `values[r]` becomes what run `r` of equal elements of `x: [n]` is made of, by its bits, and
/// `lengths[r]` how long it is, modulo 2^32; `count: [1]` gets how many runs there are. What `values` and `lengths`
/// have no room for is left out. Launch [`blocks`]`(n, `[`run_packs`]`())` blocks.
///
/// `states`: [`run_scratch_len`]`(n)` words, fewer panic.
///
/// # Safety
/// The words of `states` are 0 before.
#[kernel(
    (u8, { run_packs::<u8>() }), (u32, { run_packs::<u32>() }), (u64, { run_packs::<u64>() }),
    max_registers = 80
)]
pub unsafe fn run_lengths<T: PlainOrd, const PACKS: usize>(
    mut block: Block<BLOCK>,
    x: &[T],
    states: AtomicSlice<u64>,
    mut values: DisjointSlice<T>,
    mut lengths: DisjointSlice<u32>,
    count: AtomicSlice<u64>,
) {
    let tiles = x.len().div_ceil(tile_len::<T, PACKS>());
    if tiles == 0 {
        block.once(|| count.store(0, 0, Relaxed));
    }
    let states = States::new::<Begun>(states, tiles);
    let (warp, thread) = (block.whole_warp(), block.thread());
    let stages = shared_array![u16; STAGE_BYTES].as_mut_ptr();
    let values = (values.as_mut_ptr(), values.len());
    let lengths = (lengths.as_mut_ptr(), lengths.len());
    let fetched = [Pack::splat(0); PACKS];
    let mut runs = RunLengths::<T, PACKS> {
        warp,
        thread,
        x,
        fetched,
        stages,
        turn: 0,
        values,
        lengths,
        count,
    };
    // SAFETY: the states were made for so many tiles that carry where runs began.
    unsafe { pipeline::run(&mut block, states, tiles, &mut runs) };
}
