//! Softmax and norms of rows: the functions, and what a backend does for them.

use burn_ndarray::{FloatNdArrayElement, IntNdArrayElement, NdArray, NdArrayTensor, SharedArray};
use burn_tensor::backend::Backend;
use burn_tensor::ops::FloatTensor;
use burn_tensor::{DType, Tensor, TensorData, TensorMetadata, TensorPrimitive};
use ferrowarp::ops::norm::{self, WeightGradients};
use ferrowarp::ops::{Scratch, softmax as softmax_rows};
use half::{bf16, f16};

use crate::data::{Element, computed, gpu, read, upload, with_float};
use crate::error::{Error, Result};

const SOFTMAX: &str = "softmax";
const NORM: &str = "a norm";

/// The softmax of each row along the last axis, computed in `f32`, or its logarithm.
///
/// # Errors
/// For elements of other types than the module lists; what burn or the library reports.
pub fn softmax<B: Rows, const D: usize>(x: Tensor<B, D>, log: bool) -> Result<Tensor<B, D>> {
    B::softmax_rows(x.into_primitive().tensor(), log).map(tensor)
}

/// The layer norm of each row along the last axis, times `gamma` plus `beta`, computed in `f32`.
///
/// # Errors
/// As [`softmax`], and if `gamma` or `beta` are not as long as a row.
pub fn layer_norm<B: Rows, const D: usize>(
    x: Tensor<B, D>,
    gamma: Tensor<B, 1>,
    beta: Tensor<B, 1>,
    epsilon: f32,
) -> Result<Tensor<B, D>> {
    let [x, gamma, beta] = [x.into_primitive(), gamma.into_primitive(), beta.into_primitive()]
        .map(TensorPrimitive::tensor);
    B::norm_rows([x, gamma, beta], Norm { is_centered: true, epsilon }).map(tensor)
}

/// The RMS norm of each row along the last axis, times `gamma`, computed in `f32`.
///
/// # Errors
/// As [`layer_norm`].
pub fn rms_norm<B: Rows, const D: usize>(
    x: Tensor<B, D>,
    gamma: Tensor<B, 1>,
    epsilon: f32,
) -> Result<Tensor<B, D>> {
    let (x, gamma) = (x.into_primitive().tensor(), gamma.into_primitive().tensor());
    // The kernels' RMS norm takes a bias too; without one it is the sum with zeros.
    let beta = B::float_zeros(gamma.shape(), &B::float_device(&gamma), gamma.dtype().into());
    B::norm_rows([x, gamma, beta], Norm { is_centered: false, epsilon }).map(tensor)
}

fn tensor<B: Backend, const D: usize>(own: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(own))
}

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Whether the mean is subtracted: a layer norm, else an RMS norm.
    pub is_centered: bool,
    /// What is added to the variance, or to the mean of squares.
    pub epsilon: f32,
}

/// A backend whose tensors [`softmax`] and the norms take. What is not overridden goes through the host's memory.
pub trait Rows: Backend {
    /// The softmax of rows, or its logarithm.
    ///
    /// # Errors
    /// As [`softmax`].
    fn softmax_rows(x: FloatTensor<Self>, log: bool) -> Result<FloatTensor<Self>> {
        let (shape, dtype, device) = (x.shape(), x.dtype(), Self::float_device(&x));
        let columns = columns(SOFTMAX, &shape)?;
        let x = read::<Self>(x)?;
        with_float!(SOFTMAX, dtype, [F32 f32, F16 f16, BF16 bf16], T => {
            let gpu = gpu()?;
            let x = upload::<T>(gpu, &x)?;
            let y = computed::<T>(gpu, x.len(), |y| match log {
                true => softmax_rows::log_softmax_into(gpu, &x, columns, y),
                false => softmax_rows::softmax_into(gpu, &x, columns, y),
            })?;
            Ok(Self::float_from_data(TensorData::new(y, shape), &device))
        })
    }

    /// The gradient by the argument of [`softmax_rows`](Self::softmax_rows), of its result `y` and the gradient `dy` by that.
    ///
    /// # Errors
    /// As [`softmax`].
    fn softmax_rows_backward(
        y: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        log: bool,
    ) -> Result<FloatTensor<Self>> {
        let (shape, dtype, device) = (y.shape(), y.dtype(), Self::float_device(&y));
        let columns = columns(SOFTMAX, &shape)?;
        let (y, dy) = (read::<Self>(y)?, read::<Self>(dy)?);
        with_float!(SOFTMAX, dtype, [F32 f32, F16 f16, BF16 bf16], T => {
            let gpu = gpu()?;
            let (y, dy) = (upload::<T>(gpu, &y)?, upload::<T>(gpu, &dy)?);
            let dx = computed::<T>(gpu, y.len(), |dx| match log {
                true => softmax_rows::log_softmax_backward_into(gpu, &y, &dy, columns, dx),
                false => softmax_rows::softmax_backward_into(gpu, &y, &dy, columns, dx),
            })?;
            Ok(Self::float_from_data(TensorData::new(dx, shape), &device))
        })
    }

    /// The norm of rows: of x, gamma and beta.
    ///
    /// # Errors
    /// As [`layer_norm`].
    fn norm_rows(inputs: [FloatTensor<Self>; 3], which: Norm) -> Result<FloatTensor<Self>> {
        let [x, gamma, beta] = inputs;
        let (shape, dtype, device) = (x.shape(), x.dtype(), Self::float_device(&x));
        let columns = columns(NORM, &shape)?;
        check_weights::<Self>((columns, dtype), [&gamma, &beta])?;
        let [x, gamma, beta] = [read::<Self>(x)?, read::<Self>(gamma)?, read::<Self>(beta)?];
        with_float!(NORM, dtype, [F32 f32, F16 f16, BF16 bf16], T => {
            let gpu = gpu()?;
            let (x, gamma, beta) =
                (upload::<T>(gpu, &x)?, upload::<T>(gpu, &gamma)?, upload::<T>(gpu, &beta)?);
            let norm = which.of_rows(columns).weight(gamma.as_slice()).bias(beta.as_slice());
            let y = computed::<T>(gpu, x.len(), |y| norm::norm_into(gpu, &norm, &x, y))?;
            Ok(Self::float_from_data(TensorData::new(y, shape), &device))
        })
    }

    /// The gradients of [`norm_rows`](Self::norm_rows) by x, gamma and beta, of x, gamma and the gradient `dy` by the result.
    ///
    /// # Errors
    /// As [`layer_norm`].
    fn norm_rows_backward(
        inputs: [FloatTensor<Self>; 3],
        which: Norm,
    ) -> Result<[FloatTensor<Self>; 3]> {
        let [x, gamma, dy] = inputs;
        let (shape, dtype, device) = (x.shape(), x.dtype(), Self::float_device(&x));
        let columns = columns(NORM, &shape)?;
        let [x, gamma, dy] = [read::<Self>(x)?, read::<Self>(gamma)?, read::<Self>(dy)?];
        with_float!(NORM, dtype, [F32 f32, F16 f16, BF16 bf16], T => {
            let all = norm_gradients::<T>([&x, &gamma, &dy], columns, which)?;
            let [dx, of_gamma, of_beta] = all;
            Ok([
                Self::float_from_data(TensorData::new(dx, shape), &device),
                Self::float_from_data(TensorData::new(of_gamma, [columns]), &device),
                Self::float_from_data(TensorData::new(of_beta, [columns]), &device),
            ])
        })
    }
}

impl<E: FloatNdArrayElement, I: IntNdArrayElement> Rows for NdArray<E, I> where
    NdArrayTensor: From<SharedArray<E>> + From<SharedArray<I>>
{
}

#[cfg(feature = "flex")]
impl Rows for burn_flex::Flex {}

/// The gradients by x, gamma and beta.
fn norm_gradients<T: Element + ferrowarp::ops::RowValue>(
    [x, gamma, dy]: [&TensorData; 3],
    columns: usize,
    which: Norm,
) -> Result<[Vec<T>; 3]> {
    let gpu = gpu()?;
    let (x, gamma, dy) = (upload::<T>(gpu, x)?, upload::<T>(gpu, gamma)?, upload::<T>(gpu, dy)?);
    let rows = x.len().checked_div(columns).unwrap_or(0);
    let norm = which.of_rows(columns).weight(gamma.as_slice());
    let (mut of_gamma, mut of_beta) = (vec![], vec![]);
    let dx = computed::<T>(gpu, x.len(), |dx| {
        let mut scratch = Scratch::with_bytes_async(gpu, norm::scratch_bytes(rows, columns))?;
        let mut weights = ferrowarp::DeviceBuffer::<T>::zeroed(gpu, 2 * columns)?;
        let (weight, bias) = weights.as_mut_slice().split_at_mut(columns);
        let gradients = WeightGradients { weight: Some(weight), bias: Some(bias) };
        norm::backward_with_weights_into(gpu, &norm, &x, &dy, dx, gradients, &mut scratch)?;
        let mut both = weights.to_vec()?;
        of_beta = both.split_off(columns);
        of_gamma = both;
        Ok(())
    })?;
    of_gamma.resize(columns, T::zeroed());
    of_beta.resize(columns, T::zeroed());
    Ok([dx, of_gamma, of_beta])
}

impl Norm {
    fn of_rows<'a, T: Element>(self, columns: usize) -> norm::Norm<'a, T> {
        let norm =
            if self.is_centered { norm::Norm::layer(columns) } else { norm::Norm::rms(columns) };
        norm.epsilon(self.epsilon)
    }
}

/// The length of the last axis.
fn columns(operation: &'static str, shape: &[usize]) -> Result<usize> {
    shape
        .last()
        .copied()
        .ok_or_else(|| Error::Shape { operation, reason: "the tensor has no axis".to_owned() })
}

/// An error unless gamma and beta are as long as a row of x and have elements of its type.
fn check_weights<B: Backend>(
    (columns, of_x): (usize, DType),
    weights: [&FloatTensor<B>; 2],
) -> Result<()> {
    for own in weights {
        if own.dtype() != of_x {
            return Err(Error::MixedTypes { operation: NORM, of_x, of_weight: own.dtype() });
        }
        if own.shape()[..] != [columns] {
            let reason = format!(
                "gamma or beta has the shape {:?}, and a row {columns} elements",
                &own.shape()[..]
            );
            return Err(Error::Shape { operation: NORM, reason });
        }
    }
    Ok(())
}
