//! The map of live device memory.

mod cursor;
mod device_memory;
mod errors;
mod state;

pub use cursor::Cursor;
pub use device_memory::GlobalMemory;
pub use errors::{AllocError, FreeError, OutOfBounds, RegisterError};
pub use state::{Allocation, MAX_DEVICES};
