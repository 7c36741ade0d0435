//! An emulated CUDA device: PTX text in, results out.
//!
//! [`Device`] loads PTX into a [`Module`] and runs its kernels; its [`memory::GlobalMemory`] is the
//! device memory that they work on. What goes wrong is a value: [`fault::LoadError`] at load time,
//! [`fault::Trap`] while a kernel runs.

pub mod device;
pub mod exec;
pub mod fault;
mod fault_async;
mod fault_race;
mod fault_stream;
mod fault_sync;
pub mod isa;
pub mod memory;
pub mod numeric;
pub mod program;
pub mod ptx;
pub mod system;
mod tensor_map;

pub use device::{Device, Function, Global, Launch, Module, Param, Profile, Stats};
pub use exec::schedule::Schedule;
pub use exec::stuck::{Nobody, Outside};
pub use exec::watch::Checks;
pub use exec::watch::counters;
pub use exec::watch::race;
pub use fault::{LoadError, Trap, TrapKind};
pub use tensor_map::{
    ElementType, Im2col, Interleave, L2Promotion, OutOfBoundsFill, Swizzle, TENSOR_MAP_ALIGN,
    TENSOR_MAP_BYTES, TensorMap, TensorMapError,
};
