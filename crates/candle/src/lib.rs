//! Ferrowarp's operations on tensors of [candle](candle_core), with the signatures of candle's own: a program changes one call at a time.
//!
//! | candle | here | element types | gradient |
//! |---|---|---|---|
//! | `candle_nn::ops::softmax_last_dim` | [`softmax_last_dim`] | `f32`, `f16`, `bf16` | yes |
//! | `candle_nn::ops::layer_norm` | [`layer_norm`] | `f32`, `f16`, `bf16` | yes |
//! | `candle_nn::ops::rms_norm` | [`rms_norm`] | `f32`, `f16`, `bf16` | yes |
//! | `Tensor::arg_sort_last_dim` | [`arg_sort_last_dim`] | all but `f8` and smaller | of indices there is none |
//! | `Tensor::sort_last_dim` | [`sort_last_dim`] | all but `f8` and smaller | yes |
//! | | [`top_k_last_dim`] | all but `f8` and smaller | yes |
//!
//! Tensors are contiguous. A tensor of the CPU is copied to device 0, a GPU or the emulator, and the result is copied back. A tensor of a
//! CUDA device is used where it is, with the feature `cuda`: work is ordered by candle's stream, and no call waits.
//!
//! ```
//! use candle_core::{Device, Tensor};
//!
//! let x = Tensor::new(&[[1f32, 3.0, 2.0], [0.0, 0.0, 9.0]], &Device::Cpu)?;
//! let (values, indices) = ferrowarp_candle::top_k_last_dim(&x, 2, true)?;
//! assert_eq!(values.to_vec2::<f32>()?, [[3.0, 2.0], [9.0, 0.0]]);
//! assert_eq!(indices.to_vec2::<u32>()?, [[1, 2], [2, 0]]);
//! # Ok::<(), candle_core::Error>(())
//! ```

#[cfg(feature = "cuda")]
mod cuda;
mod memory;
mod norm;
mod softmax;
mod sort;

pub use norm::{layer_norm, rms_norm};
pub use softmax::softmax_last_dim;
pub use sort::{arg_sort_last_dim, sort_last_dim, top_k_last_dim};
