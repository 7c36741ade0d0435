//! What an operation can report.

use burn_tensor::{DType, DataError};
use ferrowarp::GpuError;
use thiserror::Error;

/// A result, or what went wrong.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The elements are of a type that the operation has no kernel for.
    #[error("{operation} has no kernel for elements of {found:?}: convert the tensor with `cast`")]
    ElementType {
        /// The function that was called.
        operation: &'static str,
        /// The type of the tensor's elements.
        found: DType,
    },
    /// The weights of a norm have elements of another type than the rows.
    #[error(
        "{operation}: gamma or beta has elements of {of_weight:?}, and x of {of_x:?}: convert it with `cast`"
    )]
    MixedTypes {
        /// The function that was called.
        operation: &'static str,
        /// The type of the rows' elements.
        of_x: DType,
        /// The type of the elements of gamma or beta.
        of_weight: DType,
    },
    /// The tensors do not fit each other, or the operation.
    #[error("{operation}: {reason}")]
    Shape {
        /// The function that was called.
        operation: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// A gradient of a gradient of softmax or a norm was asked for.
    #[error(
        "softmax and norms have no gradients of gradients here: use burn's own for `Autodiff` of an `Autodiff`"
    )]
    SecondOrder,
    /// burn could not read the elements of a tensor.
    #[error("burn could not read a tensor: {0}")]
    Read(String),
    /// The elements that burn has read are of another type than it said.
    #[error("burn's elements: {0}")]
    Data(#[from] DataError),
    /// The library, or the driver, has refused the operation.
    #[error(transparent)]
    Library(#[from] GpuError),
}
