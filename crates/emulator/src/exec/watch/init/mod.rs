//! The check of uninitialised values.
//!
//! Each byte of shared, local and device memory is known to be written or not. A load of bytes that
//! nothing wrote is not a fault, nor is a copy of them, as of a structure with padding; the bits
//! are followed through registers ([`flow`]), and a fault is their use: in a branch, an address, an
//! atomic operation, a mask, or in a computation whose result is stored. What a shuffle reads of a
//! lane that takes no part in it means nothing either. Registers that were never written count as
//! written, because compilers move undefined ones about.

mod flow;
mod init_check;
mod marks;

pub use init_check::InitCheck;
