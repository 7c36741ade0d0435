//! The weights of a model, what the optimiser knows of them, and their gradients: all matrices one after the other in a buffer of each kind, so that one
//! launch updates them all.

use std::ops::Range;

use cuda_std::bf16;
use cuda_std::vector::Vec2;
use ferrowarp::memory::DeviceSliceMut;
use ferrowarp::ops::matmul::{Matrix, MatrixMut};
use ferrowarp::ops::random;
use ferrowarp::ops::training::{AdamStep, adam_into};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

use super::shape::Shape;

/// Matrices begin at a multiple of so many elements, as the copy engine wants them.
const ALIGNMENT: usize = 128;

/// A matrix within the buffers, or several of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    first: usize,
    rows: usize,
    columns: usize,
    count: usize,
}

impl Part {
    fn len(&self) -> usize {
        self.count * self.rows * self.columns
    }

    pub(super) fn range(&self) -> Range<usize> {
        self.first..self.first + self.len()
    }
}

/// The matrices of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerParts {
    /// To queries, keys and values: three matrices.
    pub qkv: Part,
    /// From the results of attention.
    pub projection: Part,
    /// To the elements between the two layers.
    pub up: Part,
    /// From those.
    pub down: Part,
}

/// The matrices of a model.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// A row for each character.
    pub embedding: Part,
    pub layers: Vec<LayerParts>,
    /// To the logits.
    pub head: Part,
    total: usize,
}

impl Parts {
    fn new(shape: &Shape) -> Self {
        let (width, hidden, mut total) = (shape.width(), shape.hidden(), 0);
        let mut part = |count: usize, rows: usize, columns: usize| {
            let part = Part { first: total, rows, columns, count };
            total += part.len().next_multiple_of(ALIGNMENT);
            part
        };
        let embedding = part(1, shape.vocabulary, width);
        let mut layer = |_| LayerParts {
            qkv: part(3, width, width),
            projection: part(1, width, width),
            up: part(1, width, hidden),
            down: part(1, hidden, width),
        };
        let layers = (0..shape.layers).map(&mut layer).collect();
        let head = part(1, width, shape.vocabulary);
        Self { embedding, layers, head, total }
    }
}

/// The weights of a model.
#[derive(Debug)]
pub struct Weights {
    pub(super) shape: Shape,
    pub(super) parts: Parts,
    weights: DeviceBuffer<f32>,
    means: DeviceBuffer<Vec2<f32>>,
    rounded: DeviceBuffer<bf16>,
    gradients: DeviceBuffer<f32>,
}

impl Weights {
    /// Random weights: normal ones, in each matrix with a deviation that keeps what goes through as large as it is. Those that add to it are smaller, by the root of
    /// how many there are (A. Radford et al., *Language Models are Unsupervised Multitask Learners*, 2019).
    ///
    /// # Errors
    /// Out of memory; errors of the driver.
    pub fn new(gpu: &Gpu, shape: Shape, seed: u64) -> GpuResult<Self> {
        let parts = Parts::new(&shape);
        let mut weights = DeviceBuffer::zeroed(gpu, parts.total)?;
        random::normal_into(gpu, &mut weights, seed, 0)?;
        let mut on_host = weights.to_vec()?;
        let mut scale = |part: Part, added: usize| {
            let factor = 1.0 / ((part.rows * added) as f32).sqrt();
            on_host[part.range()].iter_mut().for_each(|weight| *weight *= factor);
        };
        for layer in &parts.layers {
            let added = 2 * shape.layers;
            [(layer.qkv, 1), (layer.projection, added), (layer.up, 1), (layer.down, added)]
                .into_iter()
                .for_each(|(part, added)| scale(part, added));
        }
        scale(parts.head, 1);
        weights.copy_from_host(&on_host)?;
        let rounded: Vec<bf16> = on_host.into_iter().map(bf16::from_f32).collect();
        Ok(Self {
            shape,
            weights,
            means: DeviceBuffer::zeroed(gpu, parts.total)?,
            rounded: DeviceBuffer::from_slice(gpu, &rounded)?,
            gradients: DeviceBuffer::zeroed(gpu, parts.total)?,
            parts,
        })
    }

    /// How many numbers are learnt.
    #[must_use]
    pub fn count(&self) -> usize {
        let of_layer = |layer: &LayerParts| {
            [layer.qkv, layer.projection, layer.up, layer.down].iter().map(Part::len).sum::<usize>()
        };
        let of_layers: usize = self.parts.layers.iter().map(of_layer).sum();
        self.parts.embedding.len() + of_layers + self.parts.head.len()
    }

    /// The sizes of the model.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The rounded elements of a part.
    pub(super) fn elements(&self, part: Part) -> ferrowarp::memory::DeviceSlice<'_, bf16> {
        self.rounded.slice(part.range())
    }

    /// A part as a matrix, or a batch of them.
    pub(super) fn matrix(&self, part: Part) -> GpuResult<Matrix<'_, bf16>> {
        let matrix = Matrix::row_major(self.elements(part), part.rows, part.columns)?;
        matrix.batched(part.count, part.rows * part.columns)
    }

    /// One of the matrices of a part.
    pub(super) fn matrix_of(&self, part: Part, number: usize) -> GpuResult<Matrix<'_, bf16>> {
        let first = part.first + number * part.rows * part.columns;
        Matrix::row_major(self.rounded.slice(first..part.range().end), part.rows, part.columns)
    }

    /// Where the gradients of the elements of a part go.
    pub(super) fn gradient_elements(&mut self, part: Part) -> DeviceSliceMut<'_, f32> {
        self.gradients.slice_mut(part.range())
    }

    /// Where the gradient of a part goes, as a matrix or a batch of them.
    pub(super) fn gradient(&mut self, part: Part) -> GpuResult<MatrixMut<'_, f32>> {
        let Part { rows, columns, count, .. } = part;
        let matrix = MatrixMut::row_major(self.gradient_elements(part), rows, columns)?;
        matrix.batched(count, rows * columns)
    }

    /// Changes all weights by their gradients.
    pub(super) fn step(&mut self, gpu: &Gpu, step: AdamStep) -> GpuResult<()> {
        let Self { weights, means, rounded, gradients, .. } = self;
        adam_into(gpu, step, gradients, weights, means, rounded)
    }
}

#[cfg(test)]
impl Weights {
    /// Changes each weight, by its place.
    pub(super) fn change(&mut self, mut change: impl FnMut(usize, f32) -> f32) -> GpuResult<()> {
        let weights = self.weights.to_vec()?.into_iter().enumerate();
        let changed: Vec<f32> = weights.map(|(i, weight)| change(i, weight)).collect();
        self.weights.copy_from_host(&changed)?;
        let rounded: Vec<bf16> = changed.into_iter().map(bf16::from_f32).collect();
        self.rounded.copy_from_host(&rounded)
    }

    pub(super) fn gradients(&self) -> GpuResult<Vec<f32>> {
        self.gradients.to_vec()
    }
}
