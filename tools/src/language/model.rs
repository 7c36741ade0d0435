//! The forward and the backward pass over a batch of texts.

use cuda_std::bf16;
use ferrowarp::memory::{DeviceSlice, DeviceSliceMut};
use ferrowarp::ops::attention::{
    Backward, Band, Gradients, Heads, HeadsLayout, HeadsMut, Options as Attention, Positions,
    RotaryTable, attention_backward_into, attention_into, rotary_in_place,
};
use ferrowarp::ops::matmul::{Matrix, MatrixMut, Options, matmul_into};
use ferrowarp::ops::norm::{Norm, backward_into as norm_backward_into, norm_into};
use ferrowarp::ops::sort::{SortOptions, argsort_into};
use ferrowarp::ops::training::{cross_entropy_into, embedding_gradient_into, embedding_into};
use ferrowarp::ops::{self, Scratch};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
use kernels_gpu::matmul::{ColumnBias, Gelu, GeluGradient, Then};

use super::shape::{HEAD, Shape};
use super::weights::{LayerParts, Weights};

/// The base of the angles of the rotary embedding.
pub(super) const ROTARY_BASE: f64 = 10_000.0;

/// Numbers of 16 bits on the device.
pub(super) type Values = DeviceBuffer<bf16>;

/// What the backward pass of a block reads of its forward pass. `[rows, …]` each.
#[derive(Debug)]
struct Kept {
    /// What attention reads, normalised.
    normed: Values,
    /// Queries, keys and values, one behind the other.
    qkv: Values,
    attended: Values,
    /// The logarithms of attention's sums: `[texts, heads, context]`.
    lse: DeviceBuffer<f32>,
    /// What the first layer reads, normalised.
    middle: Values,
    /// Behind the GELU.
    active: Values,
}

/// A model at work on a batch of texts.
#[derive(Debug)]
pub struct Model {
    gpu: Gpu,
    shape: Shape,
    texts: usize,
    rotary: RotaryTable,
    tokens: DeviceBuffer<u32>,
    targets: DeviceBuffer<u32>,
    losses: DeviceBuffer<f32>,
    /// What goes through the blocks: before each, between its halves, and behind the last.
    streams: Vec<Values>,
    layers: Vec<Kept>,
    normed: Values,
    logits: Values,
    work: Work,
}

/// What a pass writes and reads again at once.
#[derive(Debug)]
struct Work {
    scratch: Scratch,
    /// As long as the elements between two layers: the GELU has a bias, which this model leaves at 0.
    no_bias: Values,
    /// The gradient of what goes through the blocks, and the next one.
    stream: Values,
    next: Values,
    /// Gradients of what products read.
    normed: Values,
    qkv: Values,
    hidden: Values,
    /// What was before a GELU.
    before: Values,
    logits: Values,
    /// The places of characters in their order.
    places: DeviceBuffer<u32>,
}

impl Model {
    /// Memory for batches of `texts` texts, each as long as the context of the model.
    ///
    /// # Errors
    /// Out of memory; errors of the driver.
    pub fn new(gpu: &Gpu, shape: Shape, texts: usize) -> GpuResult<Self> {
        let Shape { layers, heads, context, vocabulary } = shape;
        let (width, hidden, rows) = (shape.width(), shape.hidden(), texts * context);
        let values = |columns: usize| Values::zeroed(gpu, rows * columns);
        let kept = |_| {
            Ok(Kept {
                normed: values(width)?,
                qkv: values(3 * width)?,
                attended: values(width)?,
                lse: DeviceBuffer::zeroed(gpu, texts * heads * context)?,
                middle: values(width)?,
                active: values(hidden)?,
            })
        };
        Ok(Self {
            shape,
            texts,
            rotary: RotaryTable::new(gpu, context, HEAD, ROTARY_BASE)?,
            tokens: DeviceBuffer::zeroed(gpu, rows)?,
            targets: DeviceBuffer::zeroed(gpu, rows)?,
            losses: DeviceBuffer::zeroed(gpu, rows)?,
            streams: (0..=2 * layers).map(|_| values(width)).collect::<GpuResult<_>>()?,
            layers: (0..layers).map(kept).collect::<GpuResult<_>>()?,
            normed: values(width)?,
            logits: values(vocabulary)?,
            work: Work {
                scratch: Scratch::new(gpu)?,
                no_bias: Values::zeroed(gpu, hidden)?,
                stream: values(width)?,
                next: values(width)?,
                normed: values(width)?,
                qkv: values(3 * width)?,
                hidden: values(hidden)?,
                before: values(hidden)?,
                logits: values(vocabulary)?,
                places: DeviceBuffer::zeroed(gpu, rows)?,
            },
            gpu: gpu.clone(),
        })
    }

    /// The forward pass over `tokens`, and the gradients of the logits by the mean loss for `targets`, both a character for each row.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn forward(&mut self, weights: &Weights, tokens: &[u32], targets: &[u32]) -> GpuResult<()> {
        let (gpu, width, parts) = (&self.gpu.clone(), self.shape.width(), &weights.parts);
        self.tokens.copy_from_host(tokens)?;
        self.targets.copy_from_host(targets)?;
        let table = weights.elements(parts.embedding);
        embedding_into(gpu, &self.tokens, &table, width, &mut self.streams[0])?;
        for (number, layer) in parts.layers.iter().enumerate() {
            self.attend(weights, number, layer)?;
            self.feed_forward(weights, number, layer)?;
        }
        let last = &self.streams[2 * self.layers.len()];
        norm_into(gpu, &Norm::rms(width), last, &mut self.normed)?;
        let Work { scratch, logits: of_logits, .. } = &mut self.work;
        let (head, columns) = (weights.matrix(parts.head)?, self.shape.vocabulary);
        product(gpu, &self.normed, head, &mut self.logits, None, scratch)?;
        let (scale, losses) = (1.0 / tokens.len() as f32, &mut self.losses);
        cross_entropy_into(gpu, &self.logits, columns, &self.targets, scale, losses, of_logits)
    }

    /// The mean loss of the last forward pass, in nats a character.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn loss(&self) -> GpuResult<f32> {
        Ok(ops::reduce::sum(&self.gpu, &self.losses)? / self.losses.len() as f32)
    }

    /// The first half of a block: attention, added to what comes in.
    fn attend(&mut self, weights: &Weights, number: usize, layer: &LayerParts) -> GpuResult<()> {
        let (gpu, width, layout) = (&self.gpu, self.shape.width(), self.heads());
        let (input, output) = two(&mut self.streams, 2 * number);
        let Kept { normed, qkv, attended, lse, .. } = &mut self.layers[number];
        let scratch = &mut self.work.scratch;
        norm_into(gpu, &Norm::rms(width), input, normed)?;
        let rows = normed.len() / width;
        let x = Matrix::row_major(&*normed, rows, width)?.batched(3, 0)?;
        let out = MatrixMut::row_major(&mut *qkv, rows, width)?.batched(3, rows * width)?;
        matmul_into(gpu, x, weights.matrix(layer.qkv)?, out, Options::new(), scratch)?;
        for turned in thirds_mut(qkv).into_iter().take(2) {
            let turned = HeadsMut::new(turned, layout)?;
            rotary_in_place(gpu, turned, &self.rotary, Positions::From(0), false)?;
        }
        let [q, k, v] = heads_of(qkv, layout)?;
        let options = Attention::new().score(Band::CAUSAL).lse(&mut *lse);
        attention_into(gpu, q, k, v, HeadsMut::new(&mut *attended, layout)?, options, scratch)?;
        let projection = weights.matrix(layer.projection)?;
        product(gpu, attended, projection, output, Some(input), scratch)
    }

    /// The second half: two layers with a GELU between, added to what comes in.
    fn feed_forward(
        &mut self,
        weights: &Weights,
        number: usize,
        layer: &LayerParts,
    ) -> GpuResult<()> {
        let (gpu, width) = (&self.gpu, self.shape.width());
        let (input, output) = two(&mut self.streams, 2 * number + 1);
        let Kept { middle, active, .. } = &mut self.layers[number];
        let Work { scratch, no_bias, .. } = &mut self.work;
        norm_into(gpu, &Norm::rms(width), input, middle)?;
        activate(gpu, middle, weights.matrix(layer.up)?, no_bias, active, scratch)?;
        product(gpu, active, weights.matrix(layer.down)?, output, Some(input), scratch)
    }

    /// The gradients of all weights, after a [forward](Self::forward) pass.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn backward(&mut self, weights: &mut Weights) -> GpuResult<()> {
        let (gpu, width) = (&self.gpu.clone(), self.shape.width());
        let parts = weights.parts.clone();
        let Work { scratch, stream, normed, logits, .. } = &mut self.work;
        weight_gradient(gpu, &self.normed, logits, weights.gradient(parts.head)?, scratch)?;
        product(gpu, logits, weights.matrix(parts.head)?.transposed(), normed, None, scratch)?;
        let last = &self.streams[2 * self.layers.len()];
        norm_backward_into(gpu, &Norm::rms(width), last, normed, stream)?;
        for (number, layer) in parts.layers.iter().enumerate().rev() {
            self.feed_backward(weights, number, layer)?;
            self.attend_backward(weights, number, layer)?;
        }
        let Work { scratch, stream, places, .. } = &mut self.work;
        argsort_into(gpu, &self.tokens, places, SortOptions::ASCENDING, scratch)?;
        let mut out = weights.gradient_elements(parts.embedding);
        embedding_gradient_into(gpu, (&self.tokens, places), stream, width, &mut out)
    }

    fn feed_backward(
        &mut self,
        weights: &mut Weights,
        number: usize,
        layer: &LayerParts,
    ) -> GpuResult<()> {
        let (gpu, width, hidden_columns) = (&self.gpu, self.shape.width(), self.shape.hidden());
        let Kept { middle, active, .. } = &self.layers[number];
        let Work { scratch, stream, next, normed, hidden, before, .. } = &mut self.work;
        weight_gradient(gpu, active, stream, weights.gradient(layer.down)?, scratch)?;
        // Computed again: it is as large as all else that is kept of a block.
        product(gpu, middle, weights.matrix(layer.up)?, before, None, scratch)?;
        let rows = stream.len() / width;
        matmul_into(
            gpu,
            Matrix::row_major(&*stream, rows, width)?,
            weights.matrix(layer.down)?.transposed(),
            MatrixMut::row_major(&mut *hidden, rows, hidden_columns)?,
            Options::new()
                .c(Matrix::row_major(&*before, rows, hidden_columns)?)
                .epilogue(GeluGradient),
            scratch,
        )?;
        weight_gradient(gpu, middle, hidden, weights.gradient(layer.up)?, scratch)?;
        product(gpu, hidden, weights.matrix(layer.up)?.transposed(), normed, None, scratch)?;
        // What goes by the block is added.
        let norm = Norm::rms(width).residual(stream.as_slice());
        norm_backward_into(gpu, &norm, &self.streams[2 * number + 1], normed, next)?;
        std::mem::swap(stream, next);
        Ok(())
    }

    fn attend_backward(
        &mut self,
        weights: &mut Weights,
        number: usize,
        layer: &LayerParts,
    ) -> GpuResult<()> {
        let (gpu, width, layout) = (&self.gpu, self.shape.width(), self.heads());
        let Kept { normed, qkv, attended, lse, .. } = &self.layers[number];
        let Work { scratch, stream, next, normed: of_normed, qkv: of_qkv, .. } = &mut self.work;
        weight_gradient(gpu, attended, stream, weights.gradient(layer.projection)?, scratch)?;
        let projection = weights.matrix(layer.projection)?.transposed();
        // The gradient of what attention gives.
        product(gpu, stream, projection, next, None, scratch)?;
        let [q, k, v] = heads_of(qkv, layout)?;
        let (o, d_o) = (Heads::new(attended, layout)?, Heads::new(&*next, layout)?);
        let [d_q, d_k, d_v] = thirds_mut(of_qkv).map(|third| HeadsMut::new(third, layout));
        let gradients = Gradients { q: d_q?, k: d_k?, v: d_v? };
        let forward = Backward { q, k, v, o, d_o };
        // The same bits in every run, as of all other operations here.
        let options = Attention::new().score(Band::CAUSAL).deterministic();
        attention_backward_into(gpu, forward, lse, gradients, options, scratch)?;
        for turned in thirds_mut(of_qkv).into_iter().take(2) {
            let turned = HeadsMut::new(turned, layout)?;
            rotary_in_place(gpu, turned, &self.rotary, Positions::From(0), true)?;
        }
        let rows = normed.len() / width;
        let x = Matrix::row_major(normed, rows, width)?.transposed().batched(3, 0)?;
        let of_each = Matrix::row_major(&*of_qkv, rows, width)?.batched(3, rows * width)?;
        matmul_into(gpu, x, of_each, weights.gradient(layer.qkv)?, Options::new(), scratch)?;
        for (number, third) in thirds(of_qkv).into_iter().enumerate() {
            let weight = weights.matrix_of(layer.qkv, number)?.transposed();
            let third = Matrix::row_major(third, rows, width)?;
            let sum = MatrixMut::row_major(&mut *of_normed, rows, width)?;
            let beta = if number == 0 { 0.0 } else { 1.0 };
            matmul_into(gpu, third, weight, sum, Options::new().beta(beta), scratch)?;
        }
        let norm = Norm::rms(width).residual(stream.as_slice());
        norm_backward_into(gpu, &norm, &self.streams[2 * number], of_normed, next)?;
        std::mem::swap(stream, next);
        Ok(())
    }

    /// Queries, keys, values or results of all texts, as products give them.
    fn heads(&self) -> HeadsLayout {
        HeadsLayout::by_row([self.texts, self.shape.heads, self.shape.context, HEAD])
    }
}

/// One of the buffers, and the next one.
fn two(streams: &mut [Values], at: usize) -> (&Values, &mut Values) {
    let (front, back) = streams.split_at_mut(at + 1);
    (&front[at], &mut back[0])
}

fn thirds(of: &Values) -> [DeviceSlice<'_, bf16>; 3] {
    let third = of.len() / 3;
    [0, 1, 2].map(|number| of.slice(number * third..(number + 1) * third))
}

fn thirds_mut(of: &mut Values) -> [DeviceSliceMut<'_, bf16>; 3] {
    let third = of.len() / 3;
    let (first, others) = of.as_mut_slice().split_at_mut(third);
    let (second, last) = others.split_at_mut(third);
    [first, second, last]
}

fn heads_of(qkv: &Values, layout: HeadsLayout) -> GpuResult<[Heads<'_, bf16>; 3]> {
    let [q, k, v] = thirds(qkv).map(|third| Heads::new(third, layout));
    Ok([q?, k?, v?])
}

/// `out = x · b`, and `added` if there is something: rows of `x` and of `out` follow from `b`.
pub(super) fn product(
    gpu: &Gpu,
    x: &Values,
    b: Matrix<'_, bf16>,
    out: &mut Values,
    added: Option<&Values>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (inner, columns) = (b.layout().rows, b.layout().columns);
    let rows = x.len() / inner;
    let x = Matrix::row_major(x, rows, inner)?;
    let mut options = Options::new();
    if let Some(added) = added {
        options = options.beta(1.0).c(Matrix::row_major(added, rows, columns)?);
    }
    matmul_into(gpu, x, b, MatrixMut::row_major(out, rows, columns)?, options, scratch)
}

/// `out = gelu(x · b)`.
pub(super) fn activate(
    gpu: &Gpu,
    x: &Values,
    b: Matrix<'_, bf16>,
    no_bias: &Values,
    out: &mut Values,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (inner, columns) = (b.layout().rows, b.layout().columns);
    let rows = x.len() / inner;
    let options = Options::new().per_column(no_bias).epilogue(Then(ColumnBias, Gelu));
    let x = Matrix::row_major(x, rows, inner)?;
    matmul_into(gpu, x, b, MatrixMut::row_major(out, rows, columns)?, options, scratch)
}

/// `out = xᵀ · of_z`: the gradient of a weight, from what was multiplied and the gradient of what came out.
fn weight_gradient(
    gpu: &Gpu,
    x: &Values,
    of_z: &Values,
    out: MatrixMut<'_, f32>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (inner, columns) = (out.layout().rows, out.layout().columns);
    let rows = x.len() / inner;
    let x = Matrix::row_major(x, rows, inner)?.transposed();
    matmul_into(gpu, x, Matrix::row_major(of_z, rows, columns)?, out, Options::new(), scratch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::weights::Part;

    /// The loss changes along the gradient of each part as much as the gradient says. Differences are central, and large enough that the rounding of weights and
    /// activations to eight bits, about 2^-9 of a loss of 2.8, is a small part of them.
    #[test]
    fn the_loss_changes_as_the_gradients_say() -> GpuResult<()> {
        const CHANGE: f64 = 0.2;
        let gpu = Gpu::new()?;
        let shape = Shape { layers: 2, heads: 1, context: 16, vocabulary: 16 };
        let mut weights = Weights::new(&gpu, shape, 7)?;
        let mut model = Model::new(&gpu, shape, 4)?;
        let tokens: Vec<u32> = (0..64).map(|i| (i * i / 3 + i) % 16).collect();
        let targets: Vec<u32> = tokens.iter().map(|token| (token * 5 + 3) % 16).collect();
        model.forward(&weights, &tokens, &targets)?;
        model.backward(&mut weights)?;
        let gradients = weights.gradients()?;
        let parts = weights.parts.clone();
        let of_layer = |layer: &LayerParts| [layer.qkv, layer.projection, layer.up, layer.down];
        let all: Vec<Part> = [parts.embedding, parts.head]
            .into_iter()
            .chain(parts.layers.iter().flat_map(of_layer))
            .collect();
        for part in all {
            let square: f64 = gradients[part.range()].iter().map(|g| f64::from(*g).powi(2)).sum();
            assert!(square > 0.0, "{part:?}");
            // The way on which the loss changes by half of CHANGE, if the gradient is right.
            let way = (CHANGE / 2.0 / square) as f32;
            let mut at = |way: f32| -> GpuResult<f64> {
                let range = part.range();
                weights.change(|i, weight| match range.contains(&i) {
                    true => weight + way * gradients[i],
                    false => weight,
                })?;
                model.forward(&weights, &tokens, &targets)?;
                Ok(f64::from(model.loss()?))
            };
            let (above, below) = (at(way)?, at(-2.0 * way)?);
            at(way)?;
            let found = above - below;
            assert!((found / CHANGE - 1.0).abs() < 0.2, "{part:?}: {found} instead of {CHANGE}");
        }
        Ok(())
    }
}
