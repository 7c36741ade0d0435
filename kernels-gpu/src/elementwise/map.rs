//! One output element for each input element: maps, zips, the triad, conversions, by a function of one's own too.
//!
//! [`each`] is all of them. A thread has one vector of 16 bytes (two, where elements become larger or smaller). Blocks
//! are started in order and are soon over, so that what is under way at a time lies together: the memory then has few of its
//! rows open. On an H200 a copy this way reaches 4,240 GB/s; with four vectors a thread, or blocks that step on, 4,030 and
//! less, whatever the hints for the caches. What stands before the output's first aligned place and behind its last goes
//! element by element, and so does everything where an input is aligned otherwise than the output.
//!
//! A kernel of another crate calls [`map`] or [`zip`] with a closure:
//!
//! ```
//! use cuda_std::prelude::*;
//! use kernels_gpu::elementwise::map::{BLOCK, map};
//!
//! /// The logistic function of each element.
//! #[kernel(block = BLOCK)]
//! pub fn logistic(index: ThreadIndex, x: &[f32], mut out: DisjointSlice<f32>) {
//!     map(index, x, &mut out, |x| 1.0 / (1.0 + (-x).exp()));
//! }
//! # fn main() {}
//! ```

use crate::prelude::*;
use bytemuck::Pod;
use cuda_std::number::{Half, bf16};
use cuda_std::unroll;

use crate::dependent::let_next_start;
use crate::quads::{self, Quad, lane, load_part, store_part};
use crate::reduce::operator::Number;

/// Threads in a block.
pub const BLOCK: usize = 256;

/// Vectors of a thread, for elements of so many bytes at the largest and at the smallest: with an output that is larger or
/// smaller than the input, one has too little under way.
const fn per_thread(largest: usize, smallest: usize) -> usize {
    if largest == smallest { 1 } else { MOST_VECTORS }
}

/// Most vectors of a thread.
const MOST_VECTORS: usize = 2;

/// Blocks to launch for `n_elems` elements that have `largest` bytes at most, of inputs or output, and `smallest` at least: for
/// each vector a thread, or for two where these differ; at least one block.
#[must_use]
pub const fn blocks(n_elems: usize, largest: usize, smallest: usize) -> u32 {
    let of_block = BLOCK * per_thread(largest, smallest) * per_vector(largest);
    let blocks = n_elems.div_ceil(of_block);
    if blocks == 0 {
        1
    } else if blocks < 1 << 30 {
        blocks as u32
    } else {
        1 << 30
    }
}

/// Elements of a vector, if the largest has so many bytes.
const fn per_vector(element_bytes: usize) -> usize {
    if element_bytes.is_power_of_two() && element_bytes < quads::QUAD_BYTES {
        quads::QUAD_BYTES / element_bytes
    } else {
        1
    }
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

const fn min(a: usize, b: usize) -> usize {
    if a < b { a } else { b }
}

/// What a map reads: a slice, or two.
pub trait Inputs: Copy {
    /// The elements of one place.
    type Item: Copy;
    /// The vectors of one place.
    type Loaded: Copy;
    /// The size of the largest element.
    const ELEMENT_BYTES: usize;
    /// The size of the smallest element.
    const LEAST_BYTES: usize;

    /// The number of places.
    fn places(self) -> usize;
    /// Whether vectors of `lanes` elements, the first of them at `first`, are aligned.
    fn are_aligned(self, first: usize, lanes: usize) -> bool;
    /// The vectors of `lanes` elements from `at` on.
    ///
    /// # Safety
    /// They are inside and aligned; `lanes` elements have at most 16 bytes.
    unsafe fn load(self, at: usize, lanes: usize) -> Self::Loaded;
    /// The elements at `at`.
    ///
    /// # Safety
    /// `at` is below [`places`](Self::places).
    unsafe fn element(self, at: usize) -> Self::Item;
    /// The elements of one place of loaded vectors.
    fn lane(loaded: Self::Loaded, lane: usize) -> Self::Item;
}

impl<T: Pod> Inputs for &[T] {
    type Item = T;
    type Loaded = Quad;
    const ELEMENT_BYTES: usize = size_of::<T>();
    const LEAST_BYTES: usize = size_of::<T>();

    #[inline(always)]
    fn places(self) -> usize {
        self.len()
    }

    #[inline(always)]
    fn are_aligned(self, first: usize, lanes: usize) -> bool {
        let address = self.as_ptr().addr() + first * size_of::<T>();
        address & (lanes * size_of::<T>() - 1) == 0
    }

    #[inline(always)]
    unsafe fn load(self, at: usize, lanes: usize) -> Quad {
        // SAFETY: the caller's promise.
        unsafe { load_part(self.as_ptr().add(at).cast(), lanes * size_of::<T>()) }
    }

    #[inline(always)]
    unsafe fn element(self, at: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { *self.get_unchecked(at) }
    }

    #[inline(always)]
    fn lane(loaded: Quad, at: usize) -> T {
        lane(loaded, at)
    }
}

impl<A: Inputs, B: Inputs> Inputs for (A, B) {
    type Item = (A::Item, B::Item);
    type Loaded = (A::Loaded, B::Loaded);
    const ELEMENT_BYTES: usize = max(A::ELEMENT_BYTES, B::ELEMENT_BYTES);
    const LEAST_BYTES: usize = min(A::LEAST_BYTES, B::LEAST_BYTES);

    #[inline(always)]
    fn places(self) -> usize {
        self.0.places().min(self.1.places())
    }

    #[inline(always)]
    fn are_aligned(self, first: usize, lanes: usize) -> bool {
        self.0.are_aligned(first, lanes) & self.1.are_aligned(first, lanes)
    }

    #[inline(always)]
    unsafe fn load(self, at: usize, lanes: usize) -> Self::Loaded {
        // SAFETY: the caller's promise.
        unsafe { (self.0.load(at, lanes), self.1.load(at, lanes)) }
    }

    #[inline(always)]
    unsafe fn element(self, at: usize) -> Self::Item {
        // SAFETY: the caller's promise.
        unsafe { (self.0.element(at), self.1.element(at)) }
    }

    #[inline(always)]
    fn lane(loaded: Self::Loaded, at: usize) -> Self::Item {
        (A::lane(loaded.0, at), B::lane(loaded.1, at))
    }
}

/// `out[i] = f(inputs[i])` for each `i` below the shortest length.
///
/// * All threads of the grid call it once. Launch [`blocks`] blocks; fewer step on.
/// * 16 bytes a load and store of the largest type, if all of them have 1, 2, 4, 8 or 16 bytes and every array is
///   aligned to its vectors at the same element; else element by element.
#[inline(always)]
pub fn each<I: Inputs, U: Pod>(
    index: ThreadIndex,
    inputs: I,
    out: &mut DisjointSlice<U>,
    f: impl Fn(I::Item) -> U,
) {
    let lanes = const { per_vector(max(I::ELEMENT_BYTES, size_of::<U>())) };
    let n = inputs.places().min(out.len());
    let to = out.as_mut_ptr();
    let vector_bytes = lanes * size_of::<U>();
    let to_aligned = to.addr().wrapping_neg() & (vector_bytes.max(1) - 1);
    let head = (to_aligned / size_of::<U>().max(1)).min(n);
    let is_whole = to_aligned.is_multiple_of(size_of::<U>().max(1));
    // SAFETY: `to` leads to `n` elements that this grid alone writes; what vectors need was tested.
    unsafe {
        if lanes == 1 || !is_whole || !inputs.are_aligned(head, lanes) {
            each_element(index, inputs, to, n, &f);
        } else {
            each_vector(index, inputs, to, (head, n), &f);
        }
    }
}

/// [`each`], element by element; four of a thread are loaded before the first is used.
///
/// # Safety
/// `to` and all inputs lead to `n` elements; no other grid accesses those at `to`.
#[inline(always)]
unsafe fn each_element<I: Inputs, U: Pod>(
    index: ThreadIndex,
    inputs: I,
    to: *mut U,
    n: usize,
    f: &impl Fn(I::Item) -> U,
) {
    let mut first = index.get();
    while first < n {
        let at = |k: usize| first + k * index.total();
        // SAFETY: the last element, where the thread has none.
        let load = |k| unsafe { inputs.element(at(k).min(n - 1)) };
        let loaded = [load(0), load(1), load(2), load(3)];
        unroll::each::<4>(|k| {
            if at(k) < n {
                // SAFETY: inside, and the thread's own: an index of the grid, stepped by its size.
                unsafe { to.add(at(k)).write(f(loaded[k])) };
            }
        });
        first = at(4);
    }
}

/// [`each`], in vectors of [`per_vector`] elements from element `head` on, and the elements before and after them one by one.
///
/// # Safety
/// As [`each_element`]; at `head` all arrays are aligned to their vectors.
#[inline(always)]
unsafe fn each_vector<I: Inputs, U: Pod>(
    index: ThreadIndex,
    inputs: I,
    to: *mut U,
    (head, n): (usize, usize),
    f: &impl Fn(I::Item) -> U,
) {
    let lanes = const { per_vector(max(I::ELEMENT_BYTES, size_of::<U>())) };
    let vectors = (n - head) / lanes;
    let at = |vector: usize| head + vector * lanes;
    let store = |vector: usize, loaded: I::Loaded| {
        let mut words = [0u32; 4];
        unroll::each::<16>(|k| {
            if k < lanes {
                // SAFETY: `lanes` elements of `U` have at most 16 bytes.
                unsafe {
                    words.as_mut_ptr().cast::<U>().add(k).write_unaligned(f(I::lane(loaded, k)))
                };
            }
        });
        // SAFETY: a whole aligned vector, which one thread stores: `vector` is its own, as below.
        unsafe { store_part(to.add(at(vector)).cast(), words, lanes * size_of::<U>()) };
    };
    let mine = const {
        per_thread(max(I::ELEMENT_BYTES, size_of::<U>()), min(I::LEAST_BYTES, size_of::<U>()))
    };
    let mut first = index.get() / BLOCK * BLOCK * mine + index.get() % BLOCK;
    while first < vectors {
        // SAFETY: a whole aligned vector inside: the first, where the thread has no second.
        let of = |k: usize| unsafe {
            let vector = first + k * BLOCK;
            inputs.load(at(if vector < vectors { vector } else { first }), lanes)
        };
        let loaded = [of(0), of(mine - 1)];
        unroll::each::<MOST_VECTORS>(|k| {
            if k < mine && first + k * BLOCK < vectors {
                store(first + k * BLOCK, loaded[k]);
            }
        });
        first += mine * index.total();
    }
    let one = |at: usize| {
        // SAFETY: `at < n` by both callers, and each element is one thread's: indices of the grid, stepped by its
        // size, in parts that do not overlap.
        unsafe { to.add(at).write(f(inputs.element(at))) }
    };
    for i in index.grid_stride(head.max(lanes)) {
        if i.get() < head {
            one(i.get());
        }
        let after = at(vectors) + i.get();
        if i.get() < lanes && after < n {
            one(after);
        }
    }
}

/// `out[i] = f(x[i])`: see [`each`].
#[inline(always)]
pub fn map<T: Pod, U: Pod>(
    index: ThreadIndex,
    x: &[T],
    out: &mut DisjointSlice<U>,
    f: impl Fn(T) -> U,
) {
    let_next_start(x);
    each(index, x, out, f);
}

/// `out[i] = f(a[i], b[i])`: see [`each`].
#[inline(always)]
pub fn zip<A: Pod, B: Pod, U: Pod>(
    index: ThreadIndex,
    a: &[A],
    b: &[B],
    out: &mut DisjointSlice<U>,
    f: impl Fn(A, B) -> U,
) {
    let_next_start(a);
    each(index, (a, b), out, |(a, b)| f(a, b));
}

/// `a = b + s * c`, rounded once. All `[n]`.
#[kernel(f32, f64, dependent, block = BLOCK)]
pub fn triad<T: Real>(index: ThreadIndex, s: T, b: &[T], c: &[T], mut a: DisjointSlice<T>) {
    zip(index, b, c, &mut a, |b, c| c.times_plus(s, b));
}

/// `out = a + b`, both `[n]`.
#[kernel(f32, dependent, block = BLOCK)]
pub fn zip_sum<T: Number<Wide = T>>(
    index: ThreadIndex,
    a: &[T],
    b: &[T],
    mut out: DisjointSlice<T>,
) {
    zip(index, a, b, &mut out, T::plus);
}

/// `out = a * b`, both `[n]`.
#[kernel(f32, dependent, block = BLOCK)]
pub fn zip_product<T: Number<Wide = T>>(
    index: ThreadIndex,
    a: &[T],
    b: &[T],
    mut out: DisjointSlice<T>,
) {
    zip(index, a, b, &mut out, T::times);
}

/// `out = factor * x`, both `[n]`.
#[kernel(f32, f64, dependent, block = BLOCK)]
pub fn map_scale<T: Number<Wide = T>>(
    index: ThreadIndex,
    factor: T,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    map(index, x, &mut out, |x| T::times(factor, x));
}

/// `out = x & keep ^ flip`, both `[n]`: with the sign's bit, negation and magnitude of any float.
#[kernel(u16, u32, u64, dependent, block = BLOCK)]
pub fn map_bits<T>(index: ThreadIndex, keep: T, flip: T, x: &[T], mut out: DisjointSlice<T>)
where
    T: Pod + core::ops::BitAnd<Output = T> + core::ops::BitXor<Output = T>,
{
    map(index, x, &mut out, |x| x & keep ^ flip);
}

/// Each number as another type, rounded to the nearest. Both `[n]`.
#[kernel((f32, f16), (f32, bf16), (f16, f32), (bf16, f32), dependent, block = BLOCK)]
pub fn map_convert<T: Convert<U>, U: Pod>(index: ThreadIndex, x: &[T], mut out: DisjointSlice<U>) {
    map(index, x, &mut out, T::convert);
}

/// A float with a fused multiply-add.
pub trait Real: Pod {
    /// `self * factor + summand`, rounded once.
    fn times_plus(self, factor: Self, summand: Self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn times_plus(self, factor: f32, summand: f32) -> f32 {
        self.mul_add(factor, summand)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn times_plus(self, factor: f64, summand: f64) -> f64 {
        self.mul_add(factor, summand)
    }
}

/// A number that becomes a `U`.
pub trait Convert<U>: Pod {
    /// The nearest `U`.
    fn convert(self) -> U;
}

macro_rules! halves {
    ($($half:ty)*) => {$(
        impl Convert<$half> for f32 {
            #[inline(always)]
            fn convert(self) -> $half {
                <$half>::nearest(self)
            }
        }

        impl Convert<f32> for $half {
            #[inline(always)]
            fn convert(self) -> f32 {
                Half::widen(self)
            }
        }
    )*};
}

halves!(f16 bf16);
