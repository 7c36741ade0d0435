//! A sparse matrix times a vector: `y = A x`.
//!
//! The matrix is in compressed rows (CSR): `offsets: [rows + 1]` says where each row begins and ends among
//! `columns: [entries]` and `values: [entries]`.
//!
//! * [`spmv_plain`](struct@spmv_plain): a thread for each row. Neighbouring threads read far from one another, and a long row
//!   keeps the others of its warp waiting.
//! * [`spmv_rows`](struct@spmv_rows): a few lanes for each row, as many as an ordinary row has entries. They read side by side.
//! * [`spmv_tiles`](struct@spmv_tiles): every block has the same amount of work, a *tile*, however long the rows are. It reads the
//!   tile's entries line by line, without a look at the rows; their products go to shared memory, where the rows are
//!   summed. Where tiles begin, [`spmv_splits`](fn@spmv_splits) has found once for the matrix: on a [`merge_path`] of the rows' ends and
//!   the entries' numbers (D. Merrill and M. Garland, "Merge-based Parallel Sparse Matrix-Vector Multiplication",
//!   2016), moved on to the row's end where that is near. What a tile has of a longer row, which ends in a later
//!   tile, [`spmv_carry`](struct@spmv_carry) adds.
//!
//! That products go to shared memory first is "CSR-stream" of J. Greathouse and M. Daga, "Efficient Sparse
//! Matrix-Vector Multiplication on GPUs using the CSR Storage Format", 2014.

use crate::prelude::*;
use cuda_std::access::{self, ReadOnlyHint};
use cuda_std::atomic::AtomicElement;
use cuda_std::dependent;
use cuda_std::vector::Vec2;
use cuda_std::warp::{Lanes, Number, TileSize};

use crate::merge::path::merge_path;
use cuda_std::unroll::build;

/// Threads in a block of [`spmv_rows`](struct@spmv_rows) and of [`spmv_carry`](struct@spmv_carry).
pub const BLOCK: usize = 256;
/// Threads in a block of [`spmv_tiles`](struct@spmv_tiles).
const TILE_BLOCK: usize = 128;
/// Entries of a tile for each of its threads.
const ENTRIES_PER_THREAD: usize = 16;
/// Entries of which a block holds the products.
const PRODUCTS: usize = TILE_BLOCK * ENTRIES_PER_THREAD;
/// Column numbers in a cache line of 128 bytes.
const CACHE_LINE_ENTRIES: u32 = 32;
/// Most entries that a tile takes beyond its own share to finish a row. A row that is no longer than this is never in two tiles.
pub const MAX_ROW_TAIL: usize = 124;
/// Rows' ends and entries, together, that a block takes. Its first entry need not begin a line.
pub const TILE: usize = PRODUCTS - MAX_ROW_TAIL - CACHE_LINE_ENTRIES as usize;
/// Most entries that a lane adds of a row of mean length.
const MAX_ENTRIES_PER_LANE: u32 = 32;

/// Registers of a thread: a multiprocessor then holds ten blocks, or seven where a value takes two registers.
const fn registers<T>() -> u32 {
    if size_of::<T>() < 8 { 48 } else { 72 }
}

/// What a matrix is made of.
pub trait Value: Number + AtomicElement + access::Access + Into<f64> + Send + Sync {
    /// `self * x + sum`, rounded once.
    fn times_plus(self, x: Self, sum: Self) -> Self;
    /// `self * x`, rounded.
    fn times(self, x: Self) -> Self;
    /// The nearest one.
    fn rounded(sum: f64) -> Self;
}

impl Value for f32 {
    #[inline(always)]
    fn times_plus(self, x: Self, sum: Self) -> Self {
        self.mul_add(x, sum)
    }

    #[inline(always)]
    fn times(self, x: Self) -> Self {
        self * x
    }

    #[inline(always)]
    fn rounded(sum: f64) -> Self {
        sum as f32
    }
}

impl Value for f64 {
    #[inline(always)]
    fn times_plus(self, x: Self, sum: Self) -> Self {
        self.mul_add(x, sum)
    }

    #[inline(always)]
    fn times(self, x: Self) -> Self {
        self * x
    }

    #[inline(always)]
    fn rounded(sum: f64) -> Self {
        sum
    }
}

/// The plain form. `y: [rows]`. Sums go from a row's first entry to its last.
///
/// A column past the end of `x` counts as a zero.
#[kernel(f32, f64)]
pub fn spmv_plain<T: Value>(
    index: ThreadIndex,
    offsets: &[u32],
    columns: &[u32],
    values: &[T],
    x: &[T],
    mut y: DisjointSlice<T>,
) {
    let (Some(&start), Some(&end)) = (offsets.get(index.get()), offsets.get(index.get() + 1))
    else {
        return;
    };
    let mut sum = T::zeroed();
    for entry in start as usize..end as usize {
        sum = add_entry(sum, entry, columns, values, x);
    }
    if let Some(y) = y.get_mut(index) {
        *y = sum;
    }
}

/// `sum` and the product of an entry.
#[inline(always)]
fn add_entry<T: Value>(sum: T, entry: usize, columns: &[u32], values: &[T], x: &[T]) -> T {
    let (Some(&column), Some(&value)) = (columns.get(entry), values.get(entry)) else { return sum };
    x.get(column as usize).map_or(sum, |&x| value.times_plus(x, sum))
}

/// `LANES` lanes for each row: a lane adds every `LANES`th entry, and the lanes' sums are joined as a tree.
#[kernel((f32, 4), (f32, 8), (f32, 16), (f32, 32), (f64, 4), (f64, 8), (f64, 16), (f64, 32))]
pub fn spmv_rows<T: Value, const LANES: u32>(
    block: Block<BLOCK>,
    offsets: &[u32],
    columns: &[u32],
    values: &[T],
    x: &[T],
    y: AtomicSlice<T>,
) where
    TileSize<LANES>: Lanes,
{
    let lanes = block.whole_warp().tile::<LANES>();
    let row = (thread::block_idx_x() as usize * BLOCK + block.thread()) / LANES as usize;
    let (start, end) = match (offsets.get(row), offsets.get(row + 1)) {
        (Some(&start), Some(&end)) => (start as usize, end as usize),
        _ => (0, 0),
    };
    let mut sum = T::zeroed();
    let mut entry = start + lanes.thread_rank() as usize;
    while entry < end {
        sum = add_entry(sum, entry, columns, values, x);
        entry += LANES as usize;
    }
    let sum = lanes.sum(sum);
    if lanes.thread_rank() == 0 && row < y.len() {
        y.store(row, sum, Relaxed);
    }
}

/// A row that is not at its end, and the sum of what was seen of it.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Carry {
    row: u64,
    sum: f64,
}

/// No row.
const NO_ROW: u64 = u64::MAX;

impl Carry {
    /// This one and what comes behind it: the sum of the later row, and of both where it is the same.
    #[inline(always)]
    fn then(self, next: Self) -> Self {
        if self.row == next.row { Self { sum: self.sum + next.sum, ..next } } else { next }
    }
}

/// Where the tiles of a matrix of `entries` entries begin: `splits: [tiles + 1]`, of each the first row that ends in the
/// tile or later, and the first entry.
///
/// Tile `i` begins `i` times [`TILE`] rows' ends and entries from the matrix's beginning, or where the row ends that is
/// there, if that is at most [`MAX_ROW_TAIL`] entries on. Only a longer row is in several tiles.
#[kernel]
pub fn spmv_splits(
    index: ThreadIndex,
    entries: u32,
    offsets: &[u32],
    mut splits: DisjointSlice<Vec2<u32>>,
) {
    let (rows, entries) = (offsets.len().saturating_sub(1), entries as usize);
    for own in index.grid_stride(splits.len()) {
        let steps = (own.get() * TILE).min(rows + entries);
        // SAFETY: `row` is below the number of rows.
        let end_of = |row: usize| unsafe { *offsets.get_unchecked(row + 1) as usize };
        let row = merge_path(steps, (rows, entries), |row, entry| end_of(row) <= entry);
        let entry = steps - row;
        let begins = offsets.get(row).is_none_or(|&start| start as usize >= entry);
        let ends_near = row < rows && end_of(row).saturating_sub(entry) <= MAX_ROW_TAIL;
        let (row, entry) = if !begins && ends_near { (row + 1, end_of(row)) } else { (row, entry) };
        if let Some(split) = splits.get_mut(own) {
            *split = Vec2::new(row as u32, entry as u32);
        }
    }
}

/// The part of a matrix that a block takes.
#[derive(Clone, Copy)]
struct Tile {
    /// The first row that ends here.
    row: u32,
    /// How many do. Behind them may come the beginning of a row that ends in a later tile.
    rows: u32,
    /// The first entry, moved back to where a line begins.
    first: u32,
    /// Where the tile's entries begin and end, counted from `first` on.
    entries: (u32, u32),
}

impl Tile {
    /// Whatever the splits say, it is no larger than a tile may be.
    #[inline(always)]
    fn of_block(splits: &[Vec2<u32>]) -> Option<Self> {
        let tile = thread::block_idx_x() as usize;
        let (start, end) = (*splits.get(tile)?, *splits.get(tile + 1)?);
        let skew = start.y % CACHE_LINE_ENTRIES;
        Some(Self {
            row: start.x,
            rows: end.x.saturating_sub(start.x).min(TILE as u32),
            first: start.y - skew,
            entries: (skew, (skew + end.y.saturating_sub(start.y)).min(PRODUCTS as u32)),
        })
    }

    /// Where row `i` of the tile ends, counted from `first` on; of the row that goes on, where the tile does.
    #[inline(always)]
    fn end_of(&self, offsets: &[u32], i: u32) -> u32 {
        match offsets.get(self.row as usize + i as usize + 1) {
            Some(&end) if i < self.rows => end.saturating_sub(self.first).min(self.entries.1),
            _ => self.entries.1,
        }
    }

    /// The thread's columns and values, one of each [`TILE_BLOCK`]: a warp reads whole lines. What is past the tile's end
    /// is anything.
    #[inline(always)]
    fn load<T: Value>(
        &self,
        columns: &[u32],
        values: &[T],
        thread: u32,
    ) -> ([u32; ENTRIES_PER_THREAD], [T; ENTRIES_PER_THREAD]) {
        let first = self.first as usize;
        let there = columns.len().min(values.len()).saturating_sub(first);
        let len = self.entries.1.min(there.min(PRODUCTS) as u32);
        if len == 0 {
            return (build(|_| 0), build(|_| T::zeroed()));
        }
        let own = |j: usize| first + (thread + (j * TILE_BLOCK) as u32).min(len - 1) as usize;
        // SAFETY: below the lengths of both, which no thread writes while the kernel reads them.
        let columns = build(|j| unsafe { load_once(columns.get_unchecked(own(j))) });
        // SAFETY: as above.
        (columns, build(|j| unsafe { load_once(values.get_unchecked(own(j))) }))
    }

    /// How many lanes take a row, a power of two: enough for the mean one.
    ///
    /// Lanes that are a power of two apart meet in one bank of shared memory. Where rows are as long as a multiple of
    /// one, a quarter of it as lanes leaves four rows in a bank.
    #[inline(always)]
    fn lanes(&self) -> u32 {
        let mean = ((self.entries.1 - self.entries.0) / self.rows.max(1)).max(1);
        let enough = mean.div_ceil(MAX_ENTRIES_PER_LANE).next_power_of_two();
        enough.max((1 << mean.trailing_zeros()) / 4).min(32)
    }
}

/// Loads what no thread loads again: past the first cache, which is the vector's.
///
/// # Safety
/// No thread writes it while the kernel runs.
#[inline(always)]
unsafe fn load_once<T: access::Access>(value: &T) -> T {
    // SAFETY: the caller's promise.
    unsafe { access::load_read_only(value, ReadOnlyHint::NoAllocate) }
}

/// The balanced form. A block for each tile; `splits:` those of [`spmv_splits`](fn@spmv_splits); `y: [rows]`.
///
/// The products of a row, rounded, are added in the matrix's type. Of a tile's rows each has as many lanes, a power of two that
/// the mean row decides: a lane adds every n-th, from the first to the last, and the lanes' sums are joined as a tree.
/// A row much longer than the mean has all 32.
///
/// `carry_rows` and `carry_sums`, one element a block, take the row that goes on in the next tile, or `u32::MAX`, and the
/// sum of the block's entries of it: [`spmv_carry`](struct@spmv_carry) adds them to `y`. Of a matrix whose rows are no longer than
/// [`MAX_ROW_TAIL`] both may be empty.
#[expect(clippy::too_many_arguments, reason = "a matrix is three arrays")]
#[kernel(f32, f64, max_registers = registers::<T>())]
pub fn spmv_tiles<T: Value>(
    mut block: Block<TILE_BLOCK>,
    products: Shared<[T; PRODUCTS]>,
    splits: &[Vec2<u32>],
    offsets: &[u32],
    columns: &[u32],
    values: &[T],
    x: &[T],
    y: AtomicSlice<T>,
    carry_rows: AtomicSlice<u32>,
    carry_sums: AtomicSlice<f64>,
) {
    let ends = shared_array![u16; TILE + 1];
    let Some(tile) = Tile::of_block(splits) else { return };
    let thread = block.thread() as u32;
    let (columns, values) = tile.load(columns, values, thread);
    let mut end = tile.end_of(offsets, thread);
    let width = x.len().min(u32::MAX as usize) as u32;
    let element = |column: u32| {
        if column >= width {
            return T::zeroed();
        }
        // SAFETY: below the length, and no thread writes what the kernel reads.
        unsafe {
            let element = x.get_unchecked(column as usize);
            access::load_read_only(element, ReadOnlyHint::AllLevels)
        }
    };
    // All elements of the vector are asked for before the first product needs one. Neighbours in a row are neighbours in
    // a warp: those in one line of the vector are one request.
    let elements: [T; ENTRIES_PER_THREAD] = build(|j| element(columns[j]));
    let own: [T; ENTRIES_PER_THREAD] = build(|j| values[j].times(elements[j]));
    let products = products.fill(&block, |i| own[i / TILE_BLOCK]);
    let mut i = thread;
    while i <= tile.rows {
        // SAFETY: there are at most `TILE` rows; no other thread writes this element, and its readers wait.
        unsafe { ends.as_mut_ptr().add(i as usize).write(end as u16) };
        i += TILE_BLOCK as u32;
        end = tile.end_of(offsets, i);
    }
    // All ends and products are there.
    let products = block.sync(products);
    // The carries' blocks may come as soon as the last tiles are nearly done.
    dependent::let_next_start();
    let rows = Rows { tile, products: &products[..], ends: ends.as_mut_ptr() };
    rows.sum(&block, |i, sum| {
        let (row, own) = (tile.row as usize + i as usize, thread::block_idx_x() as usize);
        if i < tile.rows {
            if row < y.len() {
                y.store(row, sum, Relaxed);
            }
        } else if own < carry_rows.len() && own < carry_sums.len() {
            let (start, end) = rows.entries(i);
            carry_rows.store(own, if start < end { row as u32 } else { u32::MAX }, Relaxed);
            carry_sums.store(own, sum.into(), Relaxed);
        }
    });
}

/// A tile's rows with the one that goes on, and its products in shared memory, which all have been written.
struct Rows<'a, T> {
    tile: Tile,
    products: &'a [T],
    ends: *const u16,
}

impl<T: Value> Rows<'_, T> {
    /// Where the products of row `i` of the tile begin and end. The end is at most their number, whatever lies in shared
    /// memory: a thread that ended early has not written there.
    #[inline(always)]
    fn entries(&self, i: u32) -> (u32, u32) {
        // SAFETY: the callers' rows are those of the tile and the one that goes on.
        let end_at = |i: u32| unsafe { self.ends.add(i as usize).read().into() };
        let end: u32 = end_at(i);
        (if i == 0 { self.tile.entries.0 } else { end_at(i - 1) }, end.min(PRODUCTS as u32))
    }

    /// Calls `done(i, sum)` in one lane for each row.
    #[inline(always)]
    fn sum(&self, block: &Block<TILE_BLOCK>, mut done: impl FnMut(u32, T)) {
        let (warp, lane, lanes) = (block.whole_warp(), block.lane() as u32, self.tile.lanes());
        let (shift, rank) = (lanes.trailing_zeros(), lane & (lanes - 1));
        let mut first = (block.warp() as u32 * 32) >> shift;
        while first <= self.tile.rows {
            let i = first + (lane >> shift);
            let (start, end) = if i <= self.tile.rows { self.entries(i) } else { (0, 0) };
            let is_long = end > start + 2 * MAX_ENTRIES_PER_LANE * lanes;
            let own = self.every(lanes, start + rank, if is_long { 0 } else { end });
            let mut sum = tree(warp, lanes, own);
            // Long rows are taken by the whole warp, one after the other.
            let mut long = warp.ballot(is_long && rank == 0);
            while long != 0 {
                let owner = long.trailing_zeros();
                let (start, end) = (warp.shuffle(start, owner), warp.shuffle(end, owner));
                let all = tree(warp, 32, self.every(32, start + lane, end));
                if lane == owner {
                    sum = all;
                }
                long &= long - 1;
            }
            if rank == 0 && i <= self.tile.rows {
                done(i, sum);
            }
            first += TILE_BLOCK as u32 >> shift;
        }
    }

    /// The sum of every `step`th product from `i` to `end`.
    #[inline(always)]
    fn every(&self, step: u32, mut i: u32, end: u32) -> T {
        // SAFETY: callers stay below `end`, which is at most the number of products.
        let at = |i: u32| unsafe { *self.products.get_unchecked(i as usize) };
        let mut sum = T::zeroed();
        // Four loads wait together.
        while i + 3 * step < end {
            let (a, b, c, d) = (at(i), at(i + step), at(i + 2 * step), at(i + 3 * step));
            sum = sum.plus(a).plus(b).plus(c).plus(d);
            i += 4 * step;
        }
        while i < end {
            sum = sum.plus(at(i));
            i += step;
        }
        sum
    }
}

/// The sum of each `lanes` lanes in a row, a power of two.
#[inline(always)]
fn tree<T: Value>(warp: Warp, lanes: u32, mut sum: T) -> T {
    let mut distance = lanes / 2;
    while distance > 0 {
        sum = sum.plus(warp.shuffle_xor(sum, distance));
        distance /= 2;
    }
    sum
}

/// Adds to `y: [rows]` what the blocks of [`spmv_tiles`](struct@spmv_tiles) had of rows that ended in later ones. A block
/// for each [`BLOCK`] carries.
///
/// The sum of a row's carries is taken by the block that has the first of them, in a fixed order.
#[kernel(f32, f64, dependent)]
pub fn spmv_carry<T: Value>(
    mut block: Block<BLOCK>,
    carry_rows: &[u32],
    carry_sums: &[f64],
    y: AtomicSlice<T>,
) {
    let carry = |i: usize| match (carry_rows.get(i), carry_sums.get(i)) {
        (Some(&row), Some(&sum)) if row != u32::MAX => Carry { row: row.into(), sum },
        _ => Carry { row: NO_ROW, sum: 0.0 },
    };
    let start = thread::block_idx_x() as usize * BLOCK;
    let own = start + block.thread();
    // All that is likely to be needed is asked for at once.
    let (mine, next, mut more) = (carry(own), carry(own + 1), carry(own + BLOCK));
    // The block before has what began there.
    let of_before = if start > 0 { carry(start - 1).row } else { NO_ROW };
    let ends = block.thread() < BLOCK - 1 && mine.row != next.row && mine.row != of_before;
    let is_row = |row: u64| row < y.len() as u64;
    let value_of = |row: u64| if is_row(row) { y.load(row as usize, Relaxed).into() } else { 0.0 };
    let put = |row: u64, sum: f64| {
        if is_row(row) {
            y.store(row as usize, T::rounded(sum), Relaxed);
        }
    };
    let value = if ends { value_of(mine.row) } else { 0.0 };
    let ([upto], all) = block.inclusive_scan([mine], Carry::then);
    if ends {
        put(upto.row, value + upto.sum);
    }
    // The last row may go on in the blocks behind.
    if all.row == NO_ROW || all.row == of_before {
        return;
    }
    let (value, mut sum, mut behind) = (value_of(all.row), all.sum, own + BLOCK);
    loop {
        let is_same = more.row == all.row;
        sum += block.sum(if is_same { more.sum } else { 0.0 });
        if !block.all(is_same) {
            break;
        }
        behind += BLOCK;
        more = carry(behind);
    }
    if block.thread() == 0 {
        put(all.row, value + sum);
    }
}

/// Offsets of the rows from the sorted rows of the entries: `offsets: [rows + 1]`, `entry_rows: [entries]`.
///
/// A row past the last one counts as the last one's end.
#[kernel]
pub fn rows_to_offsets(index: ThreadIndex, entry_rows: &[u32], mut offsets: DisjointSlice<u32>) {
    for own in index.grid_stride(offsets.len()) {
        if let Some(offset) = offsets.get_mut(own) {
            *offset = entry_rows.partition_point(|&row| (row as usize) < own.get()) as u32;
        }
    }
}
