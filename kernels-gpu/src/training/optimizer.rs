//! A step of Adam with decoupled weight decay (D. Kingma and J. Ba, *Adam: A Method for Stochastic Optimization*, 2015; I. Loshchilov and F. Hutter,
//! *Decoupled Weight Decay Regularization*, 2019).
//!
//! Weights and moments are `f32`; products read the weights rounded to a type of 16 bits, which the step writes beside them.

use crate::matmul::Value;
use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::{bf16, f16};

/// The numbers of a step.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct AdamStep {
    /// How far a weight goes.
    pub rate: f32,
    /// What is kept of the mean of gradients.
    pub beta1: f32,
    /// What is kept of the mean of their squares.
    pub beta2: f32,
    /// Added to the root of the mean square.
    pub epsilon: f32,
    /// By which part of itself, times `rate`, a weight becomes smaller.
    pub decay: f32,
    /// `1 / (1 - beta1^t)` at step `t`: the mean began with 0.
    pub unbias1: f32,
    /// `1 / (1 - beta2^t)`.
    pub unbias2: f32,
}

impl AdamStep {
    /// A weight and both means of its gradient, after the step.
    #[inline(always)]
    #[must_use]
    pub fn of(&self, weight: f32, means: Vec2<f32>, gradient: f32) -> (f32, Vec2<f32>) {
        // One minus a number from 1/2 to 1 is not rounded.
        let mean = self.beta1 * means.x + (1.0 - self.beta1) * gradient;
        let squares = self.beta2 * means.y + (1.0 - self.beta2) * (gradient * gradient);
        let root = (squares * self.unbias2).sqrt();
        let along = mean * self.unbias1 / (root + self.epsilon);
        (weight - self.rate * (along + self.decay * weight), Vec2::new(mean, squares))
    }
}

/// `gradient, weights, means, rounded: [n]`; `rounded` may be of no elements. `means` are those of gradients and of their squares.
#[kernel(f16, bf16)]
pub fn adam<T: Value>(
    index: ThreadIndex,
    step: AdamStep,
    gradient: &[f32],
    mut weights: DisjointSlice<f32>,
    mut means: DisjointSlice<Vec2<f32>>,
    mut rounded: DisjointSlice<T>,
) {
    let gradient = gradient.get(index.get());
    let (Some(&gradient), Some(weight), Some(own)) =
        (gradient, weights.get_mut(index), means.get_mut(index))
    else {
        return;
    };
    (*weight, *own) = step.of(*weight, *own, gradient);
    if let Some(rounded) = rounded.get_mut(index) {
        *rounded = T::narrow(*weight);
    }
}
