//! Philox4x32-10: random numbers from a counter.

use bytemuck::{Pod, Zeroable};
use core::convert::Infallible;
use rand_core::{SeedableRng, TryRng, utils};

/// Rounds after which the generator passes every test of TestU01.
const ROUNDS: u32 = 10;

/// Four random words from a counter and a key, by ten rounds of Philox.
///
/// The method and the constants are those of J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel
/// random numbers: as easy as 1, 2, 3", 2011.
#[inline(always)]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    let ([mut c0, mut c1, mut c2, mut c3], [mut k0, mut k1]) = (counter, key);
    for _ in 0..ROUNDS {
        let ((low0, high0), (low1, high1)) =
            (product(MULTIPLIERS[0], c0), product(MULTIPLIERS[1], c2));
        (c0, c1, c2, c3) = (high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0);
        (k0, k1) = (k0.wrapping_add(WEYL[0]), k1.wrapping_add(WEYL[1]));
    }
    [c0, c1, c2, c3]
}

/// The lower and the upper half of a product: one instruction. LLVM, left to itself, computes all
/// rounds in 64 bits, where a product is several.
#[inline(always)]
fn product(a: u32, b: u32) -> (u32, u32) {
    #[cfg(target_os = "cuda")]
    {
        let (low, high);
        // SAFETY: arithmetic on registers has no precondition.
        unsafe {
            core::arch::asm!(
                "{{ .reg .b64 product; mul.wide.u32 product, {a}, {b};",
                "mov.b64 {{{low}, {high}}}, product; }}",
                a = in(reg32) a,
                b = in(reg32) b,
                low = out(reg32) low,
                high = out(reg32) high,
                options(pure, nomem, nostack),
            );
        }
        (low, high)
    }
    #[cfg(not(target_os = "cuda"))]
    {
        let product = u64::from(a) * u64::from(b);
        (product as u32, (product >> 32) as u32)
    }
}

/// Philox4x32-10 as a generator: 2^64 sequences for each seed, of 2^64 words each.
///
/// Nothing is kept between launches: a thread makes its generator from a seed that all share and the
/// number of a sequence, for instance its own index, and skips to where it wants to start.
///
/// Word `i` of sequence `s` of seed `k` is word `i % 4` of [`philox4x32`] of the 128-bit counter
/// `s * 2^64 + i / 4` and the key `k`, all of them with their lower words first.
///
/// ```
/// use cuda_std::random::{GpuRand, Philox};
/// use cuda_std::random::rand_core::Rng;
///
/// let mut random = Philox::new(42, 7);
/// let words: Vec<u32> = (0..10).map(|_| random.next_u32()).collect();
/// let mut later = Philox::new(42, 7);
/// later.skip(9);
/// assert_eq!(later.next_u32(), words[9]);
/// assert!((0.0..1.0).contains(&later.uniform_f32()));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Philox {
    seed: u64,
    sequence: u64,
    /// The number of words taken.
    position: u64,
    /// The block in which `position` lies, unless it is the block's first word.
    block: [u32; 4],
}

// SAFETY: plain numbers.
unsafe impl Zeroable for Philox {}
// SAFETY: 8 + 8 + 8 + 16 bytes, no padding; any bits are plain numbers.
unsafe impl Pod for Philox {}

impl Philox {
    /// The start of sequence number `sequence` of `seed`.
    #[inline(always)]
    pub const fn new(seed: u64, sequence: u64) -> Self {
        Self { seed, sequence, position: 0, block: [0; 4] }
    }

    /// Skips `words` calls of `next_u32`, in constant time.
    #[inline(always)]
    pub fn skip(&mut self, words: u64) {
        self.position = self.position.wrapping_add(words);
        if !self.position.is_multiple_of(4) {
            self.block = self.compute();
        }
    }

    /// Four words at once: the next ones that are a block of the counter's.
    ///
    /// What is left of a block that has been begun is skipped.
    #[inline(always)]
    pub fn next_block(&mut self) -> [u32; 4] {
        self.position = self.position.wrapping_add(3) & !3;
        let block = self.compute();
        self.position = self.position.wrapping_add(4);
        block
    }

    /// The block in which the position lies.
    #[inline(always)]
    fn compute(&self) -> [u32; 4] {
        let (block, sequence, seed) = (self.position / 4, self.sequence, self.seed);
        let counter =
            [block as u32, (block >> 32) as u32, sequence as u32, (sequence >> 32) as u32];
        philox4x32(counter, [seed as u32, (seed >> 32) as u32])
    }

    #[inline(always)]
    fn word(&mut self) -> u32 {
        let place = self.position % 4;
        if place == 0 {
            self.block = self.compute();
        }
        self.position = self.position.wrapping_add(1);
        // An index would put the block into memory; three choices keep it in registers.
        let [b0, b1, b2, b3] = self.block;
        let (low, high) = if place & 1 == 0 { (b0, b2) } else { (b1, b3) };
        if place & 2 == 0 { low } else { high }
    }
}

impl TryRng for Philox {
    type Error = Infallible;

    #[inline(always)]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.word())
    }

    /// The next two words, the lower half first.
    #[inline(always)]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        utils::next_u64_via_u32(self)
    }

    #[inline]
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        utils::fill_bytes_via_next_word(bytes, || self.try_next_u32())
    }
}

impl SeedableRng for Philox {
    type Seed = [u8; 8];

    #[inline(always)]
    fn from_seed(seed: [u8; 8]) -> Self {
        Self::new(u64::from_le_bytes(seed), 0)
    }

    /// Sequence 0 of `seed` itself.
    #[inline(always)]
    fn seed_from_u64(seed: u64) -> Self {
        Self::new(seed, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::Rng;

    #[test]
    fn known_answers() {
        // From `kat_vectors` of the Random123 library of the paper's authors.
        let all = u32::MAX;
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([all; 4], [all; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32(counter, key), expected);
        }
    }

    #[test]
    fn words_are_those_of_the_blocks() {
        let (seed, sequence) = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        let mut random = Philox::new(seed, sequence);
        let words: Vec<u32> = (0..40).map(|_| random.next_u32()).collect();
        for (i, block) in words.chunks(4).enumerate() {
            let counter = [i as u32, 0, sequence as u32, (sequence >> 32) as u32];
            assert_eq!(block, philox4x32(counter, [seed as u32, (seed >> 32) as u32]));
        }
        for start in 0..30 {
            let mut random = Philox::new(seed, sequence);
            random.skip(start);
            let wide =
                u64::from(words[start as usize + 1]) << 32 | u64::from(words[start as usize]);
            assert_eq!(random.next_u64(), wide);
            let next = (start as usize + 2).next_multiple_of(4);
            assert_eq!(random.next_block(), words[next..next + 4]);
            random.skip(1);
            assert_eq!(random.next_u32(), words[next + 5]);
        }
    }

    #[test]
    fn a_block_counter_of_more_than_32_bits_is_whole() {
        let mut random = Philox::new(1, 2);
        random.skip(4 * 0x1_2345_6789 + 3);
        assert_eq!(random.next_u32(), philox4x32([0x2345_6789, 1, 2, 0], [1, 0])[3]);
    }
}
