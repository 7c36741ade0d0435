//! Safe shared memory, in small kernels.

#![allow(missing_docs)]

pub mod layouts;
pub mod parts;
pub mod protocol;
pub mod textbook;
pub mod twins;
