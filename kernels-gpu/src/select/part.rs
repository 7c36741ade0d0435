//! What a warp does with its part of a tile.

use cuda_std::warp::{Plain, Warp};

use crate::rows::anew;
use crate::scan::carry::scan_lanes;
use crate::scan::marks::Marks;
use crate::scan::pack::{Pack, build, each, element, inside, per_pack};
use crate::scan::ring::{PACKS, Part};

/// Stores of a lane that are under way at the same time.
const STORES: usize = 4;

/// The marks of a lane's packs, and how many marked elements of the part come before each pack.
#[derive(Clone, Copy)]
pub struct Ranks {
    /// A bit for each element of each pack.
    pub marks: [u32; PACKS],
    before: [u32; PACKS],
    /// Marked elements of the whole part.
    pub own: u32,
}

impl Ranks {
    /// The marks that a part's elements have. All lanes of the warp call it.
    #[inline(always)]
    pub fn new<T: Plain>(
        warp: Warp,
        part: Part<'_, T, PACKS>,
        packs: &[Pack; PACKS],
        marks: impl Marks<T>,
    ) -> Self {
        let mut marks = marks.of_all(part, packs);
        each(PACKS, |j| {
            let there = inside::<T>(part.len(), part.place(j));
            marks[j] &= (1 << there) - 1;
        });
        // As many counts as fit go through one scan of the lanes: of a pack a warp has at most 32 times its elements.
        let width = if per_pack::<T>() < 8 { 8 } else { 16 };
        let together = 32 / width;
        let (mut counts, mut upto) = ([0; PACKS], [0; PACKS]);
        each(PACKS, |j| counts[j / together] |= marks[j].count_ones() << (j % together * width));
        each(PACKS.div_ceil(together), |k| upto[k] = scan_lanes(warp, 32, counts[k], |a, b| a + b));
        let (mut own, mut before) = (0, [0; PACKS]);
        each(PACKS, |j| {
            let (k, shift) = (j / together, j % together * width);
            let of = |counts: u32| counts >> shift & ((1 << width) - 1);
            before[j] = own + of(upto[k] - counts[k]);
            own += of(warp.shuffle(upto[k], 31));
        });
        Self { marks, before, own }
    }

    /// Calls `f` with the rank of each marked element of the lane, its pack and its number in it.
    #[inline(always)]
    pub fn each_kept<T>(&self, mut f: impl FnMut(usize, usize, usize)) {
        each(PACKS, |j| {
            let mut rank = self.before[j];
            each(per_pack::<T>(), |e| {
                if self.marks[j] >> e & 1 != 0 {
                    f(rank as usize, j, e);
                    rank += 1;
                }
            });
        });
    }

    /// Puts the marked elements of the part to the front of its shared memory, and with `split` the others to its end,
    /// the first of them last. All lanes of the warp call it.
    ///
    /// # Safety
    /// No other warp uses the part's shared memory.
    #[inline(always)]
    pub unsafe fn compact<T: Plain>(
        &self,
        warp: Warp,
        part: Part<'_, T, PACKS>,
        packs: &[Pack; PACKS],
        split: bool,
    ) {
        let (memory, last) = (part.memory(), part.room() - 1);
        // All lanes have read.
        warp.sync();
        // SAFETY: a rank is below the part's length, and no two elements have the same.
        self.each_kept::<T>(|rank, j, e| unsafe {
            memory.add(rank).write(element(&packs[j], e));
        });
        if split {
            let marks = build(|j| !self.marks[j]);
            let before = build(|j| part.place(j) as u32 - self.before[j]);
            // Else each element stays in a register of its own from the first round to this one.
            let packs: [Pack; PACKS] = build(|j| anew(packs[j]));
            // SAFETY: so is the number of those that are not marked before one.
            Self { marks, before, own: 0 }.each_kept::<T>(|rank, j, e| unsafe {
                memory.add(last - rank).write(element(&packs[j], e));
            });
        }
    }
}

/// Copies `len` elements from shared to global memory. All lanes of the warp call it.
///
/// # Safety
/// `from` is valid for reads of `len` elements, `to` for writes, and no other warp writes them.
#[inline(always)]
pub unsafe fn copy<T: Plain>(from: *const T, to: *mut T, len: usize, lane: usize) {
    // SAFETY: the caller's promise; the place is below `len`.
    unsafe { write_rows(to, len, lane, |at| from.add(at).read()) };
}

/// Writes `element(at)` to `to[at]`, for each place below `len`. Rows of a warp begin at multiples of 32 elements, so that
/// all sectors but those at both ends are written as a whole. All lanes of the warp call it.
///
/// # Safety
/// `to` is valid for writes of `len` elements, and no other warp writes them.
#[inline(always)]
pub unsafe fn write_rows<T: Plain>(
    to: *mut T,
    len: usize,
    lane: usize,
    element: impl Fn(usize) -> T,
) {
    let lead = (to as usize / size_of::<T>() % 32) as u32;
    // A part has a few thousand elements.
    let (lane, len) = (lane as u32, len as u32);
    let mut row = 0;
    while row < len + lead {
        let places: [u32; STORES] = build(|k| (row + 32 * k as u32 + lane).wrapping_sub(lead));
        let elements: [T; STORES] =
            build(|k| if places[k] < len { element(places[k] as usize) } else { T::zeroed() });
        each(STORES, |k| {
            if places[k] < len {
                // SAFETY: the caller's promise; each place is one lane's.
                unsafe { to.add(places[k] as usize).write(elements[k]) };
            }
        });
        row += 32 * STORES as u32;
    }
}
