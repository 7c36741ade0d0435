//! The fast seven-point stencil: blocks stream through the planes, with what they need of the next planes in registers.
//!
//! A block owns [`ROWS`] rows of a strip of columns, a row a warp and a 16-byte vector a lane. Going from plane to plane, a
//! thread keeps its own cells of the planes before, here and behind in registers, and loads those of [`AHEAD`] planes further.
//! Neighbours in a row come from neighbour lanes, by shuffles; the rows above and below from memory, where the warps that own them
//! brought them into the cache a moment ago.
//!
//! [`stencil_volume_twice`](fn@stencil_volume_twice) makes two steps for the traffic of one: the second one's neighbours above and below are other
//! warps' results, which go through shared memory, with a barrier a plane.

use super::{Cell, FIXED, Weights, is_edge, place};
use cuda_std::prelude::*;

/// Rows of a block, each of them a warp.
pub const ROWS: usize = 16;
/// Planes that a thread loads ahead.
pub const AHEAD: usize = 2;

/// Columns of a block of one step, for vectors of `lanes` cells.
#[must_use]
pub const fn strip(lanes: usize) -> usize {
    32 * lanes
}

/// Columns of a block of two steps: its outer lanes only serve their neighbours.
#[must_use]
pub const fn strip_twice(lanes: usize) -> usize {
    30 * lanes
}

/// Rows of a block of two steps: its outer warps only serve their neighbours.
pub const ROWS_TWICE: usize = ROWS - 2;

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
        let (across, down) = (width.div_ceil(columns), height.div_ceil(rows));
        let block = thread::block_idx_x() as usize;
        let aside = thread::block_idx_y() | thread::block_idx_z();
        if across == 0 || down == 0 || aside != 0 {
            return None;
        }
        let (row, x) = (block / across, block % across);
        let (z, y) = (row / down, row % down);
        let first = [x * columns, y * rows, z.saturating_mul(planes)];
        let end = depth.min(first[2].saturating_add(planes));
        (first[2] < depth).then_some(Self { first, end })
    }
}

/// The vector of a thread: a lane's columns in one row, and the rows above and below.
struct Lane<T, const LANES: usize> {
    volume: Volume<T>,
    /// The first column, perhaps beyond an edge.
    first: isize,
    /// What lies in the columns: they, or what the boundary puts there.
    places: [u32; LANES],
    /// Where the row above, the own row and the one below begin in a plane.
    rows: [usize; 3],
    /// Whether the columns are one aligned vector of memory in every row.
    is_vector: bool,
    is_kept: [bool; LANES],
}

impl<T: Cell<LANES>, const LANES: usize> Lane<T, LANES> {
    /// The lane's columns from `first` on in row `row`, which may lie beyond an edge.
    #[inline(always)]
    fn new(volume: Volume<T>, first: isize, row: isize, is_aligned: bool) -> Self {
        let Volume { width, height, boundary, .. } = volume;
        let is_inside = first >= 0 && first as usize + LANES <= width;
        let row_is_kept = is_edge(row as usize, height);
        let kept = |k: usize| {
            boundary == FIXED && (row_is_kept || is_edge((first + k as isize) as usize, width))
        };
        let begin = |row| place(row, height, boundary) * width;
        Self {
            volume,
            first,
            places: core::array::from_fn(|k| place(first + k as isize, width, boundary) as u32),
            rows: [begin(row - 1), begin(row), begin(row + 1)],
            is_vector: is_inside && is_aligned,
            is_kept: core::array::from_fn(kept),
        }
    }

    /// Where a plane begins, which may lie beyond an edge.
    #[inline(always)]
    fn plane(&self, plane: isize) -> *const T {
        let Volume { cells, width, height, depth, boundary } = self.volume;
        // SAFETY: a plane of the volume, which is inside its memory.
        unsafe { cells.add(place(plane, depth, boundary) * (width * height)) }
    }

    /// The lane's cells in one of the three rows.
    ///
    /// # Safety
    /// `plane` is where a plane begins.
    #[inline(always)]
    unsafe fn load(&self, plane: *const T, row: usize) -> [T; LANES] {
        // SAFETY: a row of the plane.
        let row = unsafe { plane.add(self.rows[row]) };
        if self.is_vector {
            // SAFETY: the columns are inside the row, and aligned.
            return unsafe { T::load(row.offset(self.first)) };
        }
        // SAFETY: a place is below the width.
        self.places.map(|place| unsafe { row.add(place as usize).read() })
    }

    /// The cells a step further in time.
    #[inline(always)]
    fn next(
        &self,
        [before, centre, behind]: [[T; LANES]; 3],
        [above, below]: [[T; LANES]; 2],
        [left, right]: [T; 2],
        plane: isize,
        weights: Weights<T>,
    ) -> [T; LANES] {
        let plane_is_kept =
            self.volume.boundary == FIXED && is_edge(plane as usize, self.volume.depth);
        let mut next = [T::ZERO; LANES];
        for k in 0..LANES {
            let x = [
                if k == 0 { left } else { centre[k - 1] },
                if k + 1 == LANES { right } else { centre[k + 1] },
            ];
            let (y, z) = ([above[k], below[k]], [before[k], behind[k]]);
            let sum = weights.volume(centre[k], x, y, z);
            next[k] = if self.is_kept[k] | plane_is_kept { centre[k] } else { sum };
        }
        next
    }

    /// Stores the lane's cells of a plane, those that are inside.
    ///
    /// # Safety
    /// `out` leads to a volume of the same shape, of which nobody else accesses these cells.
    #[inline(always)]
    unsafe fn store(&self, out: *mut T, plane: usize, cells: [T; LANES]) {
        let Volume { width, height, .. } = self.volume;
        // SAFETY: a row of the volume.
        let row = unsafe { out.add(plane * (width * height) + self.rows[1]) };
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
/// the width is a multiple of `LANES` and both begin at a multiple of 16 bytes.
#[kernel((f32, 4), (f64, 2), block = (32, ROWS), min_blocks = 2)]
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
    let warp = Warp::current();
    let row = part.first[1] + thread::thread_idx_y() as usize;
    // The same for all lanes of a warp, and no barrier follows.
    if row >= volume.height {
        return;
    }
    let lane = warp.thread_rank() as usize;
    let first = (part.first[0] + lane * LANES) as isize;
    let own = Lane::new(volume, first, row as isize, is_aligned);
    let weights = Weights { centre, x: weights[0], y: weights[1], z: weights[2] };
    // What the shuffles do not bring, of the lanes at the ends.
    let outer = if lane == 0 { first - 1 } else { first + LANES as isize };
    let outer = own.rows[1] + place(outer, volume.width, boundary);

    let begin = part.first[2] as isize;
    let [mut before, mut here, mut behind, mut ahead] = [[T::ZERO; LANES]; 4];
    // The first rounds only load.
    let mut z = begin - 2 - AHEAD as isize;
    while z < part.end as isize {
        // SAFETY: where planes begin.
        let further = unsafe { own.load(own.plane(z + 1 + AHEAD as isize), 1) };
        if z < begin {
            (before, here, behind, ahead) = (here, behind, ahead, further);
            z += 1;
            continue;
        }
        let plane = own.plane(z);
        // SAFETY: where a plane begins; a cell of it.
        let (beside, edge) = unsafe {
            let edge = if lane == 0 || lane == 31 { plane.add(outer).read() } else { T::ZERO };
            ([own.load(plane, 0), own.load(plane, 2)], edge)
        };
        let left = warp.shuffle_up(here[LANES - 1], 1);
        let right = warp.shuffle_down(here[0], 1);
        let sides = [if lane == 0 { edge } else { left }, if lane == 31 { edge } else { right }];
        let next = own.next([before, here, behind], beside, sides, z, weights);
        // SAFETY: `out` has the volume's shape; the cells are this thread's alone.
        unsafe { own.store(out.as_mut_ptr(), z as usize, next) };
        (before, here, behind, ahead) = (here, behind, ahead, further);
        z += 1;
    }
}

/// Two steps of the seven-point stencil at once. Arguments as for [`stencil_volume`](fn@stencil_volume); each block makes
/// `planes` planes of [`ROWS_TWICE`] rows of [`strip_twice`] columns.
#[kernel((f32, 4), (f64, 2), block = (32, ROWS), min_blocks = 2)]
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
    let own = Lane::new(volume, first, row, is_aligned);
    let weights = Weights { centre, x: weights[0], y: weights[1], z: weights[2] };
    let is_outer = lane == 0 || lane == 31 || warp_row == 0 || warp_row + 1 == ROWS;
    let is_own = !is_outer && row < volume.height as isize;
    // The first step's results of this plane and of the one before.
    let shared = SharedArray::<Slot<T, LANES>, { 2 * ROWS * 32 }>::numbered::<0>().as_mut_ptr();
    let slot = |plane: isize, row: usize| {
        // SAFETY: one of two halves, a row and a lane: inside the array.
        unsafe { shared.add(((plane & 1) as usize * ROWS + row) * 32 + lane) }
    };

    let begin = part.first[2] as isize;
    let [mut before, mut here, mut behind] = [[T::ZERO; LANES]; 3];
    let [mut first_before, mut first_here] = [[T::ZERO; LANES]; 2];
    // The first rounds only load.
    let mut z = begin - 4;
    while z <= part.end as isize {
        // SAFETY: where a plane begins.
        let ahead = unsafe { own.load(own.plane(z + 2), 1) };
        // The same for all threads of the block, as is every number of planes.
        if z < begin - 1 {
            (before, here, behind) = (here, behind, ahead);
            z += 1;
            continue;
        }
        let plane = own.plane(z);
        // SAFETY: where a plane begins.
        let beside = unsafe { [own.load(plane, 0), own.load(plane, 2)] };
        let sides = [warp.shuffle_up(here[LANES - 1], 1), warp.shuffle_down(here[0], 1)];
        let first_behind = own.next([before, here, behind], beside, sides, z, weights);

        let sides =
            [warp.shuffle_up(first_here[LANES - 1], 1), warp.shuffle_down(first_here[0], 1)];
        let made = z - 1;
        if is_own && made >= begin {
            // SAFETY: the warp is none of the outer ones, so there is one above and one
            // below; they wrote before the last barrier and write the other half now.
            let beside = unsafe {
                [slot(made, warp_row - 1).read().cells, slot(made, warp_row + 1).read().cells]
            };
            let next =
                own.next([first_before, first_here, first_behind], beside, sides, made, weights);
            // SAFETY: `out` has the volume's shape; the cells are this thread's alone.
            unsafe { own.store(out.as_mut_ptr(), made as usize, next) };
        }
        // SAFETY: a slot of this thread alone, which others read last before the last barrier.
        unsafe { slot(z, warp_row).write(Slot { cells: first_behind }) };
        // The results are read by the warps above and below; those of the plane before have been.
        thread::sync_threads();
        (first_before, first_here) = (first_here, first_behind);
        (before, here, behind) = (here, behind, ahead);
        z += 1;
    }
}
