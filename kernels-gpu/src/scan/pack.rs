//! Tiles in registers, 16 bytes at a time.
//!
//! A block takes a tile; each of its warps takes a run of the tile, and reads it in steps in which each lane
//! has the next 16 bytes: a *pack*. So a warp's load is 512 bytes in a row, and a scan of the lanes in one step
//! is in the order of memory: nothing goes through shared memory to be put into order.

use core::mem::MaybeUninit;

use cuda_std::vector::Vec4;
use cuda_std::warp::Plain;

/// 16 bytes of a tile.
pub type Pack = Vec4<u32>;

/// Elements in a pack.
#[must_use]
pub const fn per_pack<T>() -> usize {
    assert!(size_of::<T>().is_power_of_two() && size_of::<T>() <= 16, "1, 2, 4, 8 or 16 bytes");
    16 / size_of::<T>()
}

/// Calls `f` with 0, 1, … `n - 1`, each a constant once inlined, where `n` is one: then an array that is
/// indexed by them stays in registers. At most 16.
#[inline(always)]
pub fn each(n: usize, mut f: impl FnMut(usize)) {
    macro_rules! step {
        ($($k:literal)*) => {$(
            if $k < n {
                f($k);
            }
        )*};
    }
    step!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// The array of `f(0)`, `f(1)`, … in registers; at most 16.
#[inline(always)]
pub fn build<T: Copy, const N: usize>(mut f: impl FnMut(usize) -> T) -> [T; N] {
    const { assert!(N <= 16) };
    let mut items = MaybeUninit::<[T; N]>::uninit();
    let first = items.as_mut_ptr().cast::<T>();
    // SAFETY: `k < N`.
    each(N, |k| unsafe { first.add(k).write(f(k)) });
    // SAFETY: every element was written.
    unsafe { items.assume_init() }
}

/// Element `e` of a pack.
#[inline(always)]
pub fn element<T: Plain>(pack: &Pack, e: usize) -> T {
    let words = [pack.x, pack.y, pack.z, pack.w];
    let size = size_of::<T>();
    // Narrow elements come out of their word by a shift, so that a tile stays in as few registers as it was
    // loaded to.
    let (first, shift) = (e * size / 4, e * size % 4 * 8);
    let mut bits = [0u32; 4];
    each(size.div_ceil(4), |k| bits[k] = words[first + k] >> shift);
    // SAFETY: as many bytes as the value has, all initialised; all bits are a value of it.
    unsafe { bits.as_ptr().cast::<T>().read_unaligned() }
}

/// The pack of `f(0)`, `f(1)`, …
#[inline(always)]
pub fn pack_of<T: Plain>(mut f: impl FnMut(usize) -> T) -> Pack {
    let (mut words, size) = ([0u32; 4], size_of::<T>());
    each(per_pack::<T>(), |e| {
        let mut bits = [0u32; 4];
        // SAFETY: at most 16 bytes, and the value has no padding.
        unsafe { bits.as_mut_ptr().cast::<T>().write_unaligned(f(e)) };
        let (first, shift) = (e * size / 4, e * size % 4 * 8);
        each(size.div_ceil(4), |k| words[first + k] |= bits[k] << shift);
    });
    Pack::new(words[0], words[1], words[2], words[3])
}

/// How many elements of a pack that begins at element `i` are below `len`.
#[inline(always)]
pub fn inside<T>(len: usize, i: usize) -> usize {
    len.saturating_sub(i).min(per_pack::<T>())
}
