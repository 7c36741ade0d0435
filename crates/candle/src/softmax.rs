//! Softmax.

use candle_core::{CustomOp1, CustomOp2, D, DType, Error, Layout, Result, Shape, Tensor};
use ferrowarp::ops;
use half::{bf16, f16};

use crate::memory::{Storage, forwards};

/// Evaluates `$body` with `$T` as the Rust type of `$dtype`, a float that rows have.
macro_rules! with_float {
    ($operation:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F16 => {
                type $T = f16;
                $body
            }
            DType::BF16 => {
                type $T = bf16;
                $body
            }
            other => Err(Error::UnsupportedDTypeForOp(other, $operation).bt()),
        }
    };
}

pub(crate) use with_float;

const FORWARD: &str = "ferrowarp softmax";
const BACKWARD: &str = "ferrowarp softmax gradient";

/// The softmax of each row along the last dimension, computed in `f32`: as `candle_nn::ops::softmax_last_dim`, with a gradient.
///
/// # Errors
/// For a tensor that is not contiguous or of other types; what the library reports, wrapped.
pub fn softmax_last_dim(x: &Tensor) -> Result<Tensor> {
    x.apply_op1(Softmax { columns: x.dim(D::Minus1)? })
}

struct Softmax {
    columns: usize,
}

impl Softmax {
    fn forward<S: Storage>(&self, x: &S, layout: &Layout) -> Result<(S, Shape)> {
        let len = layout.shape().elem_count();
        let y = with_float!(FORWARD, x.dtype(), T => {
            S::run::<T, T>(FORWARD, &[(x, layout)], len, |gpu, inputs, mut out| {
                ops::softmax::softmax_into(gpu, &inputs[0], self.columns, &mut out)
            })
        })?;
        Ok((y, layout.shape().clone()))
    }
}

impl CustomOp1 for Softmax {
    fn name(&self) -> &'static str {
        FORWARD
    }

    forwards!((x layout) => |op| op.forward(x, layout));

    fn bwd(&self, _: &Tensor, y: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        let gradient = SoftmaxGradient { columns: self.columns };
        y.contiguous()?.apply_op2_no_bwd(&dy.contiguous()?, &gradient).map(Some)
    }
}

/// Of the result and its gradient.
struct SoftmaxGradient {
    columns: usize,
}

impl SoftmaxGradient {
    fn forward<S: Storage>(&self, inputs: [(&S, &Layout); 2]) -> Result<(S, Shape)> {
        let [(y, layout), _] = inputs;
        let len = layout.shape().elem_count();
        let dx = with_float!(BACKWARD, y.dtype(), T => {
            S::run::<T, T>(BACKWARD, &inputs, len, |gpu, inputs, mut out| {
                ops::softmax::softmax_backward_into(gpu, &inputs[0], &inputs[1], self.columns, &mut out)
            })
        })?;
        Ok((dx, layout.shape().clone()))
    }
}

impl CustomOp2 for SoftmaxGradient {
    fn name(&self) -> &'static str {
        BACKWARD
    }

    forwards!((y of_y) (dy of_dy) => |op| op.forward([(y, of_y), (dy, of_dy)]));
}
