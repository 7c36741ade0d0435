//! Several neighbouring elements for each thread: vectors and chunks.

use crate::index::ThreadIndex;
use crate::vector::{Element, Lanes};
use core::marker::PhantomData;

/// A slice that all threads share, of which each reaches a vector of `N` neighbouring elements by one
/// access: `N` is 2 or 4, and the vector is [`Vec2`](crate::vector::Vec2) or
/// [`Vec4`](crate::vector::Vec4).
///
/// The elements before the first aligned place, at most `N - 1` for a slice from an allocation, are the
/// *head*; those behind the last whole vector are the *tail*. The thread at index `i` owns vector
/// `i`, element `i` of the head and element `i` of the tail.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Doubles every element, four at a time.
/// #[kernel]
/// pub fn double(index: ThreadIndex, mut x: DisjointVectors<f32>) {
///     for i in index.grid_stride(x.steps()) {
///         x.each(i, |_, x| *x *= 2.0);
///     }
/// }
/// # fn main() {}
/// ```
///
/// # Why it is safe
///
/// 1. The view is made by the entry that `#[kernel]` writes, from a buffer that the host borrowed
///    mutably for the launch: no other parameter of the launch aliases it.
/// 2. `N` is part of the kernel's type, and address and length are parameters of the launch: every
///    thread cuts the slice at the same places. (Were the cut chosen in the kernel, one thread's vector
///    could overlap another's element.)
/// 3. Head, vectors and tail do not overlap, and within each two indices name two places.
/// 4. Two threads never hold the same [`ThreadIndex`], and within a thread the view is borrowed
///    mutably, which is not `Clone`: one `&mut` at a time.
/// 5. A vector is `N` elements and nothing else, and the body begins where it is aligned.
#[derive(Debug)]
pub struct DisjointVectors<'a, T: Element + Lanes<N>, const N: usize = 4> {
    ptr: *mut T,
    len: usize,
    head: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element + Lanes<N>, const N: usize> DisjointVectors<'a, T, N> {
    /// Makes the view from a pointer and a number of elements.
    ///
    /// # Safety
    /// As [`DisjointSlice::from_raw_parts`](super::DisjointSlice::from_raw_parts); the other views are
    /// of the same `N`, pointer and length.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, len: usize) -> Self {
        let align = align_of::<T::Vector>();
        let past = ptr.addr() & (align - 1);
        let to_aligned = (align - past) & (align - 1);
        let head = to_aligned / size_of::<T>();
        let whole = to_aligned.is_multiple_of(size_of::<T>()) && head < len;
        Self { ptr, len, head: if whole { head } else { len }, borrow: PhantomData }
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements before the first vector.
    #[inline(always)]
    pub fn head_len(&self) -> usize {
        self.head
    }

    /// The number of vectors.
    #[inline(always)]
    pub fn vectors(&self) -> usize {
        (self.len - self.head) / N
    }

    /// The elements behind the last vector.
    #[inline(always)]
    pub fn tail_len(&self) -> usize {
        (self.len - self.head) % N
    }

    /// The number of indices that own anything: as many threads cover the slice.
    #[inline(always)]
    pub fn steps(&self) -> usize {
        self.vectors().max(self.head).max(self.tail_len())
    }

    /// The number, in the whole slice, of the first element of the vector at `index`.
    #[inline(always)]
    pub fn first_of(&self, index: ThreadIndex) -> usize {
        self.head.saturating_add(index.get().saturating_mul(N))
    }

    /// The thread's own vector at `index`, or `None` past the last one.
    #[inline(always)]
    pub fn get(&self, index: ThreadIndex) -> Option<&T::Vector> {
        if index.get() < self.vectors() {
            // SAFETY: a whole aligned vector, and no other thread holds `index`.
            Some(unsafe { &*self.vector(index.get()) })
        } else {
            None
        }
    }

    /// The thread's own vector at `index`, to write, or `None` past the last one.
    #[inline(always)]
    pub fn get_mut(&mut self, index: ThreadIndex) -> Option<&mut T::Vector> {
        if index.get() < self.vectors() {
            // SAFETY: a whole aligned vector, no other thread holds `index`, and `self` is borrowed
            // mutably.
            Some(unsafe { &mut *self.vector(index.get()) })
        } else {
            None
        }
    }

    /// Vector `at`, to write, without a [`ThreadIndex`] and without a comparison.
    ///
    /// # Safety
    /// The rules of [`DisjointSlice::get_unchecked_mut`](super::DisjointSlice::get_unchecked_mut) for the elements of
    /// the vector, the fourth being `at < self.vectors()`.
    #[inline(always)]
    pub unsafe fn get_unchecked_mut(&mut self, at: usize) -> &mut T::Vector {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.vector(at) }
    }

    /// The thread's own element of the head, with its number in the slice.
    #[inline(always)]
    pub fn head_mut(&mut self, index: ThreadIndex) -> Option<(usize, &mut T)> {
        let at = index.get();
        // SAFETY: inside the head, no other thread holds `index`, and `self` is borrowed mutably.
        (at < self.head).then(|| (at, unsafe { &mut *self.ptr.add(at) }))
    }

    /// The thread's own element of the tail, with its number in the slice.
    #[inline(always)]
    pub fn tail_mut(&mut self, index: ThreadIndex) -> Option<(usize, &mut T)> {
        let tail = self.tail_len();
        if index.get() >= tail {
            return None;
        }
        let at = self.len - tail + index.get();
        // SAFETY: inside the tail, no other thread holds `index`, and `self` is borrowed mutably.
        Some((at, unsafe { &mut *self.ptr.add(at) }))
    }

    /// Calls `f` with each element that the thread owns at `index`, and its number in the slice: the
    /// vector's by one load and one store, then head and tail.
    #[inline(always)]
    pub fn each(&mut self, index: ThreadIndex, mut f: impl FnMut(usize, &mut T)) {
        // Wraps only where there is no vector.
        let first = self.head.wrapping_add(index.get().wrapping_mul(N));
        if let Some(vector) = self.get_mut(index) {
            T::map_lanes(vector, |lane, value| f(first + lane, value));
        }
        if let Some((at, value)) = self.head_mut(index) {
            f(at, value);
        }
        if let Some((at, value)) = self.tail_mut(index) {
            f(at, value);
        }
    }

    /// # Safety
    /// `at < self.vectors()`.
    #[inline(always)]
    unsafe fn vector(&self, at: usize) -> *mut T::Vector {
        // SAFETY: vector `at` lies inside the slice.
        unsafe { self.ptr.add(self.head).cast::<T::Vector>().add(at) }
    }
}

/// A slice that all threads share, of which each reaches `N` neighbouring elements: the thread at
/// index `i` owns elements `N * i .. N * i + N`; the last chunk may be shorter.
///
/// Neighbouring threads are `N` elements apart, so large elements or `N` waste memory traffic;
/// [`DisjointVectors`] does not.
///
/// # Why it is safe
///
/// 1. The view is made by the entry that `#[kernel]` writes, from a buffer that the host borrowed
///    mutably for the launch: no other parameter of the launch aliases it.
/// 2. `N` is part of the kernel's type, so every thread cuts the slice at the same places.
/// 3. Two threads never hold the same [`ThreadIndex`], and chunks of two indices do not overlap.
/// 4. Within a thread the view is borrowed mutably, and it is not `Clone`: one `&mut` at a time.
#[derive(Debug)]
pub struct DisjointChunks<'a, T, const N: usize> {
    ptr: *mut T,
    len: usize,
    borrow: PhantomData<&'a mut [T]>,
}

impl<'a, T, const N: usize> DisjointChunks<'a, T, N> {
    /// Makes the view from a pointer and a number of elements.
    ///
    /// # Safety
    /// As [`DisjointSlice::from_raw_parts`](super::DisjointSlice::from_raw_parts); the other views are
    /// of the same `N`.
    #[inline(always)]
    pub unsafe fn from_raw_parts(ptr: *mut T, len: usize) -> Self {
        const { assert!(N > 0, "a chunk has at least one element") };
        Self { ptr, len, borrow: PhantomData }
    }

    /// The number of elements.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of chunks, a shorter last one included: as many threads cover the slice.
    #[inline(always)]
    pub fn chunks(&self) -> usize {
        self.len.div_ceil(N)
    }

    /// The thread's own chunk at `index`, if it is whole. One comparison for all of its elements.
    #[inline(always)]
    pub fn get_mut(&mut self, index: ThreadIndex) -> Option<&mut [T; N]> {
        let at = index.get();
        let whole = at < self.len / N;
        // SAFETY: a whole chunk, no other thread holds `index`, and `self` is borrowed mutably.
        whole.then(|| unsafe { &mut *self.ptr.add(at * N).cast() })
    }

    /// Chunk `at`, to write, without a [`ThreadIndex`] and without a comparison.
    ///
    /// # Safety
    /// The rules of [`DisjointSlice::get_unchecked_mut`](super::DisjointSlice::get_unchecked_mut) for the elements of
    /// the chunk, the fourth being `at < self.len() / N`: the chunk is whole.
    #[inline(always)]
    pub unsafe fn get_unchecked_mut(&mut self, at: usize) -> &mut [T; N] {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.ptr.add(at * N).cast() }
    }

    /// The thread's own chunk at `index`: `N` elements, fewer at the end, none past it.
    #[inline(always)]
    pub fn slice_mut(&mut self, index: ThreadIndex) -> &mut [T] {
        let start = index.get().saturating_mul(N).min(self.len);
        let len = (self.len - start).min(N);
        // SAFETY: inside the slice, no other thread holds `index`, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.add(start), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::{Vec2, Vec4};

    fn index(i: usize, total: usize) -> ThreadIndex {
        // SAFETY: one thread.
        unsafe { ThreadIndex::new(i, total) }
    }

    /// Every element of each sub-slice is visited once, by its own number.
    fn covers<T: Element + Lanes<N> + From<u8>, const N: usize>(zero: T) {
        let mut memory = [const { 0u128 }; 32];
        for (start, len) in (0..5).flat_map(|start| (0..19).map(move |len| (start, len))) {
            let data = bytemuck::cast_slice_mut::<_, T>(&mut memory);
            data.fill(zero);
            let part = &mut data[start..start + len];
            let (ptr, len) = (part.as_mut_ptr(), part.len());
            for i in 0..len + 2 {
                // SAFETY: the part is borrowed, and one thread at a time reaches it.
                let mut view = unsafe { DisjointVectors::<T, N>::from_raw_parts(ptr, len) };
                assert_eq!(view.head_len() + N * view.vectors() + view.tail_len(), len);
                assert!(view.tail_len() < N);
                assert!(i < view.steps() || view.get(index(i, 99)).is_none());
                view.each(index(i, 99), |at, value| {
                    assert!(*value == zero, "element {at} was visited before");
                    *value = T::from(at as u8 + 1);
                });
            }
            let expected: Vec<T> = (0..len).map(|i| T::from(i as u8 + 1)).collect();
            assert!(data[start..start + len] == expected, "{len} elements from {start}");
            let around = data[..start].iter().chain(&data[start + len..]);
            assert!(around.into_iter().all(|value| *value == zero));
        }
    }

    #[test]
    fn vectors_head_and_tail_cover_every_element_once() {
        covers::<u8, 2>(0);
        covers::<u16, 2>(0);
        covers::<u8, 4>(0);
        covers::<f32, 2>(0.0);
        covers::<f32, 4>(0.0);
        covers::<u64, 2>(0);
        covers::<f64, 4>(0.0);
    }

    #[test]
    fn a_vector_is_the_threads_own() {
        let mut data = [Vec4::new(1.0f32, 2.0, 3.0, 4.0), Vec4::splat(5.0)];
        let flat: &mut [f32] = bytemuck::cast_slice_mut(&mut data);
        // SAFETY: `data` is borrowed for as long as the view lives.
        let mut view = unsafe { DisjointVectors::<f32>::from_raw_parts(flat.as_mut_ptr(), 8) };
        view.get_mut(index(1, 2)).unwrap().z = 9.0;
        assert_eq!(view.get(index(0, 2)).unwrap().to_array(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!((view.get(index(2, 4)), view.first_of(index(1, 2)), view.len()), (None, 4, 8));
        assert_eq!(view.first_of(index(usize::MAX, 1)), usize::MAX);
        assert!(!view.is_empty() && view.head_mut(index(0, 1)).is_none());
        assert_eq!(data[1], Vec4::new(5.0, 5.0, 9.0, 5.0));
        assert_eq!(size_of::<Vec2<u8>>(), 2);
    }

    #[test]
    fn chunks_cover_every_element_once() {
        for len in 0..14 {
            let mut data = vec![0; len];
            for i in 0..6 {
                // SAFETY: `data` is borrowed, and one thread at a time reaches it.
                let mut view =
                    unsafe { DisjointChunks::<i32, 3>::from_raw_parts(data.as_mut_ptr(), len) };
                assert_eq!(view.chunks(), len.div_ceil(3));
                let whole = view.get_mut(index(i, 6)).is_some();
                assert_eq!(whole, 3 * i + 3 <= len, "chunk {i} of {len} elements");
                view.slice_mut(index(i, 6)).iter_mut().for_each(|value| *value += 1);
            }
            assert_eq!(data, vec![1; len]);
        }
    }

    #[test]
    fn a_chunk_far_away_is_empty() {
        let mut data = [1, 2, 3];
        // SAFETY: `data` is borrowed for as long as the view lives.
        let mut view = unsafe { DisjointChunks::<i32, 2>::from_raw_parts(data.as_mut_ptr(), 3) };
        assert!(view.slice_mut(index(usize::MAX, 1)).is_empty());
        assert!(view.get_mut(index(usize::MAX / 2 + 1, 1)).is_none());
        assert_eq!((view.len(), view.is_empty()), (3, false));
        assert_eq!(view.get_mut(index(0, 1)), Some(&mut [1, 2]));
    }
}
