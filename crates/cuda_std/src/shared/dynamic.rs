//! Dynamic shared memory: as many bytes as the launch asked for.

use super::array::aligned_bytes;
#[cfg(target_os = "cuda")]
use super::array::assume_shared;
use core::marker::PhantomData;
use cuda_std_macros::gpu_only;

// One name for all: arrays of several names and alignments begin at several addresses. The builder raises the alignment
// to the largest one that the module asks for.
#[cfg(target_os = "cuda")]
core::arch::global_asm!(".extern .shared .align 16 .b8 ferrowarp_dynamic_shared[];");

/// The dynamic shared memory of the block, whose length in bytes the launch sets: `LaunchConfig::shared_mem(bytes)`.
///
/// It is one memory for all of a kernel's calls, of whatever `T`: `get` is its beginning, and `offset` an array further
/// on. `ALIGN` is the alignment of its beginning in bytes, a power of two up to 1,024. The largest one among a crate's
/// kernels holds for all of them, which leaves at most that many bytes unused behind a kernel's fixed arrays.
///
/// The pointers are followed by the rules of [`SharedArray`](super::SharedArray). Nothing compares them with the length on a
/// GPU; on the emulator an access past the end of what the launch gave is an error of the launch.
/// [`Shared<[u8]>`](super::Shared) divides the memory in safe code.
///
/// ```
/// use cuda_std::prelude::*;
/// use cuda_std::shared::DynamicSharedArray;
///
/// /// Each thread adds its neighbour's values. Blocks of `n` threads need `8 * n` bytes.
/// #[kernel]
/// pub fn neighbours(index: ThreadIndex, a: &[f32], b: &[u32], mut out: DisjointSlice<f32>) {
///     let (thread, threads) = (thread::thread_idx_x() as usize, thread::block_dim_x() as usize);
///     let floats = DynamicSharedArray::<f32>::get();
///     let words = DynamicSharedArray::<u32>::offset(threads * size_of::<f32>());
///     // SAFETY: each thread writes elements of its own, and the launch gives room for both arrays.
///     unsafe {
///         floats.add(thread).write(a[index.get()]);
///         words.add(thread).write(b[index.get()]);
///     }
///     // Every element is there before another thread reads it.
///     thread::sync_threads();
///     if let Some(out) = out.get_mut(index) {
///         let next = (thread + 1) % threads;
///         // SAFETY: nothing writes to the arrays any more.
///         *out = unsafe { *floats.add(next) + *words.add(next) as f32 };
///     }
/// }
/// # fn main() {}
/// ```
#[doc(alias = "extern __shared__")]
#[derive(Clone, Copy, Debug)]
pub struct DynamicSharedArray<T, const ALIGN: usize = 16>(PhantomData<*mut T>);

impl<T, const ALIGN: usize> DynamicSharedArray<T, ALIGN> {
    /// The alignment of the memory in bytes, as far as this type knows: that of `T`, if it is larger.
    #[must_use]
    #[inline(always)]
    pub const fn alignment() -> usize {
        aligned_bytes::<T, ALIGN>()
    }

    /// The beginning of the dynamic shared memory.
    #[must_use]
    #[gpu_only]
    #[inline(always)]
    pub fn get() -> *mut T {
        const { assert!(Self::alignment() <= 1024, "shared memory is aligned to at most 1024 bytes") };
        let pointer: *mut T;
        // SAFETY: the assembly names the array declared above and touches nothing.
        unsafe {
            core::arch::asm!(
                "mov.u64 {p}, ferrowarp_dynamic_shared; cvta.shared.u64 {p}, {p}; // ferrowarp.dynamic_align {align}",
                p = out(reg64) pointer,
                align = const Self::alignment(),
                options(pure, nomem, nostack),
            );
            assume_shared(pointer)
        }
    }

    /// The beginning of the dynamic shared memory, as bytes.
    #[must_use]
    #[gpu_only]
    #[inline(always)]
    pub fn get_raw() -> *mut u8 {
        Self::get().cast()
    }

    /// What lies `offset_bytes` bytes behind the beginning of the dynamic shared memory.
    ///
    /// Nothing is checked here. Whoever follows the pointer knows that it is aligned for `T`, and that the launch gives
    /// at least the bytes up to the last one that is accessed.
    #[must_use]
    #[gpu_only]
    #[inline(always)]
    pub fn offset(offset_bytes: usize) -> *mut T {
        Self::get().wrapping_byte_add(offset_bytes)
    }
}

/// The dynamic shared memory of the block: [`DynamicSharedArray::get`], under the name that it has in rust-cuda.
#[gpu_only]
#[inline(always)]
pub fn dynamic_shared_mem<T>() -> *mut T {
    DynamicSharedArray::<T>::get()
}

/// The bytes of dynamic shared memory that the launch asked for.
#[gpu_only]
#[inline(always)]
pub fn dynamic_shared_bytes() -> usize {
    let bytes: u32;
    // SAFETY: reading a special register has no precondition.
    unsafe {
        core::arch::asm!(
            "mov.u32 {0}, %dynamic_smem_size;",
            out(reg32) bytes,
            options(pure, nomem, nostack),
        );
    }
    bytes as usize
}
