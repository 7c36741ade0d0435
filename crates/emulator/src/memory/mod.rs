//! Device memory.
//!
//! A device address is the address of the same byte in this process, so kernels, copies and host
//! code may touch a buffer at the same time, as they may on a GPU with mapped or managed memory.
//! [`GlobalMemory`] knows which addresses are live; a [`Cursor`] answers that quickly for one
//! thread; [`access`] and [`atomic`] touch the bytes.

pub mod access;
pub mod atomic;
mod global;
mod host;
mod paged;
mod pool;
#[cfg(test)]
mod tests;
mod validity;

pub use global::{
    AllocError, Allocation, Cursor, FreeError, GlobalMemory, MAX_DEVICES, OutOfBounds,
    RegisterError,
};
pub use paged::{GRANULE, Physical, Reservation};
pub use validity::Validity;
