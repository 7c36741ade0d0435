//! The map of generic addresses, and the size of each window.

/// First address of the generic window of shared memory.
pub const SHARED_BASE: u64 = 1 << 48;
/// First address of the generic window of local memory.
pub const LOCAL_BASE: u64 = 1 << 49;
/// First address of the generic window of a kernel's parameters.
pub const PARAM_BASE: u64 = 1 << 50;
/// Number of bytes in each of these windows.
pub const WINDOW: u64 = 1 << 48;
/// Bytes of local memory that the addresses of one thread have room for.
pub const LOCAL_SPAN: u64 = 1 << 24;
/// Threads that can be distinguished by the generic addresses of their local memory.
pub const LOCAL_OWNERS: u64 = (1 << 23) - 1;
/// The most local memory that a function may declare for each thread.
pub const MAX_LOCAL_BYTES: u64 = 512 << 10;
