//! Atomic operations with an order and a scope, and [`AtomicSlice`], whose use is safe.
//!
//! LLVM 22 forgets the order and the scope of every atomic read-modify-write except
//! compare-exchange: `AtomicU32::fetch_add(1, AcqRel)` compiles to a relaxed `atom.add`. With
//! `Ordering::Relaxed`, and among the threads of one device, `core::sync::atomic` is right. For
//! anything more the functions here write the instruction themselves.

mod rmw;
mod slice;

pub use core::sync::atomic::Ordering;
pub use rmw::*;
pub use slice::{AtomicElement, AtomicInteger, AtomicSlice};

/// Which threads an atomic operation is atomic for, and ordered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The threads of the block.
    Block,
    /// The threads of the device.
    Device,
    /// The threads of all devices, and the host.
    System,
}
