//! Rows on their way to shared memory.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::hopper::Half;
use super::super::{Problem, RowStrides, Work};
use super::Operands;
use super::products::place_of_piece;
use crate::prelude::*;
use cuda_std::copy::copy_async_part;
use cuda_std::gpu_only;
use cuda_std::vector::Vec4;

/// What one copy moves.
type Piece = Vec4<u32>;
/// Elements of a [`Piece`].
const LANES: usize = 8;

/// The rows that a block copies, by all of its threads.
pub struct Rows<'a, T, const D: usize> {
    problem: &'a Problem,
    work: &'a Work,
    operands: Operands<'a, T>,
    threads: usize,
}

impl<'a, T: Half, const D: usize> Rows<'a, T, D> {
    #[inline(always)]
    pub fn new(
        problem: &'a Problem,
        work: &'a Work,
        operands: Operands<'a, T>,
        threads: usize,
    ) -> Self {
        Self { problem, work, operands, threads }
    }

    /// Starts to copy `rows` rows of queries; those past the end are zero.
    ///
    /// # Safety
    /// `to` is a tile in shared memory that no thread uses before a barrier, at which all threads have waited for the copies.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn queries(&self, to: *mut u8, rows: usize) {
        let (problem, work) = (self.problem, self.work);
        let row_at = |row: usize| {
            let row = work.row + row as u32;
            let (head, query) = problem.place_of_row(work.head, row);
            let is_inside = row < work.rows(problem);
            (is_inside, work.batch.queries.index(problem.q, head, query))
        };
        // SAFETY: the caller's promise; rows that are inside are in memory.
        unsafe {
            copy_rows::<T, D>(to, rows, self.operands.q, problem.depth, self.threads, row_at);
        }
    }

    /// Starts to copy `rows` keys from `first` on.
    ///
    /// # Safety
    /// As [`queries`](Self::queries).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn keys(&self, to: *mut u8, first: u32, rows: usize) {
        let row_at = |row: usize| self.row_of_key(self.problem.k, first + row as u32);
        // SAFETY: as above.
        unsafe {
            copy_rows::<T, D>(to, rows, self.operands.k, self.problem.depth, self.threads, row_at);
        }
    }

    /// Starts to copy `rows` values from `first` on.
    ///
    /// # Safety
    /// As [`queries`](Self::queries).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn values(&self, to: *mut u8, first: u32, rows: usize) {
        let row_at = |row: usize| self.row_of_key(self.problem.v, first + row as u32);
        // SAFETY: as above.
        unsafe {
            copy_rows::<T, D>(
                to,
                rows,
                self.operands.v,
                self.problem.value_depth,
                self.threads,
                row_at,
            );
        }
    }

    /// Whether a key is inside, and where its row begins.
    #[gpu_only]
    #[inline(always)]
    fn row_of_key(&self, strides: RowStrides, key: u32) -> (bool, usize) {
        let (problem, work) = (self.problem, self.work);
        if key >= work.batch.keys.len {
            return (false, 0);
        }
        let head = problem.kv_head(work.head << problem.pack);
        if problem.pages == 0 {
            return (true, work.batch.keys.index(strides, head, key));
        }
        let entry =
            work.batch.index as usize * problem.pages as usize + (key >> problem.page) as usize;
        // SAFETY: the table has an entry for each page of the batch's keys.
        let page = unsafe { *self.operands.pages.get_unchecked(entry) };
        (page < problem.page_count, strides.index(page, head, key & ((1 << problem.page) - 1)))
    }
}

/// Starts to copy rows of `depth` elements by all `threads` threads of the block; what is past them, up to `D`, is zero.
///
/// # Safety
/// `to` is a tile in shared memory that no thread uses before a barrier, at which all threads have waited for the copies; rows of which `row_at`
/// says that they are inside begin where it says.
#[gpu_only]
#[inline(always)]
pub unsafe fn copy_rows<T: Half, const D: usize>(
    to: *mut u8,
    rows: usize,
    from: *const T,
    depth: u32,
    threads: usize,
    row_at: impl Fn(usize) -> (bool, usize),
) {
    let pieces = D / LANES;
    let mut at = thread::index_in_block() as usize;
    while at < rows * pieces {
        let (row, piece) = (at / pieces, at % pieces);
        let (is_inside, begin) = row_at(row);
        let len = (depth as usize).saturating_sub(piece * LANES).min(LANES);
        let len = if is_inside { len } else { 0 };
        let to = to.wrapping_add(place_of_piece::<D>(row, piece)).cast::<Piece>();
        let from = from.wrapping_add(begin + piece * LANES);
        // SAFETY: the elements are inside of the row; the caller's promise.
        unsafe {
            if len == 0 || from.addr().is_multiple_of(size_of::<Piece>()) {
                copy_async_part(to, from.cast::<Piece>(), 2 * len as u32);
            } else {
                to.write(Piece::splat(0));
                for lane in 0..len {
                    to.cast::<T>().add(lane).write(from.add(lane).read());
                }
            }
        }
        at += threads;
    }
}
