//! [`Aligned`]: a value that is aligned to 128, 256 or another power of two of bytes, and has them for itself.

use bytemuck::{Pod, Zeroable};
use core::fmt;
use core::mem::{ManuallyDrop, needs_drop};
use core::ops::{Deref, DerefMut};

/// A value with `BYTES` bytes for itself, which is aligned to as many, on host and device alike: 256 as the driver's
/// allocations are, 128 for a cache line ([`CacheLineAligned`](crate::CacheLineAligned)). What the value leaves of the
/// bytes is zero. It is [`Pod`] where the value is.
///
/// The value has at most `BYTES` bytes and nothing to drop. For a larger one take a larger alignment, or an array of
/// aligned parts, which lie without a gap.
///
/// ```
/// use cuda_std::Aligned;
///
/// let rows = [Aligned::<_, 256>::new([1.0f32; 60]), Aligned::new([2.0; 60])];
/// assert_eq!((size_of_val(&rows), rows[1][59]), (512, 2.0));
/// assert!((&raw const rows[1]).addr() % 256 == 0);
/// ```
///
/// A value that does not fit does not compile:
///
/// ```compile_fail
/// cuda_std::Aligned::<_, 16>::new([0u8; 17]);
/// ```
///
/// # Why it is safe
///
/// 1. The union is as large as its bytes: the carrier has no bytes and no alignment, so that no type
///    makes it larger, and no byte of it is padding.
/// 2. `new` and every access refuse to compile where the value does not fit into the bytes.
/// 3. It comes from `new`, which fills all bytes, from a copy, or from bytes where those are a value:
///    so it always holds one.
/// 4. The carrier tells the compiler whether the value can be sent, shared and changed behind a
///    shared reference.
#[repr(C)]
#[doc(alias = "repr(align)")]
pub union Aligned<T, const BYTES: usize>
where
    AlignTo<BYTES>: Alignment,
{
    bytes: <AlignTo<BYTES> as Alignment>::Bytes,
    carrier: ManuallyDrop<Carrier<T>>,
}

#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Carrier<T>([ManuallyDrop<T>; 0]);

/// An alignment of `BYTES` bytes.
#[derive(Clone, Copy, Debug)]
pub enum AlignTo<const BYTES: usize> {}

/// The alignments of [`Aligned`]: powers of two from 16 to 4096. Rust's `repr(align)` takes no constant, so that there
/// is a type for each.
#[diagnostic::on_unimplemented(
    message = "`Aligned` does not align to this many bytes",
    note = "it aligns to 16, 32, 64, 128, 256, 512, 1024, 2048 or 4096"
)]
pub trait Alignment {
    /// The bytes, as large as their alignment.
    #[doc(hidden)]
    type Bytes: Copy;
    #[doc(hidden)]
    const ZERO: Self::Bytes;
}

macro_rules! alignments {
    ($($bytes:tt $name:ident),*) => {$(
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug)]
        #[repr(C, align($bytes))]
        pub struct $name([u8; $bytes]);

        impl Alignment for AlignTo<$bytes> {
            type Bytes = $name;
            const ZERO: $name = $name([0; $bytes]);
        }

        const _: () = assert!(size_of::<$name>() == $bytes && align_of::<$name>() == $bytes);
    )*};
}

alignments!(
    16 Bytes16, 32 Bytes32, 64 Bytes64, 128 Bytes128, 256 Bytes256, 512 Bytes512, 1024 Bytes1024, 2048 Bytes2048,
    4096 Bytes4096
);

impl<T, const BYTES: usize> Aligned<T, BYTES>
where
    AlignTo<BYTES>: Alignment,
{
    const FITS: () = {
        assert!(
            size_of::<T>() <= BYTES,
            "the value is larger than its alignment: take a larger one, or an array of aligned parts"
        );
        assert!(align_of::<T>() <= BYTES, "the value is aligned to more than that");
        assert!(!needs_drop::<T>(), "the value has something to drop");
    };

    /// The value, in bytes of its own.
    #[inline(always)]
    pub const fn new(value: T) -> Self {
        const { Self::FITS };
        let mut aligned = Self { bytes: <AlignTo<BYTES> as Alignment>::ZERO };
        // SAFETY: there is room for the value, aligned for it (point 2).
        unsafe { (&raw mut aligned).cast::<T>().write(value) };
        aligned
    }

    /// The value.
    #[inline(always)]
    pub const fn into_inner(self) -> T {
        const { Self::FITS };
        // SAFETY: the bytes hold a value (point 3), which is not used again.
        unsafe { (&raw const self).cast::<T>().read() }
    }
}

impl<T, const BYTES: usize> Deref for Aligned<T, BYTES>
where
    AlignTo<BYTES>: Alignment,
{
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        const { Self::FITS };
        // SAFETY: the bytes hold a value (point 3) at their start.
        unsafe { &*(&raw const *self).cast() }
    }
}

impl<T, const BYTES: usize> DerefMut for Aligned<T, BYTES>
where
    AlignTo<BYTES>: Alignment,
{
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        const { Self::FITS };
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { &mut *(&raw mut *self).cast() }
    }
}

impl<T: Copy, const BYTES: usize> Clone for Aligned<T, BYTES>
where
    AlignTo<BYTES>: Alignment,
{
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy, const BYTES: usize> Copy for Aligned<T, BYTES> where AlignTo<BYTES>: Alignment {}

// SAFETY: zero is a value where it is one of `T`, and the rest is bytes.
unsafe impl<T: Zeroable, const BYTES: usize> Zeroable for Aligned<T, BYTES> where
    AlignTo<BYTES>: Alignment
{
}
// SAFETY: no byte is padding (point 1), and every bit pattern is a value where it is one of `T`.
unsafe impl<T: Pod, const BYTES: usize> Pod for Aligned<T, BYTES> where AlignTo<BYTES>: Alignment {}

impl<T: Default, const BYTES: usize> Default for Aligned<T, BYTES>
where
    AlignTo<BYTES>: Alignment,
{
    #[inline(always)]
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug, const BYTES: usize> fmt::Debug for Aligned<T, BYTES>
where
    AlignTo<BYTES>: Alignment,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Aligned").field(&**self).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::{Atomic, Ordering::Relaxed, scope};

    /// The address of a value on the heap, which asks the allocator for no more than the type's alignment.
    fn is_aligned_on_the_heap<const BYTES: usize>() -> bool
    where
        AlignTo<BYTES>: Alignment,
    {
        let boxed = Box::new(Aligned::<u8, BYTES>::new(7));
        let address = (&raw const *boxed).addr();
        address.is_multiple_of(BYTES) && **boxed == 7 && size_of_val(&*boxed) == BYTES
    }

    #[test]
    fn values_lie_where_their_alignment_says() {
        assert!(is_aligned_on_the_heap::<16>() && is_aligned_on_the_heap::<32>());
        assert!(is_aligned_on_the_heap::<64>() && is_aligned_on_the_heap::<128>());
        assert!(is_aligned_on_the_heap::<256>() && is_aligned_on_the_heap::<512>());
        assert!(is_aligned_on_the_heap::<1024>() && is_aligned_on_the_heap::<2048>());
        assert!(is_aligned_on_the_heap::<4096>());
    }

    #[test]
    fn parts_of_an_array_lie_without_a_gap() {
        let rows: Vec<Aligned<[u16; 128], 256>> = (0..5).map(|i| Aligned::new([i; 128])).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&rows);
        let expected: Vec<u16> = (0..5).flat_map(|i| [i; 128]).collect();
        assert_eq!(bytemuck::cast_slice::<_, u16>(bytes), expected);
        assert!(rows.iter().all(|row| (&raw const *row).addr() % 256 == 0));
    }

    #[test]
    fn values_are_bytes_without_padding() {
        let mut value = Aligned::<_, 256>::new([1u16, 2, 3]);
        value[1] = 9;
        assert_eq!(bytemuck::bytes_of(&value)[..7], [1, 0, 9, 0, 3, 0, 0]);
        assert!(bytemuck::bytes_of(&value)[6..].iter().all(|byte| *byte == 0));
        let back: Aligned<[u16; 3], 256> = bytemuck::pod_read_unaligned(bytemuck::bytes_of(&value));
        assert_eq!((*back, value.into_inner()), ([1, 9, 3], [1, 9, 3]));
        assert_eq!(format!("{:?}", Aligned::<u8, 16>::default()), "Aligned(0)");
    }

    #[test]
    fn shared_atomics_count() {
        let line: Aligned<Atomic<u32, scope::System>, 256> = Aligned::default();
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| (0..1000).for_each(|_| _ = line.fetch_add(1, Relaxed)));
            }
        });
        assert_eq!(line.load(Relaxed), 2000);
    }
}
