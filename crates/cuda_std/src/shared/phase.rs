//! The phases of a shared array: [`Shared`], [`Writer`], [`Reader`].

use super::array::assume_shared;
#[cfg(target_os = "cuda")]
use super::dynamic::{dynamic_shared_bytes, dynamic_shared_mem};
use super::layout::{Element, Layout};
use crate::block::Block;
use bytemuck::Zeroable;
use core::ops::Deref;
use core::ptr::NonNull;
use cuda_std_macros::gpu_only;

/// A shared array that nothing was written to yet: a kernel parameter, `tile: Shared<[f32; 256]>`.
///
/// `L` is a [`Layout`]: an array, or [`Tile`](super::Tile), [`Blocked`](super::Blocked),
/// [`PerWarp`](super::PerWarp), [`Double`](super::Double). A slice, `Shared<[f32]>`, is the dynamic
/// shared memory of the launch; there is at most one, which [`split`](Self::split) divides into several arrays.
///
/// `ID` tells the arrays of a kernel apart. `#[kernel]` numbers them in their order: the first is 0, the
/// second 1. A function that takes the array of any parameter is generic in `ID`; a kernel may also
/// write the numbers itself, `a: Shared<[f32; 256], 7>`.
///
/// # Why it is safe
///
/// Suppose that the threads of a block run the same sequence of barriers, each in the same call.
///
/// 1. *One handle.* The entry that `#[kernel]` writes makes a handle once in each thread, of storage
///    that nothing else names. The handles of a kernel have different types, for their numbers
///    differ, and so have the phases that they become. So a variable of such a type names the
///    same storage in all threads, whatever the threads did with their variables.
/// 2. *Own elements.* What a thread may write in a phase is a matter of the type alone
///    ([`Layout`]), and no two threads own the same element. The [`Block`] that every access takes
///    is a token of the block's true shape.
/// 3. *One phase.* A handle is in one phase at a time, for it is neither `Copy` nor `Clone`, and a phase
///    that ends consumes it, so no reference made in that phase survives. All phases end in a
///    barrier that takes the handle. So between two barriers all threads hold it in the same phase,
///    and in no phase does one thread write what another may read.
/// 4. *Whatever is read is a value.* A [`Reader`] comes only from a [`Writer`], and the first one of
///    these only from functions that have each thread write all of its own elements. A thread that has
///    ended early, by a panic or by returning before a barrier, did not, and the barriers do not wait for
///    it. Then its elements hold what an earlier block left there, and every bit pattern is a value of an
///    [`Element`].
/// 5. *Nothing foreign is shared.* The elements are `Send` and `Sync` and hold no reference.
///
/// # What the types do not carry
///
/// The supposition. The token of a block is one variable that closures cannot use while a
/// collective runs, yet `if block.thread() < 32 { block.sync(()); }` compiles, as a barrier in a
/// branch does in CUDA C++. The emulator's `sync` check reports a barrier that some threads of the block
/// miss or meet with another barrier of the program, and its `race` check what follows from that.
#[derive(Debug)]
pub struct Shared<L: ?Sized, const ID: u32 = 0> {
    data: NonNull<L>,
}

/// A shared array of which each thread reads and writes its own elements. See [`Shared`].
#[derive(Debug)]
pub struct Writer<L: Layout + ?Sized, const ID: u32 = 0> {
    data: NonNull<L>,
}

/// A shared array that all threads read. It dereferences to the array. See [`Shared`].
#[derive(Debug)]
pub struct Reader<L: Layout + ?Sized, const ID: u32 = 0> {
    data: NonNull<L>,
}

impl<L: ?Sized, const ID: u32> Shared<L, ID> {
    /// The handle of the array at `data`.
    ///
    /// # Safety
    /// - `data` is the generic address of shared memory, aligned, of the size of `L`.
    /// - This thread makes no other handle to that memory, and no other of this type.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn from_raw(data: NonNull<L>) -> Self {
        Self { data }
    }

    /// The address, for the phases of other modules.
    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<L> {
        self.data
    }

    /// The address, for collectives that use the memory.
    #[inline(always)]
    pub(crate) fn address(&self) -> NonNull<L> {
        self.data
    }
}

impl<L: Layout + ?Sized, const ID: u32> Shared<L, ID> {
    /// Writes `value(place)` to each element that the calling thread owns.
    #[inline(always)]
    pub fn fill<const X: usize, const Y: usize, const Z: usize>(
        self,
        block: &Block<X, Y, Z>,
        value: impl FnMut(L::Place) -> L::Element,
    ) -> Writer<L, ID> {
        let mut writer = Writer { data: self.data };
        writer.fill(block, value);
        writer
    }

    /// Writes zeros to each element that the calling thread owns.
    #[inline(always)]
    pub fn zeroed<const X: usize, const Y: usize, const Z: usize>(
        self,
        block: &Block<X, Y, Z>,
    ) -> Writer<L, ID> {
        self.fill(block, |_| L::Element::zeroed())
    }
}

// The bound stands at the function, not at the block: then the compiler's message is `Element`'s own.
impl<T, const N: usize, const ID: u32> Shared<[T; N], ID> {
    /// Writes the one element that each thread owns of an array as long as the block.
    #[inline(always)]
    pub fn put(self, block: &Block<N>, value: T) -> Writer<[T; N], ID>
    where
        T: Element,
    {
        let mut writer = Writer { data: self.data };
        writer.put(block, value);
        writer
    }
}

impl<L: Layout + ?Sized, const ID: u32> Writer<L, ID> {
    #[inline(always)]
    pub(crate) fn into_raw(self) -> NonNull<L> {
        self.data
    }

    /// Writes `value(place)` to each element that the calling thread owns.
    #[inline(always)]
    pub fn fill<const X: usize, const Y: usize, const Z: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
        mut value: impl FnMut(L::Place) -> L::Element,
    ) {
        // SAFETY: the handle's promise; the thread owns what it is handed.
        unsafe { L::visit(self.data, block, |place, element| element.write(value(place))) };
    }

    /// Calls `f` with the place of each element that the calling thread owns, and the element.
    #[inline(always)]
    pub fn each<const X: usize, const Y: usize, const Z: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
        mut f: impl FnMut(L::Place, &mut L::Element),
    ) {
        // SAFETY: the handle's promise; the thread owns what it is handed, and wrote it before.
        unsafe { L::visit(self.data, block, |place, mut element| f(place, element.as_mut())) };
    }
}

impl<T: Element, const N: usize, const ID: u32> Writer<[T; N], ID> {
    /// Writes the one element that each thread owns of an array as long as the block.
    #[inline(always)]
    pub fn put(&mut self, block: &Block<N>, value: T) {
        *self.own_mut(block) = value;
    }

    /// The one element that each thread owns of an array as long as the block.
    #[inline(always)]
    pub fn own(&self, block: &Block<N>) -> &T {
        // SAFETY: the thread's number is below `N`; the thread owns that element, and wrote it before.
        unsafe { self.data.cast::<T>().add(block.thread()).as_ref() }
    }

    /// The one element that each thread owns of an array as long as the block.
    #[inline(always)]
    pub fn own_mut(&mut self, block: &Block<N>) -> &mut T {
        // SAFETY: as in `own`, and the handle is borrowed mutably.
        unsafe { self.data.cast::<T>().add(block.thread()).as_mut() }
    }

    /// The first element that the thread owns, if it owns one: threads from `N` on do not.
    #[inline(always)]
    pub fn get_mut<const X: usize, const Y: usize, const Z: usize>(
        &mut self,
        block: &Block<X, Y, Z>,
    ) -> Option<&mut T> {
        let thread = block.thread();
        // SAFETY: in bounds; the thread owns that element, and wrote it before.
        (thread < N).then(|| unsafe { self.data.cast::<T>().add(thread).as_mut() })
    }
}

impl<L: Layout + ?Sized, const ID: u32> Reader<L, ID> {
    /// # Safety
    /// A barrier lies after the last write, and the thread has no other handle to the array.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(data: NonNull<L>) -> Self {
        Self { data }
    }
}

impl<L: Layout + ?Sized, const ID: u32> Deref for Reader<L, ID> {
    type Target = L;

    #[inline(always)]
    fn deref(&self) -> &L {
        // SAFETY: every element was written before a barrier, and no thread writes before the next one.
        unsafe { self.data.as_ref() }
    }
}

/// What a barrier takes, and returns in the next phase: the phases of shared arrays, tuples of
/// them, and `()`.
#[diagnostic::on_unimplemented(
    message = "a barrier does not end the phase of `{Self}`",
    label = "expected a `Writer`, a `Reader` or another phase of a shared array, or a tuple of them",
    note = "a `Shared` is written first: `put`, `fill` and `zeroed` give its `Writer`"
)]
pub trait Phase: sealed::Sealed {
    /// The phase after the barrier.
    type Next;

    /// The phase after the barrier.
    ///
    /// # Safety
    /// Every thread of the block has reached the barrier that took `self`.
    #[doc(hidden)]
    unsafe fn next(self) -> Self::Next;
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl<L: Layout + ?Sized, const ID: u32> sealed::Sealed for Writer<L, ID> {}
impl<L: Layout + ?Sized, const ID: u32> Phase for Writer<L, ID> {
    type Next = Reader<L, ID>;

    #[inline(always)]
    unsafe fn next(self) -> Reader<L, ID> {
        Reader { data: self.data }
    }
}

impl<L: Layout + ?Sized, const ID: u32> sealed::Sealed for Reader<L, ID> {}
impl<L: Layout + ?Sized, const ID: u32> Phase for Reader<L, ID> {
    type Next = Writer<L, ID>;

    #[inline(always)]
    unsafe fn next(self) -> Writer<L, ID> {
        Writer { data: self.data }
    }
}

/// Tuples: each member goes on by itself.
macro_rules! tuples {
    ($(($($member:ident $index:tt),*))*) => {$(
        impl<$($member: Phase),*> sealed::Sealed for ($($member,)*) {}
        impl<$($member: Phase),*> Phase for ($($member,)*) {
            type Next = ($($member::Next,)*);

            #[inline(always)]
            #[allow(clippy::unused_unit)]
            unsafe fn next(self) -> Self::Next {
                // SAFETY: the caller's promise.
                unsafe { ($(self.$index.next(),)*) }
            }
        }
    )*};
}

tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) }

impl sealed::Sealed for () {}
impl Phase for () {
    type Next = ();

    #[inline(always)]
    unsafe fn next(self) {}
}

/// The layout and number of a shared array's handle, for the code that `#[kernel]` writes.
#[doc(hidden)]
pub trait Declared {
    /// The array.
    type Layout: ?Sized;
    /// Its number.
    const ID: u32;
}

impl<L: ?Sized, const ID: u32> Declared for Shared<L, ID> {
    type Layout = L;
    const ID: u32 = ID;
}

/// The handle that the entry of a kernel makes.
///
/// # Safety
/// As [`Shared::from_raw`], with the address of shared memory that is declared for this handle.
#[doc(hidden)]
#[inline(always)]
pub unsafe fn handle<L, const ID: u32>(address: *mut L) -> Shared<L, ID> {
    // SAFETY: the caller's promise; the address of a variable is not null.
    unsafe { Shared::from_raw(NonNull::new_unchecked(assume_shared(address))) }
}

/// The handle of the dynamic shared memory: as many elements as fit into what the launch asked for.
///
/// # Safety
/// As [`Shared::from_raw`].
#[doc(hidden)]
#[gpu_only]
#[inline(always)]
pub unsafe fn dynamic_handle<T: Element, const ID: u32>() -> Shared<[T], ID> {
    let len = dynamic_shared_bytes() / const { size_of::<T>() };
    let data = NonNull::new(dynamic_shared_mem::<T>());
    // SAFETY: the caller's promise; the address of a variable is not null.
    unsafe { Shared::from_raw(NonNull::slice_from_raw_parts(data.unwrap_unchecked(), len)) }
}

/// Whether the shared arrays of a kernel have different numbers.
#[doc(hidden)]
pub const fn are_distinct(ids: &[u32]) -> bool {
    let mut i = 0;
    while i < ids.len() {
        let mut j = 0;
        while j < i {
            if ids[i] == ids[j] {
                return false;
            }
            j += 1;
        }
        i += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::are_distinct;

    #[test]
    fn numbers_that_occur_twice_are_found() {
        assert!(are_distinct(&[]) && are_distinct(&[3]) && are_distinct(&[0, 2, 1]));
        assert!(!are_distinct(&[0, 1, 0]) && !are_distinct(&[7, 7]));
    }
}
