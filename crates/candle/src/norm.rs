//! Layer norm and RMS norm.

use candle_core::{CustomOp2, CustomOp3, D, DType, Error, Layout, Result, Shape, Tensor};
use ferrowarp::DeviceSlice;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::norm::{self, Norm, WeightGradients, norm_into};
use half::{bf16, f16};

use crate::memory::{Element, Storage, forwards};
use crate::softmax::with_float;

const LAYER: &str = "ferrowarp layer norm";
const RMS: &str = "ferrowarp rms norm";
const BACKWARD: &str = "ferrowarp norm gradient";

/// The layer norm of each row along the last dimension, times `alpha` plus `beta`, computed in `f32`: as `candle_nn::ops::layer_norm`,
/// with gradients.
///
/// # Errors
/// For tensors that are not contiguous, of other types or of more than one; what the library reports, wrapped.
pub fn layer_norm(x: &Tensor, alpha: &Tensor, beta: &Tensor, eps: f32) -> Result<Tensor> {
    x.apply_op3(alpha, beta, Rows { columns: x.dim(D::Minus1)?, is_centered: true, eps })
}

/// The RMS norm of each row along the last dimension, times `alpha`, computed in `f32`: as `candle_nn::ops::rms_norm`, with gradients.
///
/// # Errors
/// As [`layer_norm`].
pub fn rms_norm(x: &Tensor, alpha: &Tensor, eps: f32) -> Result<Tensor> {
    x.apply_op2(alpha, Rows { columns: x.dim(D::Minus1)?, is_centered: false, eps })
}

#[derive(Clone, Copy)]
struct Rows {
    columns: usize,
    is_centered: bool,
    eps: f32,
}

impl Rows {
    /// The norm with weights.
    fn norm<'a, T: Element>(&self, alpha: DeviceSlice<'a, T>) -> Norm<'a, T> {
        let norm =
            if self.is_centered { Norm::layer(self.columns) } else { Norm::rms(self.columns) };
        norm.epsilon(self.eps).weight(alpha)
    }

    /// Inputs: x, alpha, and beta if there is one.
    fn forward<S: Storage>(
        &self,
        operation: &'static str,
        inputs: &[(&S, &Layout)],
    ) -> Result<(S, Shape)> {
        let (x, layout) = inputs[0];
        let len = layout.shape().elem_count();
        let y = with_float!(operation, x.dtype(), T => {
            S::run::<T, T>(operation, inputs, len, |gpu, inputs, mut out| {
                let norm = self.norm(inputs[1]);
                let norm = inputs.get(2).iter().fold(norm, |norm, beta| norm.bias(**beta));
                norm_into(gpu, &norm, &inputs[0], &mut out)
            })
        })?;
        Ok((y, layout.shape().clone()))
    }

    /// The gradients by x, by alpha and by beta.
    fn gradients(&self, x: &Tensor, alpha: &Tensor, dy: &Tensor) -> Result<[Tensor; 3]> {
        let (n, columns) = (x.elem_count(), self.columns);
        let all = x.contiguous()?.apply_op3_no_bwd(
            &alpha.contiguous()?,
            &dy.contiguous()?,
            &NormGradient { rows: *self },
        )?;
        let part = |start, len, shape: &Shape| all.narrow(0, start, len)?.reshape(shape);
        Ok([
            part(0, n, x.shape())?,
            part(n, columns, alpha.shape())?,
            part(n + columns, columns, alpha.shape())?,
        ])
    }
}

impl CustomOp3 for Rows {
    fn name(&self) -> &'static str {
        LAYER
    }

    forwards!((x of_x) (alpha of_alpha) (beta of_beta) => |op| {
        op.forward(LAYER, &[(x, of_x), (alpha, of_alpha), (beta, of_beta)])
    });

    fn bwd(
        &self,
        x: &Tensor,
        alpha: &Tensor,
        _: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [dx, d_alpha, d_beta] = self.gradients(x, alpha, dy)?;
        Ok((Some(dx), Some(d_alpha), Some(d_beta)))
    }
}

impl CustomOp2 for Rows {
    fn name(&self) -> &'static str {
        RMS
    }

    forwards!((x of_x) (alpha of_alpha) => |op| {
        op.forward(RMS, &[(x, of_x), (alpha, of_alpha)])
    });

    fn bwd(
        &self,
        x: &Tensor,
        alpha: &Tensor,
        _: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let [dx, d_alpha, _] = self.gradients(x, alpha, dy)?;
        Ok((Some(dx), Some(d_alpha)))
    }
}

/// The gradients, one after the other: by x, by alpha, by beta.
struct NormGradient {
    rows: Rows,
}

impl NormGradient {
    /// Inputs: x, alpha, and the gradient of the result.
    fn forward<S: Storage>(&self, inputs: [(&S, &Layout); 3]) -> Result<(S, Shape)> {
        let (x, layout) = inputs[0];
        let (n, columns) = (layout.shape().elem_count(), self.rows.columns);
        let (rows, len) = (n.checked_div(columns).unwrap_or(0), n + 2 * columns);
        let all = with_float!(BACKWARD, x.dtype(), T => {
            S::run::<T, T>(BACKWARD, &inputs, len, |gpu, inputs, out| {
                let (mut dx, of_weights) = out.split_at_mut(n);
                let (weight, bias) = of_weights.split_at_mut(columns);
                let gradients = WeightGradients { weight: Some(weight), bias: Some(bias) };
                norm::backward_with_weights_into(
                    gpu,
                    &self.rows.norm(inputs[1]),
                    &inputs[0],
                    &inputs[2],
                    &mut dx,
                    gradients,
                    &mut Scratch::with_bytes_async(gpu, norm::scratch_bytes(rows, columns))?,
                )
            })
        })?;
        Ok((all, len.into()))
    }
}

impl CustomOp3 for NormGradient {
    fn name(&self) -> &'static str {
        BACKWARD
    }

    forwards!((x of_x) (alpha of_alpha) (dy of_dy) => |op| {
        op.forward([(x, of_x), (alpha, of_alpha), (dy, of_dy)])
    });
}
