//! [`CacheLineAligned`]: a value that has 128 bytes for itself.

use bytemuck::{Pod, Zeroable};
use core::fmt;
use core::mem::{ManuallyDrop, needs_drop};
use core::ops::{Deref, DerefMut};

/// Bytes of a cache line of the GPU, and of two neighbouring ones of most CPUs, which fetch pairs.
pub const CACHE_LINE_BYTES: usize = 128;

/// A value with 128 bytes for itself, so that writes to other values never evict it from a cache.
///
/// It is 128 bytes large and aligned to as many, on host and device alike; what the value leaves of
/// them is zero. It is [`Pod`] where the value is. The value has at most 128 bytes and nothing to drop.
///
/// ```
/// use cuda_std::cache_line::CacheLineAligned;
///
/// let counters = [CacheLineAligned::new(1u32), CacheLineAligned::new(2)];
/// assert_eq!((size_of_val(&counters), *counters[1]), (256, 2));
/// assert_eq!(bytemuck::bytes_of(&counters[0])[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
/// ```
///
/// # Why it is safe
///
/// 1. The union is as large as its line: the carrier has no bytes and no alignment, so that no type
///    makes it larger, and no byte of it is padding.
/// 2. `new` and every access refuse to compile where the value does not fit into the line.
/// 3. A line comes from `new`, which fills it, from a copy, or from bytes where those are a value: so
///    it always holds one.
/// 4. The carrier tells the compiler whether the value can be sent, shared and changed behind a
///    shared reference.
#[repr(C, align(128))]
pub union CacheLineAligned<T> {
    line: [u8; CACHE_LINE_BYTES],
    carrier: ManuallyDrop<Carrier<T>>,
}

#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Carrier<T>([ManuallyDrop<T>; 0]);

impl<T> CacheLineAligned<T> {
    const FITS: () = {
        assert!(size_of::<T>() <= CACHE_LINE_BYTES, "the value is larger than a cache line");
        assert!(align_of::<T>() <= CACHE_LINE_BYTES, "the value is aligned to more than a line");
        assert!(!needs_drop::<T>(), "the value has something to drop");
    };

    /// The value, in a line of its own.
    #[inline(always)]
    pub const fn new(value: T) -> Self {
        const { Self::FITS };
        let mut line = Self { line: [0; CACHE_LINE_BYTES] };
        // SAFETY: the line has room for the value and is aligned for it (point 2).
        unsafe { (&raw mut line).cast::<T>().write(value) };
        line
    }

    /// The value.
    #[inline(always)]
    pub const fn into_inner(self) -> T {
        const { Self::FITS };
        // SAFETY: the line holds a value (point 3), which is not used again.
        unsafe { (&raw const self).cast::<T>().read() }
    }
}

impl<T> Deref for CacheLineAligned<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        const { Self::FITS };
        // SAFETY: the line holds a value (point 3) at its start.
        unsafe { &*(&raw const *self).cast() }
    }
}

impl<T> DerefMut for CacheLineAligned<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        const { Self::FITS };
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { &mut *(&raw mut *self).cast() }
    }
}

impl<T: Copy> Clone for CacheLineAligned<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for CacheLineAligned<T> {}

// SAFETY: zero is a value where it is one of `T`, and the rest of the line is bytes.
unsafe impl<T: Zeroable> Zeroable for CacheLineAligned<T> {}
// SAFETY: no byte is padding (point 1), and every bit pattern is a value where it is one of `T`.
unsafe impl<T: Pod> Pod for CacheLineAligned<T> {}

impl<T: Default> Default for CacheLineAligned<T> {
    #[inline(always)]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for CacheLineAligned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CacheLineAligned").field(&**self).finish()
    }
}

const _: () = {
    assert!(size_of::<CacheLineAligned<u8>>() == CACHE_LINE_BYTES);
    assert!(align_of::<CacheLineAligned<u8>>() == CACHE_LINE_BYTES);
    assert!(size_of::<CacheLineAligned<[u64; 16]>>() == CACHE_LINE_BYTES);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::{Atomic, Ordering::Relaxed, scope};

    #[test]
    fn lines_of_all_values_are_bytes_without_padding() {
        let mut line = CacheLineAligned::new([1u16, 2, 3]);
        line[1] = 9;
        assert_eq!(bytemuck::bytes_of(&line)[..7], [1, 0, 9, 0, 3, 0, 0]);
        assert!(bytemuck::bytes_of(&line)[6..].iter().all(|byte| *byte == 0));
        let back: CacheLineAligned<[u16; 3]> =
            bytemuck::pod_read_unaligned(bytemuck::bytes_of(&line));
        assert_eq!((*back, line.into_inner()), ([1, 9, 3], [1, 9, 3]));
        assert_eq!(format!("{:?}", CacheLineAligned::<u8>::default()), "CacheLineAligned(0)");
    }

    #[test]
    fn a_shared_line_of_atomics_counts() {
        let line: CacheLineAligned<Atomic<u32, scope::System>> = CacheLineAligned::default();
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| (0..1000).for_each(|_| _ = line.fetch_add(1, Relaxed)));
            }
        });
        assert_eq!(line.load(Relaxed), 2000);
    }
}
