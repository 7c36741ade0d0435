//! What an epilogue reads beside the sums, loaded as its constants ask.

use super::scaling::{Scaling, Unscaled};
use super::{Entry, Epilogue, Problem, Value};

/// What is loaded once for a row, or for a column.
#[derive(Clone, Copy, Debug)]
pub struct OfLine {
    /// The element of the epilogue's vector, or 0 if there is none.
    vector: f32,
    /// By which its sums are multiplied.
    scale: f32,
}

/// C, the two vectors and the scales of a product, and its epilogue.
#[derive(Clone, Copy)]
pub struct Beside<'a, D, E, S = Unscaled> {
    problem: &'a Problem,
    c: *const D,
    /// In the kernel's order: exchanged where the problem is a transposed one.
    per_row: *const D,
    per_column: *const D,
    epilogue: E,
    scaling: S,
}

impl<'a, D: Value, E: Epilogue> Beside<'a, D, E> {
    /// Of the kernel's arguments.
    ///
    /// # Safety
    /// - If `problem.beta` is not 0 or [`Operands::c`](super::Operands::c), `c` has every element that
    ///   `problem.c` leads to.
    /// - The vectors that the epilogue reads have an element for each row, or column, that the caller sees.
    /// - Nothing writes them while the kernel runs, but for C where it is D: then each element is read by the thread that
    ///   writes it, before.
    #[inline(always)]
    pub unsafe fn new(
        problem: &'a Problem,
        c: *const D,
        per_row: *const D,
        per_column: *const D,
        epilogue: E,
    ) -> Self {
        let (per_row, per_column) = problem.callers(per_row, per_column);
        Self { problem, c, per_row, per_column, epilogue, scaling: Unscaled }
    }

    /// With scales.
    #[inline(always)]
    pub fn scaled<S: Scaling>(self, scaling: S) -> Beside<'a, D, E, S> {
        let Self { problem, c, per_row, per_column, epilogue, .. } = self;
        Beside { problem, c, per_row, per_column, epilogue, scaling }
    }
}

impl<D: Value, E: Epilogue, S: Scaling> Beside<'_, D, E, S> {
    /// See [`Scaling::end`].
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn end(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.scaling.end() }
    }

    /// Whether C is read.
    #[inline(always)]
    pub fn reads_c(&self) -> bool {
        E::OPERANDS.c || self.problem.beta != 0.0
    }

    /// The element of C at `(batch, row, column)`, or 0 if C is not read.
    ///
    /// # Safety
    /// The element exists.
    #[inline(always)]
    pub unsafe fn c(&self, batch: usize, row: usize, column: usize) -> f32 {
        if !self.reads_c() {
            return 0.0;
        }
        // SAFETY: the caller's promise.
        unsafe { (*self.c_at(batch, row, column)).widen() }
    }

    /// Where the element of C at `(batch, row, column)` is, if it exists.
    #[inline(always)]
    pub fn c_at(&self, batch: usize, row: usize, column: usize) -> *const D {
        self.c.wrapping_add(self.problem.c.index(batch, row, column))
    }

    /// What is loaded for a row of the kernel.
    ///
    /// # Safety
    /// `row` is below `problem.m`.
    #[inline(always)]
    pub unsafe fn of_row(&self, row: usize) -> OfLine {
        let (per_row, _) = self.problem.callers(E::OPERANDS.per_row, E::OPERANDS.per_column);
        // SAFETY: the caller's promise, and that of `new`.
        unsafe {
            let vector = if per_row { (*self.per_row.add(row)).widen() } else { 0.0 };
            OfLine { vector, scale: self.scaling.of_row(row) }
        }
    }

    /// What is loaded for a column of the kernel.
    ///
    /// # Safety
    /// `column` is below `problem.n`.
    #[inline(always)]
    pub unsafe fn of_column(&self, column: usize) -> OfLine {
        let (_, per_column) = self.problem.callers(E::OPERANDS.per_row, E::OPERANDS.per_column);
        // SAFETY: the caller's promise, and that of `new`.
        unsafe {
            let vector = if per_column { (*self.per_column.add(column)).widen() } else { 0.0 };
            OfLine { vector, scale: self.scaling.of_column(column) }
        }
    }

    /// The element of D from its sum and what was loaded for it.
    #[inline(always)]
    pub fn apply(&self, sum: f32, c: f32, lines: (OfLine, OfLine), at: [u32; 3]) -> f32 {
        let mut value = self.problem.alpha * scaled(sum, lines);
        if self.problem.beta != 0.0 {
            value += self.problem.beta * c;
        }
        self.apply_to(value, c, lines, at)
    }

    /// [`apply`](Self::apply) where C is not read.
    #[inline(always)]
    pub fn apply_without_c(&self, sum: f32, lines: (OfLine, OfLine), at: [u32; 3]) -> f32 {
        self.apply_to(self.problem.alpha * scaled(sum, lines), 0.0, lines, at)
    }

    #[inline(always)]
    fn apply_to(
        &self,
        value: f32,
        c: f32,
        (of_row, of_column): (OfLine, OfLine),
        [batch, row, column]: [u32; 3],
    ) -> f32 {
        let (per_row, per_column) = self.problem.callers(of_row.vector, of_column.vector);
        let at = [row, column];
        let (row, column) = self.problem.callers(row, column);
        let entry = Entry { value, c, per_row, per_column, row, column, batch };
        self.scaling.of_result(self.problem, self.epilogue.apply(entry), at)
    }

    /// The element of D at `(batch, row, column)` from its sum: for kernels that write element by element.
    ///
    /// # Safety
    /// The element exists.
    #[inline(always)]
    pub unsafe fn finish(&self, sum: f32, batch: usize, row: usize, column: usize) -> D {
        // SAFETY: the caller's promise.
        let (c, vectors) =
            unsafe { (self.c(batch, row, column), (self.of_row(row), self.of_column(column))) };
        D::narrow(self.apply(sum, c, vectors, [batch as u32, row as u32, column as u32]))
    }
}

/// The sum with the scales of its row and column.
#[inline(always)]
fn scaled(sum: f32, (of_row, of_column): (OfLine, OfLine)) -> f32 {
    sum * of_row.scale * of_column.scale
}
