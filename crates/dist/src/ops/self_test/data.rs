//! Arrays that all ranks know.

use bytemuck::{Pod, bytes_of, pod_read_unaligned};

/// A generator of random numbers (G. Steele, D. Lea and C. Flood, *Fast splittable pseudorandom number generators*, 2014).
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(super) fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// `len` values of `T`, each of what `word` gives.
    pub(super) fn values<T>(&mut self, len: usize, value: impl Fn(u64) -> T) -> Vec<T> {
        (0..len).map(|_| value(self.word())).collect()
    }
}

/// The value with these bits, of which a shorter type takes the lowest.
pub(super) fn of_bits<T: Pod>(word: u64) -> T {
    pod_read_unaligned(&bytes_of(&word)[..size_of::<T>()])
}
