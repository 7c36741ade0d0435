//! Puts kernels that were compiled again into the text of the build before: the fast path of hot reload.
//!
//! This is a small linker for PTX text, and it stays for one reason: latency. The compiler reads the kernels that ship
//! with Ferrowarp in two seconds and needs most of a minute to generate code for all of them. After an edit of one
//! kernel, [`CudaBuilder::rebuild`](crate::CudaBuilder::rebuild) has the compiler generate that kernel alone and merges
//! it here, in about a second. Correctness never depends on it: where two texts cannot be merged the answer is `None`,
//! and a whole build follows each partial one anyway.

mod splice;

pub(crate) use splice::{Merged, merge};
