//! The device's heap, and how much shared memory a block has.
//!
//! With the feature `allocator`, which is on by default, the heap is the global allocator of every
//! kernel: `Box`, `Vec`, `String` and crates that use `alloc` work. A kernel that allocates nothing
//! has no trace of it. The heap is 8 MiB unless the host sets `cuCtxSetLimit` to another size before
//! the first kernel; an allocation that does not fit panics, as `alloc` does everywhere.
//!
//! One allocation takes thousands of cycles, and all threads of the device share the heap. Where the
//! size is known, an array, shared memory or a buffer of the host is far faster.

use core::alloc::{GlobalAlloc, Layout};
use cuda_std_macros::gpu_only;

use core::ffi::c_void;

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[link_name = "malloc"]
    fn device_malloc(size: usize) -> *mut c_void;
    #[link_name = "free"]
    fn device_free(ptr: *mut c_void);
}

/// Memory of the device's heap, aligned to 16 bytes and uninitialised; null where there is none.
///
/// # Safety
/// None is asked for; it is `unsafe` because rust-cuda's is.
#[gpu_only]
#[inline(always)]
pub unsafe fn malloc(size: usize) -> *mut c_void {
    // SAFETY: `malloc` has no precondition.
    unsafe { device_malloc(size) }
}

/// Gives memory back to the device's heap.
///
/// # Safety
/// `ptr` is null, or came from [`malloc`] in this context and was not given back before.
#[gpu_only]
#[inline(always)]
pub unsafe fn free(ptr: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { device_free(ptr) }
}

/// The device's heap; on the host, the system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct CUDAAllocator;

/// The global allocator of kernels.
#[cfg_attr(all(target_os = "cuda", feature = "allocator"), global_allocator)]
pub static GLOBAL_ALLOCATOR: CUDAAllocator = CUDAAllocator;

/// The alignment that `malloc` gives.
#[cfg(target_os = "cuda")]
const HEAP_ALIGN: usize = 16;

// SAFETY: the heap gives each caller memory of its own, of the size asked for. Where more than its
// alignment is needed, `over_aligned` moves the start up inside a larger piece.
#[cfg(target_os = "cuda")]
unsafe impl GlobalAlloc for CUDAAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match layout.align() {
            // SAFETY: `malloc` has no precondition.
            ..=HEAP_ALIGN => unsafe { malloc(layout.size()).cast() },
            _ => over_aligned(layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise; an over-aligned piece has its true start before it.
        unsafe {
            match layout.align() {
                ..=HEAP_ALIGN => free(ptr.cast()),
                _ => free(ptr.cast::<*mut c_void>().sub(1).read()),
            }
        }
    }
}

/// Memory of a larger alignment than the heap's: the piece is larger by that alignment, and the
/// heap's pointer stands right before the memory that is given out.
#[cfg(target_os = "cuda")]
fn over_aligned(layout: Layout) -> *mut u8 {
    let Some(size) = layout.size().checked_add(layout.align()) else {
        return core::ptr::null_mut();
    };
    // SAFETY: the start moves up by 16 bytes to `align`, which stays inside the piece and leaves
    // room for a pointer before it.
    unsafe {
        let piece: *mut u8 = malloc(size).cast();
        if piece.is_null() {
            return piece;
        }
        let start = piece.add(layout.align() - (piece.addr() & (layout.align() - 1)));
        start.cast::<*mut u8>().sub(1).write(piece);
        start
    }
}

// SAFETY: the system's allocator.
#[cfg(not(target_os = "cuda"))]
unsafe impl GlobalAlloc for CUDAAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { std::alloc::System.dealloc(ptr, layout) }
    }
}

/// Declares readers of special registers.
macro_rules! sizes {
    ($($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        #[gpu_only]
        #[inline(always)]
        pub fn $name() -> u32 {
            let size: u32;
            // SAFETY: reading a special register has no precondition.
            unsafe {
                core::arch::asm!(
                    concat!("mov.u32 {0}, %", stringify!($name), ";"),
                    out(reg32) size,
                    options(pure, nomem, nostack),
                );
            }
            size
        }
    )*};
}

sizes! {
    dynamic_smem_size: "The bytes of dynamic shared memory that the launch asked for.";
    total_smem_size: "The bytes of shared memory of the block: dynamic, static, and rounded up.";
}
