//! Shared memory without a protocol: the program orders its accesses.

use super::alignment::{Align, Alignment, check_alignment};
use super::statics::SharedStatic;
use core::mem::{align_of, size_of};
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[link_name = "llvm.nvvm.isspacep.shared"]
    fn isspacep_shared(pointer: *const u8) -> bool;
}

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
///
/// `ALIGN` is the least alignment of the first element in bytes: a power of two up to 1,024, 16 unless another one
/// is given. A tensor copy (TMA) writes to memory that is aligned to 128 bytes:
/// `shared_array![f32; 1024, align = 128]`.
///
/// # In a static
///
/// A kernel may also declare the array as a static, by its type and [`UNINIT`](Self::UNINIT):
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Reverses each block's 256 elements.
/// #[kernel]
/// pub fn reverse(index: ThreadIndex, x: &[u32], mut y: DisjointSlice<u32>) {
///     static mut TILE: SharedArray<u32, 256> = SharedArray::UNINIT;
///     let thread = thread::thread_idx_x() as usize;
///     // SAFETY: each thread writes an element of its own.
///     unsafe { TILE[thread] = x[index.get()] };
///     // Every element is there before another thread reads it.
///     thread::sync_threads();
///     if let Some(y) = y.get_mut(index) {
///         // SAFETY: nothing writes to the tile any more.
///         *y = unsafe { TILE[255 - thread] };
///     }
/// }
///
/// /// For functions that kernels call: outside of a kernel's body the static names its memory.
/// #[cuda_std::address_space(shared)]
/// static mut SCRATCH: SharedArray<f32, 32, 128> = SharedArray::UNINIT;
/// # fn main() {}
/// ```
///
/// The static's own type is then [`SharedStatic`], which has the elements themselves: `TILE[i]`, `(&raw mut TILE).cast()`,
/// and [`from_static`](Self::from_static) for the handle.
#[doc(alias = "__shared__")]
#[derive(Debug)]
pub struct SharedArray<T, const N: usize, const ALIGN: usize = 16> {
    array: *mut [T; N],
}

impl<T, const N: usize, const ALIGN: usize> Clone for SharedArray<T, N, ALIGN> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const N: usize, const ALIGN: usize> Copy for SharedArray<T, N, ALIGN> {}

impl<T, const N: usize, const ALIGN: usize> SharedArray<T, N, ALIGN> {
    /// The value of `static mut NAME: SharedArray<T, N, ALIGN> = SharedArray::UNINIT;`: none, for shared memory holds
    /// anything when a block starts.
    ///
    /// It stands in a static in the body of a `#[kernel]`, or of one with `#[address_space(shared)]`; both move the static
    /// to shared memory. Anywhere else it does not compile.
    pub const UNINIT: Self = panic!(
        "`SharedArray::UNINIT` is the value of a static in shared memory. In a kernel write \
         `static mut NAME: SharedArray<T, N> = SharedArray::UNINIT;`, and write `#[address_space(shared)]` above \
         that line in another function or in a module"
    );

    /// The array numbered `ID`, for code that is generic over `T` or `N`.
    ///
    /// Each combination of `T`, `N`, `ALIGN` and `ID` is one array, in every function that asks for it. It
    /// costs a call; [`shared_array!`](crate::shared_array) does not.
    #[gpu_only]
    #[inline(always)]
    pub fn numbered<const ID: u32>() -> Self {
        // SAFETY: the storage is a shared array of this type.
        unsafe { Self::from_raw(storage::<Self, T, N, ALIGN, ID>()) }
    }

    /// The handle of the array at `array`.
    ///
    /// # Safety
    /// `array` is the generic address of shared memory, aligned for `T` and to `ALIGN`, of `N` elements, and lives
    /// as long as the block.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_raw(array: *mut [T; N]) -> Self {
        // SAFETY: the caller's promise.
        Self { array: unsafe { assume_shared(array) } }
    }

    /// The handle of an array that is a static: `SharedArray::from_static(&raw mut TILE)`.
    ///
    /// # Safety
    /// `array` is the address of a `static mut` in shared memory.
    #[doc(alias = "as_raw_mut_ptr")]
    #[inline(always)]
    pub const unsafe fn from_static(array: *mut SharedStatic<T, N, ALIGN>) -> Self
    where
        Align<ALIGN>: Alignment,
    {
        // Nothing is assumed: the compiler takes the static for global memory, until the builder moves it.
        Self { array: array.cast() }
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
pub(super) fn storage<Owner, T, const N: usize, const ALIGN: usize, const ID: u32>() -> *mut [T; N]
{
    let pointer: *mut [T; N];
    // SAFETY: the assembly declares the array, takes its address and touches nothing.
    unsafe {
        core::arch::asm!(
            "{{ .shared .align {align} .b8 numbered[{bytes}];",
            "mov.u64 {p}, numbered; cvta.shared.u64 {p}, {p}; }}",
            align = const aligned_bytes::<T, ALIGN>(),
            bytes = const size_bytes::<T>(N),
            p = out(reg64) pointer,
            options(pure, nomem, nostack),
        );
    }
    pointer
}

/// The alignment of a shared array of `T`: enough for 16-byte accesses.
#[doc(hidden)]
pub const fn align_bytes<T>() -> usize {
    aligned_bytes::<T, 16>()
}

/// The alignment of a shared array of `T` that is aligned to `ALIGN` at least.
#[doc(hidden)]
pub const fn aligned_bytes<T, const ALIGN: usize>() -> usize {
    check_alignment(ALIGN);
    if align_of::<T>() > ALIGN { align_of::<T>() } else { ALIGN }
}

/// The size of a shared array of `len` values of `T`.
#[doc(hidden)]
pub const fn size_bytes<T>(len: usize) -> usize {
    let bytes = len.checked_mul(size_of::<T>()).expect("a shared array's size overflows");
    assert!(bytes > 0, "a shared array has at least one byte");
    bytes
}
