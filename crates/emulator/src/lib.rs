//! An emulated CUDA device: PTX text in, results out.
//!
//! [`Device`] loads PTX into a [`Module`] and runs its kernels; its [`memory::GlobalMemory`] is the
//! device memory that they work on. What goes wrong is a value: [`fault::LoadError`] at load time,
//! [`fault::Trap`] while a kernel runs.

pub mod device;
pub mod exec;
pub mod fault;
pub mod isa;
pub mod machine;
pub mod memory;
pub mod numeric;
pub mod program;
pub mod ptx;
pub mod system;
mod tensor_map;

pub use device::{Device, Function, Global, Launch, Module, Profile, Stats};
pub use exec::stuck::{Nobody, Outside};
pub use exec::watch::{counters, race};
pub use fault::{LoadError, Trap, TrapKind};
pub use machine::{Checks, Schedule};
pub use program::Param;
pub use tensor_map::{
    ElementType, Im2col, Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TENSOR_MAP_ALIGN,
    TENSOR_MAP_BYTES, TensorMap, TensorMapError,
};
