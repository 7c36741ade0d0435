//! Sixteen bytes at a time, whatever the type: the widest access that one instruction makes.

use bytemuck::Pod;
use cuda_std::access::{self, ReadOnlyHint};
use cuda_std::vector::{Vec2, Vec4};

/// Sixteen bytes that one instruction loads or stores.
pub type Quad = Vec4<u32>;

/// The bytes of a [`Quad`].
pub const QUAD_BYTES: usize = 16;

/// How many `T` a [`Quad`] holds; 0 where it does not hold a whole number of them.
pub const fn per_quad<T>() -> usize {
    let size = size_of::<T>();
    if size > 0 && QUAD_BYTES.is_multiple_of(size) && align_of::<T>() <= QUAD_BYTES {
        QUAD_BYTES / size
    } else {
        0
    }
}

/// The elements before the first multiple of 16 bytes, whole quads, and the rest. Where quads do not fit the
/// type or the address, everything is rest.
#[inline(always)]
pub fn split_quads<T: Pod>(x: &[T]) -> (&[T], &[Quad], &[T]) {
    if const { per_quad::<T>() == 0 } {
        return (&[], &[], x);
    }
    // SAFETY: both types are plain, so any bytes are values of either.
    let (head, quads, tail) = unsafe { x.align_to::<Quad>() };
    if head.len() >= const { max(per_quad::<T>(), 1) } {
        (&[], &[], x)
    } else {
        (head, quads, tail)
    }
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// Loads a quad by one instruction. (Of a plain load LLVM makes two of eight bytes, where elements have as many.)
///
/// # Safety
/// `from` is valid for reads of an aligned, initialised quad; in global memory nobody writes it while the kernel runs.
#[inline(always)]
pub unsafe fn load(from: *const Quad) -> Quad {
    // SAFETY: the caller's promise.
    unsafe { access::load_read_only(&*from, ReadOnlyHint::AllLevels) }
}

/// As [`load`], past the L1 cache: for kernels that read alone. (Beside stores it is slower: a triad lost 5% on an H200.)
///
/// # Safety
/// As [`load`].
#[inline(always)]
pub unsafe fn load_once(from: *const Quad) -> Quad {
    // SAFETY: the caller's promise.
    unsafe { access::load_read_only(&*from, ReadOnlyHint::NoAllocate) }
}

/// Loads 1, 2, 4, 8 or 16 bytes by one instruction: the front of the quad. `bytes` is a constant.
///
/// # Safety
/// `from` is valid for reads of `bytes` initialised bytes, and aligned to them; as [`load`].
#[inline(always)]
pub unsafe fn load_part(from: *const u8, bytes: usize) -> Quad {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => Quad::new(u32::from(*from), 0, 0, 0),
            2 => Quad::new(u32::from(*from.cast::<u16>()), 0, 0, 0),
            4 => Quad::new(*from.cast(), 0, 0, 0),
            8 => {
                let Vec2 { x, y, .. } = *from.cast::<Vec2<u32>>();
                Quad::new(x, y, 0, 0)
            }
            _ => load(from.cast()),
        }
    }
}

/// Stores the front 1, 2, 4, 8 or 16 bytes by one instruction. `bytes` is a constant.
///
/// # Safety
/// `to` is valid for writes of `bytes` bytes, and aligned to them.
#[inline(always)]
pub unsafe fn store_part(to: *mut u8, [x, y, z, w]: [u32; 4], bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => to.write(x as u8),
            2 => to.cast::<u16>().write(x as u16),
            4 => to.cast::<u32>().write(x),
            8 => to.cast::<Vec2<u32>>().write(Vec2::new(x, y)),
            _ => to.cast::<Quad>().write(Quad::new(x, y, z, w)),
        }
    }
}

/// Element `lane` of a quad, below [`per_quad`]. With a constant it is a register, or a part of one.
#[inline(always)]
pub fn lane<T: Pod>(quad: Quad, lane: usize) -> T {
    debug_assert!(lane < per_quad::<T>());
    let words = quad.to_array();
    // SAFETY: `lane` is below the number of `T` in the 16 bytes, and `T` takes any bits.
    unsafe { words.as_ptr().cast::<T>().add(lane).read_unaligned() }
}

/// Calls `f` with 0, 1, … `N - 1`, for `N` up to 16, each a constant once inlined: then an array that is
/// indexed by them stays in registers. A loop would leave that to what the compiler is willing to unroll.
#[inline(always)]
pub fn each<const N: usize>(mut f: impl FnMut(usize)) {
    const { assert!(N <= 16, "at most 16 steps are written out") };
    macro_rules! step {
        ($($k:literal)*) => {$(
            if const { $k < N } {
                f($k);
            }
        )*};
    }
    step!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
}

/// Calls `f` with each element of a quad and its number, in order.
#[inline(always)]
pub fn each_lane<T: Pod>(quad: Quad, mut f: impl FnMut(usize, T)) {
    each::<16>(|k| {
        if k < const { per_quad::<T>() } {
            f(k, lane(quad, k));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_the_elements_in_order() {
        let quad = Quad::new(0x0302_0100, 0x0706_0504, 0x0b0a_0908, 0x0f0e_0d0c);
        let mut seen = Vec::new();
        each_lane::<u8>(quad, |k, byte| seen.push((k, byte)));
        assert_eq!(seen, (0..16).map(|k| (k, k as u8)).collect::<Vec<_>>());
        let mut seen = Vec::new();
        each_lane::<u64>(quad, |_, word| seen.push(word));
        assert_eq!(seen, [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        each_lane::<[u8; 3]>(quad, |_, _| panic!("three bytes do not divide a quad"));
    }

    #[test]
    fn a_split_covers_every_alignment() {
        let aligned = [Quad::splat(7); 5];
        let all: &[u8] = bytemuck::cast_slice(&aligned);
        for (start, end) in (0..40).flat_map(|start| (start..80).map(move |end| (start, end))) {
            let (head, quads, tail) = split_quads(&all[start..end]);
            assert_eq!(head.len() + 16 * quads.len() + tail.len(), end - start);
            assert!(quads.is_empty() || (start + head.len()).is_multiple_of(16));
        }
        // Elements that no number of steps brings to a multiple of 16 bytes.
        let odd: &[[u8; 4]] = bytemuck::cast_slice(&all[1..41]);
        assert_eq!(split_quads(odd), (&[][..], &[][..], odd));
        assert_eq!(split_quads(bytemuck::cast_slice::<_, [u8; 5]>(all)).2.len(), 16);
    }
}
