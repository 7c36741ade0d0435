//! Shared memory: fast memory that the threads of one block have in common.
//!
//! | | size | safe |
//! |---|---|---|
//! | [`shared_array!`](crate::shared_array) | fixed, concrete type | no: the program orders its accesses |
//! | [`SharedArray::numbered`] | fixed, generic type or length | no |
//! | [`dynamic_shared_mem`] | chosen at launch | no |
//! | [`SharedAtomics`] | counters | yes |
//!
//! Accesses through their pointers, and through references and slices made from them, compile to
//! `ld.shared` and `st.shared`.

use core::mem::{align_of, size_of};
use core::sync::atomic::{AtomicU32, Ordering};
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
/// The contents are arbitrary at first, and all threads of the block see the same memory. Whoever
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

/// `N` counters in shared memory, zero at first, that all threads of the block add to.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Counts how often each byte occurs.
/// #[kernel]
/// pub fn histogram(index: ThreadIndex, bytes: &[u8], counts: AtomicSlice<u32>) {
///     let block = SharedAtomics::<256>::zeroed();
///     for i in index.grid_stride(bytes.len()) {
///         block.add(bytes[i.get()] as usize, 1);
///     }
///     // Every thread has counted before the sums are read.
///     thread::sync_threads();
///     let mut bin = thread::index_in_block() as usize;
///     while bin < 256 {
///         counts.fetch_add(bin, block.get(bin), Relaxed);
///         bin += thread::threads_in_block() as usize;
///     }
/// }
/// # fn main() {}
/// ```
///
/// # Why it is safe
///
/// 1. The memory holds `u32`s and nothing else: its storage belongs to this type, and only the
///    functions here reach it.
/// 2. Every access, the first zeroing included, is an atomic one, so no order of accesses is a data
///    race, and any bits are a `u32`. A thread that reads without a barrier before it may see a sum
///    that others still add to, and nothing worse.
/// 3. Every access compares the index with `N`.
#[derive(Clone, Copy, Debug)]
pub struct SharedAtomics<const N: usize> {
    counters: SharedArray<u32, N>,
}

impl<const N: usize> SharedAtomics<N> {
    /// The block's `N` counters, set to zero. All threads of the block must call this together.
    ///
    /// There is one set of counters for each `N`: a second call clears them again, and two sets of
    /// equal length that live at once need [`numbered`](Self::numbered).
    #[gpu_only]
    #[inline(always)]
    pub fn zeroed() -> Self {
        Self::numbered::<0>()
    }

    /// The set numbered `ID` of the block's sets of `N` counters; see [`zeroed`](Self::zeroed).
    #[gpu_only]
    #[inline(always)]
    pub fn numbered<const ID: u32>() -> Self {
        // SAFETY: the storage is a shared array of this type.
        let counters = unsafe { SharedArray::from_raw(storage::<Self, u32, N, ID>()) };
        let this = Self { counters };
        // Readers of the counters' previous use are done before they are cleared …
        crate::thread::sync_threads();
        this.clear();
        // … and nobody counts before all are.
        crate::thread::sync_threads();
        this
    }

    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn clear(self) {
        let mut bin = crate::thread::index_in_block() as usize;
        while bin < N {
            self.counter(bin).store(0, Ordering::Relaxed);
            bin += crate::thread::threads_in_block() as usize;
        }
    }

    /// The number of counters.
    #[inline(always)]
    pub const fn len(self) -> usize {
        N
    }

    /// Whether there are no counters.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        N == 0
    }

    /// Adds to a counter, wrapping. Panics past the end.
    #[inline(always)]
    pub fn add(self, bin: usize, count: u32) {
        self.fetch_add(bin, count);
    }

    /// Adds to a counter, wrapping, and returns what it was before. Panics past the end.
    #[inline(always)]
    pub fn fetch_add(self, bin: usize, count: u32) -> u32 {
        self.counter(bin).fetch_add(count, Ordering::Relaxed)
    }

    /// The counter's value. Panics past the end.
    ///
    /// Others may still add to it: [`sync_threads`](crate::thread::sync_threads) comes first.
    #[inline(always)]
    pub fn get(self, bin: usize) -> u32 {
        self.counter(bin).load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn counter<'a>(self, bin: usize) -> &'a AtomicU32 {
        assert!(bin < N);
        // SAFETY: in bounds, aligned, and every access to the counters is atomic. The handle exists
        // only while the block runs, and shared memory lives as long.
        unsafe { AtomicU32::from_ptr(self.counters.as_mut_ptr().add(bin)) }
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
unsafe fn assume_shared<P>(pointer: *mut P) -> *mut P {
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
fn storage<Owner, T, const N: usize, const ID: u32>() -> *mut [T; N] {
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
