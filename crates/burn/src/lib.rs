//! Ferrowarp's operations on tensors of [burn](burn_tensor), with results as burn's own have them: a program changes one call at a time.
//!
//! | burn | here | element types | gradient |
//! |---|---|---|---|
//! | `activation::softmax`, along the last axis | [`softmax`] | `f32`, `f16`, `bf16` | yes |
//! | `nn::LayerNorm` | [`layer_norm`] | `f32`, `f16`, `bf16` | yes |
//! | `nn::RmsNorm` | [`rms_norm`] | `f32`, `f16`, `bf16` | yes |
//! | `Tensor::sort_with_indices`, along the last axis | [`sort`] | floats | yes |
//! | `Tensor::argsort`, along the last axis | [`argsort`] | floats | of indices there is none |
//! | `Tensor::topk_with_indices`, along the last axis | [`top_k`] | floats | yes |
//!
//! Elements are copied to device 0, which is a GPU or the emulator, and results are copied back to the tensor's device: the call waits
//! for both. Sorts take tensors of any backend. Softmax and norms take those whose backend is [`Rows`]: `NdArray`, whose floats are `f32`
//! and `f64`, with the feature `flex` burn's `Flex`, which has `f16` and `bf16` too, and `Autodiff` of such a backend, for which they
//! have gradients, but none of gradients.
//!
//! ```
//! use burn_ndarray::NdArray;
//! use burn_tensor::Tensor;
//!
//! let x = Tensor::<NdArray, 2>::from_data([[1.0, 3.0, 2.0], [0.0, 0.0, 9.0]], &Default::default());
//! let (values, indices) = ferrowarp_burn::top_k(x, 2, true)?;
//! assert_eq!(values.into_data().to_vec::<f32>().unwrap(), [3.0, 2.0, 9.0, 0.0]);
//! assert_eq!(indices.into_data().to_vec::<i64>().unwrap(), [1, 2, 2, 0]);
//! # Ok::<(), ferrowarp_burn::Error>(())
//! ```

mod autodiff;
mod data;
mod error;
mod rows;
mod sort;

pub use error::{Error, Result};
pub use rows::{Norm, Rows, layer_norm, rms_norm, softmax};
pub use sort::{argsort, sort, top_k};
