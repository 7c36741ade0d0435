//! What every device limits: a contract beyond it is a compile error.

use super::Contract;

/// Most threads in a block, on every device so far.
const MOST_THREADS: u32 = 1024;
/// Most threads in a block along z.
const MOST_THREADS_Z: u32 = 64;
/// Most blocks on a multiprocessor.
const MOST_BLOCKS: u32 = 32;
/// Most blocks in a cluster.
const MOST_CLUSTER: u32 = 16;
/// Fewest and most registers of a thread that can be asked for.
const LEAST_REGISTERS: u32 = 16;
const MOST_REGISTERS: u32 = 255;
/// More shared memory in bytes than any device has for a block.
const MOST_SHARED: u32 = 1 << 20;

impl Contract {
    /// Why no device can keep the contract. `#[kernel]` makes a compile error of it.
    #[must_use]
    pub const fn fault(&self) -> Option<&'static str> {
        let shared = &self.dynamic_shared;
        if !within(self.block, [MOST_THREADS, MOST_THREADS, MOST_THREADS_Z], MOST_THREADS) {
            return Some("a block has 1 to 1024 threads, at most 64 along z");
        }
        if !in_range(self.max_threads, 1, MOST_THREADS) {
            return Some("a block has 1 to 1024 threads");
        }
        if !in_range(self.min_blocks, 1, MOST_BLOCKS) {
            return Some("a multiprocessor holds 1 to 32 blocks");
        }
        if !in_range(self.max_registers, LEAST_REGISTERS, MOST_REGISTERS) {
            return Some("a thread has 16 to 255 registers");
        }
        if !within(self.cluster, [MOST_CLUSTER; 3], MOST_CLUSTER) {
            return Some("a cluster has 1 to 16 blocks");
        }
        if shared.least_bytes > shared.most_bytes {
            return Some("`dynamic_shared` is an empty range");
        }
        if shared.least_bytes > MOST_SHARED {
            return Some("`dynamic_shared` is more than any device has");
        }
        if shared.unit_bytes == 0 {
            return Some("the element of `dynamic_shared` has no size");
        }
        None
    }
}

const fn in_range(number: Option<u32>, least: u32, most: u32) -> bool {
    match number {
        Some(number) => least <= number && number <= most,
        None => true,
    }
}

const fn within(extents: Option<(u32, u32, u32)>, limits: [u32; 3], product: u32) -> bool {
    let Some((x, y, z)) = extents else { return true };
    let positive = x > 0 && y > 0 && z > 0;
    let inside = x <= limits[0] && y <= limits[1] && z <= limits[2];
    positive && inside && x * y * z <= product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_device_can_keep_is_a_fault() {
        let block = |extents| Contract::NONE.with_block(extents).fault();
        for extents in [[1024, 1, 1], [1, 1024, 1], [1, 16, 64], [32, 8, 4], [1, 1, 1]] {
            assert_eq!(block(extents), None, "{extents:?}");
        }
        for extents in [[0, 1, 1], [1025, 1, 1], [1, 1025, 1], [1, 1, 65], [33, 32, 1]] {
            assert!(block(extents).is_some_and(|why| why.contains("64 along z")), "{extents:?}");
        }
        let cluster = |extents| Contract::NONE.with_cluster(extents).fault();
        assert!(cluster([16, 1, 1]).is_none() && cluster([1, 4, 4]).is_none());
        assert!(cluster([1, 1, 17]).is_some() && cluster([4, 5, 1]).is_some());
        let registers = |number| Contract::NONE.with_max_registers(number);
        assert_eq!(registers(64).max_registers, Some(64));
        assert!(registers(16).fault().is_none() && registers(255).fault().is_none());
        assert!(registers(15).fault().is_some() && registers(u64::MAX).fault().is_some());
        let shared = |least, most| Contract::NONE.with_dynamic_shared(least, most, 4).fault();
        assert!(shared(0, u64::MAX).is_none() && shared(1 << 20, 1 << 20).is_none());
        assert!(shared(8, 4).is_some() && shared((1 << 20) + 4, u64::MAX).is_some());
    }
}
