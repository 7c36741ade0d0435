//! Random numbers that depend on a seed alone.

/// A generator (G. Steele, D. Lea, C. Flood: SplitMix64, 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The generator of work `number` in a run with this seed.
    pub(super) fn of(seed: u64, number: u64) -> Self {
        let mut seeds = Self(seed);
        Self(seeds.next() ^ number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is above 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True once in `n` times.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A length: as often as not one at the edge of a warp or a block.
    pub(super) fn len(&mut self, most: usize) -> usize {
        const EDGES: [usize; 10] = [0, 1, 31, 32, 33, 255, 256, 257, 1023, 1025];
        if self.once_in(2) {
            EDGES[self.below(EDGES.len())].min(most)
        } else {
            self.below(most) + 1
        }
    }

    /// Whole numbers of which 2^16 have a sum that an f32 holds exactly.
    pub(super) fn wholes(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.below(256) as f32 - 128.0).collect()
    }

    pub(super) fn words(&mut self, n: usize) -> Vec<u32> {
        (0..n).map(|_| self.next() as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_depend_on_seed_and_work_alone() {
        let first = |seed, number| Random::of(seed, number).words(4);
        assert_eq!(first(1, 7), first(1, 7));
        assert_ne!(first(1, 7), first(1, 8));
        assert_ne!(first(1, 7), first(2, 7));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_its_ends() {
        let mut random = Random::of(3, 0);
        let mut seen = [false; 5];
        (0..200).for_each(|_| seen[random.below(5)] = true);
        assert_eq!(seen, [true; 5]);
        assert!((0..1000).all(|_| random.len(100) <= 100));
        assert!(
            random.wholes(1000).iter().all(|x| (-128.0..128.0).contains(x) && x.fract() == 0.0)
        );
    }
}
