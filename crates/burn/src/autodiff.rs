//! Gradients of softmax and norms, for tensors of burn's `Autodiff`.

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn_tensor::ops::FloatTensor;

use crate::error::Result;
use crate::rows::{Norm, Rows};

impl<B: Rows, C: CheckpointStrategy> Rows for Autodiff<B, C> {
    fn softmax_rows(x: FloatTensor<Self>, log: bool) -> Result<FloatTensor<Self>> {
        let y = B::softmax_rows(x.primitive, log)?;
        Ok(match Softmax.prepare::<C>([x.node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish((y.clone(), log), y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        })
    }

    fn norm_rows(
        [x, gamma, beta]: [FloatTensor<Self>; 3],
        which: Norm,
    ) -> Result<FloatTensor<Self>> {
        let state = (x.primitive.clone(), gamma.primitive.clone(), which);
        let y = B::norm_rows([x.primitive, gamma.primitive, beta.primitive], which)?;
        let nodes = [x.node, gamma.node, beta.node];
        Ok(match NormOfRows.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(state, y),
            OpsKind::UnTracked(prep) => prep.finish(y),
        })
    }
}

/// burn's backward passes have no errors: what the library reports there is a panic, as of burn's own operations.
const BACKWARD: &str = "the gradient was computed";

#[derive(Debug)]
struct Softmax;

impl<B: Rows> Backward<B, 1> for Softmax {
    /// The result, and whether it is a logarithm.
    type State = (FloatTensor<B>, bool);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (y, log) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |dy| {
            B::softmax_rows_backward(y, dy, log).expect(BACKWARD)
        });
    }
}

#[derive(Debug)]
struct NormOfRows;

impl<B: Rows> Backward<B, 3> for NormOfRows {
    /// x, gamma, and which norm.
    type State = (FloatTensor<B>, FloatTensor<B>, Norm);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (x, gamma, which) = ops.state;
        let dy = grads.consume::<B>(&ops.node);
        let all = B::norm_rows_backward([x, gamma, dy], which).expect(BACKWARD);
        for (parent, gradient) in ops.parents.into_iter().zip(all) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}
