//! Ferrowarp's operations for C: functions on raw device pointers and a raw `CUstream`, with the header `include/ferrowarp.h`.
//!
//! A call goes through these steps:
//! 1. `call::run` takes the handle, and makes its device's context current.
//! 2. The operation decodes its arguments: `Call::read` and `Call::write` check pointers, and lend the memory to the library.
//! 3. `Call::enqueue` enqueues the operation on the caller's stream.
//!
//! An argument is refused before anything is enqueued. No panic leaves a function: it becomes a status.

mod call;
mod code;
mod context;
mod element;
mod error;
mod handle;
mod memory;
mod ops;

pub use code::Code;
pub use element::ElementType;
pub use error::{Status, ferrowarp_last_error};
pub use handle::{CUstream_st, Handle};
pub use handle::{
    ferrowarp_create, ferrowarp_destroy, ferrowarp_is_emulated, ferrowarp_load_kernels,
    ferrowarp_synchronize,
};
pub use memory::{
    ferrowarp_copy_to_device, ferrowarp_copy_to_host, ferrowarp_free, ferrowarp_malloc,
};
pub use ops::*;
