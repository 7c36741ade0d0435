//! Which elements are marked: where segments begin, or what a selection keeps.

use cuda_std::number::{Half, bf16, f16};
use cuda_std::warp::{Plain, Warp};

use super::fetch;
use super::pack::{Pack, build, each, element, per_pack};
use crate::thread::words;

/// Marks some of the elements of an array of `T`.
pub trait Marks<T>: Copy {
    /// The marks of the elements of `pack`, which are those from `first` on: bit `e` for element `first + e`.
    /// Bits of elements past the array's end may be anything.
    fn of(self, first: usize, pack: &Pack) -> u32;

    /// [`of`](Self::of) all packs of a lane: pack `j` begins at element `first(j)`, and those of the lanes of a warp, which
    /// all call it, follow each other, lane by lane and pack by pack.
    #[inline(always)]
    fn of_all<const N: usize>(self, first: impl Fn(usize) -> usize, packs: &[Pack; N]) -> [u32; N] {
        build(|j| self.of(first(j), &packs[j]))
    }

    /// Says that `len` elements from `first` on are asked for soon.
    #[inline(always)]
    fn announce(self, _first: usize, _len: usize) {}
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

impl<T> Marks<T> for Flags<'_> {
    #[inline(always)]
    fn of(self, first: usize, _: &Pack) -> u32 {
        bits::<T>(|e| self.0.get(first + e).is_some_and(|&flag| flag != 0))
    }

    #[inline(always)]
    fn of_all<const N: usize>(self, first: impl Fn(usize) -> usize, packs: &[Pack; N]) -> [u32; N] {
        let (from, per) = (self.0.as_ptr(), per_pack::<T>());
        if from.addr().is_multiple_of(per) && first(N - 1) + per <= self.0.len() {
            // All loads are under way before the first is used.
            // SAFETY: inside the slice, and aligned, since packs begin at multiples of their elements.
            let flags: [Pack; N] = build(|j| unsafe { words::load_part(from.add(first(j)), per) });
            return build(|j| bits::<T>(|e| words::lane::<u8>(flags[j], e) != 0));
        }
        build(|j| Marks::<T>::of(self, first(j), &packs[j]))
    }

    #[inline(always)]
    fn announce(self, first: usize, len: usize) {
        fetch::soon(self.0, first, len);
    }
}

/// The elements whose bit is set: bit `i % 32` of word `i / 32`.
#[derive(Clone, Copy, Debug)]
pub struct BitFlags<'a>(pub &'a [u32]);

impl<T> Marks<T> for BitFlags<'_> {
    #[inline(always)]
    fn of(self, first: usize, _: &Pack) -> u32 {
        // A pack has at most 16 elements, and begins at a multiple of their number.
        self.0.get(first / 32).map_or(0, |word| word >> (first % 32))
    }
}

/// The elements whose key differs from the one before, and the first.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a, K>(pub &'a [K]);

impl<T, K: Plain + PartialEq> Marks<T> for Changes<'_, K> {
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
    fn of_all<const N: usize>(self, first: impl Fn(usize) -> usize, packs: &[Pack; N]) -> [u32; N] {
        let keys = self.0;
        // Packs of keys for a pack of elements, where they are whole ones and not too many.
        let wanted = per_pack::<T>() * size_of::<K>() / size_of::<Pack>();
        let each_packs = if wanted * N <= MOST_KEY_PACKS { wanted.max(1) } else { 1 };
        let is_aligned = keys.as_ptr().wrapping_add(first(0)).cast::<Pack>().is_aligned();
        let is_whole = first(0) > 0 && first(N - 1) + per_pack::<T>() <= keys.len();
        if !(wanted == each_packs && is_aligned && is_whole) {
            return build(|k| Marks::<T>::of(self, first(k), &packs[k]));
        }
        // All are on their way before the first is looked at.
        // SAFETY: so many keys are there, one before them, and the packs begin at multiples of 16 bytes.
        let before: [K; N] = build(|k| unsafe { *keys.get_unchecked(first(k) - 1) });
        let own: [Pack; MOST_KEY_PACKS] = build(|i| {
            let (k, p) = (i / each_packs, i % each_packs);
            if k < N {
                let own = keys.as_ptr().wrapping_add(first(k)).cast::<Pack>();
                // SAFETY: as above.
                unsafe { own.add(p).read() }
            } else {
                Pack::splat(0)
            }
        });
        build(|k| {
            let mut before = before[k];
            bits::<T>(|e| {
                let (p, e) = (k * each_packs + e / per_pack::<K>(), e % per_pack::<K>());
                let key = element::<K>(&own[p], e);
                let differs = key != before;
                before = key;
                differs
            })
        })
    }

    #[inline(always)]
    fn announce(self, first: usize, len: usize) {
        let size = size_of::<K>();
        fetch::soon(bytemuck::cast_slice(self.0), first * size, len * size);
    }
}

/// Most packs of keys that a lane has in registers.
const MOST_KEY_PACKS: usize = 8;

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
    fn of_all<const N: usize>(self, first: impl Fn(usize) -> usize, packs: &[Pack; N]) -> [u32; N] {
        let lane = self.warp.thread_rank();
        // What the lane before has at its end; the first lane's is in the pack before, of the last lane.
        let mut of_last = if lane == 0 { self.before(first(0)) } else { T::zeroed() };
        build(|j| {
            let end = element::<T>(&packs[j], per_pack::<T>() - 1);
            let of_lane = self.warp.shuffle(end, (lane + 31) % 32);
            let before = if lane == 0 { of_last } else { of_lane };
            of_last = of_lane;
            Self::behind(first(j), &packs[j], before)
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
