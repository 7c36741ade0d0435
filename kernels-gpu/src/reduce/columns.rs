//! A result for each column of a row-major matrix.
//!
//! A block takes a strip of columns. Its threads form a grid of rows and columns: 8 rows of 32 threads, or fewer and longer rows
//! where the matrix has few rows. Each thread has up to four neighbouring columns, which it loads by one instruction, and
//! steps down the matrix. Shared memory joins the rows of threads, and the last block of a strip joins what the other blocks of
//! the strip have handed over.

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::number::bf16;
use cuda_std::unroll::each;

use super::BLOCK;
use super::operator::{Extreme, Number, Operator, Ordered, Sum};
use super::partials::{Partials, ReductionBlock, is_last, put};
use crate::dependent::let_next_start;
use crate::quads::{lane, load_part, per_quad};

/// Rows that a thread loads before it uses the first.
pub const COLUMN_ROUND: usize = 4;
/// Columns of a thread, at most.
const MOST_LANES: usize = 4;
/// Rows that a thread has at least, if there are as many.
const LEAST_ROWS: u64 = 8;
/// Threads side by side, where the matrix has many rows.
const WIDTH: u64 = 32;

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
    /// Threads of a block side by side.
    pub width: u32,
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
        let mut shape = Self { rows, cols, width: 1, parts: 1, counters: 1, lanes };
        if cols == 0 {
            return shape;
        }
        // Few rows, or columns enough for all blocks: fewer rows of threads, and longer ones.
        let (threads, needed) = (BLOCK as u64, cols.div_ceil(lanes as u64));
        let mut width = WIDTH;
        while width < threads
            && (threads / width * LEAST_ROWS > rows || needed / (2 * width) >= WHOLE_STRIPS)
        {
            width *= 2;
        }
        shape.width = if needed < width { needed as u32 } else { width as u32 };
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
        self.width as u64 * self.lanes as u64
    }

    /// Strips of columns.
    const fn strips(self) -> u64 {
        self.cols.div_ceil(self.strip())
    }

    /// Rows that the threads of a block read together.
    const fn rows_at_once(self) -> usize {
        BLOCK as usize / self.width as usize
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

/// The threads of a block: `rows` rows of `width` threads, which step down a strip of the matrix's columns together.
#[derive(Clone, Copy)]
struct ThreadGrid {
    width: usize,
    rows: usize,
    cols: usize,
    lanes: usize,
    /// Whether a thread's columns are neighbours, loaded at once; else they are `width` apart.
    is_vector: bool,
}

/// A thread of a strip: its row of threads, and the first of its columns.
#[derive(Clone, Copy)]
struct Position {
    row: usize,
    column: usize,
}

impl ThreadGrid {
    /// For a matrix at `x`. Panics if the matrix is larger than `x`, or the shape is one of another type.
    #[inline(always)]
    fn new<T: Pod>(shape: Shape, x: &[T]) -> Self {
        let (rows, cols) = (shape.rows as usize, shape.cols as usize);
        let inside = rows.checked_mul(cols).is_some_and(|cells| cells <= x.len());
        assert!(inside, "the matrix is larger than its slice");
        let lanes = const { column_lanes::<T>() };
        let fits = shape.lanes as usize == lanes && shape.width > 0 && shape.width <= BLOCK;
        assert!(fits, "the shape is one of another type");
        let vector_bytes = lanes * size_of::<T>();
        let is_vector = cols.is_multiple_of(lanes)
            && const { matches!(column_lanes::<T>() * size_of::<T>(), 1 | 2 | 4 | 8 | 16) }
            && x.as_ptr().addr() & (vector_bytes.max(1) - 1) == 0;
        let (width, rows) = (shape.width as usize, shape.rows_at_once());
        Self { width, rows, cols, lanes, is_vector }
    }

    /// Where a thread is in a strip; threads that are left over have no columns.
    #[inline(always)]
    fn position(self, thread: usize, strip: usize) -> Option<Position> {
        let (row, across) = (thread / self.width, thread % self.width);
        let first = strip * self.width * self.lanes;
        let column = first + if self.is_vector { across * self.lanes } else { across };
        (row < self.rows && column < self.cols).then_some(Position { row, column })
    }

    /// Calls `f` with each lane of a thread and its column.
    #[inline(always)]
    fn each_column<T>(self, position: Position, mut f: impl FnMut(usize, usize)) {
        let step = if self.is_vector { 1 } else { self.width };
        each::<MOST_LANES>(|lane| {
            let column = position.column + lane * step;
            if lane < const { column_lanes::<T>() } && column < self.cols {
                f(lane, column);
            }
        });
    }

    /// Joins the values of a strip's columns over the rows of threads: the first row gets the results. All threads of
    /// the block call it.
    #[inline(always)]
    fn join<O: Operator>(
        self,
        block: &mut ReductionBlock,
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
            if own / self.width < rows - half {
                each::<MOST_LANES>(|lane| {
                    if lane < used {
                        // SAFETY: below `rows * width`, at most the block; in this step rows below `half` are
                        // written and rows from `half` on are read.
                        let other = unsafe { slot(lane, own + half * self.width).read() };
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

    /// What a thread of part `part` of `parts` joins of its columns of the matrix `x`.
    ///
    /// # Safety
    /// `x` leads to the matrix.
    #[inline(always)]
    unsafe fn reduce_part<O: Operator>(
        self,
        operator: O,
        position: Position,
        rows: usize,
        (part, parts): (usize, usize),
        x: *const O::Input,
    ) -> Lanes<O::Value> {
        let stepped = (part * self.rows + position.row, parts * self.rows);
        let from = x.wrapping_add(position.column);
        if self.is_vector {
            return of_columns(operator, rows, stepped, |row| {
                let vector_bytes = self.lanes * size_of::<O::Input>();
                // SAFETY: inside the matrix; a whole vector, aligned as those of all rows are.
                let loaded =
                    unsafe { load_part(from.add(row * self.cols).cast::<u8>(), vector_bytes) };
                core::array::from_fn(|k| operator.value(lane(loaded, k % self.lanes)))
            });
        }
        let last = self.cols - 1 - position.column;
        of_columns(operator, rows, stepped, |row| {
            core::array::from_fn(|k| {
                // SAFETY: inside the matrix: of columns past the end the last is loaded.
                operator.value(unsafe { *from.add(row * self.cols + (k * self.width).min(last)) })
            })
        })
    }

    /// Writes the results of a strip's columns: those of the first row of threads.
    ///
    /// # Safety
    /// No other block finishes the strip.
    #[inline(always)]
    unsafe fn write<O: Operator>(
        self,
        operator: O,
        position: Option<Position>,
        values: Lanes<O::Value>,
        out: &mut DisjointSlice<O::Output>,
    ) {
        let Some(position) = position.filter(|position| position.row == 0) else { return };
        self.each_column::<O::Input>(position, |lane, column| {
            // SAFETY: one block finishes a strip, and one thread each of its columns.
            unsafe { put(out, column, operator.finish(values[lane])) };
        });
    }

    /// Stores the results of a strip's columns as partial values of part `part`.
    ///
    /// # Safety
    /// `partials` has room for the values of all columns of more than `part` parts.
    #[inline(always)]
    unsafe fn store<O: Operator>(
        self,
        position: Option<Position>,
        values: Lanes<O::Value>,
        part: usize,
        partials: Partials,
    ) {
        let Some(position) = position.filter(|position| position.row == 0) else { return };
        self.each_column::<O::Input>(position, |lane, column| {
            // SAFETY: `column < cols`, and the caller's promise.
            unsafe { partials.store(part * self.cols + column, values[lane]) };
        });
    }

    /// Joins the `parts` partial values of each of a thread's columns.
    ///
    /// # Safety
    /// As [`store`](Self::store); the values of all parts are there.
    #[inline(always)]
    unsafe fn reduce_partials<O: Operator>(
        self,
        operator: O,
        position: Position,
        parts: usize,
        partials: Partials,
    ) -> Lanes<O::Value> {
        of_columns(operator, parts, (position.row, self.rows), |part| {
            let mut of_part = [operator.identity(); MOST_LANES];
            self.each_column::<O::Input>(position, |lane, column| {
                // SAFETY: `part < parts` and `column < cols`.
                of_part[lane] = unsafe { partials.load(part * self.cols + column) };
            });
            of_part
        })
    }
}

/// What a thread joins of its columns: every `step`th of `rows` rows from `first` on, each loaded by `load`,
/// [`COLUMN_ROUND`] of them before the first is used.
#[inline(always)]
fn of_columns<O: Operator>(
    operator: O,
    rows: usize,
    (first, step): (usize, usize),
    load: impl Fn(usize) -> Lanes<O::Value>,
) -> Lanes<O::Value> {
    let mut values = [operator.identity(); MOST_LANES];
    let mut fold = |loaded: Lanes<O::Value>| {
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
        each::<COLUMN_ROUND>(|k| fold(loaded[k]));
        row += COLUMN_ROUND * step;
    }
    while row < rows {
        fold(load(row));
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
    block: &mut ReductionBlock,
    index: ThreadIndex,
    operator: O,
    shape: Shape,
    x: &[O::Input],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    out: &mut DisjointSlice<O::Output>,
) {
    let_next_start(x);
    let grid = ThreadGrid::new(shape, x);
    let (strips, parts) = (shape.strips() as usize, shape.parts as usize);
    let own = index.get() / BLOCK as usize;
    if own >= strips * parts {
        return;
    }
    let (strip, part) = (own % strips, own / strips);
    let position = grid.position(block.thread(), strip);
    let mut values = [operator.identity(); MOST_LANES];
    if let Some(position) = position {
        let rows = shape.rows as usize;
        // SAFETY: `x` holds the matrix.
        values = unsafe { grid.reduce_part(operator, position, rows, (part, parts), x.as_ptr()) };
    }
    let values = grid.join(block, operator, values);
    if parts == 1 {
        // SAFETY: no other block has the strip.
        return unsafe { grid.write(operator, position, values, out) };
    }

    let partials = Partials::new::<O::Value>(partials, shape.partials());
    // SAFETY: `part < parts`.
    unsafe { grid.store::<O>(position, values, part, partials) };
    // The whole block has written before thread 0 counts.
    block.sync(());
    let counter = strip % shape.counters as usize;
    let sharing = (strips - counter).div_ceil(shape.counters as usize) * parts;
    if !is_last(block, finished, counter, sharing as u32) {
        return;
    }
    let mut strip = counter;
    while strip < strips {
        let position = grid.position(block.thread(), strip);
        let mut values = [operator.identity(); MOST_LANES];
        if let Some(position) = position {
            // SAFETY: the blocks of all parts have counted.
            values = unsafe { grid.reduce_partials(operator, position, parts, partials) };
        }
        let values = grid.join(block, operator, values);
        // SAFETY: the last block alone finishes the strips of its counter.
        unsafe { grid.write(operator, position, values, out) };
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
    mask: <T as Ordered>::Mask,
    shape: Shape,
    x: &[T],
    partials: AtomicSlice<u32>,
    finished: AtomicSlice<u32>,
    mut out: DisjointSlice<T>,
) {
    columns(&mut block, index, Extreme::<T> { mask }, shape, x, partials, finished, &mut out);
}
