//! Address ranges for allocations.
//!
//! Small blocks are cut from slabs; a large one has a mapping of its own, whose pages cost nothing
//! until they are touched. A mapping stays until the pool is dropped, so an address that was once
//! handed out never faults in this process, whoever still holds it.

use memmap2::{MmapMut, MmapOptions};
use std::collections::HashMap;

/// Alignment of every block, and the least distance between two of them.
pub const RED_ZONE: u64 = 256;

const SLAB_BYTES: u64 = 32 << 20;
const LARGEST_SMALL: u64 = 4 << 20;

/// Address ranges, in use or free.
#[derive(Default)]
pub struct Pool {
    slabs: Vec<MmapMut>,
    large: HashMap<u64, MmapMut>,
    free: HashMap<u64, Vec<u64>>,
    unused: std::ops::Range<u64>,
}

/// Whether a block that holds `bytes` has a mapping of its own.
pub fn is_large(bytes: u64) -> bool {
    block_size(bytes).is_none_or(|size| size > LARGEST_SMALL)
}

/// Size of a block that holds `bytes` and a red zone behind them: few different sizes, so that a
/// freed block fits a later request. Sizes have three significant bits, and waste a fifth at most.
/// `None` when the size is past 2^62.
pub fn block_size(bytes: u64) -> Option<u64> {
    let needed = bytes.checked_add(2 * RED_ZONE - 1)? & !(RED_ZONE - 1);
    if needed > 1 << 62 {
        return None;
    }
    let step = (1 << needed.ilog2() >> 2).max(RED_ZONE);
    Some(needed.next_multiple_of(step))
}

impl Pool {
    /// A block for `bytes`, with red zones on both sides. `None` when the system has no addresses.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let size = block_size(bytes)?;
        if let Some(base) = self.free.get_mut(&size).and_then(Vec::pop) {
            return Some(base);
        }
        if is_large(bytes) { self.map_large(size) } else { self.cut(size) }
    }

    /// Takes a block back; its address may be handed out again.
    pub fn give(&mut self, base: u64, bytes: u64) {
        let size = block_size(bytes).expect("the block was handed out");
        self.free.entry(size).or_default().push(base);
    }

    /// Returns a large block's pages to the system; they read as zeros afterwards.
    pub fn discard(&self, base: u64) {
        #[cfg(unix)]
        if let Some(map) = self.large.get(&base) {
            use memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: the pages are private and anonymous, and no reference to them exists: all
            // accesses go through raw addresses. An access that races with this sees old bytes or
            // zeros. An error leaves the pages as they are, which is right too.
            let _ = unsafe { map.unchecked_advise(DontNeed) };
        }
        #[cfg(not(unix))]
        let _ = base;
    }

    fn map_large(&mut self, size: u64) -> Option<u64> {
        let map = map(size + RED_ZONE)?;
        let base = address_of(&map) + RED_ZONE;
        self.large.insert(base, map);
        Some(base)
    }

    fn cut(&mut self, size: u64) -> Option<u64> {
        if self.unused.end - self.unused.start < size {
            let slab = map(SLAB_BYTES)?;
            let start = address_of(&slab);
            self.unused = start + RED_ZONE..start + SLAB_BYTES;
            self.slabs.push(slab);
        }
        let base = self.unused.start;
        self.unused.start += size;
        Some(base)
    }
}

/// Zeroed pages that cost nothing until they are touched.
fn map(bytes: u64) -> Option<MmapMut> {
    let bytes = usize::try_from(bytes).ok()?;
    MmapOptions::new().len(bytes).no_reserve_swap().map_anon().ok()
}

/// Page-aligned address; its provenance is exposed, because all accesses start from integers.
fn address_of(map: &MmapMut) -> u64 {
    map.as_ptr().expose_provenance() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_sizes_leave_a_red_zone_and_waste_little() {
        for bytes in [1, 255, 256, 257, 5000, 1 << 20, (1 << 20) + 1, 1 << 40] {
            let size = block_size(bytes).unwrap();
            let rounded = bytes.next_multiple_of(RED_ZONE);
            assert!(size >= bytes + RED_ZONE && size.is_multiple_of(RED_ZONE), "{bytes}: {size}");
            assert!(size - RED_ZONE <= rounded + rounded / 4 + RED_ZONE, "{bytes}: {size}");
        }
        assert_eq!(block_size(1 << 63), None);
        assert_eq!(block_size(u64::MAX), None);
    }

    #[test]
    fn a_block_given_back_is_taken_again_by_its_size_only() {
        let mut pool = Pool::default();
        let first = pool.take(1000).unwrap();
        pool.give(first, 1000);
        assert_ne!(pool.take(5000).unwrap(), first);
        assert_eq!(pool.take(900).unwrap(), first);
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let mut pool = Pool::default();
        let sizes = [1, 256, 300, 70_000, 3 << 20, 5 << 20];
        let mut blocks: Vec<(u64, u64)> =
            (0..60).map(|i| sizes[i % 6]).map(|bytes| (pool.take(bytes).unwrap(), bytes)).collect();
        blocks.sort_unstable();
        for pair in blocks.windows(2) {
            let [(base, bytes), (next, _)] = [pair[0], pair[1]];
            assert!(base.is_multiple_of(RED_ZONE));
            assert!(next - (base + bytes) >= RED_ZONE, "{base:#x}+{bytes} and {next:#x}");
        }
    }
}
