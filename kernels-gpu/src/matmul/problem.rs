//! What a matrix product computes: sizes, and where the elements of each matrix are.

use bytemuck::{Pod, Zeroable};

/// Where the elements of a batch of matrices are: element (i, j) of matrix b is at
/// `i * row + j * column + b * batch`, in elements.
///
/// A row-major matrix has `column == 1` and its leading dimension as `row`; a column-major one has `row == 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Strides {
    /// From a row to the next.
    pub row: u64,
    /// From a column to the next.
    pub column: u64,
    /// From a matrix to the next; 0 if all are one and the same.
    pub batch: u64,
}

impl Strides {
    /// The index of element (`i`, `j`) of matrix `batch`.
    #[inline(always)]
    #[must_use]
    pub const fn index(self, batch: usize, i: usize, j: usize) -> usize {
        batch * self.batch as usize + i * self.row as usize + j * self.column as usize
    }

    /// The same memory with rows and columns exchanged.
    #[inline(always)]
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self { row: self.column, column: self.row, batch: self.batch }
    }
}

/// `D = epilogue(alpha · A·B + beta · C)` for each matrix of a batch: A is `m × k`, B `k × n`, C and D `m × n`.
///
/// Every kernel of the family takes one, by value. Where an operation needs D in column-major order, the host
/// exchanges A with Bᵀ and sets [`is_transposed`](Self::is_transposed): D of a kernel has `column == 1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Problem {
    /// Rows of D, columns of D, and the length of the sums.
    pub m: u32,
    #[allow(missing_docs)]
    pub n: u32,
    #[allow(missing_docs)]
    pub k: u32,
    /// Matrices.
    pub batches: u32,
    /// Where A's elements are.
    pub a: Strides,
    /// Where B's elements are.
    pub b: Strides,
    /// Where C's elements are; anything if C is not read.
    pub c: Strides,
    /// Where D's elements are.
    pub d: Strides,
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of C. If it is 0, `beta · C` is 0 and C is not read for it.
    pub beta: f32,
    /// Not 0: the kernel computes the transpose of what the caller sees, so rows and columns of an
    /// [`Entry`](super::Entry) are exchanged.
    pub is_transposed: u32,
    /// Tiles along K are divided among this many blocks, each of which stores its sums to a matrix of its own; 1 if not.
    pub splits: u32,
}

impl Problem {
    /// Tiles of `rows` × `columns` that cover all matrices of the batch.
    #[inline(always)]
    #[must_use]
    pub const fn tiles(&self, rows: usize, columns: usize) -> usize {
        let (down, across) = (self.m as usize, self.n as usize);
        down.div_ceil(rows) * across.div_ceil(columns) * self.batches as usize
    }

    /// `rows` and `columns` in the caller's order, from the kernel's.
    #[inline(always)]
    #[must_use]
    pub const fn callers<T: Copy>(&self, row: T, column: T) -> (T, T) {
        if self.is_transposed != 0 { (column, row) } else { (row, column) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_find_elements() {
        let row_major = Strides { row: 7, column: 1, batch: 100 };
        assert_eq!(row_major.index(2, 3, 4), 225);
        assert_eq!(row_major.transposed().index(2, 4, 3), 225);
    }

    #[test]
    fn a_transposed_problem_exchanges_rows_and_columns() {
        let problem = Problem { is_transposed: 1, ..Problem::default() };
        assert_eq!((problem.callers(1, 2), Problem::default().callers(1, 2)), ((2, 1), (1, 2)));
    }
}
