//! Several arrays in one dynamic shared memory: [`Shared::split`].

use super::dynamic::dynamic_shared_bytes;
use super::layout::{Element, Layout};
use super::phase::Shared;
use crate::block::Block;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;

/// Array `INDEX` of those that [`Shared::split`] makes of the dynamic shared memory. It dereferences to a slice, and its
/// elements belong to threads as those of a slice do.
#[repr(transparent)]
pub struct Part<T, const INDEX: usize>([T]);

impl<T, const INDEX: usize> Deref for Part<T, INDEX> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T, const INDEX: usize> fmt::Debug for Part<T, INDEX> {
    /// Its number and its length alone: nothing is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Part {INDEX} of {} elements", self.0.len())
    }
}

// SAFETY: as for slices, whose layout it has.
unsafe impl<T: Element, const INDEX: usize> Layout for Part<T, INDEX> {
    type Element = T;
    type Place = usize;

    #[inline(always)]
    unsafe fn visit<const X: usize, const Y: usize, const Z: usize>(
        this: NonNull<Self>,
        block: &Block<X, Y, Z>,
        f: impl FnMut(usize, NonNull<T>),
    ) {
        // SAFETY: not null, as `this`.
        let elements = unsafe { NonNull::new_unchecked(this.as_ptr() as *mut [T]) };
        // SAFETY: the caller's promise.
        unsafe { <[T]>::visit(elements, block, f) };
    }
}

impl<const ID: u32> Shared<[u8], ID> {
    /// Divides the dynamic shared memory into arrays, in their order, each aligned to 16 bytes: of the element types
    /// `P`, a tuple of up to four, and of `lengths` elements. All threads of the block must call this together.
    ///
    /// The lengths are those that thread 0 gives, so all threads divide the memory in the same way. The launch gives
    /// at least [`split_bytes`] bytes; a smaller memory is a panic.
    ///
    /// *Cost:* one barrier; 16 bytes of the token's shared memory.
    ///
    /// ```
    /// use cuda_std::prelude::*;
    /// use cuda_std::shared::split_bytes;
    ///
    /// /// Sums up each block's values by their keys, below `bins`: `sums: [blocks, bins]`, row-major.
    /// #[kernel]
    /// pub fn sums(
    ///     mut block: Block<128>,
    ///     index: ThreadIndex,
    ///     memory: Shared<[u8]>,
    ///     bins: usize,
    ///     keys: &[u32],
    ///     values: &[f32],
    ///     mut sums: AtomicSlice<f32>,
    /// ) {
    ///     let (own_keys, own_values) = memory.split::<(u32, f32)>(&mut block, [128, 128]);
    ///     let own_keys = own_keys.fill(&block, |_| keys.get(index.get()).copied().unwrap_or(u32::MAX));
    ///     let own_values = own_values.fill(&block, |_| values.get(index.get()).copied().unwrap_or(0.0));
    ///     let (own_keys, own_values) = block.sync((own_keys, own_values));
    ///     let start = (index.get() - block.thread()) / 128 * bins;
    ///     for bin in (block.thread()..bins).step_by(128) {
    ///         let pairs = own_keys.iter().zip(own_values.iter());
    ///         let of_bin = pairs.filter(|(key, _)| **key as usize == bin);
    ///         sums.store(start + bin, of_bin.map(|(_, value)| value).sum(), Relaxed);
    ///     }
    /// }
    /// # fn main() {
    /// // The launch: `Grid1::new(blocks).shared_mem(bytes)`.
    /// assert_eq!(split_bytes::<(u32, f32)>([128, 128]), 1024);
    /// # }
    /// ```
    ///
    /// # Why it is safe
    ///
    /// The argument of [`Shared`] holds for each array: the memory's handle is consumed, the arrays do not overlap, their
    /// types differ by their numbers, and every thread has the same bounds, for one value reaches all of them. If thread 0
    /// has ended before, that value is any number, the same in all threads, and the comparison with the memory's length
    /// comes after it.
    #[inline(always)]
    pub fn split<P: Parts>(self, block: &mut impl Token, lengths: P::Lengths) -> P::Shared<ID> {
        let lengths = P::agreed(block, lengths);
        let (needed, given) = (P::bytes(lengths), dynamic_shared_bytes());
        if needed > given {
            too_small(needed, given);
        }
        // SAFETY: the handle is consumed, and the arrays are inside its memory.
        unsafe { P::take(self.into_raw().cast(), lengths) }
    }
}

/// Out of line: what it formats would otherwise be in the kernel's local memory.
#[cold]
#[inline(never)]
fn too_small(needed: usize, given: usize) -> ! {
    panic!("the arrays in dynamic shared memory need {needed} bytes, and the launch gives {given}")
}

/// The bytes of dynamic shared memory that [`Shared::split`] needs for arrays of these lengths, each of which begins at a
/// multiple of 16. More than there can be is `usize::MAX`.
#[must_use]
pub fn split_bytes<P: Parts>(lengths: P::Lengths) -> usize {
    P::bytes(lengths)
}

/// The element types of [`Shared::split`]: a tuple of one to four of them, each aligned to at most 16 bytes.
#[diagnostic::on_unimplemented(
    message = "dynamic shared memory cannot be split into `{Self}`",
    label = "expected a tuple of one to four element types, as in `(f32, u32)`"
)]
pub trait Parts: sealed::Sealed {
    /// An array with the length of each.
    type Lengths: Copy;
    /// The handles.
    type Shared<const ID: u32>;

    /// The lengths of thread 0.
    #[doc(hidden)]
    fn agreed(block: &mut impl Token, lengths: Self::Lengths) -> Self::Lengths;

    /// Where the last array ends.
    #[doc(hidden)]
    fn bytes(lengths: Self::Lengths) -> usize;

    /// The handles of the arrays from `start` on.
    ///
    /// # Safety
    /// As for [`Shared::from_raw`], of [`bytes`](Self::bytes) bytes that are aligned to 16.
    #[doc(hidden)]
    unsafe fn take<const ID: u32>(start: NonNull<u8>, lengths: Self::Lengths) -> Self::Shared<ID>;
}

/// The token of a block of any shape.
pub trait Token: sealed::Sealed {
    /// The value of thread 0, in every thread.
    #[doc(hidden)]
    fn of_first(&mut self, value: [u32; 4]) -> [u32; 4];
}

mod sealed {
    pub trait Sealed {}
}

impl<const X: usize, const Y: usize, const Z: usize> sealed::Sealed for Block<X, Y, Z> {}
impl<const X: usize, const Y: usize, const Z: usize> Token for Block<X, Y, Z> {
    #[inline(always)]
    fn of_first(&mut self, value: [u32; 4]) -> [u32; 4] {
        self.broadcast(value, 0)
    }
}

/// Where each array begins, and a block of threads that is moved by a vector instruction is aligned.
const UNIT: usize = 16;

/// Where an array begins that follows one whose end is `end`.
const fn start_after(end: usize) -> usize {
    end.saturating_add(UNIT - 1) / UNIT * UNIT
}

/// Where an array of `len` elements ends that follows one whose end is `end`.
const fn end_after<T>(end: usize, len: usize) -> usize {
    start_after(end).saturating_add(len.saturating_mul(size_of::<T>()))
}

/// The handle of the array at `start`.
///
/// # Safety
/// As for [`Shared::from_raw`], of `len` elements, at a multiple of 16 bytes.
#[inline(always)]
unsafe fn part<T: Element, const INDEX: usize, const ID: u32>(
    start: NonNull<u8>,
    len: usize,
) -> Shared<Part<T, INDEX>, ID> {
    const { assert!(align_of::<T>() <= UNIT, "a part of shared memory is aligned to 16 bytes") };
    let elements = NonNull::slice_from_raw_parts(start.cast::<T>(), len);
    // SAFETY: the caller's promise; not null, as `start`.
    unsafe { Shared::from_raw(NonNull::new_unchecked(elements.as_ptr() as *mut Part<T, INDEX>)) }
}

macro_rules! parts {
    ($($count:literal: $($member:ident $index:literal),*;)*) => {$(
        impl<$($member: Element),*> sealed::Sealed for ($($member,)*) {}
        impl<$($member: Element),*> Parts for ($($member,)*) {
            type Lengths = [usize; $count];
            type Shared<const ID: u32> = ($(Shared<Part<$member, $index>, ID>,)*);

            #[inline(always)]
            fn agreed(block: &mut impl Token, lengths: [usize; $count]) -> [usize; $count] {
                let mut words = [0; 4];
                // No memory has so many elements; those of size 0 do not count.
                $(words[$index] = u32::try_from(lengths[$index]).unwrap_or(u32::MAX);)*
                let words = block.of_first(words);
                [$(words[$index] as usize),*]
            }

            #[inline(always)]
            fn bytes(lengths: [usize; $count]) -> usize {
                let end = 0;
                $(let end = end_after::<$member>(end, lengths[$index]);)*
                end
            }

            #[inline(always)]
            #[allow(unused_assignments)]
            unsafe fn take<const ID: u32>(
                start: NonNull<u8>,
                lengths: [usize; $count],
            ) -> Self::Shared<ID> {
                let mut end = 0;
                ($({
                    let (at, len) = (start_after(end), lengths[$index]);
                    end = end_after::<$member>(end, len);
                    // SAFETY: the caller's promise; the arrays follow one another.
                    unsafe { part(start.add(at), len) }
                },)*)
            }
        }
    )*};
}

parts! {
    1: A 0;
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
}

#[cfg(test)]
mod tests {
    use super::split_bytes;

    #[test]
    fn arrays_begin_at_multiples_of_16() {
        assert_eq!(split_bytes::<(u8,)>([0]), 0);
        assert_eq!(split_bytes::<(u8,)>([17]), 17);
        assert_eq!(split_bytes::<(u8, f64)>([1, 3]), 16 + 24);
        assert_eq!(split_bytes::<(u8, f64)>([16, 3]), 16 + 24);
        assert_eq!(split_bytes::<(u8, f64)>([17, 3]), 32 + 24);
        assert_eq!(split_bytes::<(u16, u8, [f32; 3], u32)>([31, 0, 5, 1]), 64 + 60 + 4 + 4);
    }

    #[test]
    fn lengths_that_no_memory_has_do_not_wrap() {
        assert_eq!(split_bytes::<(u64,)>([usize::MAX]), usize::MAX);
        assert!(split_bytes::<(u8, u8)>([usize::MAX - 3, 100]) >= usize::MAX - 31);
        assert!(split_bytes::<(u32, u32)>([1 << 62, 1 << 62]) > 1 << 63);
    }
}
