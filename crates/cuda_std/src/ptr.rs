//! The address space of a pointer.
//!
//! A Rust pointer on the GPU is generic: one number space for all memories. A specific address
//! counts inside one of them, and only PTX that names that memory can use it.

use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use core::arch::asm;

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.isspacep.global"]
    fn is_global(pointer: *const u8) -> bool;
    #[link_name = "llvm.nvvm.isspacep.shared"]
    fn is_shared(pointer: *const u8) -> bool;
    #[link_name = "llvm.nvvm.isspacep.const"]
    fn is_constant(pointer: *const u8) -> bool;
    #[link_name = "llvm.nvvm.isspacep.local"]
    fn is_local(pointer: *const u8) -> bool;
}

/// A memory of the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressSpace {
    /// The device's memory, which every thread reaches.
    Global,
    /// The block's memory.
    Shared,
    /// The module's constants, which no thread writes.
    Constant,
    /// The thread's own memory.
    Local,
}

/// Whether a generic pointer leads to a memory.
///
/// # Safety
/// `ptr` is a generic pointer, as every Rust pointer is that was not converted.
#[gpu_only]
#[inline(always)]
pub unsafe fn is_in_address_space<T>(ptr: *const T, address_space: AddressSpace) -> bool {
    let ptr = ptr.cast();
    // SAFETY: the caller's promise.
    unsafe {
        match address_space {
            AddressSpace::Global => is_global(ptr),
            AddressSpace::Shared => is_shared(ptr),
            AddressSpace::Constant => is_constant(ptr),
            AddressSpace::Local => is_local(ptr),
        }
    }
}

/// One conversion for each memory.
#[cfg(target_os = "cuda")]
macro_rules! convert {
    ($before:literal, $ptr:ident, $space:ident) => {{
        macro_rules! one {
                                                ($name:literal) => {
                                                    asm!(
                                                        concat!($before, $name, ".u64 {0}, {0};"),
                                                        inout(reg64) $ptr,
                                                        options(pure, nomem, nostack),
                                                    )
                                                };
                                            }
        match $space {
            AddressSpace::Global => one!("global"),
            AddressSpace::Shared => one!("shared"),
            AddressSpace::Constant => one!("const"),
            AddressSpace::Local => one!("local"),
        }
    }};
}

/// The address inside a memory, of a generic pointer. Following it in Rust is wrong.
///
/// # Safety
/// `ptr` is generic and leads to that memory.
#[gpu_only]
#[inline(always)]
pub unsafe fn convert_generic_to_specific_address_space<T>(
    ptr: *const T,
    address_space: AddressSpace,
) -> *const T {
    let mut ptr = ptr;
    // SAFETY: the caller's promise; the assembly computes a number.
    unsafe { convert!("cvta.to.", ptr, address_space) };
    ptr
}

/// The generic pointer to an address inside a memory.
///
/// # Safety
/// `ptr` is an address of that memory.
#[gpu_only]
#[inline(always)]
pub unsafe fn convert_specific_address_space_to_generic<T>(
    ptr: *const T,
    address_space: AddressSpace,
) -> *const T {
    let mut ptr = ptr;
    // SAFETY: the caller's promise; the assembly computes a number.
    unsafe { convert!("cvta.", ptr, address_space) };
    ptr
}
