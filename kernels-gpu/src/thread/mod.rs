//! What one thread does alone, in registers.

pub mod words;
