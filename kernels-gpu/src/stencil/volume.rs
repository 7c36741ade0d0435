//! The fast seven-point stencil: blocks stream through the planes, with what they need of the next planes in registers.
//!
//! A block owns [`ROWS`] rows of a strip of columns, a warp two of the rows, and a lane a 16-byte vector in each of them.
//! Going from plane to plane, a thread keeps its own cells of the planes before, here and behind in registers. Neighbours in a row
//! come from neighbour lanes, by shuffles; the rows above and below a thread's own from the cache, where the warps that own
//! them brought them.
//!
//! What bounds it is how the accesses lie in the memory, as for a copy. A block makes only a few [`planes`], so that those that
//! run at a time are neighbours, whose cells the L2 cache has: with f32 on an H200 3,930 GB/s, and 3,660 with 32 planes a block,
//! though these load less. Nor do loads ahead help: with further planes in registers it was 3,120 to 3,600, and with
//! bulk copies into shared memory 3,450.
//!
//! [`stencil_volume_twice`](fn@stencil_volume_twice) makes two steps for the traffic of one: the second one's neighbours above and below are other
//! warps' results, which go through shared memory, with a barrier a plane.

use super::{Cell, FIXED, Weights, is_edge, place};
use crate::prelude::*;
use cuda_std::unroll::{build, each};

/// Rows of a thread, of one step.
const ROWS_OF_THREAD: usize = 2;
/// Warps of a block beside each other, of one step.
const WARPS_ACROSS: usize = 2;
/// Warps of a block below each other, of one step.
const WARPS_DOWN: usize = 4;
/// Threads of a block of one step.
pub const BLOCK: usize = 32 * WARPS_ACROSS * WARPS_DOWN;

/// Rows of a block of one step.
pub const ROWS: usize = WARPS_DOWN * ROWS_OF_THREAD;

/// Planes of a block of one step, for vectors of `lanes` cells.
#[must_use]
pub const fn planes(lanes: usize) -> usize {
    32 / lanes
}

/// Columns of a block of one step, for vectors of `lanes` cells.
#[must_use]
pub const fn strip(lanes: usize) -> usize {
    WARPS_ACROSS * 32 * lanes
}

/// Columns of a block of two steps: its outer lanes only serve their neighbours.
#[must_use]
pub const fn strip_twice(lanes: usize) -> usize {
    30 * lanes
}

/// Warps of a block of two steps, a row each.
const WARPS_TWICE: usize = 16;
/// Rows of a block of two steps: its outer warps only serve their neighbours.
pub const ROWS_TWICE: usize = WARPS_TWICE - 2;

/// A volume: its shape, and what lies beyond its edges.
#[derive(Clone, Copy)]
struct Volume<T> {
    cells: *const T,
    width: usize,
    height: usize,
    depth: usize,
    boundary: u32,
}

/// A block's part of a volume.
struct Part {
    /// The first column, row and plane.
    first: [usize; 3],
    /// The plane behind the last.
    end: usize,
}

impl Part {
    /// The part of this block, if there is one: `columns` by `rows` by `planes` cells. Blocks go along x, then y, then z.
    #[inline(always)]
    fn of_block(shape: [usize; 3], [columns, rows, planes]: [usize; 3]) -> Option<Self> {
        let [depth, height, width] = shape;
        // 32 bits, as a block's number has: a division of 64 takes as long as a plane.
        let (across, down) = (width.div_ceil(columns) as u32, height.div_ceil(rows) as u32);
        let block = thread::block_idx_x();
        let aside = thread::block_idx_y() | thread::block_idx_z();
        if across == 0 || down == 0 || aside != 0 {
            return None;
        }
        let (row, x) = (block / across, block % across);
        let (z, y) = (row / down, row % down);
        let [x, y, z] = [x, y, z].map(|part| part as usize);
        let first = [x * columns, y * rows, z.saturating_mul(planes)];
        let end = depth.min(first[2].saturating_add(planes));
        (first[2] < depth).then_some(Self { first, end })
    }
}

/// A lane's vector with the cells next to it.
#[derive(Clone, Copy)]
struct Near<T, const LANES: usize> {
    /// The vector's row in the plane before, in its own and in the one behind.
    rows: [[T; LANES]; 3],
    /// The rows above and below, in the vector's plane.
    beside: [[T; LANES]; 2],
    /// The cells to the left and to the right.
    sides: [T; 2],
}

impl<T: Cell<LANES>, const LANES: usize> Near<T, LANES> {
    /// The weighted sum of each cell and its six neighbours.
    #[inline(always)]
    fn sums(&self, weights: Weights<T>) -> [T; LANES] {
        let ([before, centre, behind], [above, below]) = (self.rows, self.beside);
        let mut sums = [T::ZERO; LANES];
        for k in 0..LANES {
            let x = [
                if k == 0 { self.sides[0] } else { centre[k - 1] },
                if k + 1 == LANES { self.sides[1] } else { centre[k + 1] },
            ];
            sums[k] = weights.volume(centre[k], x, [above[k], below[k]], [before[k], behind[k]]);
        }
        sums
    }
}

/// The vectors of a thread: a lane's columns in some rows, and the rows above and below these.
struct Lane<T, const LANES: usize, const ROWS: usize> {
    volume: Volume<T>,
    /// The first column, perhaps beyond an edge.
    first: isize,
    /// What lies in the columns: they, or what the boundary puts there.
    places: [u32; LANES],
    /// The first row.
    row: isize,
    /// Where the rows begin in a plane, the one above them and the one below.
    rows: [usize; ROWS],
    above: usize,
    below: usize,
    /// Whether the columns are one aligned vector of memory in every row.
    is_vector: bool,
    /// The columns that are fixed edges.
    is_kept: [bool; LANES],
}

impl<T: Cell<LANES>, const LANES: usize, const ROWS: usize> Lane<T, LANES, ROWS> {
    /// The lane's columns from `first` on, in rows from `row` on, all of which may lie beyond an edge. If it is a vector, the
    /// columns are inside.
    #[inline(always)]
    fn new(volume: Volume<T>, first: isize, row: isize, is_vector: bool) -> Self {
        let Volume { width, height, boundary, .. } = volume;
        let begin = |row| place(row, height, boundary) * width;
        // Of a vector the last column, too, is an edge only by itself.
        let is_edge = |k: usize| match k {
            0 if is_vector => first == 0,
            _ if is_vector && k + 1 < LANES => false,
            _ => is_edge((first + k as isize) as usize, width),
        };
        Self {
            volume,
            first,
            places: core::array::from_fn(|k| place(first + k as isize, width, boundary) as u32),
            row,
            rows: build(|r| begin(row + r as isize)),
            above: begin(row - 1),
            below: begin(row + ROWS as isize),
            is_vector,
            is_kept: build(|k| boundary == FIXED && is_edge(k)),
        }
    }

    /// Where a plane begins, which may lie beyond an edge.
    #[inline(always)]
    fn plane(&self, plane: isize) -> *const T {
        let Volume { cells, width, height, depth, boundary } = self.volume;
        // SAFETY: a plane of the volume, which is inside its memory.
        unsafe { cells.add(place(plane, depth, boundary) * (width * height)) }
    }

    /// The lane's cells in the row that begins at `row` of a plane.
    ///
    /// # Safety
    /// `plane` is where a plane begins, and `row` where a row does.
    #[inline(always)]
    unsafe fn load(&self, plane: *const T, row: usize) -> [T; LANES] {
        // SAFETY: a row of the plane.
        let row = unsafe { plane.add(row) };
        if self.is_vector {
            // SAFETY: the columns are inside the row, and aligned.
            return unsafe { T::load(row.offset(self.first)) };
        }
        // SAFETY: a place is below the width.
        self.places.map(|place| unsafe { row.add(place as usize).read() })
    }

    /// The lane's cells of all its rows in a plane.
    ///
    /// # Safety
    /// `plane` is where a plane begins.
    #[inline(always)]
    unsafe fn own(&self, plane: *const T) -> [[T; LANES]; ROWS] {
        // SAFETY: rows of the plane.
        build(|r| unsafe { self.load(plane, self.rows[r]) })
    }

    /// The lane's cells of the rows above and below its own in a plane.
    ///
    /// # Safety
    /// `plane` is where a plane begins.
    #[inline(always)]
    unsafe fn beside(&self, plane: *const T) -> [[T; LANES]; 2] {
        // SAFETY: rows of the plane.
        unsafe { [self.load(plane, self.above), self.load(plane, self.below)] }
    }

    /// Whether the boundary keeps the cells of row `r` in a plane: they are on an edge of the volume that is fixed.
    #[inline(always)]
    fn is_row_kept(&self, r: usize, plane: isize) -> bool {
        let Volume { height, depth, boundary, .. } = self.volume;
        let row = (self.row + r as isize) as usize;
        boundary == FIXED && (is_edge(plane as usize, depth) || is_edge(row, height))
    }

    /// The cells of row `r` a step further in time: the weighted sums, but on fixed edges what was there.
    #[inline(always)]
    fn next(
        &self,
        r: usize,
        near: Near<T, LANES>,
        plane: isize,
        weights: Weights<T>,
    ) -> [T; LANES] {
        let (is_row_kept, centre) = (self.is_row_kept(r, plane), near.rows[1]);
        let mut next = near.sums(weights);
        for k in 0..LANES {
            next[k] = if self.is_kept[k] | is_row_kept { centre[k] } else { next[k] };
        }
        next
    }

    /// As [`Self::next`], with a branch around the fixed edges in place of selections, since few lanes have such. One step
    /// is faster in this form (f32 by 2 %, f64 by 3 % on an H200), and two steps at once are slower (f32 by 4 %).
    #[inline(always)]
    fn next_by_branch(
        &self,
        r: usize,
        near: Near<T, LANES>,
        plane: isize,
        weights: Weights<T>,
    ) -> [T; LANES] {
        let mut next = near.sums(weights);
        if self.volume.boundary == FIXED {
            let is_row_kept = self.is_row_kept(r, plane);
            for (k, next) in next.iter_mut().enumerate() {
                if self.is_kept[k] | is_row_kept {
                    *next = near.rows[1][k];
                }
            }
        }
        next
    }

    /// Stores the lane's cells of row `r` in a plane, those that are inside.
    ///
    /// # Safety
    /// `out` leads to a volume of the same shape, of which no other thread accesses these cells.
    #[inline(always)]
    unsafe fn store(&self, out: *mut T, plane: usize, r: usize, cells: [T; LANES]) {
        let Volume { width, height, .. } = self.volume;
        if self.row + r as isize >= height as isize {
            return;
        }
        // SAFETY: a row of the volume.
        let row = unsafe { out.add(plane * (width * height) + self.rows[r]) };
        if self.is_vector {
            // SAFETY: the columns are inside the row, and aligned.
            return unsafe { T::store(row.offset(self.first), cells) };
        }
        for (k, cell) in cells.iter().enumerate() {
            let column = self.first as usize + k;
            if column < width {
                // SAFETY: inside the row.
                unsafe { row.add(column).write(*cell) };
            }
        }
    }
}

/// A thread's cells in shared memory.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Slot<T, const LANES: usize> {
    cells: [T; LANES],
}

/// Whether a volume fits into both arrays, and whether its vectors are aligned in both.
#[inline(always)]
fn volume_of<T>(
    cells: &[T],
    out: &mut DisjointSlice<T>,
    shape: [usize; 3],
    boundary: u32,
) -> (Volume<T>, bool) {
    let [depth, height, width] = shape;
    let n = height.saturating_mul(width).saturating_mul(depth);
    assert!(n <= cells.len() && n <= out.len(), "the volume is larger than its memory");
    assert!(u32::try_from(width).is_ok(), "a row has 2^32 cells or more");
    let ends = cells.as_ptr().addr() | out.as_mut_ptr().addr() | (width * size_of::<T>());
    let volume = Volume { cells: cells.as_ptr(), width, height, depth, boundary };
    (volume, ends.is_multiple_of(16))
}

/// The fast form: a step of the seven-point stencil. `cells: [depth, height, width]`, `out` likewise, of `shape`.
///
/// Each block makes `planes` planes of [`ROWS`] rows of a [`strip`]; launch as many blocks as there are. Best if
/// the width is a multiple of 32 `LANES` and both begin at a multiple of 16 bytes.
#[kernel((f32, 4), (f64, 2), block = BLOCK, min_blocks = 4)]
pub fn stencil_volume<T: Cell<LANES>, const LANES: usize>(
    cells: &[T],
    shape: [usize; 3],
    planes: usize,
    centre: T,
    weights: [T; 3],
    boundary: u32,
    mut out: DisjointSlice<T>,
) {
    let (volume, is_aligned) = volume_of(cells, &mut out, shape, boundary);
    let Some(part) = Part::of_block(shape, [strip(LANES), ROWS, planes.max(1)]) else { return };
    let (warp, number) = (Warp::current(), thread::thread_idx_x() as usize / 32);
    let row = part.first[1] + number / WARPS_ACROSS * ROWS_OF_THREAD;
    let of_warp = part.first[0] + number % WARPS_ACROSS * 32 * LANES;
    // The same for all lanes of a warp, and no barrier follows.
    if row >= volume.height || of_warp >= volume.width {
        return;
    }
    let first = of_warp + warp.thread_rank() as usize * LANES;
    let weights = Weights { centre, x: weights[0], y: weights[1], z: weights[2] };
    let (planes, out) = ((part.first[2] as isize, part.end as isize), out.as_mut_ptr());
    // A vector alone in its warp has no neighbour lane at either side, for which `stream` is not made.
    if is_aligned && volume.width % (32 * LANES) != LANES {
        // Lanes past the edge do as the last one before it.
        let last = volume.width - LANES;
        let own = Lane::new(volume, first.min(last) as isize, row as isize, true);
        // SAFETY: `out` has the volume's shape, and lanes inside have their own cells.
        unsafe { stream(warp, own, first <= last, first >= last, weights, planes, out) };
    } else {
        let own = Lane::new(volume, first as isize, row as isize, false);
        // SAFETY: as above; each cell is stored by the lane whose column it is.
        unsafe { stream(warp, own, true, false, weights, planes, out) };
    }
}

/// Makes a step of the planes from `begin` to `end`. Of a lane that `is_last` the neighbour to the right is no lane's, as it is
/// of lane 31. All lanes of the warp call it, with the same rows and planes.
///
/// # Safety
/// `out` leads to a volume of the same shape, of which no other thread accesses the cells of lanes that `stores`.
#[inline(always)]
unsafe fn stream<T: Cell<LANES>, const LANES: usize>(
    warp: Warp,
    own: Lane<T, LANES, ROWS_OF_THREAD>,
    stores: bool,
    is_last: bool,
    weights: Weights<T>,
    (begin, end): (isize, isize),
    out: *mut T,
) {
    let is_first = warp.thread_rank() == 0;
    let is_last = is_last || warp.thread_rank() == 31;
    // What the shuffles do not bring: the neighbours of the lanes at the ends.
    let outer = if is_first { own.first - 1 } else { own.first + LANES as isize };
    let outer = place(outer, own.volume.width, own.volume.boundary);
    let (mut plane, mut ends) = (own.plane(begin), [T::ZERO; ROWS_OF_THREAD]);
    // SAFETY: where planes begin.
    let (mut before, mut here) = unsafe { (own.own(own.plane(begin - 1)), own.own(plane)) };
    let mut z = begin;
    while z < end {
        let further = own.plane(z + 1);
        // SAFETY: where planes begin.
        let (behind, [above, below]) = unsafe { (own.own(further), own.beside(plane)) };
        if is_first || is_last {
            let column = plane.wrapping_add(outer);
            // SAFETY: a cell of each row.
            ends = build(|r| unsafe { *column.add(own.rows[r]) });
        }
        each::<ROWS_OF_THREAD>(|r| {
            let centre = here[r];
            let left = warp.shuffle_up(centre[LANES - 1], 1);
            let right = warp.shuffle_down(centre[0], 1);
            let sides =
                [if is_first { ends[r] } else { left }, if is_last { ends[r] } else { right }];
            let beside = [
                if r == 0 { above } else { here[r - 1] },
                if r + 1 == ROWS_OF_THREAD { below } else { here[r + 1] },
            ];
            let near = Near { rows: [before[r], centre, behind[r]], beside, sides };
            let next = own.next_by_branch(r, near, z, weights);
            if stores {
                // SAFETY: the caller's promise.
                unsafe { own.store(out, z as usize, r, next) };
            }
        });
        (plane, before, here) = (further, here, behind);
        z += 1;
    }
}

/// The first step's results of two planes, in shared memory: a slot for each lane of each row.
struct FirstStep<T, const LANES: usize> {
    slots: *mut Slot<T, LANES>,
    lane: usize,
}

impl<T: Cell<LANES>, const LANES: usize> FirstStep<T, LANES> {
    #[inline(always)]
    fn new(lane: usize) -> Self {
        let slots = SharedArray::<Slot<T, LANES>, { 2 * WARPS_TWICE * 32 }>::numbered::<0>();
        Self { slots: slots.as_mut_ptr(), lane }
    }

    /// The lane's slot of a row, in the half of the plane.
    #[inline(always)]
    fn at(&self, plane: isize, row: usize) -> *mut Slot<T, LANES> {
        // SAFETY: one of two halves, a row and a lane: inside the array.
        unsafe { self.slots.add(((plane & 1) as usize * WARPS_TWICE + row) * 32 + self.lane) }
    }

    /// The lane's cells of the rows above and below.
    ///
    /// # Safety
    /// There are such rows, and a barrier has come since they were written.
    #[inline(always)]
    unsafe fn beside(&self, plane: isize, row: usize) -> [[T; LANES]; 2] {
        // SAFETY: the caller's promise.
        unsafe { [self.at(plane, row - 1).read().cells, self.at(plane, row + 1).read().cells] }
    }
}

/// The cells to the left and to the right of a lane's: its neighbours' last and first. All lanes of the warp call it.
#[inline(always)]
fn sides<T: Cell<LANES>, const LANES: usize>(warp: Warp, cells: [T; LANES]) -> [T; 2] {
    [warp.shuffle_up(cells[LANES - 1], 1), warp.shuffle_down(cells[0], 1)]
}

/// Two steps of the seven-point stencil at once. Arguments as for [`stencil_volume`](fn@stencil_volume); each block makes
/// `planes` planes of [`ROWS_TWICE`] rows of [`strip_twice`] columns.
#[kernel((f32, 4), (f64, 2), block = (32, WARPS_TWICE), min_blocks = 2)]
pub fn stencil_volume_twice<T: Cell<LANES>, const LANES: usize>(
    cells: &[T],
    shape: [usize; 3],
    planes: usize,
    centre: T,
    weights: [T; 3],
    boundary: u32,
    mut out: DisjointSlice<T>,
) {
    let (volume, is_aligned) = volume_of(cells, &mut out, shape, boundary);
    let parts = [strip_twice(LANES), ROWS_TWICE, planes.max(1)];
    let Some(part) = Part::of_block(shape, parts) else { return };
    let warp = Warp::current();
    let (lane, warp_row) = (warp.thread_rank() as usize, thread::thread_idx_y() as usize);
    let first = (part.first[0] + lane * LANES) as isize - LANES as isize;
    let row = (part.first[1] + warp_row) as isize - 1;
    let is_inside = first >= 0 && first as usize + LANES <= volume.width;
    let own = Lane::<T, LANES, 1>::new(volume, first, row, is_inside && is_aligned);
    let weights = Weights { centre, x: weights[0], y: weights[1], z: weights[2] };
    let is_outer = lane == 0 || lane == 31 || warp_row == 0 || warp_row + 1 == WARPS_TWICE;
    let is_own = !is_outer && row < volume.height as isize;
    let slots = FirstStep::<T, LANES>::new(lane);

    let begin = part.first[2] as isize;
    let [mut before, mut here, mut behind] = [[T::ZERO; LANES]; 3];
    let [mut first_before, mut first_here] = [[T::ZERO; LANES]; 2];
    // The first rounds only load.
    let mut z = begin - 4;
    while z <= part.end as isize {
        // SAFETY: where a plane begins.
        let [ahead] = unsafe { own.own(own.plane(z + 2)) };
        // All threads of the block take the same branch: the numbers of planes are the same in all of them.
        if z < begin - 1 {
            (before, here, behind) = (here, behind, ahead);
            z += 1;
            continue;
        }
        // SAFETY: where a plane begins.
        let beside = unsafe { own.beside(own.plane(z)) };
        let near = Near { rows: [before, here, behind], beside, sides: sides(warp, here) };
        let first_behind = own.next(0, near, z, weights);

        let (sides, made) = (sides(warp, first_here), z - 1);
        if is_own && made >= begin {
            let rows = [first_before, first_here, first_behind];
            // SAFETY: there are warps above and below; they wrote before the last barrier, and write the other half now.
            let beside = unsafe { slots.beside(made, warp_row) };
            let next = own.next(0, Near { rows, beside, sides }, made, weights);
            // SAFETY: `out` has the volume's shape; the cells are this thread's alone.
            unsafe { own.store(out.as_mut_ptr(), made as usize, 0, next) };
        }
        // SAFETY: a slot of this thread alone, which others read last before the last barrier.
        unsafe { slots.at(z, warp_row).write(Slot { cells: first_behind }) };
        // The results are read by the warps above and below; those of the plane before have been.
        thread::sync_threads();
        (first_before, first_here) = (first_here, first_behind);
        (before, here, behind) = (here, behind, ahead);
        z += 1;
    }
}
