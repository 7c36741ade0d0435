//! What a scan joins its elements by.

use core::fmt;
use core::marker::PhantomData;

use cuda_std::block::Item;
use cuda_std::number::{Half, bf16, f16};
use cuda_std::warp::Plain;

use super::carry::{Carry, Segmented};
use super::marks::Marks;
use super::pack::Pack;
use super::ring::Part;

/// An associative operation on elements of type `T`. It need not be commutative: elements are joined in
/// their order.
///
/// `join(a, join(b, c))` is `join(join(a, b), c)`, as far as the type can; a float sum rounds differently,
/// always in the same places. A kernel of your own makes any such type an operator:
///
/// ```
/// use cuda_std::prelude::*;
/// use kernels_gpu::scan::{self, BLOCK, MAX_REGISTERS, Operator, Whole, scan_grid};
///
/// /// The bits that any element up to here has.
/// pub struct Or;
///
/// impl Operator<u64> for Or {
///     type Joined = u64;
///     const NEUTRAL: u64 = 0;
///
///     fn lift(x: u64) -> u64 {
///         x
///     }
///     fn join(a: u64, b: u64) -> u64 {
///         a | b
///     }
///     fn lower(joined: u64) -> u64 {
///         joined
///     }
/// }
///
/// /// `states` has `scratch_len::<u64, u64>(n)` words of 0; launch `blocks::<u64, u64>(n, multiprocessors)` blocks with
/// /// `shared_bytes(…)` of shared memory.
/// #[kernel(
///     max_registers = MAX_REGISTERS,
///     dynamic_shared = scan::LEAST_SHARED_BYTES..=scan::MOST_SHARED_BYTES
/// )]
/// pub fn seen_bits(
///     block: Block<BLOCK>,
///     x: &[u64],
///     states: AtomicSlice<u64>,
///     out: DisjointSlice<u64>,
/// ) {
///     scan_grid(block, x, Whole::<Or>::new(), false, states, out);
/// }
/// # fn main() {}
/// ```
pub trait Operator<T> {
    /// Elements joined: of at most 16 bytes, perhaps wider than an element.
    type Joined: Item;

    /// The element that changes nothing, before any other and behind it.
    const NEUTRAL: T;

    /// An element alone.
    fn lift(x: T) -> Self::Joined;

    /// `a`, and `b` behind it.
    fn join(a: Self::Joined, b: Self::Joined) -> Self::Joined;

    /// What is written.
    fn lower(joined: Self::Joined) -> T;
}

/// Addition. Integers wrap; halves are added in f32, and each result is rounded once.
#[derive(Clone, Copy, Debug)]
pub struct Sum;

/// The larger. A NaN counts as nothing.
#[derive(Clone, Copy, Debug)]
pub struct Max;

/// The smaller. A NaN counts as nothing.
#[derive(Clone, Copy, Debug)]
pub struct Min;

/// Affine maps `x ↦ a x + b`, written `[a, b]`, one behind the other: the first element's map comes first. It does
/// not commute. An inclusive scan of `[a[i], b[i]]` solves the recurrence `y[i] = a[i] y[i - 1] + b[i]`: from `y = 0`
/// its second numbers are the solution.
#[derive(Clone, Copy, Debug)]
pub struct Compose;

/// An affine map of floats, for [`Compose`].
pub type AffineF32 = [f32; 2];

/// An affine map of integers modulo 2^32, for [`Compose`].
pub type AffineU32 = [u32; 2];

macro_rules! operators {
    ($($op:ident $ty:ty as $joined:ty: $neutral:expr, $lift:expr, $join:expr, $lower:expr;)*) => {$(
        impl Operator<$ty> for $op {
            type Joined = $joined;
            const NEUTRAL: $ty = $neutral;

            #[inline(always)]
            fn lift(x: $ty) -> $joined {
                $lift(x)
            }

            #[inline(always)]
            fn join(a: $joined, b: $joined) -> $joined {
                $join(a, b)
            }

            #[inline(always)]
            fn lower(joined: $joined) -> $ty {
                $lower(joined)
            }
        }
    )*};
}

operators! {
    Sum u8 as u32: 0, u32::from, u32::wrapping_add, |sum| sum as u8;
    Sum u16 as u32: 0, u32::from, u32::wrapping_add, |sum| sum as u16;
    Sum u32 as u32: 0, |x| x, u32::wrapping_add, |sum| sum;
    Sum u64 as u64: 0, |x| x, u64::wrapping_add, |sum| sum;
    Sum f16 as f32: f16::ZERO, Half::widen, |a, b| a + b, Half::nearest;
    Sum bf16 as f32: bf16::ZERO, Half::widen, |a, b| a + b, Half::nearest;
    Sum f32 as f32: 0.0, |x| x, |a, b| a + b, |sum| sum;
    Sum f64 as f64: 0.0, |x| x, |a, b| a + b, |sum| sum;
    Max i32 as i32: i32::MIN, |x| x, Ord::max, |max| max;
    Max u32 as u32: 0, |x| x, Ord::max, |max| max;
    Max f32 as f32: f32::NEG_INFINITY, |x| x, f32::max, |max| max;
    Min i32 as i32: i32::MAX, |x| x, Ord::min, |min| min;
    Min u32 as u32: u32::MAX, |x| x, Ord::min, |min| min;
    Min f32 as f32: f32::INFINITY, |x| x, f32::min, |min| min;
    Compose AffineF32 as AffineF32: [1.0, 0.0], |x| x,
        |[a, b]: AffineF32, [c, d]: AffineF32| [a * c, b * c + d], |map| map;
    Compose AffineU32 as AffineU32: [1, 0], |x| x,
        |[a, b]: AffineU32, [c, d]: AffineU32| {
            [a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d)]
        },
        |map| map;
}

/// A scan's view of its elements: what it carries along, and what it writes.
pub trait Line<T: Plain>: Copy {
    /// What goes from lane to lane and from tile to tile.
    type Carry: Carry;

    /// The element that changes nothing.
    const NEUTRAL: T;

    /// See [`Marks::BESIDE`].
    const BESIDE: usize = 0;

    /// See [`Marks::beside`].
    #[inline(always)]
    fn beside(&self) -> &[u8] {
        &[]
    }

    /// Which elements of some packs are marked; see [`Marks::of_all`].
    fn marks<const P: usize>(self, part: Part<'_, T, P>, packs: &[Pack; P]) -> [u32; P];

    /// An element alone.
    fn lift(x: T, is_marked: bool) -> Self::Carry;

    /// `a`, and `b` behind it.
    fn join(a: Self::Carry, b: Self::Carry) -> Self::Carry;

    /// What is written for an element of an inclusive scan: everything up to it.
    fn inclusive(upto: Self::Carry) -> T;

    /// What is written for an element of an exclusive scan: everything before it.
    fn exclusive(before: Self::Carry, is_marked: bool) -> T;
}

/// The whole array in one, joined by `O`.
pub struct Whole<O>(PhantomData<O>);

impl<O> Whole<O> {
    /// The only value.
    #[inline(always)]
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<O> Clone for Whole<O> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<O> Copy for Whole<O> {}

impl<O> Default for Whole<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for Whole<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Whole")
    }
}

impl<T: Plain, O: Operator<T>> Line<T> for Whole<O> {
    type Carry = O::Joined;

    const NEUTRAL: T = O::NEUTRAL;

    #[inline(always)]
    fn marks<const P: usize>(self, _: Part<'_, T, P>, _: &[Pack; P]) -> [u32; P] {
        [0; P]
    }

    #[inline(always)]
    fn lift(x: T, _: bool) -> O::Joined {
        O::lift(x)
    }

    #[inline(always)]
    fn join(a: O::Joined, b: O::Joined) -> O::Joined {
        O::join(a, b)
    }

    #[inline(always)]
    fn inclusive(upto: O::Joined) -> T {
        O::lower(upto)
    }

    #[inline(always)]
    fn exclusive(before: O::Joined, _: bool) -> T {
        O::lower(before)
    }
}

/// Segments, each for itself: one begins at every marked element. Joined by `O`.
#[derive(Debug)]
pub struct Segments<O, M> {
    operator: PhantomData<O>,
    marks: M,
}

impl<O, M: Copy> Clone for Segments<O, M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<O, M: Copy> Copy for Segments<O, M> {}

impl<O, M> Segments<O, M> {
    /// The segments that begin at these marks.
    #[inline(always)]
    pub const fn new(marks: M) -> Self {
        Self { operator: PhantomData, marks }
    }
}

impl<T: Plain, O: Operator<T>, M: Marks<T>> Line<T> for Segments<O, M> {
    type Carry = Segmented<O::Joined>;

    const NEUTRAL: T = O::NEUTRAL;
    const BESIDE: usize = M::BESIDE;

    #[inline(always)]
    fn beside(&self) -> &[u8] {
        self.marks.beside()
    }

    #[inline(always)]
    fn marks<const P: usize>(self, part: Part<'_, T, P>, packs: &[Pack; P]) -> [u32; P] {
        self.marks.of_all(part, packs)
    }

    #[inline(always)]
    fn lift(x: T, is_marked: bool) -> Self::Carry {
        Segmented { value: O::lift(x), head: is_marked }
    }

    #[inline(always)]
    fn join(a: Self::Carry, b: Self::Carry) -> Self::Carry {
        let value = if b.head { b.value } else { O::join(a.value, b.value) };
        Segmented { value, head: a.head | b.head }
    }

    #[inline(always)]
    fn inclusive(upto: Self::Carry) -> T {
        O::lower(upto.value)
    }

    #[inline(always)]
    fn exclusive(before: Self::Carry, is_marked: bool) -> T {
        if is_marked { O::NEUTRAL } else { O::lower(before.value) }
    }
}
