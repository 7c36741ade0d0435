//! Gradients of softmax and norms, for tensors of burn's `Autodiff`.

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn_tensor::backend::Backend;
use burn_tensor::ops::FloatTensor;

use crate::error::{Error, Result};
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

    // Asked for by an `Autodiff` of this one. No node of this graph would lead through them.

    fn softmax_rows_backward(
        y: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        log: bool,
    ) -> Result<FloatTensor<Self>> {
        check_untracked::<B, C, _>([&y, &dy])?;
        let dx = B::softmax_rows_backward(y.primitive, dy.primitive, log)?;
        Ok(<FloatTensor<Self>>::new(dx))
    }

    fn norm_rows_backward(
        inputs: [FloatTensor<Self>; 3],
        which: Norm,
    ) -> Result<[FloatTensor<Self>; 3]> {
        check_untracked::<B, C, _>(inputs.each_ref())?;
        let all = B::norm_rows_backward(inputs.map(|own| own.primitive), which)?;
        Ok(all.map(<FloatTensor<Self>>::new))
    }
}

/// An error if a gradient by one of the tensors could be asked for.
fn check_untracked<B: Backend, C: CheckpointStrategy, const N: usize>(
    tensors: [&FloatTensor<Autodiff<B, C>>; N],
) -> Result<()> {
    match tensors.into_iter().any(|own| !own.node.requirement.is_none()) {
        true => Err(Error::SecondOrder),
        false => Ok(()),
    }
}

/// burn's backward passes have no errors: what the library reports there is a panic, as of burn's own operations.
fn or_panic<T>(gradient: Result<T>) -> T {
    gradient.unwrap_or_else(|error| panic!("there is no gradient: {error}"))
}

#[derive(Debug)]
struct Softmax;

impl<B: Rows> Backward<B, 1> for Softmax {
    /// The result, and whether it is a logarithm.
    type State = (FloatTensor<B>, bool);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (y, log) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |dy| {
            or_panic(B::softmax_rows_backward(y, dy, log))
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
        let all = or_panic(B::norm_rows_backward([x, gamma, dy], which));
        for (parent, gradient) in ops.parents.into_iter().zip(all) {
            if let Some(parent) = parent {
                grads.register::<B>(parent.id, gradient);
            }
        }
    }
}
