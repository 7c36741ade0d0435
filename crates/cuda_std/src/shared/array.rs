//! Shared memory without a protocol: the program orders its accesses.

use core::cell::UnsafeCell;
use core::mem::{MaybeUninit, align_of, size_of};
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.isspacep.shared"]
    fn isspacep_shared(pointer: *const u8) -> bool;
}

#[cfg(target_os = "cuda")]
core::arch::global_asm!(".extern .shared .align 16 .b8 ferrowarp_dynamic_shared[];");

/// An array of `N` values in shared memory: a handle that can be copied, not the memory.
///
/// The contents are arbitrary at first, and all threads of the block see the same memory. A thread that
/// follows the pointer keeps these rules:
///
/// 1. An element is written before it is read.
/// 2. While a thread writes an element, no other thread reads or writes it. A
///    [`sync_threads`](crate::thread::sync_threads) between two accesses orders them.
/// 3. References obey Rust's rules across the threads of the block.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Reverses each block's 256 elements.
/// #[kernel]
/// pub fn reverse(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
///     let tile = shared_array![u32; 256];
///     let thread = thread::thread_idx_x() as usize;
///     // SAFETY: each thread writes an element of its own.
///     unsafe { tile.set(thread, x[index.get()]) };
///     // Every element is there before another thread reads it.
///     thread::sync_threads();
///     if let Some(y) = y.get_mut(index) {
///         // SAFETY: nothing writes to the tile any more.
///         *y = unsafe { tile.get(255 - thread) };
///     }
/// }
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct SharedArray<T, const N: usize> {
    array: *mut [T; N],
}

impl<T, const N: usize> Clone for SharedArray<T, N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize> Copy for SharedArray<T, N> {}

impl<T, const N: usize> SharedArray<T, N> {
    /// The array numbered `ID`, for code that is generic over `T` or `N`.
    ///
    /// Each combination of `T`, `N` and `ID` is one array, in every function that asks for it. It
    /// costs a call; [`shared_array!`](crate::shared_array) does not.
    #[gpu_only]
    #[inline(always)]
    pub fn numbered<const ID: u32>() -> Self {
        // SAFETY: the storage is a shared array of this type.
        unsafe { Self::from_raw(storage::<Self, T, N, ID>()) }
    }

    /// The handle of the array at `array`.
    ///
    /// # Safety
    /// `array` is the generic address of shared memory, aligned for `T`, of `N` elements, and lives
    /// as long as the block.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_raw(array: *mut [T; N]) -> Self {
        // SAFETY: the caller's promise.
        Self { array: unsafe { assume_shared(array) } }
    }

    /// The number of elements.
    #[inline(always)]
    pub const fn len(self) -> usize {
        N
    }

    /// Whether there are no elements: never.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        N == 0
    }

    /// The pointer to the first element.
    #[inline(always)]
    pub fn as_mut_ptr(self) -> *mut T {
        self.array.cast()
    }

    /// The element at `index`. Panics past the end.
    ///
    /// # Safety
    /// The rules of [`SharedArray`].
    #[inline(always)]
    pub unsafe fn get(self, index: usize) -> T
    where
        T: Copy,
    {
        assert!(index < N);
        // SAFETY: in bounds; the rest is the caller's promise.
        unsafe { self.as_mut_ptr().add(index).read() }
    }

    /// Sets the element at `index`. Panics past the end.
    ///
    /// # Safety
    /// The rules of [`SharedArray`].
    #[inline(always)]
    pub unsafe fn set(self, index: usize, value: T)
    where
        T: Copy,
    {
        assert!(index < N);
        // SAFETY: in bounds; the rest is the caller's promise.
        unsafe { self.as_mut_ptr().add(index).write(value) }
    }

    /// All elements, to read.
    ///
    /// # Safety
    /// The rules of [`SharedArray`], for as long as the slice is used: every element is written, and
    /// no thread writes any.
    #[inline(always)]
    pub unsafe fn as_slice<'a>(self) -> &'a [T] {
        // SAFETY: the caller's promise.
        unsafe { &*self.array }
    }

    /// All elements, to write.
    ///
    /// # Safety
    /// The rules of [`SharedArray`], for as long as the slice is used: this thread alone uses the
    /// array.
    #[inline(always)]
    pub unsafe fn as_mut_slice<'a>(self) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.array }
    }
}

/// The dynamic shared memory of the block: as many bytes as the launch asked for, 16-byte aligned.
/// Every call, of whatever type, gives the same pointer.
#[gpu_only]
#[inline(always)]
pub fn dynamic_shared_mem<T>() -> *mut T {
    const { assert!(align_of::<T>() <= 16, "dynamic shared memory is aligned to 16 bytes") };
    let pointer: *mut T;
    // SAFETY: the assembly names the array declared above and touches nothing.
    unsafe {
        core::arch::asm!(
            "mov.u64 {p}, ferrowarp_dynamic_shared; cvta.shared.u64 {p}, {p};",
            p = out(reg64) pointer,
            options(pure, nomem, nostack),
        );
        assume_shared(pointer)
    }
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

/// Tells the compiler that a pointer leads to shared memory.
///
/// LLVM rewrites the accesses through pointers that are computed from the one it was told about, and
/// none through that one itself. So the result is computed from it, by an addition of a zero that
/// LLVM cannot see and the assembler drops.
///
/// # Safety
/// The pointer leads to shared memory.
#[inline(always)]
pub(crate) unsafe fn assume_shared<P>(pointer: *mut P) -> *mut P {
    #[cfg(target_os = "cuda")]
    // SAFETY: the caller's promise; zero keeps the pointer where it is.
    let pointer = unsafe {
        core::hint::assert_unchecked(isspacep_shared(pointer.cast()));
        core::hint::assert_unchecked(!pointer.is_null());
        let zero: usize;
        core::arch::asm!("mov.u64 {0}, 0;", out(reg64) zero, options(pure, nomem, nostack));
        pointer.byte_add(zero)
    };
    pointer
}

/// The storage of the array numbered `ID` that belongs to the type `Owner`. The declaration stands
/// inside the assembly, so that each instance has its own; inlined, every copy would be another
/// array.
#[cfg(target_os = "cuda")]
#[inline(never)]
pub(super) fn storage<Owner, T, const N: usize, const ID: u32>() -> *mut [T; N] {
    let pointer: *mut [T; N];
    // SAFETY: the assembly declares the array, takes its address and touches nothing.
    unsafe {
        core::arch::asm!(
            "{{ .shared .align {align} .b8 numbered[{bytes}];",
            "mov.u64 {p}, numbered; cvta.shared.u64 {p}, {p}; }}",
            align = const align_bytes::<T>(),
            bytes = const size_bytes::<T>(N),
            p = out(reg64) pointer,
            options(pure, nomem, nostack),
        );
    }
    pointer
}

/// A type that a static in shared memory can have: any bits are a value of it.
///
/// # Safety
/// Memory that nothing was written to holds a value of the type.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "shared memory has no initial value, and `{Self}` needs one",
    label = "not `MaybeUninit`, nor an array of it",
    note = "write `static mut NAME: [MaybeUninit<T>; N] = [const {{ MaybeUninit::uninit() }}; N];`",
    note = "or use `shared_array![T; N]` in the kernel"
)]
pub unsafe trait Uninitialised {}

// SAFETY: that is what the type is for.
unsafe impl<T> Uninitialised for MaybeUninit<T> {}
// SAFETY: an array is its elements.
unsafe impl<T: Uninitialised, const N: usize> Uninitialised for [T; N] {}
// SAFETY: a cell is its value.
unsafe impl<T: Uninitialised> Uninitialised for UnsafeCell<T> {}

/// Does not compile for a type with an initial value.
#[doc(hidden)]
pub const fn assert_uninitialised<T: Uninitialised>() {}

/// The alignment of a shared array of `T`: enough for 16-byte accesses.
#[doc(hidden)]
pub const fn align_bytes<T>() -> usize {
    if align_of::<T>() > 16 { align_of::<T>() } else { 16 }
}

/// The size of a shared array of `len` values of `T`.
#[doc(hidden)]
pub const fn size_bytes<T>(len: usize) -> usize {
    let bytes = len.checked_mul(size_of::<T>()).expect("a shared array's size overflows");
    assert!(bytes > 0, "a shared array has at least one byte");
    bytes
}
