//! Writing a text: character by character, with a cache of keys and values in pages.

use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Cache, Heads, HeadsLayout, HeadsMut, Options as Attention, Positions, RotaryTable, append_into,
    attention_into, rotary_in_place,
};
use ferrowarp::ops::norm::{Norm, norm_into};
use ferrowarp::ops::training::embedding_into;
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::model::{ROTARY_BASE, Values, activate, product};
use super::shape::{HEAD, Shape};
use super::weights::{LayerParts, Weights};

/// Characters of a page of the cache.
const PAGE: usize = 16;

/// A text that is being written.
#[derive(Debug)]
pub struct Sampler<'a> {
    gpu: Gpu,
    weights: &'a Weights,
    random: StdRng,
    temperature: f32,
    rotary: RotaryTable,
    /// What was read and written since the context began.
    tokens: Vec<u32>,
    /// Keys and values of each block, `[pages, heads, PAGE, HEAD]`, and which pages are the text's.
    caches: Vec<[Values; 2]>,
    pages: DeviceBuffer<u32>,
    lengths: DeviceBuffer<u32>,
    token: DeviceBuffer<u32>,
    work: Work,
}

/// What stands for one character on its way through the blocks.
#[derive(Debug)]
struct Work {
    scratch: Scratch,
    no_bias: Values,
    stream: Values,
    next: Values,
    normed: Values,
    qkv: [Values; 3],
    attended: Values,
    hidden: Values,
    logits: Values,
}

impl<'a> Sampler<'a> {
    /// An empty text. A low `temperature` takes the most probable characters, 1 each as often as the model has it.
    ///
    /// # Errors
    /// Out of memory; errors of the driver.
    pub fn new(gpu: &Gpu, weights: &'a Weights, temperature: f32, seed: u64) -> GpuResult<Self> {
        let shape = weights.shape;
        let Shape { layers, context, vocabulary, .. } = shape;
        let (width, pages) = (shape.width(), context.div_ceil(PAGE));
        let values = |len: usize| Values::zeroed(gpu, len);
        let cache = |_| Ok([values(pages * PAGE * width)?, values(pages * PAGE * width)?]);
        // The last page first: it is the table that says where a page lies.
        let table: Vec<u32> = (0..pages as u32).rev().collect();
        Ok(Self {
            gpu: gpu.clone(),
            weights,
            random: StdRng::seed_from_u64(seed),
            temperature,
            rotary: RotaryTable::new(gpu, context, HEAD, ROTARY_BASE)?,
            tokens: Vec::new(),
            caches: (0..layers).map(cache).collect::<GpuResult<_>>()?,
            pages: DeviceBuffer::from_slice(gpu, &table)?,
            lengths: DeviceBuffer::zeroed(gpu, 1)?,
            token: DeviceBuffer::zeroed(gpu, 1)?,
            work: Work {
                scratch: Scratch::new(gpu)?,
                no_bias: values(shape.hidden())?,
                stream: values(width)?,
                next: values(width)?,
                normed: values(width)?,
                qkv: [values(width)?, values(width)?, values(width)?],
                attended: values(width)?,
                hidden: values(shape.hidden())?,
                logits: values(vocabulary)?,
            },
        })
    }

    /// Reads a character. Where the context is full, it begins again with its second half.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn read(&mut self, token: u32) -> GpuResult<()> {
        let context = self.weights.shape.context;
        if self.tokens.len() == context {
            let kept = self.tokens.split_off(context / 2);
            self.tokens.clear();
            for token in kept {
                self.tokens.push(token);
                self.step(token)?;
            }
        }
        self.tokens.push(token);
        self.step(token)
    }

    /// The next character, after those that were read: it is not read itself.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn choose(&mut self) -> GpuResult<u32> {
        let logits: Vec<f32> = self.work.logits.to_vec()?.iter().map(|x| x.to_f32()).collect();
        Ok(choose(&logits, self.temperature, self.random.random_range(0.0..1.0)))
    }

    /// The last character of `tokens` on its way through the model.
    fn step(&mut self, token: u32) -> GpuResult<()> {
        let (gpu, weights, width) = (&self.gpu.clone(), self.weights, self.weights.shape.width());
        self.token.copy_from_host(&[token])?;
        self.lengths.copy_from_host(&[self.tokens.len() as u32])?;
        let table = weights.elements(weights.parts.embedding);
        embedding_into(gpu, &self.token, &table, width, &mut self.work.stream)?;
        for (number, layer) in weights.parts.layers.iter().enumerate() {
            self.attend(number, layer)?;
            let Work { scratch, no_bias, stream, next, normed, hidden, .. } = &mut self.work;
            norm_into(gpu, &Norm::rms(width), stream, normed)?;
            activate(gpu, normed, weights.matrix(layer.up)?, no_bias, hidden, scratch)?;
            product(gpu, hidden, weights.matrix(layer.down)?, next, Some(stream), scratch)?;
            std::mem::swap(stream, next);
        }
        let Work { scratch, stream, normed, logits, .. } = &mut self.work;
        norm_into(gpu, &Norm::rms(width), stream, normed)?;
        product(gpu, normed, weights.matrix(weights.parts.head)?, logits, None, scratch)
    }

    /// Attention over all characters so far, whose keys and values are in the cache.
    fn attend(&mut self, number: usize, layer: &LayerParts) -> GpuResult<()> {
        let (gpu, weights, heads) = (&self.gpu, self.weights, self.weights.shape.heads);
        let Work { scratch, stream, next, normed, qkv, attended, .. } = &mut self.work;
        norm_into(gpu, &Norm::rms(weights.shape.width()), stream, normed)?;
        for (third, out) in qkv.iter_mut().enumerate() {
            product(gpu, normed, weights.matrix_of(layer.qkv, third)?, out, None, scratch)?;
        }
        let row = HeadsLayout::by_row([1, heads, 1, HEAD]);
        let in_cache = HeadsLayout::by_head([self.pages.len(), heads, PAGE, HEAD]);
        let [q, k, v] = qkv;
        let positions = Positions::EndAt(self.lengths.as_slice());
        rotary_in_place(gpu, HeadsMut::new(&mut *q, row)?, &self.rotary, positions, false)?;
        let [keys, values] = &mut self.caches[number];
        let cache = Cache {
            k: HeadsMut::new(&mut *keys, in_cache)?,
            v: HeadsMut::new(&mut *values, in_cache)?,
            pages: Some(self.pages.as_slice()),
        };
        let new = [Heads::new(&*k, row)?, Heads::new(&*v, row)?];
        append_into(gpu, new, cache, &self.lengths, Some(&self.rotary))?;
        attention_into(
            gpu,
            Heads::new(&*q, row)?,
            Heads::new(&*keys, in_cache)?,
            Heads::new(&*values, in_cache)?,
            HeadsMut::new(&mut *attended, row)?,
            Attention::new().lengths(&self.lengths).pages(&self.pages),
            scratch,
        )?;
        let projection = weights.matrix(layer.projection)?;
        product(gpu, attended, projection, next, Some(stream), scratch)?;
        std::mem::swap(stream, next);
        Ok(())
    }
}

/// The character at which the probabilities, added up, exceed `threshold`, from 0 to 1. At temperature 0 it is the most probable one.
fn choose(logits: &[f32], temperature: f32, threshold: f32) -> u32 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let most_probable = logits.iter().position(|x| *x == max).unwrap_or(0) as u32;
    if temperature <= 0.0 {
        return most_probable;
    }
    let powers: Vec<f32> = logits.iter().map(|x| ((x - max) / temperature).exp()).collect();
    let mut left = threshold * powers.iter().sum::<f32>();
    for (number, power) in powers.iter().enumerate() {
        left -= power;
        if left < 0.0 {
            return number as u32;
        }
    }
    most_probable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_chosen_by_their_probability() {
        let logits = [1f32.ln(), 3f32.ln(), f32::NEG_INFINITY, 4f32.ln()];
        let chosen = [0.0, 0.12, 0.13, 0.49, 0.51, 0.99].map(|t| choose(&logits, 1.0, t));
        assert_eq!(chosen, [0, 0, 1, 1, 3, 3]);
        assert_eq!([choose(&logits, 0.0, 0.1), choose(&logits, 1e-3, 0.1)], [3, 3]);
    }
}
