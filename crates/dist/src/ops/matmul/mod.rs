//! Matrix products over ranks: the two of a tensor-parallel layer, each with its exchange beside the product.
//!
//! | product | what each rank has | what each rank gets |
//! |---|---|---|
//! | [`ColumnParallel`] | rows of A, columns of B | all rows of `D = epilogue(alpha · A·B + beta · C)`, its columns: all-gather, product |
//! | [`RowParallel`] | columns of A, the same rows of B | rows of `D = epilogue(alpha · A·B)`: product, reduce-scatter |
//!
//! They are the column-parallel and the row-parallel layer of M. Shoeybi et al., *Megatron-LM: training multi-billion parameter language
//! models using model parallelism*, 2019, with the activations between layers split by rows (sequence parallelism: V. Korthikanti et
//! al., *Reducing activation recomputation in large transformer models*, 2022). Where the result of a layer is to be
//! whole on every rank, its shares are [gathered](RowParallel::multiply_whole_into), which moves as many bytes as an all-reduce in all.
//!
//! ```
//! use cuda_std::bf16;
//! use ferrowarp::DeviceBuffer;
//! use ferrowarp::ops::matmul::{Matrix, MatrixMut, Options};
//! use ferrowarp_dist::{Communicator, World, ops::{ColumnParallel, RowParallel, Shares}};
//!
//! let world = World::alone(); // or World::from_env()?
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! // Tokens in shares, 16 numbers each; a hidden layer of 32 numbers, of which each rank has a share.
//! let (tokens, width, hidden) = (Shares::even(8, ranks.size()), 16, 32 / ranks.size() as usize);
//! let own = tokens.len_of(ranks.rank());
//! let x = DeviceBuffer::from_slice(&gpu, &vec![bf16::ONE; own * width])?;
//! let up = DeviceBuffer::from_slice(&gpu, &vec![bf16::ONE; width * hidden])?;
//! let down = DeviceBuffer::from_slice(&gpu, &vec![bf16::ONE; hidden * width])?;
//! let mut inner = DeviceBuffer::<bf16>::zeroed(&gpu, tokens.total() * hidden)?;
//! let mut y = DeviceBuffer::<bf16>::zeroed(&gpu, own * width)?;
//!
//! let mut first = ColumnParallel::new(&ranks, &tokens, [hidden, width])?;
//! let mut second = RowParallel::new(&ranks, &tokens, width)?;
//! let (a, b) = (Matrix::row_major(&x, own, width)?, Matrix::row_major(&up, width, hidden)?);
//! let d = MatrixMut::row_major(&mut inner, tokens.total(), hidden)?;
//! first.multiply_into(&gpu, a, b, d, Options::new())?;
//! let (a, b) = (Matrix::row_major(&inner, tokens.total(), hidden)?, Matrix::row_major(&down, hidden, width)?);
//! second.multiply_into(&gpu, a, b, MatrixMut::row_major(&mut y, own, width)?, Options::new())?;
//! ranks.synchronize(&gpu)?;
//! assert_eq!(y.to_vec()?[0], bf16::from_f32(16.0 * 32.0));
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```
//!
//! # Overlap
//! Each rank's share of rows is cut into pieces, which travel on a stream of their own while others are multiplied. A cost model chooses how many:
//! as many as leave each product enough tiles to fill the device twice. One piece is the form without overlap: the all-gather before one
//! product of all rows, or the reduce-scatter after it. It is also what shares get that are too small to be multiplied by themselves, and all shares of more than two ranks: on four H200s
//! pieces beside the products took longer than one exchange. `in_pieces` asks for them.
//!
//! An epilogue that reads [`Entry::row`](kernels_gpu::matmul::Entry::row) sees the row in the piece, and so needs one piece: then it is that in D.
//!
//! Where the ranks [reach each other's memory](Communicator::has_peer_memory), copy engines move large pieces, and need no multiprocessor.
//! Otherwise NCCL's kernels do. The products that run beside them are persistent kernels of one block a multiprocessor, which leave no room for
//! another block there. So they take fewer multiprocessors than there are:
//! see [`Options::most_multiprocessors`](ferrowarp::ops::matmul::Options::most_multiprocessors).

mod column;
mod link;
mod pieces;
mod row;

use std::fmt::Display;

use bytemuck::Pod;
use ferrowarp::GpuError;
use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::matmul::{Matrix, MatrixLayout, Order};

pub use column::ColumnParallel;
pub use row::RowParallel;

use crate::communicator::Communicator;
use crate::error::{DistError, DistResult};

/// The memory of a row-major matrix without gaps; `None` if it is not one.
fn without_gaps<'a, T: Pod>(matrix: &Matrix<'a, T>) -> Option<DeviceSlice<'a, T>> {
    let layout = matrix.layout();
    has_no_gaps(&layout).then(|| matrix.memory().slice(..layout.rows * layout.columns))
}

fn has_no_gaps(layout: &MatrixLayout) -> bool {
    let MatrixLayout { rows, columns, order, leading, .. } = *layout;
    layout.is_empty() || (order == Order::RowMajor && (leading == columns || rows == 1))
}

/// An error unless a matrix of this rank has these rows and columns, and is one and not a batch. `because` says what asks for it.
fn check_sizes(
    ranks: &Communicator,
    operation: &'static str,
    (name, found): (&str, &MatrixLayout),
    (rows, columns): (usize, usize),
    because: impl Display,
) -> DistResult<()> {
    if (found.rows, found.columns, found.batches) == (rows, columns, 1) {
        return Ok(());
    }
    let rank = ranks.rank();
    let reason =
        format!("{name} of rank {rank} is {found}, and must be {rows} × {columns}: {because}");
    Err(DistError::Gpu(GpuError::InvalidArgument { operation, reason }))
}
