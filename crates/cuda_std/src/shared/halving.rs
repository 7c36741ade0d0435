//! [`Halving`]: the tree of a textbook reduction.

use super::layout::Element;
use super::phase::{Phase, Reader, Writer, sealed};
use crate::block::Block;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// A shared array of which step after step the front part takes up the rest.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// `sums[block]` becomes the sum of the block's 256 elements.
/// #[kernel]
/// pub fn sums(
///     mut block: Block<256>,
///     index: ThreadIndex,
///     tile: Shared<[f32; 256]>,
///     x: &[f32],
///     sums: AtomicSlice<f32>,
/// ) {
///     let mut tree = tile.put(&block, x[index.get()]).halving();
///     while let Some(pairs) = tree.halve(&mut block) {
///         pairs.each(|own, other| *own += *other);
///     }
///     if let Some(sum) = tree.root(&block) {
///         sums.store(index.get() / 256, sum, Relaxed);
///     }
/// }
/// # fn main() {}
/// ```
///
/// # Why it is safe
///
/// The threads own the elements below the width as they own those of an array. A step begins with a
/// barrier and halves the width, rounded up; how often it did depends on the number of barriers alone. In
/// the step a thread writes its own elements below the new width and reads elements from there to the
/// old width, which no thread writes any more. The rest is the argument of [`Shared`](super::Shared).
#[derive(Debug)]
pub struct Halving<T: Element, const N: usize, const ID: u32 = 0> {
    data: NonNull<[T; N]>,
    width: usize,
}

impl<T: Element, const N: usize, const ID: u32> Writer<[T; N], ID> {
    /// Begins to halve the array.
    #[inline(always)]
    pub fn halving(self) -> Halving<T, N, ID> {
        const { assert!(N > 0, "an empty array has no root") };
        Halving { data: self.into_raw(), width: N }
    }
}

impl<T: Element, const N: usize, const ID: u32> Halving<T, N, ID> {
    /// Waits for the block and gives the next step, or `None`, without a barrier, once one element is
    /// left. All threads of the block call it together.
    #[inline(always)]
    pub fn halve<const X: usize, const Y: usize, const Z: usize>(
        &mut self,
        block: &mut Block<X, Y, Z>,
    ) -> Option<Pairs<'_, T, N, X, Y, Z>> {
        if self.width == 1 {
            return None;
        }
        // What this step reads was written in the step before.
        block.sync(());
        let half = if N.is_power_of_two() { self.width / 2 } else { self.width.div_ceil(2) };
        let pairs = self.width - half;
        self.width = half;
        let thread = block.thread();
        Some(Pairs { data: self.data.as_ptr().cast(), half, pairs, thread, tree: PhantomData })
    }

    /// Element 0, in thread 0: once [`halve`](Self::halve) is through, what all were combined to.
    #[inline(always)]
    pub fn root<const X: usize, const Y: usize, const Z: usize>(
        &self,
        block: &Block<X, Y, Z>,
    ) -> Option<T> {
        // SAFETY: thread 0 owns element 0 in every step.
        (block.thread() == 0).then(|| unsafe { self.data.cast::<T>().read() })
    }
}

/// One step of a [`Halving`].
#[derive(Debug)]
pub struct Pairs<'a, T: Element, const N: usize, const X: usize, const Y: usize, const Z: usize> {
    /// No `NonNull`: whether there is a step is then a flag, which costs nothing once inlined.
    data: *mut T,
    half: usize,
    pairs: usize,
    thread: usize,
    tree: PhantomData<&'a mut T>,
}

impl<T: Element, const N: usize, const X: usize, const Y: usize, const Z: usize>
    Pairs<'_, T, N, X, Y, Z>
{
    /// Calls `f` with each element of the front part that the thread owns and has a partner, and
    /// with the partner.
    #[inline(always)]
    pub fn each(self, mut f: impl FnMut(&mut T, &T)) {
        let mut pair = |i: usize| {
            // SAFETY: the thread owns element `i`, no thread writes its partner, and both are below `N`.
            unsafe { f(&mut *self.data.add(i), &*self.data.add(self.half + i)) }
        };
        let mut i = self.thread;
        if const { N <= 2 * Block::<X, Y, Z>::THREADS } {
            if i < self.pairs {
                pair(i);
            }
            return;
        }
        while i < self.pairs {
            pair(i);
            i += Block::<X, Y, Z>::THREADS;
        }
    }
}

impl<T: Element, const N: usize, const ID: u32> sealed::Sealed for Halving<T, N, ID> {}
impl<T: Element, const N: usize, const ID: u32> Phase for Halving<T, N, ID> {
    type Next = Reader<[T; N], ID>;

    #[inline(always)]
    unsafe fn next(self) -> Reader<[T; N], ID> {
        // SAFETY: the caller's promise.
        unsafe { Reader::from_raw(self.data) }
    }
}
