//! A sparse matrix times a vector: `y = A x`.
//!
//! The matrix is in compressed rows (CSR): `offsets: [rows + 1]` says where each row begins and ends among
//! `columns: [entries]` and `values: [entries]`.
//!
//! * [`spmv_plain`](struct@spmv_plain): a thread for each row. Neighbouring threads read far from one another, and a long row
//!   keeps the others of its warp waiting.
//! * [`spmv_rows`](struct@spmv_rows): a few lanes for each row, as many as an ordinary row has entries. They read side by side.
//! * [`spmv_merge`](struct@spmv_merge) and [`spmv_carry`](fn@spmv_carry): every block does the same amount of work however
//!   long the rows are. It is a [`merge_path`] of the rows' ends and the entries' numbers (D. Merrill and M. Garland,
//!   "Merge-based Parallel Sparse Matrix-Vector Multiplication", 2016). What a block has of a row that ends
//!   in a later block is added by the second kernel.

use cuda_std::atomic::AtomicElement;
use cuda_std::prelude::*;
use cuda_std::warp::{Lanes, Number, TileSize};

use super::merge_path::merge_path;

/// Threads in a block.
pub const BLOCK: usize = 256;
/// Rows' ends and entries, together, that each thread of [`spmv_merge`](struct@spmv_merge) takes.
pub const ITEMS: usize = 7;
/// Rows' ends and entries, together, that a block takes.
pub const TILE: usize = BLOCK * ITEMS;

/// What a matrix is made of.
pub trait Value: Number + AtomicElement + bytemuck::Zeroable + Into<f64> + Send + Sync {
    /// `self * x + sum`, rounded once.
    fn times_plus(self, x: Self, sum: Self) -> Self;
    /// The nearest one.
    fn rounded(sum: f64) -> Self;
}

impl Value for f32 {
    #[inline(always)]
    fn times_plus(self, x: Self, sum: Self) -> Self {
        self.mul_add(x, sum)
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

/// How many of the first `i` [`TILE`]s of rows' ends and entries are rows' ends, for each `i`:
/// `splits: [tiles + 1]`; of a matrix of `entries` entries.
#[kernel]
pub fn spmv_splits(
    index: ThreadIndex,
    entries: u32,
    offsets: &[u32],
    mut splits: DisjointSlice<u32>,
) {
    let (rows, entries) = (offsets.len().saturating_sub(1), entries as usize);
    for own in index.grid_stride(splits.len()) {
        let steps = (own.get() * TILE).min(rows + entries);
        if let Some(split) = splits.get_mut(own) {
            *split = merge_path(steps, (rows, entries), |row, entry| {
                // SAFETY: `row` is below the number of rows.
                unsafe { *offsets.get_unchecked(row + 1) as usize <= entry }
            }) as u32;
        }
    }
}

/// The balanced form. A block for each [`TILE`] of `rows + entries`; `splits:` those of
/// [`spmv_splits`](fn@spmv_splits); `y: [rows]`.
///
/// The entries of a row are added in the matrix's type as far as one thread has them, the threads' sums in f64.
///
/// `carry_rows` and `carry_sums`, one element a block, take the row in which the block's last entry lies if that
/// row goes on, else one past the last, and the sum of the block's entries of it: [`spmv_carry`](struct@spmv_carry)
/// adds them to `y`.
#[expect(clippy::too_many_arguments, reason = "a matrix is three arrays")]
#[kernel(f32, f64)]
pub fn spmv_merge<T: Value>(
    mut block: Block<BLOCK>,
    ends: Shared<[u32; TILE + 1]>,
    products: Shared<[T; TILE], 1>,
    splits: &[u32],
    offsets: &[u32],
    columns: &[u32],
    values: &[T],
    x: &[T],
    y: AtomicSlice<T>,
    carry_rows: AtomicSlice<u32>,
    carry_sums: AtomicSlice<f64>,
) {
    let tile = thread::block_idx_x() as usize;
    let (rows, entries) = (offsets.len().saturating_sub(1), columns.len());
    let (Some(&first_row), Some(&last_row)) = (splits.get(tile), splits.get(tile + 1)) else {
        return;
    };
    let (first_row, last_row) = (first_row as usize, last_row as usize);
    let first_entry = (tile * TILE).min(rows + entries).saturating_sub(first_row);
    let last_entry = ((tile + 1) * TILE).min(rows + entries).saturating_sub(last_row);
    let n_rows = last_row.saturating_sub(first_row);
    let n_entries = last_entry.saturating_sub(first_entry);

    // Ends as numbers of the block's own entries. Behind the last one: an end that no entry reaches.
    let end_of = |i: usize| match offsets.get(first_row + i + 1) {
        Some(&end) if i < n_rows => end.saturating_sub(first_entry as u32),
        _ => u32::MAX,
    };
    let ends = ends.fill(&block, end_of);
    let product = |i: usize| {
        if i < n_entries {
            add_entry(T::zeroed(), first_entry + i, columns, values, x)
        } else {
            T::zeroed()
        }
    };
    let products = products.fill(&block, product);
    // All ends and products are there.
    let (ends, products) = block.sync((ends, products));

    // SAFETY: callers stay at or below the numbers of rows and below that of entries, which are at most `TILE`.
    let end_at = |row: usize| unsafe { *ends.get_unchecked(row) as usize };
    let steps = (block.thread() * ITEMS).min(n_rows + n_entries);
    let first = merge_path(steps, (n_rows, n_entries), |row, entry| end_at(row) <= entry);
    let (mut row, mut entry) = (first, steps - first);
    let left = (n_rows + n_entries - steps).min(ITEMS);
    // What the thread has of its first row is joined with what the threads before have.
    let mut sum = T::zeroed();
    let mut sum_of_first = None;
    for k in 0..ITEMS {
        if k >= left {
            break;
        }
        if entry < end_at(row) && entry < n_entries {
            // SAFETY: below the number of entries.
            sum = sum.plus(unsafe { *products.get_unchecked(entry) });
            entry += 1;
        } else {
            match sum_of_first {
                None => sum_of_first = Some(sum),
                Some(_) => y.store(first_row + row, sum, Relaxed),
            }
            sum = T::zeroed();
            row += 1;
        }
    }
    let own = Carry { row: row as u64, sum: sum.into() };
    let nothing = Carry { row: NO_ROW, sum: 0.0 };
    let ([before], all) = block.exclusive_scan([own], nothing, Carry::then);
    if let Some(sum) = sum_of_first {
        let before = if before.row == first as u64 { before.sum } else { 0.0 };
        y.store(first_row + first, T::rounded(before + sum.into()), Relaxed);
    }
    if block.thread() == 0 {
        carry_rows.store(tile, first_row as u32 + all.row as u32, Relaxed);
        carry_sums.store(tile, all.sum, Relaxed);
    }
}

/// Adds to `y: [rows]` what the blocks of [`spmv_merge`](struct@spmv_merge) had of rows that ended in later ones. A block
/// for each [`BLOCK`] carries.
///
/// The sum of a row's carries is taken by the block that has the first of them, in a fixed order.
#[kernel(f32, f64)]
pub fn spmv_carry<T: Value>(
    mut block: Block<BLOCK>,
    carry_rows: &[u32],
    carry_sums: &[f64],
    y: AtomicSlice<T>,
) {
    let carry = |i: usize| match (carry_rows.get(i), carry_sums.get(i)) {
        (Some(&row), Some(&sum)) => Carry { row: row.into(), sum },
        _ => Carry { row: NO_ROW, sum: 0.0 },
    };
    let start = thread::block_idx_x() as usize * BLOCK;
    let own = start + block.thread();
    let ([upto], all) = block.inclusive_scan([carry(own)], Carry::then);
    let add = |row: u64, sum: f64| {
        let row = row as usize;
        if row < y.len() {
            y.store(row, T::rounded(y.load(row, Relaxed).into() + sum), Relaxed);
        }
    };
    // The block before has what began there.
    let of_before = if start > 0 { carry(start - 1).row } else { NO_ROW };
    let goes_on = block.thread() == BLOCK - 1 || carry(own + 1).row == upto.row;
    if !goes_on && upto.row != of_before {
        add(upto.row, upto.sum);
    }
    // The last row may go on in the blocks behind.
    let mut sum = all.sum;
    let mut next = start + BLOCK;
    if all.row == NO_ROW || all.row == of_before {
        return;
    }
    loop {
        let more = carry(next + block.thread());
        let is_same = more.row == all.row;
        sum += block.sum(if is_same { more.sum } else { 0.0 });
        if !block.all(is_same) {
            break;
        }
        next += BLOCK;
    }
    if block.thread() == 0 {
        add(all.row, sum);
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
