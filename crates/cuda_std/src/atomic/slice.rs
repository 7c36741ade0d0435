//! A slice that all threads may change, one atomic operation at a time.

use super::word::failure;
use super::{Atomic, Scope, Word, rmw, scope};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// A slice in device memory that every thread of the grid may read and change, atomically.
///
/// Each operation takes an order and is of device scope. All panic past the end.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Counts the negative values.
/// #[kernel]
/// pub fn count_negative(index: ThreadIndex, x: &[f32], count: AtomicSlice<u32>) {
///     for i in index.grid_stride(x.len()) {
///         if x[i.get()] < 0.0 {
///             count.fetch_add(0, 1, Relaxed);
///         }
///     }
/// }
/// # fn main() {}
/// ```
///
/// # Why it is safe
///
/// 1. The slice is made by the entry that `#[kernel]` writes, from a buffer that the host borrowed
///    mutably for the launch: no other parameter of the launch aliases it.
/// 2. Every access is one atomic operation of the element's size at an aligned address, so no two
///    accesses race. No reference to an element is given out.
/// 3. Every bit pattern is a value of the element's type.
/// 4. Every access compares the index with the length.
#[derive(Clone, Copy, Debug)]
pub struct AtomicSlice<'a, T> {
    ptr: *mut T,
    len: usize,
    borrow: PhantomData<&'a T>,
}

impl<'a, T: AtomicElement> AtomicSlice<'a, T> {
    /// Makes the view from a pointer and a number of elements.
    ///
    /// # Safety
    /// - `ptr` is aligned and not null, and valid for reads and writes of `len` initialised elements
    ///   in global memory during `'a`.
    /// - Nothing reaches these elements during `'a` but atomic operations of device scope.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, len: usize) -> Self {
        Self { ptr, len, borrow: PhantomData }
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The element as a number to share, with more operations. Panics past the end.
    #[inline(always)]
    pub fn get(self, index: usize) -> &'a Atomic<T, scope::Device> {
        // SAFETY: a valid element, which nothing reaches during `'a` but atomic operations.
        unsafe { Atomic::from_ptr(self.element(index)) }
    }

    /// The element's value. The order is `Relaxed`, `Acquire` or `SeqCst`; others panic.
    #[inline(always)]
    pub fn load(self, index: usize, order: Ordering) -> T {
        // SAFETY: a valid element, reached atomically.
        unsafe { T::load(self.element(index), order) }
    }

    /// Sets the element. The order is `Relaxed`, `Release` or `SeqCst`; others panic.
    #[inline(always)]
    pub fn store(self, index: usize, value: T, order: Ordering) {
        // SAFETY: a valid element, reached atomically.
        unsafe { T::store(self.element(index), value, order) }
    }

    /// Adds to the element and returns what it was before; integers wrap.
    #[inline(always)]
    pub fn fetch_add(self, index: usize, value: T, order: Ordering) -> T {
        // SAFETY: a valid element, reached atomically.
        unsafe { T::fetch_add(self.element(index), value, order) }
    }

    /// Sets the element and returns what it was before.
    #[inline(always)]
    pub fn swap(self, index: usize, value: T, order: Ordering) -> T {
        // SAFETY: a valid element, reached atomically.
        unsafe { T::swap(self.element(index), value, order) }
    }

    /// The pointer to the first element, for what the type cannot express. Following it is unsafe:
    /// other threads change the elements meanwhile.
    #[inline(always)]
    pub fn as_mut_ptr(self) -> *mut T {
        self.ptr
    }

    #[inline(always)]
    fn element(self, index: usize) -> *mut T {
        assert!(index < self.len);
        // SAFETY: in bounds.
        unsafe { self.ptr.add(index) }
    }
}

/// Declares the operations that only integers have.
macro_rules! integer_methods {
    ($($name:ident: $doc:literal;)*) => {
        impl<T: AtomicInteger> AtomicSlice<'_, T> {
            $(
                #[doc = concat!($doc, ", and returns what it was before.")]
                #[inline(always)]
                pub fn $name(self, index: usize, value: T, order: Ordering) -> T {
                    // SAFETY: a valid element, reached atomically.
                    unsafe { T::$name(self.element(index), value, order) }
                }
            )*

            /// Sets the element to `new` if it is `current`, and returns what it was before. A
            /// failure is ordered as a load is by `order`.
            ///
            /// # Errors
            /// The element's value, if it is not `current`.
            #[inline(always)]
            pub fn compare_exchange(
                self,
                index: usize,
                current: T,
                new: T,
                order: Ordering,
            ) -> Result<T, T> {
                // SAFETY: a valid element, reached atomically.
                unsafe { T::compare_exchange(self.element(index), current, new, order) }
            }
        }
    };
}

integer_methods! {
    fetch_sub: "Subtracts from the element, wrapping";
    fetch_min: "Lowers the element to `value` if that is less";
    fetch_max: "Raises the element to `value` if that is more";
    fetch_and: "Combines the element with `value` by bitwise and";
    fetch_or: "Combines the element with `value` by bitwise or";
    fetch_xor: "Combines the element with `value` by bitwise exclusive or";
}

/// An element of an [`AtomicSlice`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be changed atomically",
    note = "the elements of an `AtomicSlice` are `u32`, `i32`, `u64`, `i64`, `f32` or `f64`"
)]
#[allow(clippy::missing_safety_doc)]
pub trait AtomicElement: Word + sealed::Sealed {
    #[doc(hidden)]
    unsafe fn load(ptr: *mut Self, order: Ordering) -> Self;
    #[doc(hidden)]
    unsafe fn store(ptr: *mut Self, value: Self, order: Ordering);
    #[doc(hidden)]
    unsafe fn fetch_add(ptr: *mut Self, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    unsafe fn swap(ptr: *mut Self, value: Self, order: Ordering) -> Self;
}

/// An integer element of an [`AtomicSlice`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no such atomic operation",
    note = "of the elements of an `AtomicSlice`, `u32`, `i32`, `u64` and `i64` have it"
)]
#[allow(clippy::missing_safety_doc)]
pub trait AtomicInteger: AtomicElement {
    #[doc(hidden)]
    unsafe fn fetch_sub(ptr: *mut Self, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    unsafe fn fetch_min(ptr: *mut Self, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    unsafe fn fetch_max(ptr: *mut Self, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    unsafe fn fetch_and(ptr: *mut Self, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    unsafe fn fetch_or(ptr: *mut Self, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    unsafe fn fetch_xor(ptr: *mut Self, value: Self, order: Ordering) -> Self;
    #[doc(hidden)]
    unsafe fn compare_exchange(
        ptr: *mut Self,
        current: Self,
        new: Self,
        order: Ordering,
    ) -> Result<Self, Self>;
}

mod sealed {
    pub trait Sealed {}
}

/// Read-modify-writes: `core`'s where they are right, on the host and relaxed ones at device scope,
/// else the instruction with its order.
macro_rules! forward {
    ($atomic:ident: $($name:ident as $rmw:ident)*) => {$(
        #[inline(always)]
        unsafe fn $name(ptr: *mut Self, value: Self, order: Ordering) -> Self {
            #[cfg(target_os = "cuda")]
            if order != Ordering::Relaxed {
                // SAFETY: the caller's promise.
                return unsafe { rmw::$rmw::operate::<true>(ptr, value, order, Scope::Device) };
            }
            // SAFETY: the caller's promise.
            unsafe { $atomic::from_ptr(ptr) }.$name(value, order)
        }
    )*};
}

macro_rules! integers {
    ($($ty:ty as $atomic:ident;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl AtomicElement for $ty {
            #[inline(always)]
            unsafe fn load(ptr: *mut Self, order: Ordering) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $atomic::from_ptr(ptr) }.load(order)
            }

            #[inline(always)]
            unsafe fn store(ptr: *mut Self, value: Self, order: Ordering) {
                // SAFETY: the caller's promise.
                unsafe { $atomic::from_ptr(ptr) }.store(value, order)
            }

            forward!($atomic: fetch_add as FetchAdd swap as Exchange);
        }

        impl AtomicInteger for $ty {
            forward!($atomic:
                fetch_min as FetchMin
                fetch_max as FetchMax
                fetch_and as FetchAnd
                fetch_or as FetchOr
                fetch_xor as FetchXor
            );

            #[inline(always)]
            unsafe fn fetch_sub(ptr: *mut Self, value: Self, order: Ordering) -> Self {
                // SAFETY: the caller's promise.
                unsafe { Self::fetch_add(ptr, value.wrapping_neg(), order) }
            }

            #[inline(always)]
            unsafe fn compare_exchange(
                ptr: *mut Self,
                current: Self,
                new: Self,
                order: Ordering,
            ) -> Result<Self, Self> {
                // SAFETY: the caller's promise.
                let element = unsafe { $atomic::from_ptr(ptr) };
                element.compare_exchange(current, new, order, failure(order))
            }
        }
    )*};
}

integers! {
    u32 as AtomicU32;
    i32 as AtomicI32;
    u64 as AtomicU64;
    i64 as AtomicI64;
}

/// Floats: loads and stores of their bits, and the instruction for the rest.
macro_rules! floats {
    ($($ty:ty as $bits:ty;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl AtomicElement for $ty {
            #[inline(always)]
            unsafe fn load(ptr: *mut Self, order: Ordering) -> Self {
                // SAFETY: the caller's promise.
                Self::from_bits(unsafe { <$bits>::load(ptr.cast(), order) })
            }

            #[inline(always)]
            unsafe fn store(ptr: *mut Self, value: Self, order: Ordering) {
                // SAFETY: the caller's promise.
                unsafe { <$bits>::store(ptr.cast(), value.to_bits(), order) }
            }

            #[inline(always)]
            unsafe fn fetch_add(ptr: *mut Self, value: Self, order: Ordering) -> Self {
                // SAFETY: the caller's promise.
                unsafe { rmw::FetchAdd::operate::<true>(ptr, value, order, Scope::Device) }
            }

            #[inline(always)]
            unsafe fn swap(ptr: *mut Self, value: Self, order: Ordering) -> Self {
                // SAFETY: the caller's promise.
                Self::from_bits(unsafe { <$bits>::swap(ptr.cast(), value.to_bits(), order) })
            }
        }
    )*};
}

floats! {
    f32 as u32;
    f64 as u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

    #[test]
    fn operations_reach_their_element() {
        let mut data = [1u32, 2, 3];
        // SAFETY: `data` is reached only through the view while it lives.
        let slice = unsafe { AtomicSlice::from_raw_parts(data.as_mut_ptr(), 3) };
        assert_eq!(slice.fetch_add(1, 5, Relaxed), 2);
        assert_eq!(slice.fetch_sub(1, 8, AcqRel), 7);
        assert_eq!(slice.swap(0, 9, Acquire), 1);
        assert_eq!((slice.fetch_min(2, 1, Relaxed), slice.fetch_max(2, 12, Relaxed)), (3, 1));
        assert_eq!((slice.fetch_and(2, 4, Release), slice.fetch_or(2, 3, SeqCst)), (12, 4));
        assert_eq!(slice.fetch_xor(2, 1, Relaxed), 7);
        assert_eq!(slice.compare_exchange(2, 6, 60, AcqRel), Ok(6));
        assert_eq!(slice.compare_exchange(2, 6, 61, Release), Err(60));
        slice.store(0, slice.load(0, Acquire) + 1, Release);
        assert_eq!(slice.get(0).fetch_inc(u32::MAX, Relaxed), 10);
        assert_eq!((slice.len(), slice.is_empty()), (3, false));
        assert_eq!(data, [11, u32::MAX, 60]);
    }

    #[test]
    fn floats_are_added() {
        let mut data = [1.5f32];
        // SAFETY: `data` is reached only through the view while it lives.
        let slice = unsafe { AtomicSlice::from_raw_parts(data.as_mut_ptr(), 1) };
        assert_eq!(slice.fetch_add(0, 1.0, AcqRel), 1.5);
        assert_eq!(slice.swap(0, -0.0, Relaxed), 2.5);
        assert!(slice.load(0, Relaxed).is_sign_negative());
    }

    #[test]
    #[should_panic(expected = "index < self.len")]
    fn the_length_is_the_end() {
        let mut none = [0u32; 0];
        // SAFETY: an empty view has no element to reach.
        let slice = unsafe { AtomicSlice::from_raw_parts(none.as_mut_ptr(), 0) };
        slice.fetch_add(0, 1, Relaxed);
    }
}
