//! From a sum to an element of D.

use super::{Entry, Epilogue, Problem, Value};
use crate::prelude::*;

/// What kernels that write D element by element do with a sum.
#[derive(Clone, Copy, Debug)]
pub struct Output<E, D> {
    problem: Problem,
    c: *const D,
    per_row: *const D,
    per_column: *const D,
    d: *mut D,
    epilogue: E,
}

impl<E: Epilogue, D: Value> Output<E, D> {
    /// From a kernel's arguments.
    #[inline(always)]
    pub fn new(
        problem: Problem,
        c: &[D],
        [per_row, per_column]: [&[D]; 2],
        d: &mut DisjointSlice<D>,
        epilogue: E,
    ) -> Self {
        let [per_row, per_column] = [per_row.as_ptr(), per_column.as_ptr()];
        Self { problem, c: c.as_ptr(), per_row, per_column, d: d.as_mut_ptr(), epilogue }
    }

    /// The element of D, before it is rounded to D's type.
    ///
    /// # Safety
    /// The batch, row and column are inside D; the operands that the epilogue reads, and C where beta is not 0, are as large
    /// as the problem says.
    #[inline(always)]
    pub unsafe fn value(&self, sum: f32, batch: usize, row: usize, column: usize) -> f32 {
        let problem = &self.problem;
        let operands = E::OPERANDS;
        let (callers_row, callers_column) = problem.callers(row, column);
        // SAFETY: the caller's promise.
        let load = |is_read: bool, from: *const D, index: usize| unsafe {
            if is_read { from.add(index).read().widen() } else { 0.0 }
        };
        let is_c_read = operands.c || problem.beta != 0.0;
        let c = load(is_c_read, self.c, problem.c.index(batch, row, column));
        let addend = if problem.beta != 0.0 { problem.beta * c } else { 0.0 };
        self.epilogue.apply(Entry {
            value: problem.alpha * sum + addend,
            c,
            per_row: load(operands.per_row, self.per_row, callers_row),
            per_column: load(operands.per_column, self.per_column, callers_column),
            row: callers_row as u32,
            column: callers_column as u32,
            batch: batch as u32,
        })
    }

    /// Writes the element of D, if it is inside.
    ///
    /// # Safety
    /// As [`value`](Self::value) where row and column are inside, and this thread alone writes the element.
    #[inline(always)]
    pub unsafe fn write(&self, sum: f32, batch: usize, row: usize, column: usize) {
        if row < self.problem.m as usize && column < self.problem.n as usize {
            // SAFETY: inside; the rest is the caller's promise.
            unsafe {
                let value = D::narrow(self.value(sum, batch, row, column));
                self.d.add(self.problem.d.index(batch, row, column)).write(value);
            }
        }
    }

    /// Writes two neighbours of a row, by one store where their place is aligned to both.
    ///
    /// # Safety
    /// As [`write`](Self::write), for both elements.
    #[inline(always)]
    pub unsafe fn write_pair(&self, sums: [f32; 2], batch: usize, row: usize, column: usize) {
        let to = self.d.wrapping_add(self.problem.d.index(batch, row, column)).cast::<D::Pair>();
        let is_inside = row < self.problem.m as usize && column + 1 < self.problem.n as usize;
        // SAFETY: the caller's promise, and inside.
        unsafe {
            if is_inside && to.addr().is_multiple_of(size_of::<D::Pair>()) {
                to.write(D::pair([
                    self.value(sums[0], batch, row, column),
                    self.value(sums[1], batch, row, column + 1),
                ]));
            } else {
                self.write(sums[0], batch, row, column);
                self.write(sums[1], batch, row, column + 1);
            }
        }
    }
}
