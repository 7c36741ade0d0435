//! Products of a sparse matrix, whose rows are divided among ranks, with a vector that is divided likewise.
//!
//! ```no_run
//! use ferrowarp::DeviceBuffer;
//! use ferrowarp_dist::ops::{RowCsr, Shares};
//! use ferrowarp_dist::{Communicator, World};
//!
//! let world = World::from_env()?;
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! // A ring: each row is the mean of the elements before and after it.
//! let slabs = Shares::even(1000, ranks.size());
//! let own = slabs.range(ranks.rank());
//! let columns: Vec<u64> = own.clone().flat_map(|row| [row + 999, row + 1]).map(|x| x as u64 % 1000).collect();
//! let offsets: Vec<u32> = (0..=own.len() as u32).map(|row| 2 * row).collect();
//! let mut a = RowCsr::new(&ranks, &slabs, &offsets, &columns, &vec![0.5f32; columns.len()])?;
//! let x = DeviceBuffer::from_slice(&gpu, &vec![1.0f32; own.len()])?;
//! let mut y = DeviceBuffer::zeroed(&gpu, own.len())?;
//! a.multiply_into(&gpu, &x, &mut y)?;
//! # drop(a);
//! # drop(ranks);
//! world.finish()?;
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```
//!
//! # Method
//!
//! A rank's rows are in two parts: *near* entries, in the columns of the vector's elements that it has, and *far* ones. When the
//! matrix is made, each rank tells the others which of their elements its far entries need, each once. A product then:
//!
//! 1. takes what others need out of the vector, and exchanges it on a stream of its own;
//! 2. meanwhile multiplies the near part;
//! 3. multiplies the far part with what has come, and adds both.
//!
//! PETSc divides its parallel matrices in the same way, as diagonal and off-diagonal parts (S. Balay, W. D. Gropp,
//! L. Curfman McInnes and B. F. Smith, "Efficient Management of Parallelism in Object Oriented Numerical Software
//! Libraries", 1997).
//!
//! # Rounding
//!
//! The two parts of a row are summed apart, each as [`spmv_into`](ferrowarp::ops::spmv_into) does on one device, and then added. So
//! the last bits depend on how columns are divided, and are the same again and again for the same division. With `n` entries in
//! a row, `|y - exact| ≤ (n + 3) ε Σ |a x|`, where ε is the distance from 1 to the next number (N. J. Higham, "The Accuracy of
//! Floating Point Summation", 1993, for any order of `n + 1` additions, and a rounding of each product).

mod plan;
mod value;

use cuda_std::launch::{DeviceRead, DeviceWrite};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::spmv::Csr;
use ferrowarp::{AsStream, GpuError, Stream};

use plan::{Parts, Plan, Rows};
pub use value::MatrixValue;

use super::shares::{Shares, same_len};
use crate::communicator::Communicator;
use crate::error::DistResult;

const OPERATION: &str = "a matrix in rows of ranks";

/// A sparse matrix in compressed rows, of which each rank has some, and what a product needs of other ranks.
///
/// Rows are in the order of the ranks. How many each has is its own affair: a rank may have none.
pub struct RowCsr<T: MatrixValue> {
    ranks: Communicator,
    /// The stream of the exchange and of the far part.
    exchange: Stream,
    near: Csr<T>,
    far: Csr<T>,
    /// Takes what others need out of the vector: one entry in each row.
    taken: Csr<T>,
    plan: Plan,
    /// The elements for others, and those of others.
    sent: DeviceBuffer<T>,
    received: DeviceBuffer<T>,
    /// The products of both parts.
    products: [DeviceBuffer<T>; 2],
    scratch: [Scratch; 2],
}

impl<T: MatrixValue> RowCsr<T> {
    /// The matrix of which this rank has these rows: `offsets: [rows of this rank + 1]`, from 0; `entry_columns: [entries]`, of
    /// the whole matrix; `values: [entries]`. `columns` says how many of the vector's elements each rank has. All ranks call it. A
    /// column may occur twice in a row. Waits for the exchange of what is needed.
    ///
    /// # Errors
    /// [`Length`](crate::DistError::Length) if there is not a share for each rank; [`GpuError::InvalidArgument`] if the offsets
    /// do not begin at 0, do not rise, or do not end at the number of entries, or a column is past the last one;
    /// [`GpuError::SizeMismatch`] if there are not as many columns as values; what an
    /// [exchange](Communicator::all_to_all_uneven) returns; out of memory.
    pub fn new(
        ranks: &Communicator,
        columns: &Shares,
        offsets: &[u32],
        entry_columns: &[u64],
        values: &[T],
    ) -> DistResult<Self> {
        ranks.attempt(|| {
            columns.check(ranks, OPERATION)?;
            check_matrix(columns.total() as u64, offsets, entry_columns, values.len())?;
            let own = columns.range(ranks.rank());
            let parts = Parts::new(offsets, entry_columns, values, own.clone());
            let plan = Plan::new(ranks, columns, &parts.needed)?;
            let (gpu, exchange) = (ranks.gpu(), ranks.gpu().create_stream()?);
            let matrix = |on: &Stream, width: usize, rows: &Rows<T>| {
                Csr::new(on, width, &rows.offsets, &rows.columns, &rows.values)
            };
            let rows = offsets.len() - 1;
            Ok(Self {
                ranks: ranks.clone(),
                near: matrix(gpu.stream(), own.len(), &parts.near)?,
                far: matrix(&exchange, parts.needed.len(), &parts.far)?,
                taken: matrix(&exchange, own.len(), &choice(&plan.elements))?,
                sent: DeviceBuffer::zeroed(&exchange, plan.elements.len())?,
                received: DeviceBuffer::zeroed(&exchange, parts.needed.len())?,
                products: [
                    DeviceBuffer::zeroed(gpu, rows)?,
                    DeviceBuffer::zeroed(&exchange, rows)?,
                ],
                scratch: [Scratch::new(gpu)?, Scratch::new(&exchange)?],
                plan,
                exchange,
            })
        })
    }

    /// `y = A x`. `x: [this rank's share of the columns]`; `y: [rows of this rank]`. All ranks call it. Enqueued; over MPI the
    /// exchange is done on return.
    ///
    /// # Errors
    /// [`Length`](crate::DistError::Length) if a length does not fit, before anything is enqueued; what an
    /// [exchange](Communicator::all_to_all_uneven) returns; errors of the driver.
    pub fn multiply_into(
        &mut self,
        on: &impl AsStream,
        x: &impl DeviceRead<T>,
        y: &mut impl DeviceWrite<T>,
    ) -> DistResult<()> {
        self.ranks.clone().attempt(|| self.multiply(on.as_stream(), x, y))
    }

    fn multiply(
        &mut self,
        on: &Stream,
        x: &impl DeviceRead<T>,
        y: &mut impl DeviceWrite<T>,
    ) -> DistResult<()> {
        same_len(OPERATION, "this rank's part of the vector", self.near.width(), x.len())?;
        same_len(OPERATION, "this rank's part of the product", self.rows(), y.len())?;
        let ([near, far], [for_near, for_far]) = (&mut self.products, &mut self.scratch);
        T::take(&self.exchange, &self.taken, x, &mut self.sent)?;
        // Before the exchange, in which the host waits over MPI.
        T::multiply(on, &self.near, x, near, for_near)?;
        let (sent, received) = (&self.plan.sent, &self.plan.received);
        let (from, to) = (&self.sent, &mut self.received);
        self.ranks.all_to_all_uneven(&self.exchange, from, sent, to, received)?;
        T::multiply(&self.exchange, &self.far, &self.received, far, for_far)?;
        Ok(T::add(on, near, far, y)?)
    }

    /// The rows of this rank.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.near.rows()
    }

    /// How many elements of the vector each product gets of other ranks.
    #[must_use]
    pub fn received_elements(&self) -> usize {
        self.received.len()
    }

    /// How many elements of the vector each product gives to other ranks.
    #[must_use]
    pub fn sent_elements(&self) -> usize {
        self.sent.len()
    }
}

/// The matrix that takes these elements of a vector.
fn choice<T: MatrixValue>(elements: &[u32]) -> Rows<T> {
    Rows {
        offsets: (0..=elements.len() as u32).collect(),
        columns: elements.to_vec(),
        values: vec![T::ONE; elements.len()],
    }
}

/// What the division into parts relies on.
fn check_matrix(width: u64, offsets: &[u32], columns: &[u64], values: usize) -> DistResult<()> {
    let operation = OPERATION;
    if columns.len() != values {
        let (expected, found) = (columns.len(), values);
        return Err(GpuError::SizeMismatch { operation, expected, found }.into());
    }
    let ends_well = offsets.last().map(|end| *end as usize) == Some(columns.len());
    if offsets.first() != Some(&0) || !offsets.is_sorted() || !ends_well {
        let reason = "the offsets must rise from 0 to the number of entries".to_owned();
        return Err(GpuError::InvalidArgument { operation, reason }.into());
    }
    match columns.iter().find(|column| **column >= width) {
        Some(column) => {
            let reason = format!("there is an entry in column {column}, of {width} columns");
            Err(GpuError::InvalidArgument { operation, reason }.into())
        }
        None => Ok(()),
    }
}
