//! [`CacheLineAligned`]: a value that has 128 bytes for itself.

use crate::aligned::Aligned;

/// Bytes of a cache line of the GPU, and of two neighbouring ones of most CPUs, which fetch pairs.
pub const CACHE_LINE_BYTES: usize = 128;

/// A value with 128 bytes for itself, so that writes to other values never evict it from a cache: an [`Aligned`].
///
/// ```
/// use cuda_std::cache_line::CacheLineAligned;
///
/// let counters = [CacheLineAligned::new(1u32), CacheLineAligned::new(2)];
/// assert_eq!((size_of_val(&counters), *counters[1]), (256, 2));
/// assert_eq!(bytemuck::bytes_of(&counters[0])[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
/// ```
pub type CacheLineAligned<T> = Aligned<T, CACHE_LINE_BYTES>;

const _: () = {
    assert!(size_of::<CacheLineAligned<u8>>() == CACHE_LINE_BYTES);
    assert!(align_of::<CacheLineAligned<u8>>() == CACHE_LINE_BYTES);
    assert!(size_of::<CacheLineAligned<[u64; 16]>>() == CACHE_LINE_BYTES);
};
