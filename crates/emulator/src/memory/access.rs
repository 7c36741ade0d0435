//! Loads and stores at raw addresses.
//!
//! Every access is a relaxed atomic, because kernels on several threads and the host may touch the
//! same byte. Order between accesses comes from [`std::sync::atomic::fence`]: an acquire load is a
//! load and then an acquire fence, a release store is a release fence and then a store.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

macro_rules! load_store {
    ($($bits:literal $load:ident $store:ident $int:ty, $atomic:ty;)*) => {$(
        #[doc = concat!("Loads ", $bits, " bits.")]
        ///
        /// # Safety
        /// `address` is a multiple of the size, and its bytes are mapped and only touched by atomic
        /// accesses while this runs.
        #[inline(always)]
        pub unsafe fn $load(address: u64) -> $int {
            // SAFETY: the caller vouches for alignment, mapping and atomicity.
            unsafe { <$atomic>::from_ptr(address as *mut $int) }.load(Relaxed)
        }

        #[doc = concat!("Stores ", $bits, " bits.")]
        ///
        /// # Safety
        /// `address` is a multiple of the size, and its bytes are mapped for writing and only
        /// touched by atomic accesses while this runs.
        #[inline(always)]
        pub unsafe fn $store(address: u64, value: $int) {
            // SAFETY: the caller vouches for alignment, mapping and atomicity.
            unsafe { <$atomic>::from_ptr(address as *mut $int) }.store(value, Relaxed)
        }
    )*};
}

load_store! {
    "8" load_u8 store_u8 u8, AtomicU8;
    "16" load_u16 store_u16 u16, AtomicU16;
    "32" load_u32 store_u32 u32, AtomicU32;
    "64" load_u64 store_u64 u64, AtomicU64;
}

/// Loads 128 bits as two words, the low one first. The two halves may be of different age.
///
/// # Safety
/// As for [`load_u64`], for both words.
#[inline(always)]
pub unsafe fn load_u128(address: u64) -> [u64; 2] {
    // SAFETY: the caller vouches for both words.
    unsafe { [load_u64(address), load_u64(address + 8)] }
}

/// Stores 128 bits as two words, the low one first. A reader may see one without the other.
///
/// # Safety
/// As for [`store_u64`], for both words.
#[inline(always)]
pub unsafe fn store_u128(address: u64, value: [u64; 2]) {
    // SAFETY: the caller vouches for both words.
    unsafe {
        store_u64(address, value[0]);
        store_u64(address + 8, value[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_width_reads_back_what_it_wrote_and_nothing_beside() {
        let cell = [const { AtomicU64::new(0) }; 4];
        let base = cell.as_ptr() as u64;
        // SAFETY: all addresses are aligned and inside `cell`, which only atomics touch.
        unsafe {
            store_u8(base + 1, 0xab);
            store_u16(base + 2, 0xcdef);
            store_u32(base + 4, 0x0123_4567);
            store_u64(base + 8, u64::MAX);
            store_u128(base + 16, [1, 2]);
            assert_eq!(load_u8(base + 1), 0xab);
            assert_eq!(load_u16(base + 2), 0xcdef);
            assert_eq!(load_u32(base + 4), 0x0123_4567);
            assert_eq!(load_u64(base), 0x0123_4567_cdef_ab00);
            assert_eq!(load_u64(base + 8), u64::MAX);
            assert_eq!(load_u128(base + 16), [1, 2]);
        }
    }
}
