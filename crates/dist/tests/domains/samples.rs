//! Numbers that all ranks draw alike.

use ferrowarp_dist::ops::Shares;

/// A sequence of numbers (G. L. Steele, D. Lea and C. H. Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
pub struct Samples {
    pub seed: u64,
    state: u64,
}

impl Samples {
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// A number from -1 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// `n` numbers from -1 to 1.
    pub fn units<T: From<f32>>(&mut self, n: usize) -> Vec<T> {
        (0..n).map(|_| self.unit().into()).collect()
    }

    /// A length divided anyhow, with `least` for each rank at least.
    pub fn slabs(&mut self, len: usize, ranks: u32, least: usize) -> Shares {
        let mut shares = vec![least; ranks as usize];
        let free = len - least * ranks as usize;
        let mut cuts: Vec<usize> = (1..ranks).map(|_| self.below(free + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([free]);
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        shares.iter_mut().zip(starts.zip(ends)).for_each(|(share, (a, b))| *share += b - a);
        Shares::given(shares)
    }
}
