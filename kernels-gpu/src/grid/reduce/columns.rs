//! A result for each column of a row-major matrix.

use bytemuck::{Pod, Zeroable};
use cuda_std::block::Item;
use cuda_std::dependent;
use cuda_std::number::bf16;
use cuda_std::prelude::*;

use super::operator::{Extreme, Number, Operator, Ordered, Sum};
use super::partials::{Partials, Team, is_last, put};
use super::{BLOCK, MAX_BLOCKS};
use crate::thread::words::each;

/// Columns of a strip, which a block takes together: a warp reads that many neighbours of a row.
const STRIP: u64 = 32;
/// Rows that a thread has under way.
pub const COLUMN_ROUND: usize = 8;

/// A matrix, and how blocks share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Shape {
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
    /// Blocks that share a strip.
    pub parts: u32,
    /// Counters that the strips share.
    pub counters: u32,
}

impl Shape {
    /// What suits a matrix, with at most `counters` counters.
    #[must_use]
    pub const fn of(rows: u64, cols: u64, counters: u32) -> Self {
        let shape = Self { rows, cols, parts: 1, counters: 1 };
        let strips = shape.strips();
        if strips == 0 {
            return shape;
        }
        let a_round = shape.rows_at_once() as u64 * COLUMN_ROUND as u64;
        // A thread has few bytes in flight here, so that a multiprocessor needs all its threads.
        let (wanted, useful) = (2 * MAX_BLOCKS as u64 / strips, rows / a_round);
        let parts = if wanted < useful { wanted } else { useful };
        let counters = if strips < counters as u64 { strips as u32 } else { counters };
        Self { parts: if parts == 0 { 1 } else { parts as u32 }, counters, ..shape }
    }

    /// Strips of columns.
    const fn strips(self) -> u64 {
        self.cols.div_ceil(STRIP)
    }

    /// Columns of a strip.
    const fn strip(self) -> usize {
        if self.cols < STRIP { self.cols as usize } else { STRIP as usize }
    }

    /// Rows that the threads of a block read together.
    const fn rows_at_once(self) -> usize {
        if self.cols == 0 { 1 } else { BLOCK as usize / self.strip() }
    }

    /// Blocks to launch.
    #[must_use]
    pub const fn blocks(self) -> u64 {
        self.strips() * self.parts as u64
    }

    /// Partial values that the blocks hand over.
    #[must_use]
    pub const fn partials(self) -> usize {
        if self.parts == 1 { 0 } else { self.parts as usize * self.cols as usize }
    }
}

/// The threads of a block on a strip: rows of as many threads as the strip has columns.
#[derive(Clone, Copy)]
struct Seats {
    width: usize,
    rows: usize,
    cols: usize,
}

impl Seats {
    /// Row and column of a thread in a strip; those that are left over have none.
    #[inline(always)]
    fn of(self, thread: usize, strip: usize) -> Option<(usize, usize)> {
        let (row, column) = (thread / self.width, strip * STRIP as usize + thread % self.width);
        (row < self.rows && column < self.cols).then_some((row, column))
    }

    /// Joins the values of a strip's columns over the rows of threads: row 0 gets the results. All threads of
    /// the block call it.
    #[inline(always)]
    fn join<V: Item>(self, block: &mut Team, mut value: V, join: impl Fn(V, V) -> V) -> V {
        let slots = SharedArray::<V, { BLOCK as usize }>::numbered::<0>().as_mut_ptr();
        let own = block.thread();
        // What an earlier call wrote has been read.
        block.sync(());
        // SAFETY: each thread has a slot of its own.
        unsafe { slots.add(own).write(value) };
        let mut rows = self.rows;
        while rows > 1 {
            let half = rows.div_ceil(2);
            // The values of the step before are there.
            block.sync(());
            if own / self.width < rows - half {
                // SAFETY: below `rows * width`, at most the block; in this step rows below `half` are written
                // and rows from `half` on are read.
                value = join(value, unsafe { slots.add(own + half * self.width).read() });
                // SAFETY: the own slot.
                unsafe { slots.add(own).write(value) };
            }
            rows = half;
        }
        value
    }
}

/// What the thread in `row` of `seats` joins of a column: every `step`th row from `first` on, [`COLUMN_ROUND`] loads under
/// way at a time.
///
/// # Safety
/// `x` has `rows * cols` elements, and `column < cols`.
#[inline(always)]
unsafe fn of_column<O: Operator>(
    operator: O,
    x: &[O::Input],
    (rows, cols): (usize, usize),
    (first, step): (usize, usize),
    column: usize,
) -> O::Value {
    let mut value = operator.identity();
    let mut row = first;
    while row < rows {
        // SAFETY: row and column are inside; of rows past the end the last one is loaded.
        let of =
            |k: usize| unsafe { *x.get_unchecked((row + k * step).min(rows - 1) * cols + column) };
        let loaded = [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)];
        each::<COLUMN_ROUND>(|k| {
            if row + k * step < rows {
                value = operator.join(value, operator.value(loaded[k]));
            }
        });
        row += COLUMN_ROUND * step;
    }
    value
}

/// Reduces each column of the row-major `x: [rows, cols]` into its element of `out: [cols]`; without rows it is the
/// operator's identity.
///
/// * All threads of all blocks call it once. Launch [`Shape::blocks`] blocks; the index says that the grid has
///   one dimension. Panics if `x` is shorter than the matrix.
/// * Scratch: words for [`Shape::partials`] values, and [`Shape::counters`] counters, 0 before and afterwards.
/// * Order: fixed by `shape`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn columns<O: Operator>(
    block: &mut Team,
    index: ThreadIndex,
    operator: O,
    shape: Shape,
    x: &[O::Input],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: &mut DisjointSlice<O::Output>,
) {
    // As for a whole array.
    dependent::let_next_start();
    let (rows, cols) = (shape.rows as usize, shape.cols as usize);
    let inside = rows.checked_mul(cols).is_some_and(|cells| cells <= x.len());
    assert!(inside, "the matrix is larger than its slice");
    let (strips, parts) = (shape.strips() as usize, shape.parts as usize);
    let own = index.get() / BLOCK as usize;
    if own >= strips * parts {
        return;
    }
    let (strip, part) = (own % strips, own / strips);
    let seats = Seats { width: shape.strip(), rows: shape.rows_at_once(), cols };
    let join = |a, b| operator.join(a, b);

    let seat = seats.of(block.thread(), strip);
    let value = seat.map_or(operator.identity(), |(row, column)| {
        let dealt = (part * seats.rows + row, parts * seats.rows);
        // SAFETY: compared above.
        unsafe { of_column(operator, x, (rows, cols), dealt, column) }
    });
    let value = seats.join(block, value, join);
    if parts == 1 {
        if let Some((0, column)) = seat {
            // SAFETY: the block's own strip, and one thread for each of its columns.
            unsafe { put(out, column, operator.finish(value)) };
        }
        return;
    }

    let partials = Partials::new::<O::Value>(partials, shape.partials());
    if let Some((0, column)) = seat {
        // SAFETY: `part < parts` and `column < cols`.
        unsafe { partials.store(part * cols + column, value) };
    }
    // The whole block has written before thread 0 counts.
    block.sync(());
    let counter = strip % shape.counters as usize;
    let sharing = (strips - counter).div_ceil(shape.counters as usize) * parts;
    if !is_last(block, finished, counter, sharing as u32) {
        return;
    }
    let mut strip = counter;
    while strip < strips {
        let seat = seats.of(block.thread(), strip);
        let mut value = operator.identity();
        if let Some((row, column)) = seat {
            let mut part = row;
            while part < parts {
                // SAFETY: `part < parts` and `column < cols`.
                value = join(value, unsafe { partials.load(part * cols + column) });
                part += seats.rows;
            }
        }
        let value = seats.join(block, value, join);
        if let Some((0, column)) = seat {
            // SAFETY: one block finishes the strip, and one thread for each of its columns.
            unsafe { put(out, column, operator.finish(value)) };
        }
        strip += shape.counters as usize;
    }
}

/// Sums of the columns of `x: [rows, cols]` into `out: [cols]`: see [`columns`].
#[kernel(f32, i32, f64, f16, bf16, dependent)]
pub fn column_sum<T: Number>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    shape: Shape,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<<T as Number>::Wide>,
) {
    columns(&mut block, index, Sum::<T>::new(), shape, x, partials, finished, &mut out);
}

/// Extremes of the columns of `x: [rows, cols]` into `out: [cols]`: see [`columns`] and [`Ordered`].
#[kernel(f32, u32, dependent)]
pub fn column_extreme<T: Ordered>(
    mut block: Block<{ BLOCK as usize }>,
    index: ThreadIndex,
    flip: <T as Ordered>::Flip,
    shape: Shape,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<T>,
) {
    columns(&mut block, index, Extreme::<T> { flip }, shape, x, partials, finished, &mut out);
}
