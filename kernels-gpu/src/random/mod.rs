//! Random numbers.
//!
//! * [`random_fill`](fn@random_fill): arrays of a [`Distribution`], by the Philox generator.
//! * [`noise`]: hashed test data for measurements.

mod fill;
pub mod noise;

pub use fill::{
    BLOCK, BYTES_PER_COUNTER, Below, Below64, Distribution, MAX_BLOCKS, NormalF32, UniformF32,
    UniformF64, Words, Words64, blocks, random_fill, random_normal_plain, random_uniform_plain,
};
