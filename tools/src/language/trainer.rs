//! Learning from a text.

use ferrowarp::ops::training::Adam;
use ferrowarp::{Backend, Gpu, GpuResult};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::model::Model;
use super::shape::Shape;
use super::text::Text;
use super::weights::Weights;

/// Steps over which the rate rises to its greatest.
const WARM_UP: usize = 50;
/// What is left of the rate at the end.
const LAST_PART: f64 = 0.1;

/// How large a model, and how long it learns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Blocks, heads and context.
    pub layers: usize,
    #[allow(missing_docs)]
    pub heads: usize,
    #[allow(missing_docs)]
    pub context: usize,
    /// Texts of a batch.
    pub texts: usize,
    #[allow(missing_docs)]
    pub steps: usize,
    /// The greatest rate of the optimiser.
    pub rate: f32,
}

impl Plan {
    /// What takes less than a minute on this device.
    #[must_use]
    pub fn suited_to(gpu: &Gpu) -> Self {
        match gpu.backend() {
            Backend::Cuda => {
                Self { layers: 6, heads: 6, context: 256, texts: 64, steps: 500, rate: 1e-3 }
            }
            Backend::Emulator => {
                Self { layers: 1, heads: 1, context: 32, texts: 8, steps: 100, rate: 1e-2 }
            }
        }
    }

    fn shape(&self, vocabulary: usize) -> Shape {
        let Self { layers, heads, context, .. } = *self;
        Shape { layers, heads, context, vocabulary }
    }
}

/// A model that learns from a text.
#[derive(Debug)]
pub struct Trainer<'a> {
    gpu: Gpu,
    text: &'a Text,
    plan: Plan,
    model: Model,
    weights: Weights,
    random: StdRng,
    /// Steps that are done.
    done: usize,
}

impl<'a> Trainer<'a> {
    /// A model that has learnt nothing. The same seed gives the same model and the same batches.
    ///
    /// # Errors
    /// Out of memory; errors of the driver.
    pub fn new(gpu: &Gpu, text: &'a Text, plan: Plan, seed: u64) -> GpuResult<Self> {
        let shape = plan.shape(text.vocabulary.size());
        let (model, weights) =
            (Model::new(gpu, shape, plan.texts)?, Weights::new(gpu, shape, seed)?);
        let random = StdRng::seed_from_u64(seed);
        Ok(Self { gpu: gpu.clone(), text, plan, model, weights, random, done: 0 })
    }

    /// What was learnt.
    #[must_use]
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// A step with a batch of the text. Asynchronous but for the copy of the batch.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn step(&mut self) -> GpuResult<()> {
        let Self { gpu, model, weights, .. } = self;
        let Plan { texts, context, rate, steps, .. } = self.plan;
        let [tokens, targets] = self.text.batch([texts, context], false, &mut self.random);
        model.forward(weights, &tokens, &targets)?;
        model.backward(weights)?;
        let rate = rate * part_of_rate(self.done, steps) as f32;
        let adam = Adam { betas: [0.9, 0.99], decay: 0.1, ..Adam::new(rate) };
        self.done += 1;
        weights.step(gpu, adam.step(self.done as u32))
    }

    /// The mean loss of the last step's batch before the step, in nats a character.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn loss(&self) -> GpuResult<f32> {
        self.model.loss()
    }

    /// The mean loss of some batches of the part of the text that was held out, in nats a character: always of the same ones.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn held_out_loss(&mut self, batches: usize) -> GpuResult<f32> {
        let Plan { texts, context, .. } = self.plan;
        let (mut random, mut sum) = (StdRng::seed_from_u64(0), 0.0);
        for _ in 0..batches {
            let [tokens, targets] = self.text.batch([texts, context], true, &mut random);
            self.model.forward(&self.weights, &tokens, &targets)?;
            sum += self.model.loss()?;
        }
        Ok(sum / batches.max(1) as f32)
    }
}

/// The part of the greatest rate in step `number`, from 0: a rise, and half a wave of a cosine down (I. Loshchilov and F. Hutter, *SGDR*, 2017).
fn part_of_rate(number: usize, steps: usize) -> f64 {
    let warm_up = WARM_UP.min(steps / 10);
    if number < warm_up {
        return (number + 1) as f64 / warm_up as f64;
    }
    let along = (number - warm_up) as f64 / (steps - warm_up).max(1) as f64;
    LAST_PART + (1.0 - LAST_PART) * 0.5 * (1.0 + (std::f64::consts::PI * along).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_and_falls() {
        let parts: Vec<f64> = (0..1000).map(|number| part_of_rate(number, 1000)).collect();
        assert!(parts[0] > 0.0 && parts[..WARM_UP].is_sorted() && parts[WARM_UP] == 1.0);
        assert!(parts[WARM_UP..].iter().rev().is_sorted());
        assert!((parts[999] - LAST_PART).abs() < 1e-3);
        assert!(part_of_rate(0, 1) > 0.0);
    }
}
