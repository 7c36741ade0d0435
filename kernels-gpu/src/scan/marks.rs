//! Which elements are marked: where segments begin, or what a selection keeps.

use cuda_std::number::{Half, bf16, f16};
use cuda_std::warp::{Plain, Warp};

use super::pack::{Pack, build, each, element, per_pack};
use super::ring::Part;
use crate::quads;

/// Marks some of the elements of an array of `T`.
pub trait Marks<T: Plain>: Copy {
    /// Bytes for each element of an array that says what is marked, to come to shared memory with the elements.
    const BESIDE: usize = 0;

    /// That array.
    #[inline(always)]
    fn beside(&self) -> &[u8] {
        &[]
    }

    /// The marks of the elements of `pack`, which are those from `first` on: bit `e` for element `first + e`.
    /// Bits of elements past the array's end may be anything.
    fn of(self, first: usize, pack: &Pack) -> u32;

    /// [`of`](Self::of) all packs of a lane. All lanes of the warp call it.
    #[inline(always)]
    fn of_all<const P: usize>(self, part: Part<'_, T, P>, packs: &[Pack; P]) -> [u32; P] {
        build(|j| self.of(part.first(j), &packs[j]))
    }
}

/// One bit for each element of a pack.
#[inline(always)]
fn bits<T>(mut bit: impl FnMut(usize) -> bool) -> u32 {
    let mut bits = 0;
    each(per_pack::<T>(), |e| bits |= u32::from(bit(e)) << e);
    bits
}

/// The elements whose flag is not 0.
#[derive(Clone, Copy, Debug)]
pub struct Flags<'a>(pub &'a [u8]);

impl<T: Plain> Marks<T> for Flags<'_> {
    const BESIDE: usize = 1;

    #[inline(always)]
    fn beside(&self) -> &[u8] {
        self.0
    }

    #[inline(always)]
    fn of(self, first: usize, _: &Pack) -> u32 {
        bits::<T>(|e| self.0.get(first + e).is_some_and(|&flag| flag != 0))
    }

    #[inline(always)]
    fn of_all<const P: usize>(self, part: Part<'_, T, P>, packs: &[Pack; P]) -> [u32; P] {
        let Some(flags) = part.beside(self.0) else {
            return build(|j| Marks::<T>::of(self, part.first(j), &packs[j]));
        };
        build(|j| {
            // SAFETY: the flags of this pack, which begin at a multiple of their number.
            let flags =
                unsafe { quads::load_part(flags.wrapping_add(part.place(j)), per_pack::<T>()) };
            bits::<T>(|e| quads::lane::<u8>(flags, e) != 0)
        })
    }
}

/// The elements whose bit is set: bit `i % 32` of word `i / 32`.
#[derive(Clone, Copy, Debug)]
pub struct BitFlags<'a>(pub &'a [u32]);

impl<T: Plain> Marks<T> for BitFlags<'_> {
    #[inline(always)]
    fn of(self, first: usize, _: &Pack) -> u32 {
        // A pack has at most 16 elements, and begins at a multiple of their number.
        self.0.get(first / 32).map_or(0, |word| word >> (first % 32))
    }
}

/// The elements whose key differs from the one before, and the first.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a, K>(pub &'a [K]);

impl<T: Plain, K: Plain + PartialEq> Marks<T> for Changes<'_, K> {
    const BESIDE: usize = size_of::<K>();

    #[inline(always)]
    fn beside(&self) -> &[u8] {
        bytemuck::cast_slice(self.0)
    }

    #[inline(always)]
    fn of(self, first: usize, _: &Pack) -> u32 {
        let mut before = first.checked_sub(1).and_then(|i| self.0.get(i).copied());
        bits::<T>(|e| {
            let own = self.0.get(first + e).copied();
            let differs = own != before;
            before = own;
            differs
        })
    }

    #[inline(always)]
    fn of_all<const P: usize>(self, part: Part<'_, T, P>, packs: &[Pack; P]) -> [u32; P] {
        let Some(keys) = part.beside(self.0).filter(|_| part.start > 0) else {
            return build(|j| Marks::<T>::of(self, part.first(j), &packs[j]));
        };
        let bytes = per_pack::<T>() * size_of::<K>();
        build(|j| {
            let first = keys.wrapping_add(part.place(j));
            // SAFETY: the keys of this pack, which begin at a multiple of as many bytes as are loaded; there is one before.
            let (mut before, own): (K, [Pack; MOST_KEY_PACKS]) = unsafe {
                let pack =
                    |p: usize| quads::load_part(first.cast::<u8>().add(16 * p), bytes.min(16));
                (
                    first.sub(1).read(),
                    build(|p| if 16 * p < bytes { pack(p) } else { Pack::splat(0) }),
                )
            };
            bits::<T>(|e| {
                let key = element::<K>(&own[e / per_pack::<K>()], e % per_pack::<K>());
                let differs = key != before;
                before = key;
                differs
            })
        })
    }
}

/// Most packs that the keys of a pack of elements are.
const MOST_KEY_PACKS: usize = 16;

/// The elements that differ from the one before, and the first: of the array itself.
#[derive(Clone, Copy)]
pub struct Runs<'a, T> {
    warp: Warp,
    x: &'a [T],
}

impl<'a, T> Runs<'a, T> {
    /// Those of `x`, for all lanes of a warp.
    #[inline(always)]
    pub fn new(warp: Warp, x: &'a [T]) -> Self {
        Self { warp, x }
    }
}

impl<T: Plain + PartialEq> Runs<'_, T> {
    /// The marks of a pack that comes behind `before`.
    #[inline(always)]
    fn behind(first: usize, pack: &Pack, mut before: T) -> u32 {
        let differs = bits::<T>(|e| {
            let own = element::<T>(pack, e);
            let differs = own != before;
            before = own;
            differs
        });
        if first == 0 { differs | 1 } else { differs }
    }

    /// The element before the one at `first`, or any where there is none.
    #[inline(always)]
    fn before(self, first: usize) -> T {
        self.x.get(first.wrapping_sub(1)).copied().unwrap_or(T::zeroed())
    }
}

impl<T: Plain + PartialEq> Marks<T> for Runs<'_, T> {
    #[inline(always)]
    fn of(self, first: usize, pack: &Pack) -> u32 {
        Self::behind(first, pack, self.before(first))
    }

    #[inline(always)]
    fn of_all<const P: usize>(self, part: Part<'_, T, P>, packs: &[Pack; P]) -> [u32; P] {
        let lane = self.warp.thread_rank();
        // What the lane before has at its end; the first lane's is in the pack before, of the last lane.
        let mut of_last = if lane == 0 { self.before(part.first(0)) } else { T::zeroed() };
        build(|j| {
            let end = element::<T>(&packs[j], per_pack::<T>() - 1);
            let of_lane = self.warp.shuffle(end, (lane + 31) % 32);
            let before = if lane == 0 { of_last } else { of_lane };
            of_last = of_lane;
            Self::behind(part.first(j), &packs[j], before)
        })
    }
}

/// The elements of which a predicate holds.
#[derive(Clone, Copy, Debug)]
pub struct Where<P>(pub P);

impl<T: Plain, P: Fn(T) -> bool + Copy> Marks<T> for Where<P> {
    #[inline(always)]
    fn of(self, _: usize, pack: &Pack) -> u32 {
        bits::<T>(|e| (self.0)(element(pack, e)))
    }
}

/// A number that may be zero.
pub trait MaybeZero: Plain {
    /// Whether it is: for floats, either zero. NaN is not.
    fn is_zero(self) -> bool;
}

macro_rules! maybe_zero {
    ($($ty:ty: $zero:expr;)*) => {$(
        impl MaybeZero for $ty {
            #[inline(always)]
            fn is_zero(self) -> bool {
                $zero(self)
            }
        }
    )*};
}

maybe_zero! {
    u8: |x| x == 0;
    u16: |x| x == 0;
    u32: |x| x == 0;
    u64: |x| x == 0;
    f32: |x| x == 0.0;
    f64: |x| x == 0.0;
    f16: |x: f16| x.widen() == 0.0;
    bf16: |x: bf16| x.widen() == 0.0;
}
