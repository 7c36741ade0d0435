//! The fast five-point stencil: several steps in one pass over the memory, all of them in registers.
//!
//! A warp owns a strip of columns, a 16-byte vector of them a lane, and streams down a stretch of rows. Of each step it keeps
//! the last two rows; when a new row comes in, every step makes one row further up, from the three that are
//! now there, and the last step's row is stored. Neighbours in a row come from the neighbour lanes, by shuffles. Nothing is shared
//! between warps: the outer lanes of a strip and the outer rows of a stretch are computed by both neighbours.
//!
//! What each step buys over the plain form: 16-byte accesses, [`AHEAD`] rows in flight; each cell read about once a pass and not five
//! times; and `STEPS` steps for the traffic of one.

use super::{Cell, FIXED, Weights, is_edge, place};
use crate::prelude::*;

/// Threads in a block.
pub const BLOCK: usize = 128;
/// Rows that a warp has in flight.
pub const AHEAD: usize = 4;

/// Lanes at each side of a strip that only serve their neighbours.
#[must_use]
pub const fn halo_lanes(lanes: usize, steps: usize) -> usize {
    steps.div_ceil(lanes)
}

/// Columns of a strip, for vectors of `lanes` cells.
#[must_use]
pub const fn strip(lanes: usize, steps: usize) -> usize {
    (32 - 2 * halo_lanes(lanes, steps)) * lanes
}

/// The strip of columns of a lane: which of them it holds, and what it may do with them.
struct Columns<const LANES: usize> {
    /// The lane's first column, perhaps beyond an edge.
    first: isize,
    /// What lies in the lane's columns: they, or what the boundary puts there.
    places: [u32; LANES],
    width: usize,
    /// Whether the lane's columns are one aligned vector of memory in every row.
    is_vector: bool,
    /// Whether the lane's columns are the strip's own.
    is_own: bool,
    /// The columns that are fixed edges.
    is_kept: [bool; LANES],
}

impl<const LANES: usize> Columns<LANES> {
    /// The lane's cells of a row.
    ///
    /// # Safety
    /// `row` leads to the `width` cells of a row, to read; if `is_vector`, the lane's are aligned to 16 bytes.
    #[inline(always)]
    unsafe fn load<T: Cell<LANES>>(&self, row: *const T) -> [T; LANES] {
        if self.is_vector {
            // SAFETY: the columns are inside the row.
            return unsafe { T::load(row.offset(self.first)) };
        }
        // SAFETY: a place is below the width.
        self.places.map(|place| unsafe { row.add(place as usize).read() })
    }

    /// Stores the lane's cells of a row, those inside of the strip's own.
    ///
    /// # Safety
    /// As for [`load`](Self::load), to write; nobody else accesses the strip's own columns.
    #[inline(always)]
    unsafe fn store<T: Cell<LANES>>(&self, row: *mut T, cells: [T; LANES]) {
        if !self.is_own {
            return;
        }
        if self.is_vector {
            // SAFETY: the columns are inside the row, and the lane's own.
            return unsafe { T::store(row.offset(self.first), cells) };
        }
        for (k, cell) in cells.iter().enumerate() {
            let column = self.first as usize + k;
            if column < self.width {
                // SAFETY: inside the row, and the lane's own.
                unsafe { row.add(column).write(*cell) };
            }
        }
    }
}

/// A row further in time: of three rows and the columns' rule.
#[inline(always)]
fn next_row<T: Cell<LANES>, const LANES: usize>(
    warp: Warp,
    rows: [[T; LANES]; 3],
    weights: Weights<T>,
    is_kept: [bool; LANES],
    row_is_kept: bool,
) -> [T; LANES] {
    let [above, centre, below] = rows;
    let before = warp.shuffle_up(centre[LANES - 1], 1);
    let behind = warp.shuffle_down(centre[0], 1);
    let mut next = [T::ZERO; LANES];
    for k in 0..LANES {
        let left = if k == 0 { before } else { centre[k - 1] };
        let right = if k + 1 == LANES { behind } else { centre[k + 1] };
        let sum = weights.plane(centre[k], [left, right], [above[k], below[k]]);
        next[k] = if is_kept[k] | row_is_kept { centre[k] } else { sum };
    }
    next
}

/// All steps of a warp's rows: the last two rows of each step.
struct Steps<T, const LANES: usize, const STEPS: usize> {
    above: [[T; LANES]; STEPS],
    below: [[T; LANES]; STEPS],
    warp: Warp,
    columns: Columns<LANES>,
    weights: Weights<T>,
    /// The number of rows if the first and the last are kept, else 0.
    kept_rows: usize,
    /// The warp's own rows, and where the grid's result begins.
    top: isize,
    bottom: isize,
    out: *mut T,
}

impl<T: Cell<LANES>, const LANES: usize, const STEPS: usize> Steps<T, LANES, STEPS> {
    /// Takes row `i` of the cells, and stores row `i - STEPS` of the last step, if it is one of the warp's own.
    ///
    /// # Safety
    /// The own rows are rows of the grid at `out`, of which nobody else accesses the strip's own columns, and which are
    /// aligned to 16 bytes if the columns are a vector.
    #[inline(always)]
    unsafe fn take(&mut self, i: isize, row: [T; LANES]) {
        let mut row = row;
        for step in 0..STEPS {
            // The row that this step makes; beyond an edge it is none, or one that nobody needs.
            let made = (i - step as isize - 1) as usize;
            let row_is_kept = self.kept_rows > 0 && is_edge(made, self.kept_rows);
            let three = [self.above[step], self.below[step], row];
            let next = next_row(self.warp, three, self.weights, self.columns.is_kept, row_is_kept);
            (self.above[step], self.below[step]) = (self.below[step], row);
            row = next;
        }
        let made = i - STEPS as isize;
        if made >= self.top && made < self.bottom {
            // SAFETY: an own row, by the caller's promise.
            unsafe { self.columns.store(self.out.add(made as usize * self.columns.width), row) };
        }
    }
}

/// The fast form: `STEPS` steps of the five-point stencil. `cells: [height, width]`, `out` likewise.
///
/// Each warp makes `rows` rows of a [`strip`]; launch as many warps as there are. Best if the width is a multiple of
/// `LANES` and both begin at a multiple of 16 bytes.
#[kernel(
    (f32, 4, 1), (f32, 4, 2), (f32, 4, 4), (f64, 2, 1), (f64, 2, 2), (f64, 2, 4),
    block = BLOCK
)]
pub fn stencil_plane<T: Cell<LANES>, const LANES: usize, const STEPS: usize>(
    cells: &[T],
    shape: [usize; 2],
    rows: usize,
    centre: T,
    weights: [T; 2],
    boundary: u32,
    mut out: DisjointSlice<T>,
) {
    let [height, width] = shape;
    let n = height.saturating_mul(width);
    assert!(n <= cells.len() && n <= out.len(), "the grid is larger than its memory");
    assert!(u32::try_from(width).is_ok(), "a row has 2^32 cells or more");
    let warp = Warp::current();
    let (strips, rows) = (width.div_ceil(strip(LANES, STEPS)), rows.max(1));
    let number =
        thread::block_idx_x() as usize * (BLOCK / 32) + thread::thread_idx_x() as usize / 32;
    // `|`, not `||`: one branch. All lanes of a warp take the same.
    let aside = thread::block_idx_y() | thread::block_idx_z();
    if (strips == 0) | (aside != 0) || number / strips >= height.div_ceil(rows) {
        return;
    }
    let (stretch, number) = (number / strips, number % strips);
    let top = stretch * rows;
    let bottom = height.min(top.saturating_add(rows));
    let weights = Weights { centre, x: weights[0], y: weights[1], z: T::ZERO };

    let lane = warp.thread_rank() as usize;
    let halo = halo_lanes(LANES, STEPS);
    let first = (number * strip(LANES, STEPS) + lane * LANES) as isize - (halo * LANES) as isize;
    let is_inside = first >= 0 && first as usize + LANES <= width;
    let ends = cells.as_ptr().addr() | out.as_mut_ptr().addr();
    let is_aligned = ends.is_multiple_of(16) && width.is_multiple_of(LANES);
    let kept = |k: usize| boundary == FIXED && is_edge((first + k as isize) as usize, width);
    let columns = Columns::<LANES> {
        first,
        places: core::array::from_fn(|k| place(first + k as isize, width, boundary) as u32),
        width,
        is_vector: is_inside && is_aligned,
        is_own: lane >= halo && lane < 32 - halo,
        is_kept: core::array::from_fn(kept),
    };
    let mut steps = Steps::<T, LANES, STEPS> {
        above: [[T::ZERO; LANES]; STEPS],
        below: [[T::ZERO; LANES]; STEPS],
        warp,
        columns,
        weights,
        kept_rows: if boundary == FIXED { height } else { 0 },
        top: top as isize,
        bottom: bottom as isize,
        out: out.as_mut_ptr(),
    };
    let load = |columns: &Columns<LANES>, row: isize| {
        let row = place(row, height, boundary);
        // SAFETY: a row of the grid, which is inside, and whose vectors are aligned if all rows' are.
        unsafe { columns.load(cells.as_ptr().add(row * width)) }
    };
    let end = (bottom + STEPS) as isize;
    // The first round only loads: what it makes of nothing is not stored.
    let mut i = top as isize - (STEPS + AHEAD) as isize;
    let mut ahead = [[T::ZERO; LANES]; AHEAD];
    while i < end {
        let [a, b, c, d] = ahead;
        if i + (AHEAD as isize) < end {
            let columns = &steps.columns;
            let (a, b) = (load(columns, i + 4), load(columns, i + 5));
            let (c, d) = (load(columns, i + 6), load(columns, i + 7));
            ahead = [a, b, c, d];
        }
        // SAFETY: the rows from `top` to `bottom` are inside the grid and this warp's own, as are the strip's columns.
        unsafe {
            steps.take(i, a);
            steps.take(i + 1, b);
            steps.take(i + 2, c);
            steps.take(i + 3, d);
        }
        i += AHEAD as isize;
    }
}
