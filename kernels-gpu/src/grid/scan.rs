//! Scans: each element joined with all before it. `out[i] = x[0] ∘ … ∘ x[i]` (inclusive), or `… ∘ x[i - 1]`
//! (exclusive), by any associative operation.
//!
//! * [`scan_running`](fn@scan_running): one block goes through the array, tile by tile, with a running total.
//! * [`scan_tiles`](fn@scan_tiles): all blocks at once, each element read and written once. A tile stays in registers while its
//!   block finds out what comes before it ([`look_back`]); meanwhile the block has the next tile read, and has said
//!   what that one adds up to, so that nobody waits for it later.
//! * [`scan_flagged`](fn@scan_flagged), [`scan_bit_flagged`](fn@scan_bit_flagged), [`scan_by_key`](fn@scan_by_key): segments, each for itself. The same pass:
//!   what is carried along says, besides its value, whether a segment began.
//!
//! What is joined with what depends on the length alone, so floats have the same bits in every run and on every
//! device. The body, [`scan_grid`], takes an operator and element type of your own: see [`Operator`].

pub mod carry;
pub mod look_back;
pub mod marks;
pub mod operator;
pub mod pack;

use cuda_std::number::bf16;
use cuda_std::prelude::*;
use cuda_std::warp::Plain;

use carry::{Carry, MOST_WORDS, Slots, map_words, scan_lanes};
use look_back::{States, states_len};
use marks::{BitFlags, Changes, Flags};
pub use operator::{Line, Max, Min, Operator, Segments, Sum, Whole};
pub use pack::BLOCK;
use pack::{Pack, WARPS, build, each, element, pack_of, per_pack, place, tile_len};

/// Packs of 16 bytes that each thread takes at a time.
pub const PACKS: usize = 4;
/// Most blocks of a launch: four for each of 132 multiprocessors, whatever the device has.
pub const MAX_BLOCKS: usize = 4 * 132;

/// Registers of a thread: a multiprocessor then holds four blocks, or three where sums take two registers.
const fn registers<T>() -> u32 {
    if size_of::<T>() < 8 { 64 } else { 80 }
}

/// Blocks to launch for `n_elems` elements of type `T`: one a tile, at most [`MAX_BLOCKS`].
#[must_use]
pub const fn blocks<T>(n_elems: usize) -> u32 {
    let tiles = n_elems.div_ceil(tile_len::<T, PACKS>());
    if tiles < MAX_BLOCKS { tiles as u32 } else { MAX_BLOCKS as u32 }
}

/// Scratch words for a scan of `n_elems` elements of type `T` that carries `C`.
#[must_use]
pub const fn scratch_len<T, C: Carry>(n_elems: usize) -> usize {
    states_len(n_elems.div_ceil(tile_len::<T, PACKS>()), C::WORDS)
}

/// The plain form. `x: [n]`, `out: [n]`; launched with one block.
#[kernel((u32, Sum), (f32, Sum), (f32, Max))]
pub fn scan_running<T: Plain, O: Operator<T>>(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    x: &[T],
    exclusive: bool,
    mut out: DisjointSlice<T>,
) {
    let mut running = O::lift(O::NEUTRAL);
    for tile in 0..x.len().div_ceil(BLOCK) {
        let own = index.stride(tile);
        let item = O::lift(x.get(own.get()).copied().unwrap_or(O::NEUTRAL));
        let ([before], _) = block.scan_with_prefix([item], O::join, |total| {
            let before = running;
            running = O::join(running, total);
            before
        });
        if let Some(out) = out.get_mut(own) {
            *out = O::lower(if exclusive { before } else { O::join(before, item) });
        }
    }
}

/// The fast form. `x: [n]`, `out: [n]`; launch [`blocks`]`(n)` blocks.
///
/// `states:` [`scratch_len`]`(n)` words of 0, which are not 0 afterwards.
#[kernel(
    (u8, Sum), (u16, Sum), (u32, Sum), (u64, Sum), (f16, Sum), (bf16, Sum), (f32, Sum), (f64, Sum),
    (i32, Max), (u32, Max), (f32, Max), (i32, Min), (u32, Min), (f32, Min),
    max_registers = registers::<T>()
)]
pub fn scan_tiles<T: Plain, O: Operator<T>>(
    block: Block<BLOCK>,
    x: &[T],
    exclusive: bool,
    states: AtomicSlice<u64>,
    out: DisjointSlice<T>,
) {
    scan_grid::<T, Whole<O>>(block, x, Whole::new(), exclusive, states, out);
}

/// [`scan_tiles`](fn@scan_tiles) of segments: one begins wherever `heads: [n]` is not 0.
#[kernel((u32, Sum), (f32, Sum), max_registers = 80)]
pub fn scan_flagged<T: Plain, O: Operator<T>>(
    block: Block<BLOCK>,
    x: &[T],
    heads: &[u8],
    exclusive: bool,
    states: AtomicSlice<u64>,
    out: DisjointSlice<T>,
) {
    scan_grid(block, x, Segments::<O, _>::new(Flags(heads)), exclusive, states, out);
}

/// [`scan_tiles`](fn@scan_tiles) of segments: one begins wherever a bit of `heads: [n / 32]` is set.
#[kernel((u32, Sum), (f32, Sum), (f64, Sum), max_registers = 80)]
pub fn scan_bit_flagged<T: Plain, O: Operator<T>>(
    block: Block<BLOCK>,
    x: &[T],
    heads: &[u32],
    exclusive: bool,
    states: AtomicSlice<u64>,
    out: DisjointSlice<T>,
) {
    scan_grid(block, x, Segments::<O, _>::new(BitFlags(heads)), exclusive, states, out);
}

/// [`scan_tiles`](fn@scan_tiles) of segments: one begins wherever `keys: [n]` changes.
#[kernel((u32, u32, Sum), (f32, u32, Sum), (f32, u64, Sum), max_registers = 80)]
pub fn scan_by_key<T: Plain, K: Plain + PartialEq, O: Operator<T>>(
    block: Block<BLOCK>,
    x: &[T],
    keys: &[K],
    exclusive: bool,
    states: AtomicSlice<u64>,
    out: DisjointSlice<T>,
) {
    scan_grid(block, x, Segments::<O, _>::new(Changes(keys)), exclusive, states, out);
}

/// Sets the bit of each offset: what [`scan_bit_flagged`](fn@scan_bit_flagged) takes. Offsets past the last bit are left out.
#[kernel]
pub fn scan_mark_offsets(index: ThreadIndex, offsets: &[u64], heads: AtomicSlice<u32>) {
    if let Some(&offset) = offsets.get(index.get())
        && offset / 32 < heads.len() as u64
    {
        heads.fetch_or((offset / 32) as usize, 1 << (offset % 32), Relaxed);
    }
}

/// A tile in registers.
#[derive(Clone, Copy)]
struct Tile<C> {
    /// Its number; past the last one if there is no tile.
    number: usize,
    packs: [Pack; PACKS],
    marks: [u32; PACKS],
    /// What comes in the tile before each pack of this thread.
    before: [C; PACKS],
    /// The whole tile.
    own: C,
}

impl<C: Carry> Tile<C> {
    #[inline(always)]
    fn none(neutral: C) -> Self {
        let packs = [Pack::splat(0); PACKS];
        let before = [neutral; PACKS];
        Self { number: usize::MAX, packs, marks: [0; PACKS], before, own: neutral }
    }

    /// The tile of a number, whose packs know what comes before them in their warp; and the warp's join.
    #[inline(always)]
    fn load<T: Plain, L: Line<T, Carry = C>>(
        warp: Warp,
        thread: usize,
        number: usize,
        x: &[T],
        line: L,
    ) -> (Self, C) {
        let neutral = L::lift(L::NEUTRAL, false);
        let start = number * tile_len::<T, PACKS>();
        let packs: [_; PACKS] = pack::load(x, start, thread, L::NEUTRAL);
        let marks = build(|j| line.marks(start + place::<T, PACKS>(thread, j), &packs[j]));
        // Four scans that do not wait for one another.
        let upto: [C; PACKS] =
            build(|j| scan_lanes(warp, join_pack::<T, L>(&packs[j], marks[j]), L::join));
        let mut of_warp = neutral;
        let before = build(|j| {
            let lanes = map_words(upto[j], |word| warp.shuffle_up(word, 1));
            let step = map_words(upto[j], |word| warp.shuffle(word, 31));
            let before = if thread.is_multiple_of(32) { of_warp } else { L::join(of_warp, lanes) };
            of_warp = L::join(of_warp, step);
            before
        });
        (Self { number, packs, marks, before, own: of_warp }, of_warp)
    }

    /// Writes the tile, before which comes `before`.
    ///
    /// # Safety
    /// `out` is a pointer that is valid for writes of so many elements, and no other block has this tile.
    #[inline(always)]
    unsafe fn store<T: Plain, L: Line<T, Carry = C>>(
        &self,
        thread: usize,
        before: C,
        exclusive: bool,
        out: (*mut T, usize),
    ) {
        let start = self.number * tile_len::<T, PACKS>();
        let pack = |j: usize| {
            let mut upto = L::join(before, self.before[j]);
            pack_of(|e| {
                let (x, is_marked) = (element(&self.packs[j], e), self.marks[j] >> e & 1 != 0);
                let before = upto;
                upto = L::join(before, L::lift(x, is_marked));
                if exclusive { L::exclusive(before, is_marked) } else { L::inclusive(upto) }
            })
        };
        // SAFETY: the caller's promise; a thread has packs of its own.
        unsafe { pack::store::<T, PACKS>(out, start, thread, pack) };
    }
}

/// The elements of a pack, joined.
#[inline(always)]
fn join_pack<T: Plain, L: Line<T>>(pack: &Pack, marks: u32) -> L::Carry {
    let lift = |e| L::lift(element(pack, e), marks >> e & 1 != 0);
    let mut all = lift(0);
    each(per_pack::<T>() - 1, |e| all = L::join(all, lift(e + 1)));
    all
}

/// What the warps before this one join to, and all warps of the block; a slot for each was put before a barrier.
#[inline(always)]
pub(crate) fn join_warps<C: Carry>(
    slots: Slots,
    warp: usize,
    neutral: C,
    join: impl Fn(C, C) -> C,
) -> (C, C) {
    let (mut before, mut all) = (neutral, neutral);
    each(WARPS, |w| {
        if w == warp {
            before = all;
        }
        // SAFETY: put before the barrier.
        all = join(all, unsafe { slots.get(w) });
    });
    (before, all)
}

/// The body of every fast form. `x: [n]`, `out: [n]`, another length panics; all blocks of the launch call it.
///
/// `states:` [`scratch_len`]`(n)` words, fewer panic. They are 0 before, else the results are anything.
#[inline(always)]
pub fn scan_grid<T: Plain, L: Line<T>>(
    mut block: Block<BLOCK>,
    x: &[T],
    line: L,
    exclusive: bool,
    states: AtomicSlice<u64>,
    mut out: DisjointSlice<T>,
) {
    assert!(x.len() == out.len(), "a scan has as many results as elements");
    let tiles = x.len().div_ceil(tile_len::<T, PACKS>());
    let states = States::new::<L::Carry>(states, tiles);
    let memory = shared_array![u32; (WARPS + 2) * MOST_WORDS];
    // SAFETY: a slot for each warp, one for what comes before the tile, and one for the ticket.
    let slots = unsafe { Slots::new(memory.as_mut_ptr()) };
    let (warp, thread) = (block.whole_warp(), block.thread());
    let neutral = L::lift(L::NEUTRAL, false);

    // A block has two tiles: one that is read and said, and the one before that, which is finished then. So
    // everybody has said his tile long before others look for it.
    let mut last = Tile::none(neutral);
    let ticket = block.once(|| states.take()).unwrap_or(0);
    let mut number = block.broadcast(ticket as u64, 0) as usize;
    loop {
        let is_tile = number < tiles;
        let mut tile = Tile::none(neutral);
        if is_tile {
            let of_warp;
            (tile, of_warp) = Tile::load(warp, thread, number, x, line);
            if block.lane() == 0 {
                // SAFETY: a slot for each warp; the last reads lie behind a barrier.
                unsafe { slots.put(block.warp(), of_warp) };
            }
        }
        // The warps' joins are there; what comes before the last tile has been read.
        block.sync(());
        if is_tile {
            let before;
            (before, tile.own) = join_warps(slots, block.warp(), neutral, L::join);
            tile.before = build(|j| L::join(before, tile.before[j]));
        }
        if block.warp() == 0 {
            // SAFETY: the tiles are there; one thread puts slots that nobody reads before the barrier.
            unsafe {
                let mut ticket = 0;
                if is_tile {
                    states.say_own(warp, number, tile.own);
                    ticket = if thread == 0 { states.take() } else { 0 };
                }
                if last.number < tiles {
                    let before = states.before(warp, last.number, last.own, neutral, L::join);
                    if thread == 0 {
                        slots.put(WARPS, before);
                    }
                }
                if thread == 0 {
                    slots.put(WARPS + 1, ticket as u64);
                }
            }
        }
        // What comes before the last tile is there, and the number of the next.
        block.sync(());
        if last.number < tiles {
            // SAFETY: put before the barrier; a ticket is taken once, so the tile is this block's, and `out` is
            // as long as `x`.
            unsafe {
                let out = (out.as_mut_ptr(), out.len());
                last.store::<T, L>(thread, slots.get(WARPS), exclusive, out);
            }
        }
        if !is_tile {
            return;
        }
        last = tile;
        // SAFETY: put before the barrier.
        number = unsafe { slots.get::<u64>(WARPS + 1) } as usize;
    }
}
