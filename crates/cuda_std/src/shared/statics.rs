//! Statics in shared memory: `static mut TILE: SharedArray<f32, 256> = SharedArray::UNINIT;`

use super::alignment::{Align, Alignment};
use super::array::{SharedArray, size_bytes};
use super::declared::{excess, space};
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomPinned;
use core::mem::MaybeUninit;
use core::ops::{Index, IndexMut};

/// The elements of a [`SharedArray`] that is declared as a static: the type that the static has.
///
/// Safe code never has a value of it: the static is a `static mut`, and each use of one is `unsafe`. Who uses it keeps
/// the rules of [`SharedArray`]. In `TILE[i] = x` the reference is one to the element: other threads may use other
/// elements meanwhile. An index past the end panics.
#[repr(C)]
pub struct SharedStatic<T, const N: usize, const ALIGN: usize = 16>
where
    Align<ALIGN>: Alignment,
{
    align: [<Align<ALIGN> as Alignment>::Unit; 0],
    elements: UnsafeCell<[MaybeUninit<T>; N]>,
    /// A `&mut` to such a type is not taken for the only pointer to it: each thread of a block makes one to index.
    is_shared: PhantomPinned,
}

impl<T, const N: usize, const ALIGN: usize> SharedStatic<T, N, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    /// The value that the macros write.
    ///
    /// # Safety
    /// It is the value of a static that is moved to shared memory.
    #[doc(hidden)]
    pub const unsafe fn in_shared_memory() -> Self {
        const {
            size_bytes::<T>(N);
            if let Some(excess) = &excess(&[space::<Self>()]) {
                panic!("{}", excess.message());
            }
        }
        Self {
            align: [],
            elements: UnsafeCell::new([const { MaybeUninit::uninit() }; N]),
            is_shared: PhantomPinned,
        }
    }

    /// The number of elements.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        N
    }

    /// Whether there are no elements: never.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        N == 0
    }

    /// The pointer to the first element.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *const T {
        self.elements.get().cast()
    }

    /// The pointer to the first element.
    #[inline(always)]
    pub const fn as_mut_ptr(&mut self) -> *mut T {
        self.elements.get().cast()
    }
}

impl<T, const N: usize, const ALIGN: usize> Index<usize> for SharedStatic<T, N, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        // SAFETY: the use of the `static mut` promises that the element is written, and that no thread writes it.
        unsafe { (*self.elements.get())[index].assume_init_ref() }
    }
}

// Assignment drops the value before, and there may be none: elements have nothing to drop.
impl<T: Copy, const N: usize, const ALIGN: usize> IndexMut<usize> for SharedStatic<T, N, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    #[inline(always)]
    fn index_mut(&mut self, index: usize) -> &mut T {
        // SAFETY: the use of the `static mut` promises that no other thread uses the element. A `Copy` value may be
        // overwritten before there is one.
        unsafe { (*self.elements.get())[index].assume_init_mut() }
    }
}

impl<T, const N: usize, const ALIGN: usize> fmt::Debug for SharedStatic<T, N, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    /// Its size alone: nothing is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedStatic[{N}]")
    }
}

/// The type whose static the macros write for a [`SharedArray`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`SharedArray::UNINIT` is not a value of `{Self}`",
    label = "expected `SharedArray<T, N>` or `SharedArray<T, N, ALIGN>`, with an alignment that is a power of two up to 1024"
)]
pub trait InStatic {
    /// What the static holds.
    type Static;
}

impl<T, const N: usize, const ALIGN: usize> InStatic for SharedArray<T, N, ALIGN>
where
    Align<ALIGN>: Alignment,
{
    type Static = SharedStatic<T, N, ALIGN>;
}

/// A type that a static in shared memory can have: any bits are a value of it.
///
/// # Safety
/// Memory that nothing was written to holds a value of the type.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "shared memory has no initial value, and `{Self}` needs one",
    label = "neither a `SharedArray` nor `MaybeUninit`, nor an array of it",
    note = "write `static mut NAME: SharedArray<T, N> = SharedArray::UNINIT;`",
    note = "or `static mut NAME: [MaybeUninit<T>; N] = [const {{ MaybeUninit::uninit() }}; N];`",
    note = "or use `shared_array![T; N]` in the kernel"
)]
pub unsafe trait Uninitialised {}

// SAFETY: that is what the type is for.
unsafe impl<T> Uninitialised for MaybeUninit<T> {}
// SAFETY: an array is its elements.
unsafe impl<T: Uninitialised, const N: usize> Uninitialised for [T; N] {}
// SAFETY: a cell is its value.
unsafe impl<T: Uninitialised> Uninitialised for UnsafeCell<T> {}
// SAFETY: its elements are `MaybeUninit`.
unsafe impl<T, const N: usize, const ALIGN: usize> Uninitialised for SharedStatic<T, N, ALIGN> where
    Align<ALIGN>: Alignment
{
}

/// Does not compile for a type with an initial value.
#[doc(hidden)]
pub const fn assert_uninitialised<T: Uninitialised>() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_elements_begin_where_the_static_does() {
        static mut TILE: SharedStatic<u32, 5, 128> =
            // SAFETY: on the host there is one thread.
            unsafe { SharedStatic::in_shared_memory() };
        let start = &raw mut TILE;
        assert_eq!((start.addr() % 128, align_of::<SharedStatic<u32, 5, 128>>()), (0, 128));
        assert_eq!(
            (size_of::<SharedStatic<u8, 5, 1>>(), align_of::<SharedStatic<u64, 1, 4>>()),
            (5, 8)
        );
        // SAFETY: one thread, which writes before it reads.
        unsafe {
            TILE[4] = 7;
            TILE[4] += 1;
            assert_eq!(TILE[4], 8);
            assert_eq!(start.cast::<u32>().add(4).read(), 8);
            let handle = SharedArray::from_static(start);
            assert_eq!((handle.len(), handle.get(4), (*start).len()), (5, 8, 5));
            assert_eq!(
                ((*start).as_ptr(), (*start).as_mut_ptr()),
                (start.cast_const().cast(), start.cast())
            );
        }
    }

    #[test]
    fn an_index_past_the_end_panics() {
        // SAFETY: nothing is read.
        let mut tile: SharedStatic<u32, 3> = unsafe { SharedStatic::in_shared_memory() };
        let write = std::panic::AssertUnwindSafe(|| tile[3] = 1);
        let panic = std::panic::catch_unwind(write).expect_err("past the end");
        let text = panic.downcast_ref::<String>().expect("a message");
        assert_eq!(text, "index out of bounds: the len is 3 but the index is 3");
    }
}
