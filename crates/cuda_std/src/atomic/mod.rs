//! Atomic operations with an order and a scope, on slices, typed numbers and pointers.
//!
//! | | its scope | safe |
//! |---|---|---|
//! | [`AtomicSlice`], a kernel's parameter | the device | yes |
//! | [`SystemAtomics`], another one | host and devices | yes |
//! | [`Atomic<T, S>`](Atomic), [`AtomicF32`] and the other aliases | in the type | device and system |
//! | [`fetch_add`] and the other functions here | an argument | no: they take pointers |
//! | [`mid`], [`intrinsics`]: rust-cuda's functions | in the name | no |
//!
//! LLVM 22 forgets the order and the scope of every atomic read-modify-write except
//! compare-exchange: `AtomicU32::fetch_add(1, AcqRel)` compiles to a relaxed `atom.add`.
//! `cuda_builder` writes the order back, with the scope of the whole system, so `core::sync::atomic`
//! and `Arc` are right too. The functions here write the instruction themselves, with the scope
//! that is asked for; a narrower one is faster.
//!
//! On the host all of them run too, with `core`'s operations, but for the 128-bit ones.

mod access;
#[cfg(target_os = "cuda")]
mod instruction;
pub mod intrinsics;
pub mod mid;
mod rmw;
mod scoped;
mod slice;
mod system;
mod word;

pub use access::{compare_and_swap, compare_and_swap_128, exchange_128, load, store};
pub use core::sync::atomic::Ordering;
pub use rmw::*;
pub use scoped::{
    Atomic, AtomicF32, AtomicF64, BlockAtomicF32, BlockAtomicF64, SystemAtomicF32, SystemAtomicF64,
    scope,
};
pub use slice::{AtomicElement, AtomicInteger, AtomicSlice};
pub use system::SystemAtomics;
pub use word::Word;

/// Which threads an atomic operation is atomic for, and ordered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The threads of the block.
    Block,
    /// The threads of the cluster (`sm_90` and later).
    Cluster,
    /// The threads of the device.
    Device,
    /// The threads of all devices, and the host.
    System,
}
