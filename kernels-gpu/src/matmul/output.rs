//! D, written element by element.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code))]

use super::beside::Beside;
use super::scaling::{Scaling, Unscaled};
use super::{Epilogue, Problem, Value};

/// D of a product, and what becomes of its sums.
#[derive(Clone, Copy)]
pub struct Output<'a, D, E, S = Unscaled> {
    problem: &'a Problem,
    beside: Beside<'a, D, E, S>,
    d: *mut D,
    /// Whether pairs that begin in even columns are aligned.
    has_pairs: bool,
}

impl<'a, D: Value, E: Epilogue> Output<'a, D, E> {
    /// From a kernel's arguments.
    ///
    /// # Safety
    /// As [`Beside::new`], and `d` has every element that `problem.d` leads to.
    #[inline(always)]
    pub unsafe fn new(
        problem: &'a Problem,
        c: *const D,
        [per_row, per_column]: [*const D; 2],
        d: *mut D,
        epilogue: E,
    ) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::of(problem, Beside::new(problem, c, per_row, per_column, epilogue), d) }
    }
}

impl<'a, D: Value, E: Epilogue, S: Scaling> Output<'a, D, E, S> {
    /// With what is read beside the sums.
    ///
    /// # Safety
    /// As [`new`](Output::new).
    #[inline(always)]
    pub unsafe fn of(problem: &'a Problem, beside: Beside<'a, D, E, S>, d: *mut D) -> Self {
        let has_pairs = d.addr().is_multiple_of(size_of::<D::Pair>())
            && problem.d.column == 1
            && (problem.d.row | problem.d.batch).is_multiple_of(2);
        Self { problem, beside, d, has_pairs }
    }

    /// See [`Scaling::end`].
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn end(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.beside.end() }
    }

    /// Writes the element of D, if row and column are inside.
    ///
    /// # Safety
    /// The batch is inside, and this thread alone writes the element.
    #[inline(always)]
    pub unsafe fn write(&self, sum: f32, batch: usize, row: usize, column: usize) {
        if row < self.problem.m as usize && column < self.problem.n as usize {
            // SAFETY: inside; the rest is the caller's promise.
            unsafe {
                let value = self.beside.finish(sum, batch, row, column);
                self.d.add(self.problem.d.index(batch, row, column)).write(value);
            }
        }
    }

    /// Writes four elements, those that are inside: two neighbours of a row, and those eight rows below.
    ///
    /// # Safety
    /// As [`write`](Self::write), for all of them.
    #[inline(always)]
    pub unsafe fn write_four(&self, sums: [f32; 4], batch: usize, row: usize, column: usize) {
        let is_inside = row + 8 < self.problem.m as usize && column + 1 < self.problem.n as usize;
        // SAFETY: the caller's promise; all are inside, or each is checked.
        unsafe {
            if !is_inside || self.beside.reads_c() {
                self.write_pair([sums[0], sums[1]], batch, row, [column, column + 1]);
                self.write_pair([sums[2], sums[3]], batch, row + 8, [column, column + 1]);
                return;
            }
            let of_rows = [self.beside.of_row(row), self.beside.of_row(row + 8)];
            let of_columns = [self.beside.of_column(column), self.beside.of_column(column + 1)];
            let value = |below: usize, right: usize| {
                let vectors = (of_rows[below], of_columns[right]);
                let at = [batch as u32, (row + 8 * below) as u32, (column + right) as u32];
                self.beside.apply_without_c(sums[2 * below + right], vectors, at)
            };
            let strides = self.problem.d;
            let above = self.d.add(strides.index(batch, row, column));
            let below = above.add(8 * strides.row as usize);
            if self.has_pairs {
                above.cast::<D::Pair>().write(D::pair([value(0, 0), value(0, 1)]));
                below.cast::<D::Pair>().write(D::pair([value(1, 0), value(1, 1)]));
            } else {
                let right = strides.column as usize;
                above.write(D::narrow(value(0, 0)));
                above.add(right).write(D::narrow(value(0, 1)));
                below.write(D::narrow(value(1, 0)));
                below.add(right).write(D::narrow(value(1, 1)));
            }
        }
    }

    /// Writes two elements of a row, those that are inside: by one store where they are neighbours that begin in an even
    /// column and D's rows are aligned.
    ///
    /// # Safety
    /// As [`write`](Self::write), for both elements.
    #[inline(always)]
    pub unsafe fn write_pair(
        &self,
        sums: [f32; 2],
        batch: usize,
        row: usize,
        [first, second]: [usize; 2],
    ) {
        let n = self.problem.n as usize;
        if row >= self.problem.m as usize || first >= n {
            return;
        }
        let at = |column: usize| self.problem.d.index(batch, row, column);
        let is_pair = self.has_pairs && second == first + 1;
        // SAFETY: the caller's promise, and inside. (A second element that is not reads what the first one does: C may be D, whose other elements
        // other threads write.)
        unsafe {
            let of_row = self.beside.of_row(row);
            let value = |sum, column: usize| {
                let existing = if column < n { column } else { first };
                let c = self.beside.c(batch, row, existing);
                let of_column = self.beside.of_column(existing);
                let place = [batch as u32, row as u32, column as u32];
                self.beside.apply(sum, c, (of_row, of_column), place)
            };
            let has_second = second < n;
            let values = [value(sums[0], first), value(sums[1], second)];
            if is_pair && has_second {
                self.d.add(at(first)).cast::<D::Pair>().write(D::pair(values));
            } else {
                self.d.add(at(first)).write(D::narrow(values[0]));
                if has_second {
                    self.d.add(at(second)).write(D::narrow(values[1]));
                }
            }
        }
    }
}
