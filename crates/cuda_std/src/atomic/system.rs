//! A slice that kernels and the host change at the same time.

use super::{Atomic, AtomicElement, scope};
use core::marker::PhantomData;

/// Numbers that the threads of all kernels and of the host read and change at the same time,
/// atomically.
///
/// Its elements are [`Atomic`] numbers of system scope. Any number of kernels may have the same
/// slice, while the host looks at it too.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Waits for the host's go, and answers.
/// #[kernel]
/// pub fn answer(_index: ThreadIndex, words: SystemAtomics<u32>) {
///     while words.get(0).load(Acquire) == 0 {}
///     words.get(1).store(42, Release);
/// }
/// # fn main() {}
/// ```
///
/// # What is atomic with the host
///
/// Loads and stores are, on every device. A read-modify-write of a kernel in the host's memory is
/// atomic for all threads of the device; for the host's own it is only where the device reports it
/// (`DeviceInfo::host_native_atomics`: NVLink to the CPU, as on a Grace Hopper). Over PCI Express let
/// one side change a word so, and the other one load it.
///
/// # Why it is safe
///
/// 1. The slice is made by the entry that `#[kernel]` writes, from memory that the host gives out as
///    atomics alone.
/// 2. Every access is one atomic operation of system scope, of the element's size, at an aligned
///    address. Every bit pattern is a value.
/// 3. `get` compares the index with the length.
#[derive(Clone, Copy, Debug)]
pub struct SystemAtomics<'a, T> {
    ptr: *mut T,
    len: usize,
    borrow: PhantomData<&'a T>,
}

impl<'a, T: AtomicElement> SystemAtomics<'a, T> {
    /// Makes the view from a pointer and a number of elements.
    ///
    /// # Safety
    /// - `ptr` is aligned and not null, and valid for reads and writes of `len` initialised elements
    ///   during `'a`.
    /// - Nothing reaches these elements during `'a` but atomic operations of system scope.
    #[inline(always)]
    pub const unsafe fn from_raw_parts(ptr: *mut T, len: usize) -> Self {
        Self { ptr, len, borrow: PhantomData }
    }

    /// The number of elements.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The element. Panics past the end.
    #[inline(always)]
    pub fn get(self, index: usize) -> &'a Atomic<T, scope::System> {
        assert!(index < self.len);
        // SAFETY: in bounds, and reached by atomic operations of system scope alone.
        unsafe { Atomic::from_ptr(self.ptr.add(index)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::Ordering::{Acquire, Relaxed, Release};

    #[test]
    fn elements_are_shared() {
        let mut words = [1u64, 2];
        // SAFETY: `words` is reached only through the view while it lives.
        let slice = unsafe { SystemAtomics::from_raw_parts(words.as_mut_ptr(), 2) };
        slice.get(0).store(slice.get(1).load(Acquire) + 5, Release);
        assert_eq!(
            (slice.get(0).fetch_add(1, Relaxed), slice.len(), slice.is_empty()),
            (7, 2, false)
        );
        assert_eq!(words, [8, 2]);
    }

    #[test]
    #[should_panic(expected = "index < self.len")]
    fn the_length_is_the_end() {
        // SAFETY: an empty view has no element to reach.
        unsafe { SystemAtomics::<u32>::from_raw_parts(core::ptr::dangling_mut(), 0) }.get(0);
    }
}
