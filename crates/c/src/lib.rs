//! Ferrowarp's operations for C: functions on raw device pointers and a raw `CUstream`, with the header `include/ferrowarp.h`.
//!
//! A call goes through these steps:
//! 1. [`call::run`] takes the handle, makes its device's context current, and checks the caller's stream.
//! 2. The operation decodes its arguments: [`call::Call::read`] and [`call::Call::write`] check pointers and lend the memory to the
//!    library.
//! 3. [`call::Call::enqueue`] enqueues the operation on the handle's own stream, between an event of the caller's stream and one that the
//!    caller's stream waits for.
//!
//! An argument is refused before anything is enqueued. No panic leaves a function: it becomes a status.

mod call;
mod code;
mod context;
mod element;
mod error;
mod handle;
mod lent;
mod memory;
mod ops;

pub use code::Code;
pub use element::ElementType;
pub use error::{Status, ferrowarp_last_error};
pub use handle::{CUstream_st, Handle};
pub use handle::{
    ferrowarp_create, ferrowarp_destroy, ferrowarp_is_emulated, ferrowarp_synchronize,
};
pub use memory::{
    ferrowarp_copy_to_device, ferrowarp_copy_to_host, ferrowarp_free, ferrowarp_malloc,
};
pub use ops::*;
