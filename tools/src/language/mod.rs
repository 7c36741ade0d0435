//! A small language model of characters: trained by the forward and backward operations of the library on chapters of the book, and sampled
//! character by character through a cache of keys and values in pages.
//!
//! It is a transformer as most are now: blocks of attention and of two layers with a GELU between, each behind an RMS norm and added to what
//! came in, and rotary position embedding. Weights, sums and the optimiser are `f32`, what is multiplied is `bf16`.

mod model;
mod sampler;
mod shape;
mod text;
mod trainer;
mod weights;

pub use model::Model;
pub use sampler::Sampler;
pub use shape::Shape;
pub use text::{BOOK, Text, Vocabulary};
pub use trainer::{Plan, Trainer};
pub use weights::Weights;
