//! Scans of few elements by one block, which has all of them in its registers at once. No tickets and no states of tiles: what
//! a [ring](super::ring) takes to let blocks work on different tiles is longer than such a scan.

use cuda_std::block::Block;
use cuda_std::shared_array;
use cuda_std::unroll::{build, each};
use cuda_std::warp::Plain;

use super::carry::{MOST_WORDS, Slots, map_words, scan_lanes};
use super::operator::Line;
use super::pack::{Pack, per_pack};
use super::part::Part;
use super::ring::part_len;
use super::{Scan, Scanned};
use crate::dependent::let_next_start;

/// Threads in the block.
pub const SHORT_BLOCK: usize = 1024;
const WARPS: usize = SHORT_BLOCK / 32;
/// Most packs of a lane.
const MOST_PACKS: usize = 5;

/// Most elements of type `T` of such a scan.
#[must_use]
pub const fn short_len<T>() -> usize {
    SHORT_BLOCK * MOST_PACKS * per_pack::<T>()
}

/// The body of the short forms: see [`scan_grid`](super::scan_grid). All threads call it; `scan.out` is as long as `x`, which has at
/// most [`short_len`] elements.
///
/// # Safety
/// `scan.out` is valid for writes of as many elements as there are in `x`.
#[inline(always)]
pub(super) unsafe fn run<T: Plain, L: Line<T>>(
    block: &mut Block<SHORT_BLOCK>,
    x: &[T],
    scan: &Scan<T, L>,
) {
    let_next_start(x);
    // SAFETY: the caller's promise. The elements are divided evenly among the warps.
    unsafe {
        match x.len().div_ceil(SHORT_BLOCK * per_pack::<T>()) {
            0..=1 => with_packs::<T, L, 1>(block, x, scan),
            2..=3 => with_packs::<T, L, 3>(block, x, scan),
            _ => with_packs::<T, L, MOST_PACKS>(block, x, scan),
        }
    }
}

/// # Safety
/// As [`run`]; `P` packs of each lane hold all elements.
#[inline(always)]
unsafe fn with_packs<T: Plain, L: Line<T>, const P: usize>(
    block: &mut Block<SHORT_BLOCK>,
    x: &[T],
    scan: &Scan<T, L>,
) {
    let memory = shared_array![u32; WARPS * MOST_WORDS];
    // SAFETY: a slot for each warp.
    let slots = unsafe { Slots::new(memory.as_mut_ptr()) };
    let (warp, lane) = (block.warp(), block.lane());
    let part = part_of::<T, L, P>(x, &scan.line, warp, lane);
    let packs = part.packs(L::NEUTRAL);
    let joined = Scan::<T, L>::joined(packs, scan.line.marks(part, &packs));
    // Scans that do not wait for one another.
    let upto = build(|k| scan_lanes(scan.warp, 32, joined.upto[k], L::join));
    let mut of_warp = L::lift(L::NEUTRAL, false);
    each::<P>(|k| {
        of_warp = L::join(of_warp, map_words(upto[k], |word| scan.warp.shuffle(word, 31)));
    });
    if lane == 0 {
        // SAFETY: the warp's own slot.
        unsafe { slots.put(warp, of_warp) };
    }
    // Every warp reads what all have put.
    block.sync(());
    // SAFETY: as many lanes as warps, each of which has put its slot before the barrier.
    let of_warps = scan_lanes(scan.warp, WARPS, unsafe { slots.get(lane) }, L::join);
    let warp_before = (warp as u32 + 31) % 32;
    let upto_this = map_words(of_warps, |word| scan.warp.shuffle(word, warp_before));
    let before = if warp == 0 { L::lift(L::NEUTRAL, false) } else { upto_this };
    // SAFETY: the caller's promise; each part has one warp.
    unsafe { scan.write(part, &Scanned { upto, ..joined }, before) };
}

/// A warp's part of `x`, which is read where it lies.
#[inline(always)]
fn part_of<'a, T: Plain, L: Line<T>, const P: usize>(
    x: &'a [T],
    line: &L,
    warp: usize,
    lane: usize,
) -> Part<'a, T, P> {
    let start = warp * part_len::<T>(P);
    let memory = x.as_ptr().wrapping_add(start).cast_mut().cast::<Pack>();
    let beside = line.beside().as_ptr().wrapping_add(start * L::BESIDE);
    Part { x, start, lane, memory, beside, beside_bytes: L::BESIDE, note: core::ptr::null_mut() }
}
