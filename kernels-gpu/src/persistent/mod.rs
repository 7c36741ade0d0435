//! Persistent kernels, which exchange data with the host while they run.
//!
//! * [`ring`]: messages through rings of slots.
//! * [`answer_words`](fn@answer_words): single words in memory that the host maps.

pub mod ring;
mod zero_copy;

pub use ring::{ring_echo, ring_relay, ring_saxpy};
pub use zero_copy::answer_words;
