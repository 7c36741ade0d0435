//! One view for every shape, and the argument why it is safe.

use core::fmt::Debug;
use core::marker::PhantomData;

/// Memory that all threads of a grid share, of which each reaches only what belongs to its own index.
///
/// A kernel takes it by one of the names in [`disjoint`](super), such as
/// [`DisjointSlice<T>`](super::DisjointSlice).
///
/// # Why `get` and `get_mut` are safe
///
/// 1. The view is made by the entry that `#[kernel]` writes, from memory that the host borrowed
///    mutably for the launch: no other parameter of the launch aliases it.
/// 2. The shape is made of the kernel's types and of parameters of the launch: it is the same in every
///    thread. (Were it chosen in the kernel, two threads could divide the memory differently, and
///    their items could overlap.)
/// 3. The items of two indices do not overlap, and each lies in the memory; an index outside of the
///    shape has no item. That is what a [`Shape`] promises, and each says why it holds.
/// 4. An item is reached only through an index of the thread, and two threads never hold the same one:
///    see [`ThreadIndex`](crate::index::ThreadIndex), [`ThreadIndex2`](crate::index::ThreadIndex2) and
///    [`ThreadIndex3`](crate::index::ThreadIndex3).
/// 5. Within a thread, `get_mut` borrows the view mutably, and the type is not `Clone`: one `&mut` at
///    a time.
#[derive(Debug)]
pub struct Disjoint<'a, T, S: Shape<T>> {
    pub(super) ptr: *mut T,
    pub(super) shape: S,
    borrow: PhantomData<&'a mut [T]>,
}

/// How memory of `T` is divided: which elements belong to an index.
///
/// # Safety
/// - [`offset`](Self::offset) depends on the shape and the index alone.
/// - The items at the offsets of two different indices do not overlap.
/// - Each item consists of whole elements of the memory that the shape describes, and is aligned where
///   [`Disjoint::new`]'s caller promises that memory. Elements that are initialised make an initialised
///   item, and an item makes initialised elements.
pub unsafe trait Shape<T>: Debug {
    /// By what a thread names its item.
    type Index;
    /// What belongs to an index.
    type Item;

    /// The elements of a row, the rows of a plane and the planes; 1 where there is no such dimension.
    fn extents(&self) -> [usize; 3];

    /// Where in the memory the item at `index` begins, in elements; `None` if there is none.
    fn offset(&self, index: Self::Index) -> Option<usize>;
}

impl<T, S: Shape<T>> Disjoint<'_, T, S> {
    /// Makes the view from a pointer and a shape.
    ///
    /// # Safety
    /// - `ptr` is aligned and not null, and the elements that `shape` describes are initialised, and
    ///   valid for reads and writes while the view lives.
    /// - Nothing else reaches these elements meanwhile but other views of the same type, pointer and
    ///   shape, each in another thread.
    #[inline(always)]
    pub unsafe fn new(ptr: *mut T, shape: S) -> Self {
        Self { ptr, shape, borrow: PhantomData }
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        let [width, height, depth] = self.shape.extents();
        width * height * depth
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What belongs to the thread at `index`, or `None` outside of the shape.
    #[inline(always)]
    pub fn get(&self, index: S::Index) -> Option<&S::Item> {
        // SAFETY: an item of the shape, and no other thread holds `index`.
        self.shape.offset(index).map(|offset| unsafe { &*self.ptr.add(offset).cast() })
    }

    /// What belongs to the thread at `index`, to write, or `None` outside of the shape.
    #[inline(always)]
    pub fn get_mut(&mut self, index: S::Index) -> Option<&mut S::Item> {
        // SAFETY: an item of the shape, no other thread holds `index`, and `self` is borrowed mutably.
        self.shape.offset(index).map(|offset| unsafe { &mut *self.ptr.add(offset).cast() })
    }

    /// The pointer to the first element, for what the type cannot express. Following it is unsafe:
    /// other threads write their elements meanwhile.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.ptr
    }
}

/// A [`Shape`] of rows.
pub trait Rows {}

impl<T, S: Shape<T> + Rows> Disjoint<'_, T, S> {
    /// Elements in a row.
    #[inline(always)]
    pub fn width(&self) -> usize {
        self.shape.extents()[0]
    }

    /// The number of rows, of each plane if there are several.
    #[inline(always)]
    pub fn height(&self) -> usize {
        self.shape.extents()[1]
    }
}
