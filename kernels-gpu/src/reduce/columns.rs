//! A result for each column of a row-major matrix.
//!
//! A thread has up to four neighbouring columns, which one load of 16 bytes brings, in every so many rows; a block has a strip
//! of columns, 32 threads beside each other and eight rows of them, or fewer and longer rows where the matrix has few.
//! Shared memory joins the rows of threads, and the last block of a strip the parts of the others.

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::number::bf16;

use super::BLOCK;
use super::operator::{Extreme, Number, Operator, Ordered, Sum};
use super::partials::{Partials, Team, is_last, put};
use crate::dependent::let_next_start;
use crate::quads::{each, lane, load_part, per_quad};

/// Rows that a thread has under way.
pub const COLUMN_ROUND: usize = 4;
/// Columns of a thread, at most.
const MOST_LANES: usize = 4;
/// Rows that a thread has at least, if there are as many.
const LEAST_ROWS: u64 = 8;
/// Threads beside each other on a row, where rows are many.
const SEATS: u64 = 32;

/// Columns of a thread, for elements of `T`: 4, or as many as 16 bytes hold if these are fewer.
#[must_use]
pub const fn column_lanes<T>() -> usize {
    let lanes = per_quad::<T>();
    match lanes {
        0 => 1,
        1..MOST_LANES => lanes,
        _ => MOST_LANES,
    }
}

/// Blocks that strips without parts should be.
const WHOLE_STRIPS: u64 = 8 * 132;
/// Most blocks of strips with parts: those that run at a time, three on each of 132 multiprocessors. A few more would
/// have the memory for themselves at the end.
const BLOCKS: u64 = 3 * 132;

/// A matrix, and how blocks share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Shape {
    /// Rows.
    pub rows: u64,
    /// Columns.
    pub cols: u64,
    /// Threads of a block beside each other on a row.
    pub seats: u32,
    /// Blocks that share a strip of columns.
    pub parts: u32,
    /// Counters that the strips share.
    pub counters: u32,
    /// Columns of a thread.
    pub lanes: u32,
}

impl Shape {
    /// What suits a matrix whose threads have [`column_lanes`] columns each, with at most `counters` counters.
    #[must_use]
    pub const fn of(rows: u64, cols: u64, lanes: usize, counters: u32) -> Self {
        let lanes = lanes as u32;
        let mut shape = Self { rows, cols, seats: 1, parts: 1, counters: 1, lanes };
        if cols == 0 {
            return shape;
        }
        // Few rows, or columns enough for all blocks: the threads of a block lie along the rows.
        let (threads, needed) = (BLOCK as u64, cols.div_ceil(lanes as u64));
        let mut seats = SEATS;
        while seats < threads
            && (threads / seats * LEAST_ROWS > rows || needed / (2 * seats) >= WHOLE_STRIPS)
        {
            seats *= 2;
        }
        shape.seats = if needed < seats { needed as u32 } else { seats as u32 };
        let strips = shape.strips();
        let useful = rows / (shape.rows_at_once() as u64 * LEAST_ROWS);
        let wanted = BLOCKS / strips;
        let parts = if wanted < useful { wanted } else { useful };
        shape.counters = if strips < counters as u64 { strips as u32 } else { counters };
        shape.parts = if parts == 0 { 1 } else { parts as u32 };
        shape
    }

    /// Columns of a strip, which a block takes together.
    const fn strip(self) -> u64 {
        self.seats as u64 * self.lanes as u64
    }

    /// Strips of columns.
    const fn strips(self) -> u64 {
        self.cols.div_ceil(self.strip())
    }

    /// Rows that the threads of a block read together.
    const fn rows_at_once(self) -> usize {
        BLOCK as usize / self.seats as usize
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

/// The values of a thread's columns; those past [`column_lanes`] are none.
type Lanes<V> = [V; MOST_LANES];

/// The threads of a block on a matrix: rows of as many threads as a strip has seats.
#[derive(Clone, Copy)]
struct Seats {
    seats: usize,
    rows: usize,
    cols: usize,
    lanes: usize,
    /// Whether a thread's columns are neighbours, loaded at once; else they are `seats` apart.
    is_vector: bool,
}

/// Where a thread sits in a strip: its row, and the first of its columns.
#[derive(Clone, Copy)]
struct Seat {
    row: usize,
    column: usize,
}

impl Seats {
    /// The seat of a thread in a strip; those that are left over have none.
    #[inline(always)]
    fn of(self, thread: usize, strip: usize) -> Option<Seat> {
        let (row, seat) = (thread / self.seats, thread % self.seats);
        let first = strip * self.seats * self.lanes;
        let column = first + if self.is_vector { seat * self.lanes } else { seat };
        (row < self.rows && column < self.cols).then_some(Seat { row, column })
    }

    /// Calls `f` with each lane of a seat and its column.
    #[inline(always)]
    fn each_column<T>(self, seat: Seat, mut f: impl FnMut(usize, usize)) {
        let step = if self.is_vector { 1 } else { self.seats };
        each::<MOST_LANES>(|lane| {
            let column = seat.column + lane * step;
            if lane < const { column_lanes::<T>() } && column < self.cols {
                f(lane, column);
            }
        });
    }

    /// Joins the values of a strip's columns over the rows of threads: row 0 gets the results. All threads of
    /// the block call it.
    #[inline(always)]
    fn join<O: Operator>(
        self,
        block: &mut Team,
        operator: O,
        mut values: Lanes<O::Value>,
    ) -> Lanes<O::Value> {
        if self.rows == 1 {
            return values;
        }
        let slots =
            SharedArray::<O::Value, { BLOCK as usize * MOST_LANES }>::numbered::<0>().as_mut_ptr();
        let own = block.thread();
        // SAFETY: below the block's threads times the lanes.
        let slot =
            |lane: usize, thread: usize| unsafe { slots.add(lane * BLOCK as usize + thread) };
        let used = const { column_lanes::<O::Input>() };
        // What an earlier call wrote has been read.
        block.sync(());
        each::<MOST_LANES>(|lane| {
            if lane < used {
                // SAFETY: each thread has slots of its own.
                unsafe { slot(lane, own).write(values[lane]) };
            }
        });
        let mut rows = self.rows;
        while rows > 1 {
            let half = rows.div_ceil(2);
            // The values of the step before are there.
            block.sync(());
            if own / self.seats < rows - half {
                each::<MOST_LANES>(|lane| {
                    if lane < used {
                        // SAFETY: below `rows * seats`, at most the block; in this step rows below `half` are
                        // written and rows from `half` on are read.
                        let other = unsafe { slot(lane, own + half * self.seats).read() };
                        values[lane] = operator.join(values[lane], other);
                        // SAFETY: the own slot.
                        unsafe { slot(lane, own).write(values[lane]) };
                    }
                });
            }
            rows = half;
        }
        values
    }
}

/// What a thread joins of its columns: every `step`th of `rows` rows from `first` on, [`COLUMN_ROUND`] of them under way at
/// a time, each loaded by `load`.
#[inline(always)]
fn of_columns<O: Operator>(
    operator: O,
    rows: usize,
    (first, step): (usize, usize),
    load: impl Fn(usize) -> Lanes<O::Value>,
) -> Lanes<O::Value> {
    let mut values = [operator.identity(); MOST_LANES];
    let mut take = |loaded: Lanes<O::Value>| {
        each::<MOST_LANES>(|lane| {
            if lane < const { column_lanes::<O::Input>() } {
                values[lane] = operator.join(values[lane], loaded[lane]);
            }
        });
    };
    let mut row = first;
    while row + (COLUMN_ROUND - 1) * step < rows {
        let of = |k: usize| load(row + k * step);
        let loaded = [of(0), of(1), of(2), of(3)];
        each::<COLUMN_ROUND>(|k| take(loaded[k]));
        row += COLUMN_ROUND * step;
    }
    while row < rows {
        take(load(row));
        row += step;
    }
    values
}

/// Reduces each column of the row-major `x: [rows, cols]` into its element of `out: [cols]`; without rows it is the
/// operator's identity.
///
/// * All threads of all blocks call it once. Launch [`Shape::blocks`] blocks; the index says that the grid has
///   one dimension. Panics if `x` is shorter than the matrix, or the shape one of another type.
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
    let_next_start(x);
    let (rows, cols) = (shape.rows as usize, shape.cols as usize);
    let inside = rows.checked_mul(cols).is_some_and(|cells| cells <= x.len());
    assert!(inside, "the matrix is larger than its slice");
    let lanes = const { column_lanes::<O::Input>() };
    let fits = shape.lanes as usize == lanes && shape.seats > 0 && shape.seats <= BLOCK;
    assert!(fits, "the shape is one of another type");
    let (strips, parts) = (shape.strips() as usize, shape.parts as usize);
    let own = index.get() / BLOCK as usize;
    if own >= strips * parts {
        return;
    }
    let (strip, part) = (own % strips, own / strips);
    let vector_bytes = lanes * size_of::<O::Input>();
    let is_vector = cols.is_multiple_of(lanes)
        && const { matches!(column_lanes::<O::Input>() * size_of::<O::Input>(), 1 | 2 | 4 | 8 | 16) }
        && x.as_ptr().addr() & (vector_bytes.max(1) - 1) == 0;
    let (width, rows_at_once) = (shape.seats as usize, shape.rows_at_once());
    let seats = Seats { seats: width, rows: rows_at_once, cols, lanes, is_vector };

    let seat = seats.of(block.thread(), strip);
    let mut values = [operator.identity(); MOST_LANES];
    if let Some(seat) = seat {
        let dealt = (part * seats.rows + seat.row, parts * seats.rows);
        let from = x.as_ptr().wrapping_add(seat.column);
        values = if is_vector {
            of_columns(operator, rows, dealt, |row| {
                // SAFETY: inside, compared above; a whole vector, aligned as all rows are.
                let loaded = unsafe { load_part(from.add(row * cols).cast::<u8>(), vector_bytes) };
                core::array::from_fn(|k| operator.value(lane(loaded, k % lanes)))
            })
        } else {
            let last = cols - 1 - seat.column;
            of_columns(operator, rows, dealt, |row| {
                core::array::from_fn(|k| {
                    // SAFETY: inside: of columns past the end the last is loaded.
                    operator.value(unsafe { *from.add(row * cols + (k * width).min(last)) })
                })
            })
        };
    }
    let values = seats.join(block, operator, values);
    let put_all =
        |seat: Option<Seat>, values: Lanes<O::Value>, out: &mut DisjointSlice<O::Output>| {
            let Some(seat) = seat.filter(|seat| seat.row == 0) else { return };
            seats.each_column::<O::Input>(seat, |lane, column| {
                // SAFETY: one block finishes a strip, and one thread each of its columns.
                unsafe { put(out, column, operator.finish(values[lane])) };
            });
        };
    if parts == 1 {
        return put_all(seat, values, out);
    }

    let partials = Partials::new::<O::Value>(partials, shape.partials());
    if let Some(seat) = seat.filter(|seat| seat.row == 0) {
        seats.each_column::<O::Input>(seat, |lane, column| {
            // SAFETY: `part < parts` and `column < cols`.
            unsafe { partials.store(part * cols + column, values[lane]) };
        });
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
        let mut values = [operator.identity(); MOST_LANES];
        if let Some(seat) = seat {
            values = of_columns(operator, parts, (seat.row, seats.rows), |part| {
                let mut of_part = [operator.identity(); MOST_LANES];
                seats.each_column::<O::Input>(seat, |lane, column| {
                    // SAFETY: `part < parts` and `column < cols`.
                    of_part[lane] = unsafe { partials.load(part * cols + column) };
                });
                of_part
            });
        }
        let values = seats.join(block, operator, values);
        put_all(seat, values, out);
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
