//! Double buffering in shared memory: [`Double`].

use super::layout::Layout;
use super::phase::{Phase, Shared, sealed};
use crate::block::Block;
use core::fmt;
use core::ptr::NonNull;

/// Two arrays of layout `L`, of which all threads read one while they write the other; a barrier
/// exchanges them. A kernel takes it as `Shared<Double<[f32; 256]>>`.
///
/// ```
/// use cuda_std::prelude::*;
/// use cuda_std::shared::Double;
///
/// /// `sums[i]` becomes the sum of the elements of `x` in the same block up to `i` (Hillis and
/// /// Steele, 1986).
/// #[kernel]
/// pub fn scan(
///     mut block: Block<256>,
///     index: ThreadIndex,
///     sums: Shared<Double<[f32; 256]>>,
///     x: &[f32],
///     mut out: DisjointSlice<f32>,
/// ) {
///     let mut sums = block.sync(sums.fill(&block, |_| x[index.get()]));
///     let mut distance = 1;
///     while distance < 256 {
///         let next = sums.fill(&block, |sums, i| {
///             if i < distance { sums[i] } else { sums[i] + sums[i - distance] }
///         });
///         sums = block.sync(next);
///         distance *= 2;
///     }
///     if let Some(out) = out.get_mut(index) {
///         *out = sums.front()[block.thread()];
///     }
/// }
/// # fn main() {}
/// ```
///
/// # Why it is safe
///
/// Which of the two is in front depends on the number of barriers alone. The front one was filled
/// before the barrier that brought it there, and no thread writes it. The other one was last read
/// before that barrier, each thread writes its own elements of it, and it comes to the front only when all
/// of them are written. The rest is the argument of [`Shared`].
#[repr(C)]
pub struct Double<L> {
    arrays: [L; 2],
}

impl<L> fmt::Debug for Double<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Double")
    }
}

/// One array to read, and another one that is not written yet. See [`Double`].
#[derive(Debug)]
pub struct DoubleReader<L: Layout, const ID: u32 = 0> {
    front: NonNull<L>,
    back: NonNull<L>,
}

/// The thread's elements of the back array are written. See [`Double`].
#[derive(Debug)]
pub struct DoubleWriter<L: Layout, const ID: u32 = 0> {
    front: NonNull<L>,
    back: NonNull<L>,
}

impl<L: Layout, const ID: u32> Shared<Double<L>, ID> {
    /// Writes `value(place)` to each element that the calling thread owns of the first array.
    #[inline(always)]
    pub fn fill<const X: usize, const Y: usize, const Z: usize>(
        self,
        block: &Block<X, Y, Z>,
        mut value: impl FnMut(L::Place) -> L::Element,
    ) -> DoubleWriter<L, ID> {
        let back: NonNull<L> = self.into_raw().cast();
        // SAFETY: the thread owns what it is handed.
        unsafe { L::visit(back, block, |place, element| element.write(value(place))) };
        // SAFETY: the second of two arrays.
        DoubleWriter { front: unsafe { back.add(1) }, back }
    }
}

impl<L: Layout, const ID: u32> DoubleReader<L, ID> {
    /// The array that all threads read.
    #[inline(always)]
    pub fn front(&self) -> &L {
        // SAFETY: filled before a barrier, and no thread writes to it before the next one.
        unsafe { self.front.as_ref() }
    }

    /// Writes `value(front, place)` to each element that the calling thread owns of the back array.
    #[inline(always)]
    pub fn fill<const X: usize, const Y: usize, const Z: usize>(
        self,
        block: &Block<X, Y, Z>,
        mut value: impl FnMut(&L, L::Place) -> L::Element,
    ) -> DoubleWriter<L, ID> {
        let (front, back) = (self.front(), self.back);
        // SAFETY: the thread owns the element it is given, and no thread reads the back array.
        unsafe { L::visit(back, block, |place, element| element.write(value(front, place))) };
        DoubleWriter { front: self.front, back }
    }
}

impl<L: Layout, const ID: u32> sealed::Sealed for DoubleWriter<L, ID> {}
impl<L: Layout, const ID: u32> Phase for DoubleWriter<L, ID> {
    type Next = DoubleReader<L, ID>;

    #[inline(always)]
    unsafe fn next(self) -> DoubleReader<L, ID> {
        DoubleReader { front: self.back, back: self.front }
    }
}
