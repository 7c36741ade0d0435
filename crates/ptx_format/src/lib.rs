//! What `cuda_builder` writes into PTX and what the loader of `ferrowarp` reads there.
//!
//! | module | contents |
//! |---|---|
//! | [`index`] | the index of a text's module parts: PTX modules that a driver can compile alone |
//! | [`mod@panic`] | symbols, tables and message templates of kernel panics, as Rust 1.96 writes them |
//! | [`functions`] | where functions begin and end in a text |
//! | [`packed`] | archives: compressed texts, of which single module parts are unpacked |
//! | [`hash`] | hashes of texts |
//! | [`stack`] | how much stack the kernels of a text need |
//!
//! A program that ships PTX links this crate, and not the builder.

pub mod functions;
pub mod hash;
pub mod index;
pub mod packed;
pub mod panic;
pub mod stack;
