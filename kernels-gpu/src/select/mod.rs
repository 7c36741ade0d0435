//! Selections: the elements that are marked, in their order, one behind the other.
//!
//! * [`select_running`](fn@select_running): one block goes through the array, with a running count.
//! * [`select_grid`]: all blocks at once, each with several tiles in the [ring] of a scan. A warp puts
//!   what it keeps of its part of a tile together in shared memory; another one finds out how many elements the parts
//!   before keep, and a third one writes the kept ones in one coalesced go. Each element is read once, and written if it is
//!   kept.
//!
//! Its forms differ in what marks an element: a predicate ([`select_above`](fn@select_above), [`select_nonzero`](fn@select_nonzero)), a flag
//! ([`select_flagged`](fn@select_flagged)), or another neighbour before it ([`select_unique`](fn@select_unique)). With `split`, those that are
//! not kept stand behind, in reversed order. [`run_lengths`](fn@run_lengths) tells how long each run of equal elements is, in the
//! same pass: it carries along where the last run began.

use crate::prelude::*;
use cuda_std::dependent;
use cuda_std::warp::Plain;

use crate::scan::assert_early;
use crate::scan::carry::{Carry, MOST_WORDS};
use crate::scan::look_ahead::{States, states_len};
use crate::scan::marks::{Flags, Marks, MaybeZero, Runs, Where};
use crate::scan::pack::build;
use crate::scan::ring::{self, PACKS, Part, Stages};

pub use crate::scan::ring::{BLOCK, LEAST_SHARED_BYTES, MAX_REGISTERS, MOST_SHARED_BYTES};

mod part;
mod runs;

use part::{Ranks, copy};
pub use runs::{run_lengths, run_scratch_len};

/// Threads of the plain form's block.
const RUNNING_BLOCK: usize = 256;

/// Elements of type `T` in a tile.
#[must_use]
pub const fn tile_len<T>() -> usize {
    ring::tile_len::<T>(PACKS)
}

/// Scratch words for a selection from `n_elems` elements of type `T`.
#[must_use]
pub const fn scratch_len<T>(n_elems: usize) -> usize {
    states_len(n_elems.div_ceil(tile_len::<T>()), Count::TILE_WORDS)
}

/// The plain form: keeps the elements above `threshold`. Launched with one block. `x: [n]`; `count: [1]`.
#[kernel]
pub fn select_running(
    mut block: Block<RUNNING_BLOCK>,
    x: &[u32],
    threshold: u32,
    out: AtomicSlice<u32>,
    count: AtomicSlice<u64>,
) {
    let mut kept = 0;
    for start in (0..x.len()).step_by(RUNNING_BLOCK) {
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
        ($($arg:ident: $ty:ty),*) |$block:ident, $x:ident| $marks:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The words of `states` are 0, or as the last scan or selection left the same words.
        #[kernel($($instance),+, dependent, max_registers = MAX_REGISTERS, dynamic_shared = LEAST_SHARED_BYTES..=MOST_SHARED_BYTES)]
        pub unsafe fn $name<$t: $bound>(
            $block: Block<BLOCK>,
            $x: &[$t],
            $($arg: $ty,)*
            split: bool,
            states: AtomicSlice<u64>,
            out: DisjointSlice<$t>,
            count: AtomicSlice<u64>,
        ) {
            let marks = $marks;
            // SAFETY: the caller's promise.
            unsafe { select_grid($block, $x, marks, split, states, out, count) }
        }
    )*};
}

entries! {
    /// Keeps the elements that are greater than `threshold`. See [`select_grid`].
    select_above[u32, i32, f32] <T: PlainOrd>(threshold: T) |block, x| Where(move |x: T| x > threshold);

    /// Keeps the elements that are not zero. See [`select_grid`].
    select_nonzero[u8, u32, f32] <T: MaybeZero>() |block, x| Where(|x: T| !x.is_zero());

    /// Keeps the elements whose flag is not 0. See [`select_grid`].
    select_flagged[u8, u32, u64] <T: Plain>(flags: &[u8]) |block, x| Flags(flags);

    /// Keeps the elements that differ from the one before, by their bits, and the first. See [`select_grid`].
    select_unique[u8, u32, u64] <T: PlainOrd>() |block, x| Runs::new(block.whole_warp(), x);
}

/// Plain numbers that can be compared.
pub trait PlainOrd: Plain + PartialOrd {}

impl<T: Plain + PartialOrd> PlainOrd for T {}

/// How many elements are kept.
#[derive(Clone, Copy)]
struct Count(u64);

impl Carry for Count {
    const WORDS: usize = <u64 as Carry>::WORDS;
    const TILE_WORDS: usize = 1;

    #[inline(always)]
    fn to_words(self) -> [u32; MOST_WORDS] {
        self.0.to_words()
    }

    #[inline(always)]
    fn from_words(words: [u32; MOST_WORDS]) -> Self {
        Self(u64::from_words(words))
    }
}

/// A selection's way with the parts of its tiles.
struct Select<'a, T, M> {
    warp: Warp,
    lane: usize,
    x: &'a [T],
    marks: M,
    split: bool,
    out: (*mut T, usize),
    count: AtomicSlice<'a, u64>,
}

impl<T: Plain, M: Marks<T>> Stages<PACKS> for Select<'_, T, M> {
    type Element = T;
    type Carry = Count;

    const WRITES_MEMORY: bool = true;
    const BESIDE: usize = M::BESIDE;

    #[inline(always)]
    fn beside(&self) -> &[u8] {
        self.marks.beside()
    }

    #[inline(always)]
    fn neutral() -> Count {
        Count(0)
    }

    #[inline(always)]
    fn join(a: Count, b: Count) -> Count {
        Count(a.0 + b.0)
    }

    #[inline(always)]
    fn join_lanes<const N: usize>(warp: Warp, values: [Count; N]) -> [Count; N] {
        // Of so many tiles as lanes, which is far below 2^32.
        build(|k| Count(warp.sum(values[k].0 as u32).into()))
    }

    #[inline(always)]
    fn reduce(&self, part: Part<'_, T, PACKS>) -> Count {
        let packs = part.packs(T::zeroed());
        let ranks = Ranks::new(self.warp, part, &packs, self.marks);
        // SAFETY: until the part is reduced, no other warp uses its memory.
        unsafe { ranks.compact(self.warp, part, &packs, self.split) };
        Count(ranks.own.into())
    }

    #[inline(always)]
    unsafe fn finish(
        &self,
        part: Part<'_, T, PACKS>,
        before: impl FnOnce() -> (Count, Count),
        release: impl FnOnce(),
    ) {
        let (Count(before), Count(own)) = before();
        let (memory, lane, n) = (part.memory(), self.lane, self.x.len());
        let (before, own, (out, room)) = (before as usize, own as usize, self.out);
        // SAFETY: inside `out`, where `before` counts what other parts write; the part was compacted.
        unsafe {
            copy(memory, out.wrapping_add(before), own.min(room.saturating_sub(before)), lane);
            if self.split && !part.is_empty() {
                // The others of the parts before stand behind; those of this part end its memory.
                let others = part.len() - own;
                let at = n - (part.start - before) - others;
                copy(memory.add(part.room() - others), out.add(at), others, lane);
            }
        }
        release();
        if part.is_last() && lane == 0 {
            self.count.store(0, (before + own) as u64, Relaxed);
        }
    }
}

/// The body of every fast form but [`run_lengths`](fn@run_lengths): what `marks` says is kept. All blocks of the launch call it.
///
/// `x: [n]`; `count: [1]` gets how many are kept; `out` gets them, as many as it has room for. With `split`,
/// `out: [n]`, and the others stand behind in reversed order. Launch as many blocks as a scan of `x` has, at least one, each with
/// [`shared_bytes`](crate::scan::shared_bytes) of shared memory. `states`: at least [`scratch_len`]`(n)` words, fewer
/// panic.
///
/// # Safety
/// - The words of `states` are 0, or as the last scan or selection left the same words: else two blocks may write the same place.
/// - `marks` does not panic, and no thread of the block has ended before: places come from what all lanes count.
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
    assert_early!(!split || x.len() == out.len(), "a split has as many results as elements");
    if x.is_empty() {
        dependent::wait_for_previous();
        block.once(|| count.store(0, 0, Relaxed));
    }
    let states = States::new::<Count>(states, x.len().div_ceil(tile_len::<T>()));
    let out = (out.as_mut_ptr(), out.len());
    let (warp, lane) = (block.whole_warp(), block.lane());
    let select = Select { warp, lane, x, marks, split, out, count };
    // SAFETY: the states were made for the tiles of `x`, by a scan that carries counts.
    unsafe { ring::run(&mut block, states, x, &select) };
}
