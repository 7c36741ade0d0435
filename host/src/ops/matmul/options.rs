//! What a product does beside multiplying.

use std::ops::Range;

use bytemuck::Pod;
use kernels_gpu::matmul::{Epilogue, Plain};

use super::{Choice, Matrix, MatrixLayout, OPERATION};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceSlice;
use crate::ops::same_len;

/// What a product does beside multiplying: `alpha`, `beta`, C and an epilogue with what it reads.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a, D: Pod, E = Plain> {
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) c: Option<Matrix<'a, D>>,
    pub(super) per_row: Option<DeviceSlice<'a, D>>,
    pub(super) per_column: Option<DeviceSlice<'a, D>>,
    pub(super) epilogue: E,
    pub(super) choice: Option<Choice>,
    pub(super) most_scratch_bytes: usize,
    pub(super) most_multiprocessors: u32,
}

impl<D: Pod> Options<'_, D> {
    /// `D = A·B`.
    #[must_use]
    pub fn new() -> Self {
        let (c, per_row, per_column) = (None, None, None);
        Self {
            alpha: 1.0,
            beta: 0.0,
            c,
            per_row,
            per_column,
            epilogue: Plain,
            choice: None,
            most_scratch_bytes: usize::MAX,
            most_multiprocessors: u32::MAX,
        }
    }
}

impl<D: Pod> Default for Options<'_, D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, D: Pod, E> Options<'a, D, E> {
    /// The factor of the product.
    #[must_use]
    pub fn alpha(self, alpha: f32) -> Self {
        Self { alpha, ..self }
    }

    /// The factor of C. Without [`c`](Self::c), C is the previous content of D.
    #[must_use]
    pub fn beta(self, beta: f32) -> Self {
        Self { beta, ..self }
    }

    /// C, of D's sizes, in either order: for `beta`, and for epilogues that read it.
    #[must_use]
    pub fn c(self, c: Matrix<'a, D>) -> Self {
        Self { c: Some(c), ..self }
    }

    /// A vector with an element for each row of D, for epilogues that read it.
    #[must_use]
    pub fn per_row(self, vector: impl Into<DeviceSlice<'a, D>>) -> Self {
        Self { per_row: Some(vector.into()), ..self }
    }

    /// A vector with an element for each column of D, for epilogues that read it.
    #[must_use]
    pub fn per_column(self, vector: impl Into<DeviceSlice<'a, D>>) -> Self {
        Self { per_column: Some(vector.into()), ..self }
    }

    /// What becomes of each sum: one of [`kernels_gpu::matmul`], or one of your own kernel crate.
    #[must_use]
    pub fn epilogue<F: Epilogue>(self, epilogue: F) -> Options<'a, D, F> {
        Options {
            alpha: self.alpha,
            beta: self.beta,
            c: self.c,
            per_row: self.per_row,
            per_column: self.per_column,
            epilogue,
            choice: self.choice,
            most_scratch_bytes: self.most_scratch_bytes,
            most_multiprocessors: self.most_multiprocessors,
        }
    }

    /// One of [`choices`](super::choices), in place of what the cost model takes: where a measurement knows better.
    #[must_use]
    pub fn choice(self, choice: Choice) -> Self {
        Self { choice: Some(choice), ..self }
    }

    /// The product takes the fastest kernel by the cost model of those that need no more scratch than this, in bytes: there is one for 0.
    #[must_use]
    pub fn most_scratch_bytes(self, bytes: usize) -> Self {
        Self { most_scratch_bytes: bytes, ..self }
    }

    /// The product takes this many multiprocessors at most, and one at least: the others are left to kernels of other streams, such as those of
    /// a collective. A persistent kernel that finds a multiprocessor taken has its last blocks begin when the first ones have ended, and takes up
    /// to twice as long. Of several numbers the least holds, and a [`choice`](Self::choice) is of all multiprocessors. Kernels of which each block
    /// computes one tile (those for few rows, and for devices before Hopper) are not limited.
    #[must_use]
    pub fn most_multiprocessors(self, multiprocessors: u32) -> Self {
        let most_multiprocessors = self.most_multiprocessors.min(multiprocessors);
        Self { most_multiprocessors, ..self }
    }

    /// The options for some rows of D, which has the layout `of`: those rows of C and of the vector of rows. Without [`c`](Self::c), C
    /// is those rows of D. The epilogue sees a [row](kernels_gpu::matmul::Entry::row) as counted from the first of them.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) unless C, if it is read, has D's sizes (the message has both);
    /// [`SizeMismatch`](GpuError::SizeMismatch) if a vector of the epilogue has another length than D's rows or columns.
    ///
    /// # Panics
    /// If D has fewer rows.
    pub fn rows(self, of: &MatrixLayout, rows: Range<usize>) -> GpuResult<Self>
    where
        E: Epilogue,
    {
        self.check(of)?;
        let c = self.c.filter(|_| self.reads_c()).map(|c| c.rows(rows.clone()));
        let per_row = self.per_row.filter(|_| E::OPERANDS.per_row).map(|own| own.slice(rows));
        Ok(Self { c, per_row, ..self })
    }

    /// The options of partial sums: `alpha`, and where the product runs. No C, no epilogue.
    #[must_use]
    pub fn partial_sums(&self) -> Options<'a, D> {
        Options::new().alpha(self.alpha).most_multiprocessors(self.most_multiprocessors)
    }
}

impl<D: Pod, E: Epilogue> Options<'_, D, E> {
    /// Whether the product reads C, which is D where there is none.
    #[must_use]
    pub fn reads_c(&self) -> bool {
        self.beta != 0.0 || E::OPERANDS.c
    }

    /// An error unless C and the vectors, if they are read, have D's sizes.
    pub(super) fn check(&self, d: &MatrixLayout) -> GpuResult<()> {
        let c = self.c.filter(|_| self.reads_c()).map_or(*d, |c| c.layout());
        let repeats = c.batches == d.batches || c.batches == 1;
        if (c.rows, c.columns) != (d.rows, d.columns) || !repeats {
            let reason = format!("C is {c}, and D is {d}");
            return Err(GpuError::InvalidArgument { operation: OPERATION, reason });
        }
        let [per_row, per_column] =
            [self.per_row, self.per_column].map(|own| own.map(|own| own.len()));
        check_vector(E::OPERANDS.per_row, per_row, d.rows, "row")?;
        check_vector(E::OPERANDS.per_column, per_column, d.columns, "column")
    }
}

fn check_vector(is_read: bool, len: Option<usize>, expected: usize, of: &str) -> GpuResult<()> {
    match (is_read, len) {
        (true, Some(len)) => same_len(OPERATION, expected, len),
        (true, None) => {
            let reason = format!(
                "the epilogue reads a vector with an element for each {of} of D, and there is none: `Options::per_{of}`"
            );
            Err(GpuError::InvalidArgument { operation: OPERATION, reason })
        }
        (false, _) => Ok(()),
    }
}
