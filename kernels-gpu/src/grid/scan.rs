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
pub mod pipeline;

use cuda_std::number::bf16;
use cuda_std::prelude::*;
use cuda_std::warp::Plain;

use carry::{Carry, map_words, scan_lanes};
use look_back::{States, states_len};
use marks::{BitFlags, Changes, Flags};
pub use operator::{AffineF32, AffineU32, Compose, Line, Max, Min, Operator, Segments, Sum, Whole};
pub use pack::BLOCK;
use pack::{Fetched, Pack, build, each, element, pack_of, per_pack, place, tile_len};
use pipeline::Stages;

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
    (AffineF32, Compose), (AffineU32, Compose),
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

/// A scan's way with its tiles, which stay in registers.
struct Scan<'a, T, L> {
    warp: Warp,
    thread: usize,
    x: &'a [T],
    fetched: Fetched<PACKS>,
    line: L,
    exclusive: bool,
    out: *mut T,
}

/// A tile in registers.
#[derive(Clone, Copy)]
struct Tile<C> {
    packs: [Pack; PACKS],
    marks: [u32; PACKS],
    /// What comes in the tile before each pack of this thread; at first, in its warp.
    before: [C; PACKS],
}

impl<T: Plain, L: Line<T>> Stages for Scan<'_, T, L> {
    type Carry = L::Carry;
    type Kept = Tile<L::Carry>;

    #[inline(always)]
    fn neutral() -> L::Carry {
        L::lift(L::NEUTRAL, false)
    }

    #[inline(always)]
    fn join(a: L::Carry, b: L::Carry) -> L::Carry {
        L::join(a, b)
    }

    #[inline(always)]
    fn nothing(&self) -> Self::Kept {
        Tile { packs: [Pack::splat(0); PACKS], marks: [0; PACKS], before: [Self::neutral(); PACKS] }
    }

    #[inline(always)]
    fn fetch(&mut self, number: usize) {
        self.fetched.start(self.x, number * tile_len::<T, PACKS>(), self.thread);
    }

    #[inline(always)]
    fn read(&mut self, number: usize) -> (L::Carry, Self::Kept) {
        let (warp, thread, start) = (self.warp, self.thread, number * tile_len::<T, PACKS>());
        let packs = self.fetched.take(self.x, start, thread, L::NEUTRAL);
        let marks = build(|j| self.line.marks(start + place::<T, PACKS>(thread, j), &packs[j]));
        // Four scans that do not wait for one another.
        let upto: [L::Carry; PACKS] =
            build(|j| scan_lanes(warp, join_pack::<T, L>(&packs[j], marks[j]), L::join));
        let mut of_warp = Self::neutral();
        let before = build(|j| {
            let lanes = map_words(upto[j], |word| warp.shuffle_up(word, 1));
            let step = map_words(upto[j], |word| warp.shuffle(word, 31));
            let is_first = thread.is_multiple_of(32);
            let before = if is_first { of_warp } else { L::join(of_warp, lanes) };
            of_warp = L::join(of_warp, step);
            before
        });
        (of_warp, Tile { packs, marks, before })
    }

    #[inline(always)]
    fn settle(&mut self, tile: Self::Kept, warps_before: L::Carry) -> Self::Kept {
        Tile { before: build(|j| L::join(warps_before, tile.before[j])), ..tile }
    }

    #[inline(always)]
    unsafe fn write(&mut self, number: usize, tile: &Self::Kept, before: L::Carry, _: L::Carry) {
        let start = number * tile_len::<T, PACKS>();
        let pack = |j: usize| {
            let mut upto = L::join(before, tile.before[j]);
            pack_of(|e| {
                let (x, is_marked) = (element(&tile.packs[j], e), tile.marks[j] >> e & 1 != 0);
                let before = upto;
                upto = L::join(before, L::lift(x, is_marked));
                let inclusive = L::inclusive(upto);
                if self.exclusive { L::exclusive(before, is_marked) } else { inclusive }
            })
        };
        // SAFETY: `out` is as long as `x`; the tile is this block's, and a thread has packs of its own.
        unsafe { pack::store::<T, PACKS>((self.out, self.x.len()), start, self.thread, pack) };
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
    let (warp, thread) = (block.whole_warp(), block.thread());
    let memory = shared_array![u128; 2 * PACKS * BLOCK].as_mut_ptr().cast();
    // SAFETY: room for two tiles, for this alone.
    let fetched = unsafe { Fetched::new(memory, thread) };
    let mut scan = Scan { warp, thread, x, fetched, line, exclusive, out: out.as_mut_ptr() };
    // SAFETY: the states were made for so many tiles of this line.
    unsafe { pipeline::run(&mut block, states, tiles, &mut scan) };
}
