//! Scans: each element joined with all before it. `out[i] = x[0] ∘ … ∘ x[i]` (inclusive), or `… ∘ x[i - 1]`
//! (exclusive), by any associative operation.
//!
//! * [`scan_running`](fn@scan_running): one block goes through the array, tile by tile, with a running total.
//! * [`scan_tiles`](fn@scan_tiles): all multiprocessors at once, each element read and written once. A block keeps several tiles in
//!   shared memory ([`ring`]): while some of its warps scan one tile, others join the elements of the next ones, find out what
//!   comes before them ([`look_ahead`]), and have more read.
//! * [`scan_short`](fn@scan_short), [`scan_short_by_key`](fn@scan_short_by_key): one block again, for as many elements as its
//!   registers hold ([`short`]).
//! * [`scan_flagged`](fn@scan_flagged), [`scan_bit_flagged`](fn@scan_bit_flagged), [`scan_by_key`](fn@scan_by_key): segments, each for itself. The same pass:
//!   what is carried along says, besides its value, whether a segment began.
//!
//! What is joined with what depends on the length alone, so floats have the same bits in every run and on every
//! device. The body, [`scan_grid`], takes an operator and element type of your own: see [`Operator`].

/// As `assert!`, before the kernel has waited for the one before: that one would leave when it saw a panic.
macro_rules! assert_early {
    ($is_so:expr, $message:literal) => {
        if !$is_so {
            ::cuda_std::dependent::wait_for_previous();
            panic!($message);
        }
    };
}
pub(super) use assert_early;

pub mod carry;
mod fetch;
pub mod look_ahead;
pub mod marks;
pub mod operator;
pub mod pack;
mod part;
pub mod ring;
pub mod short;

use crate::prelude::*;
use cuda_std::number::bf16;
use cuda_std::unroll::{build, each, each_below};
use cuda_std::warp::Plain;

use carry::{Carry, map_words, scan_lanes};
use look_ahead::{States, states_len};
use marks::{BitFlags, Changes, Flags};
pub use operator::{AffineF32, AffineU32, Compose, Line, Max, Min, Operator, Segments, Sum, Whole};
use pack::{Pack, element, pack_of, per_pack};
pub use ring::{BLOCK, LEAST_SHARED_BYTES, MAX_REGISTERS, MOST_SHARED_BYTES, shared_bytes};
use ring::{PACKS, Part, Stages};
pub use short::{SHORT_BLOCK, short_len};

/// Threads in a block of the plain form.
const RUNNING_BLOCK: usize = 256;

/// Packs of a lane where segments are scanned: marks take registers, and what tells them memory.
const SEGMENTED_PACKS: usize = 6;

/// Elements of type `T` in a tile of a scan that carries `C`.
#[must_use]
pub const fn tile_len<T, C: Carry>() -> usize {
    ring::tile_len::<T>(if C::IS_SEGMENTED { SEGMENTED_PACKS } else { PACKS })
}

/// Scratch words for a scan of `n_elems` elements of type `T` that carries `C`.
#[must_use]
pub const fn scratch_len<T, C: Carry>(n_elems: usize) -> usize {
    states_len(n_elems.div_ceil(tile_len::<T, C>()), C::TILE_WORDS)
}

/// Blocks to launch for a scan of `n_elems` elements of type `T` that carries `C`, on `multiprocessors` multiprocessors.
#[must_use]
pub const fn blocks<T, C: Carry>(n_elems: usize, multiprocessors: u32) -> u32 {
    ring::blocks(n_elems.div_ceil(tile_len::<T, C>()), multiprocessors)
}

/// The plain form. `x: [n]`, `out: [n]`; launched with one block.
#[kernel((u32, Sum), (f32, Sum), (f32, Max))]
pub fn scan_running<T: Plain, O: Operator<T>>(
    mut block: Block<RUNNING_BLOCK>,
    index: ThreadIndex,
    x: &[T],
    exclusive: bool,
    mut out: DisjointSlice<T>,
) {
    let mut running = O::lift(O::NEUTRAL);
    for tile in 0..x.len().div_ceil(RUNNING_BLOCK) {
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

/// The form for at most [`short_len`] elements; more panic. `x: [n]`, `out: [n]`; launched with one block.
#[kernel(
    (u8, Sum), (u16, Sum), (u32, Sum), (u64, Sum), (f16, Sum), (bf16, Sum), (f32, Sum), (f64, Sum),
    (i32, Max), (u32, Max), (f32, Max), (i32, Min), (u32, Min), (f32, Min),
    (AffineF32, Compose), (AffineU32, Compose), dependent
)]
pub fn scan_short<T: Plain, O: Operator<T>>(
    block: Block<SHORT_BLOCK>,
    x: &[T],
    exclusive: bool,
    out: DisjointSlice<T>,
) {
    scan_block(block, x, Whole::<O>::new(), exclusive, out);
}

/// [`scan_short`](fn@scan_short) of segments: one begins wherever `keys: [n]` changes.
#[kernel((u32, u32, Sum), (f32, u32, Sum), (f32, u64, Sum), dependent)]
pub fn scan_short_by_key<T: Plain, K: Plain + PartialEq, O: Operator<T>>(
    block: Block<SHORT_BLOCK>,
    x: &[T],
    keys: &[K],
    exclusive: bool,
    out: DisjointSlice<T>,
) {
    scan_block(block, x, Segments::<O, _>::new(Changes(keys)), exclusive, out);
}

/// The fast form. `x: [n]`, `out: [n]`; launch [`blocks`]`(n, multiprocessors)` blocks, each with
/// [`shared_bytes`] of shared memory.
///
/// `states:` at least [`scratch_len`]`(n)` words.
///
/// # Safety
/// The words of `states` are 0, or as the last scan or selection left the same words.
#[kernel(
    (u8, Sum), (u16, Sum), (u32, Sum), (u64, Sum), (f16, Sum), (bf16, Sum), (f32, Sum), (f64, Sum),
    (i32, Max), (u32, Max), (f32, Max), (i32, Min), (u32, Min), (f32, Min),
    (AffineF32, Compose), (AffineU32, Compose),
    max_registers = MAX_REGISTERS, dependent, dynamic_shared = LEAST_SHARED_BYTES..=MOST_SHARED_BYTES
)]
pub unsafe fn scan_tiles<T: Plain, O: Operator<T>>(
    block: Block<BLOCK>,
    x: &[T],
    exclusive: bool,
    states: AtomicSlice<u64>,
    out: DisjointSlice<T>,
) {
    scan_grid::<T, Whole<O>>(block, x, Whole::new(), exclusive, states, out);
}

/// [`scan_tiles`](fn@scan_tiles) of segments: one begins wherever `heads: [n]` is not 0.
///
/// # Safety
/// As [`scan_tiles`](fn@scan_tiles).
#[kernel(
    (u32, Sum), (f32, Sum),
    max_registers = MAX_REGISTERS, dependent, dynamic_shared = LEAST_SHARED_BYTES..=MOST_SHARED_BYTES
)]
pub unsafe fn scan_flagged<T: Plain, O: Operator<T>>(
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
///
/// # Safety
/// As [`scan_tiles`](fn@scan_tiles).
#[kernel(
    (u32, Sum), (f32, Sum), (f64, Sum),
    max_registers = MAX_REGISTERS, dependent, dynamic_shared = LEAST_SHARED_BYTES..=MOST_SHARED_BYTES
)]
pub unsafe fn scan_bit_flagged<T: Plain, O: Operator<T>>(
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
///
/// # Safety
/// As [`scan_tiles`](fn@scan_tiles).
#[kernel(
    (u32, u32, Sum), (f32, u32, Sum), (f32, u64, Sum),
    max_registers = MAX_REGISTERS, dependent, dynamic_shared = LEAST_SHARED_BYTES..=MOST_SHARED_BYTES
)]
pub unsafe fn scan_by_key<T: Plain, K: Plain + PartialEq, O: Operator<T>>(
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

/// A scan's way with the parts of its tiles.
struct Scan<T, L> {
    warp: Warp,
    lane: usize,
    line: L,
    exclusive: bool,
    out: *mut T,
}

/// Packs of a lane, which of their elements are marked, and what the lanes up to this one join to.
struct Scanned<C, const P: usize> {
    packs: [Pack; P],
    marks: [u32; P],
    upto: [C; P],
}

impl<T: Plain, L: Line<T>> Scan<T, L> {
    /// Packs of a lane, each joined.
    #[inline(always)]
    fn joined<const P: usize>(packs: [Pack; P], marks: [u32; P]) -> Scanned<L::Carry, P> {
        Scanned { packs, marks, upto: build(|k| join_pack::<T, L>(&packs[k], marks[k])) }
    }

    /// This lane's packs, marked as the part's note says, with the lanes before.
    ///
    /// # Safety
    /// The part was reduced before, if elements may be marked.
    #[inline(always)]
    unsafe fn scanned<const P: usize>(&self, part: Part<'_, T, P>) -> Scanned<L::Carry, P> {
        let marks = build(|k| {
            if !L::Carry::IS_SEGMENTED {
                return 0;
            }
            let bit = k * per_pack::<T>();
            // SAFETY: the note has a bit for each element of the lane.
            unsafe { part.note().add(bit / 32).read() >> (bit % 32) }
        });
        let joined = Self::joined(part.packs(L::NEUTRAL), marks);
        // Scans that do not wait for one another.
        Scanned { upto: build(|k| scan_lanes(self.warp, 32, joined.upto[k], L::join)), ..joined }
    }

    /// Writes the results of packs before which comes `before`.
    ///
    /// # Safety
    /// No other warp has this part.
    #[inline(always)]
    unsafe fn write<const P: usize>(
        &self,
        part: Part<'_, T, P>,
        scanned: &Scanned<L::Carry, P>,
        mut before: L::Carry,
    ) {
        let lanes_before: [L::Carry; P] = build(|k| {
            let lanes = map_words(scanned.upto[k], |word| self.warp.shuffle_up(word, 1));
            let all = map_words(scanned.upto[k], |word| self.warp.shuffle(word, 31));
            let joined = L::join(before, lanes);
            let own = if self.lane == 0 { before } else { joined };
            before = L::join(before, all);
            own
        });
        let results = |k: usize| {
            let mut upto = lanes_before[k];
            pack_of(|e| {
                let is_marked = scanned.marks[k] >> e & 1 != 0;
                let before = upto;
                upto = L::join(before, L::lift(element(&scanned.packs[k], e), is_marked));
                let inclusive = L::inclusive(upto);
                if self.exclusive { L::exclusive(before, is_marked) } else { inclusive }
            })
        };
        // SAFETY: `out` is as long as `x`; the part is this warp's.
        unsafe { part.store(self.out, results) };
    }
}

impl<T: Plain, L: Line<T>, const P: usize> Stages<P> for Scan<T, L> {
    type Element = T;
    type Carry = L::Carry;

    const WRITES_MEMORY: bool = false;
    /// A bit for each element of a lane.
    const NOTE_WORDS: usize =
        if L::Carry::IS_SEGMENTED { (P * per_pack::<T>()).div_ceil(32) } else { 0 };
    const BESIDE: usize = L::BESIDE;

    #[inline(always)]
    fn beside(&self) -> &[u8] {
        self.line.beside()
    }

    #[inline(always)]
    fn neutral() -> L::Carry {
        L::lift(L::NEUTRAL, false)
    }

    #[inline(always)]
    fn join(a: L::Carry, b: L::Carry) -> L::Carry {
        L::join(a, b)
    }

    #[inline(always)]
    fn reduce(&self, part: Part<'_, T, P>) -> L::Carry {
        let packs = part.packs(L::NEUTRAL);
        let marks = self.line.marks(part, &packs);
        let mut joined = Self::joined(packs, marks).upto;
        let mut note = [0; 4];
        each::<P>(|k| {
            let bit = k * per_pack::<T>();
            note[bit / 32] |= (marks[k] & ((1 << per_pack::<T>()) - 1)) << (bit % 32);
        });
        // SAFETY: so many words are this lane's.
        each_below::<16>(<Self as Stages<P>>::NOTE_WORDS, |w| unsafe {
            part.note().add(w).write(note[w])
        });
        // Reductions that do not wait for one another.
        each::<5>(|step| {
            let behind = |own| map_words(own, |word| self.warp.shuffle_down(word, 1 << step));
            joined = build(|k| L::join(joined[k], behind(joined[k])));
        });
        let mut all = joined[0];
        each_below::<16>(P - 1, |k| all = L::join(all, joined[k + 1]));
        all
    }

    #[inline(always)]
    unsafe fn finish(
        &self,
        part: Part<'_, T, P>,
        before: impl FnOnce() -> (L::Carry, L::Carry),
        release: impl FnOnce(),
    ) {
        // SAFETY: the caller's promise: the note is there, and the part is this warp's.
        unsafe {
            let scanned = self.scanned(part);
            let (before, _) = before();
            release();
            self.write(part, &scanned, before);
        }
    }
}

/// The elements of a pack, joined.
#[inline(always)]
fn join_pack<T: Plain, L: Line<T>>(pack: &Pack, marks: u32) -> L::Carry {
    let lift = |e| L::lift(element(pack, e), marks >> e & 1 != 0);
    let mut all = lift(0);
    each_below::<16>(per_pack::<T>() - 1, |e| all = L::join(all, lift(e + 1)));
    all
}

/// The body of the short forms. `x: [n]`, `out: [n]`: another length, or more than [`short_len`] elements, panic; all threads of
/// the only block call it.
#[inline(always)]
pub fn scan_block<T: Plain, L: Line<T>>(
    mut block: Block<SHORT_BLOCK>,
    x: &[T],
    line: L,
    exclusive: bool,
    mut out: DisjointSlice<T>,
) {
    assert!(x.len() == out.len(), "a scan has as many results as elements");
    assert!(x.len() <= short_len::<T>(), "a block scans as many elements as its registers hold");
    let (warp, lane, out) = (block.whole_warp(), block.lane(), out.as_mut_ptr());
    let scan = Scan { warp, lane, line, exclusive, out };
    // SAFETY: `out` is as long as `x`.
    unsafe { short::run(&mut block, x, &scan) }
}

/// The body of every fast form. `x: [n]`, `out: [n]`, another length panics; all blocks of the launch call it.
///
/// `states:` at least [`scratch_len`]`(n)` words, fewer panic. All are 0, or as the last scan or selection left the same words,
/// else the results are anything.
#[inline(always)]
pub fn scan_grid<T: Plain, L: Line<T>>(
    mut block: Block<BLOCK>,
    x: &[T],
    line: L,
    exclusive: bool,
    states: AtomicSlice<u64>,
    mut out: DisjointSlice<T>,
) {
    assert_early!(x.len() == out.len(), "a scan has as many results as elements");
    let states = States::new::<L::Carry>(states, x.len().div_ceil(tile_len::<T, L::Carry>()));
    let (warp, lane, out) = (block.whole_warp(), block.lane(), out.as_mut_ptr());
    let scan = Scan { warp, lane, line, exclusive, out };
    // SAFETY: the states were made for the tiles of `x` and this line; the contract says how large the shared memory is.
    unsafe {
        if const { L::Carry::IS_SEGMENTED } {
            ring::run::<SEGMENTED_PACKS, _>(&mut block, states, x, &scan);
        } else {
            ring::run::<PACKS, _>(&mut block, states, x, &scan);
        }
    }
}
