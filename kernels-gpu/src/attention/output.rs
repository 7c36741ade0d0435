//! Where results go: to the caller, or to scratch memory as splits of a row, whose keys are divided among blocks.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::scores::unmerged;
use super::{Problem, Work};
use crate::matmul::Value;
use core::f32::consts::LN_2;
use cuda_std::prelude::*;
use cuda_std::{gpu_only, unrolled};

/// The results of a launch.
#[derive(Clone, Copy)]
pub struct Output<'a, T> {
    pub(super) problem: &'a Problem,
    /// Factor of scores in exponents to base 2.
    factor: f32,
    /// Factor of weights that are kept.
    of_kept: f32,
    o: *mut T,
    /// Logarithms of sums, `[batches, heads, queries]`, of packed queries `[heads, queries of all batches]`; null if they are not wanted.
    pub(super) lse: *mut f32,
    /// With splits: the results of each, `[splits, batches · heads · queries, elements_of_part(value_depth)]`, followed by their logarithms, `[splits, …]`.
    parts: *mut f32,
    /// With splits: how many of each tile are stored.
    pub(super) counters: *mut u32,
}

/// The splits of a row whose keys are divided among blocks.
#[derive(Clone, Copy)]
pub(super) struct RowParts {
    /// The first split's result, and its logarithm.
    first: *mut f32,
    first_lse: *mut f32,
    /// Queries of all heads and batches.
    all: usize,
    /// Elements of a result.
    pub depth: usize,
    /// The number of splits.
    pub splits: usize,
}

/// The elements of a result of a split in scratch memory, of which a thread loads four at a time.
#[must_use]
pub const fn elements_of_part(value_depth: usize) -> usize {
    value_depth.next_multiple_of(4)
}

impl RowParts {
    /// Where the result of a split begins.
    #[inline(always)]
    pub const fn result(&self, split: usize) -> *mut f32 {
        self.first.wrapping_add(split * self.all * elements_of_part(self.depth))
    }

    /// Where the logarithm of a split is.
    #[inline(always)]
    pub const fn lse(&self, split: usize) -> *mut f32 {
        self.first_lse.wrapping_add(split * self.all)
    }
}

/// A row that is being written.
#[derive(Clone, Copy)]
pub struct OutputRow<T> {
    to: *mut T,
    part: *mut f32,
    inverse: f32,
    depth: usize,
}

impl<'a, T: Value<Pair = u32>> Output<'a, T> {
    /// From a kernel's arguments. The factors are that of scores in exponents to base 2, and that of weights. Of the counters, the first is that of
    /// [tiles that blocks take](super::hopper::attend).
    #[inline(always)]
    pub fn new(
        problem: &'a Problem,
        (factor, of_kept): (f32, f32),
        o: *mut T,
        lse: &mut DisjointSlice<'_, f32>,
        parts: &mut DisjointSlice<'_, f32>,
        counters: *mut u32,
    ) -> Self {
        let lse = if lse.is_empty() { core::ptr::null_mut() } else { lse.as_mut_ptr() };
        let (parts, counters) = (parts.as_mut_ptr(), counters.wrapping_add(1));
        Self { problem, factor, of_kept, o, lse, parts, counters }
    }

    /// The same results, with other factors: of scores in exponents to base 2, and of weights.
    #[inline(always)]
    #[must_use]
    pub const fn with_factors(self, (factor, of_kept): (f32, f32)) -> Self {
        Self { factor, of_kept, ..self }
    }

    /// The head and the query of a row, and its index among those of all heads and batches.
    #[inline(always)]
    pub(super) fn place(&self, work: &Work, row: u32) -> ([u32; 2], usize) {
        let (head, query) = self.problem.place_of_row(work.head, row);
        let queries = work.batch.queries;
        ([head, query], self.problem.index(queries.batch, head, queries.first + query))
    }

    /// Where the results of a query begin.
    #[inline(always)]
    pub(super) fn results(&self, work: &Work, [head, query]: [u32; 2]) -> *mut T {
        self.o.wrapping_add(work.batch.queries.index(self.problem.o, head, query))
    }

    /// The splits of a row.
    #[gpu_only]
    #[inline(always)]
    pub(super) fn parts(&self, index: usize) -> RowParts {
        // What is computed from these numbers is computed here, and not kept in registers while tiles are multiplied.
        let Problem { queries, value_depth, splits, .. } = *self.problem;
        let all = Problem { queries: unmerged(queries), ..*self.problem }.all_queries();
        let (depth, splits) = (unmerged(value_depth) as usize, unmerged(splits) as usize);
        let elements = elements_of_part(depth);
        let first = self.parts.wrapping_add(index * elements);
        let first_lse = self.parts.wrapping_add(splits * all * elements + index);
        RowParts { first, first_lse, all, depth, splits }
    }

    /// Begins to write a row, with the maximum of its scores and the sum of its exponentials; `None` if it is not inside. One thread of those that write
    /// the row is `first`.
    ///
    /// # Safety
    /// These threads alone write the row, and the memory is what the kernel promises.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn row(
        &self,
        work: &Work,
        row: u32,
        (max, sum): (f32, f32),
        is_first: bool,
    ) -> Option<OutputRow<T>> {
        let problem = self.problem;
        if row >= work.rows(problem) {
            return None;
        }
        let (place, index) = self.place(work, row);
        // A row that sees no key is 0. (A sum of NaN is not.)
        let inverse = if sum == 0.0 { 0.0 } else { self.of_kept / sum };
        let lse = if sum == 0.0 {
            f32::NEG_INFINITY
        } else {
            (max * self.factor).mul_add(LN_2, cuda_std::intrinsics::logf(sum))
        };
        let depth = problem.value_depth as usize;
        // SAFETY: the caller's promise.
        unsafe {
            if problem.splits > 1 {
                let (parts, split) = (self.parts(index), work.split as usize);
                if is_first {
                    parts.lse(split).write(lse);
                }
                // Past the last element values are 0.
                let depth = elements_of_part(depth);
                return Some(OutputRow { to: self.o, part: parts.result(split), inverse, depth });
            }
            if is_first && !self.lse.is_null() {
                self.lse.add(index).write(lse);
            }
            Some(OutputRow::new(self.results(work, place), inverse, depth))
        }
    }
}

impl<T: Value<Pair = u32>> OutputRow<T> {
    /// A row of `depth` elements at `to`, whose values are multiplied by `factor`.
    #[inline(always)]
    pub const fn new(to: *mut T, factor: f32, depth: usize) -> Self {
        Self { to, part: core::ptr::null_mut(), inverse: factor, depth }
    }

    /// Writes pairs of neighbours, those that are inside: `pair(e)` at `column + 8 e`, for `EIGHTS` of them. `column` is even.
    ///
    /// # Safety
    /// As [`Output::row`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn write<const EIGHTS: usize>(
        &self,
        column: usize,
        pair: impl Fn(usize) -> [f32; 2],
    ) {
        let scaled = |e: usize| pair(e).map(|value| value * self.inverse);
        // SAFETY: the caller's promise.
        unsafe {
            if !self.part.is_null() {
                let to = self.part.add(column);
                unrolled!(EIGHTS, |e| write_inside(
                    to,
                    8 * e,
                    scaled(e),
                    self.depth - column.min(self.depth)
                ));
                return;
            }
            let to = self.to.add(column);
            if to.addr().is_multiple_of(4) && self.depth == 8 * EIGHTS {
                unrolled!(EIGHTS, |e| to.add(8 * e).cast::<u32>().write(T::pair(scaled(e))));
            } else {
                let len = self.depth - column.min(self.depth);
                unrolled!(EIGHTS, |e| write_inside(to, 8 * e, scaled(e).map(T::narrow), len));
            }
        }
    }
}

/// Writes two neighbours at `at`, those that are before `len`.
///
/// # Safety
/// As [`Output::row`].
#[gpu_only]
#[inline(always)]
unsafe fn write_inside<T: Copy>(to: *mut T, at: usize, pair: [T; 2], len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if at < len {
            to.add(at).write(pair[0]);
        }
        if at + 1 < len {
            to.add(at + 1).write(pair[1]);
        }
    }
}
