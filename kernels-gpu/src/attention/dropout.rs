//! Dropout: weights that are left out at random, the same in both directions.
//!
//! Which ones, a counter says: nothing is stored. A block of [`philox4x32`] has sixteen bytes, one for each of two queries, eight apart, and eight keys: pairs of
//! neighbours, eight apart, which are those that a thread of the forward pass has of 32 keys. A weight is kept if the lower seven bits of its byte are below a limit, which four bytes are compared with at a
//! time.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code))]

use super::scores::{First, Scores};
use super::{Band, Place, Problem, Score, Work};
use cuda_std::random::philox4x32;
use cuda_std::unroll::{each, each_below};

/// Steps of the probability.
const STEPS: u32 = 128;
/// Queries of a tile at most, in eights, where a thread has two keys.
const MOST_EIGHTS: usize = 16;
/// Keys of a tile at most, in sixteens.
const MOST_SIXTEENS: usize = 11;

/// What a generator starts from, and which weights it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Kept {
    /// The key of the generator.
    pub seed: [u32; 2],
    /// Which of the seed's masks: steps of training count it up.
    pub offset: u32,
    /// How many weights of 128 are kept, at least one.
    pub of_128: u32,
}

impl Kept {
    /// All of them.
    pub const ALL: Self = Self { seed: [0; 2], offset: 0, of_128: STEPS };

    /// Factor of what is kept, so that the mean of a weight stays what it was.
    #[inline(always)]
    #[must_use]
    pub fn factor(self) -> f32 {
        STEPS as f32 / self.of_128 as f32
    }

    /// The bytes of two queries and eight keys, of which these are one each. `head` is one of those of all batches.
    #[inline(always)]
    fn block(self, head: u32, query: u32, key: u32) -> [u32; 4] {
        let query = query / 16 * 8 + query % 8;
        let key = key / 32 * 4 + key % 8 / 2;
        philox4x32([query, key, head, self.offset], self.seed)
    }

    /// The bytes of those keys that are of the same sixteen as this one, by query.
    #[inline(always)]
    fn half(block: [u32; 4], key: u32) -> [u32; 2] {
        if (key / 16).is_multiple_of(2) { [block[0], block[1]] } else { [block[2], block[3]] }
    }

    /// Whether the weight of a query and a key is kept.
    #[inline(always)]
    fn keeps(self, half: [u32; 2], query: u32, key: u32) -> bool {
        let word = if (query / 8).is_multiple_of(2) { half[0] } else { half[1] };
        let byte = key / 8 % 2 * 2 + key % 2;
        word >> (8 * byte) & 0x7f < self.of_128
    }

    /// For each byte of a word, the uppermost bit: set where the weight is dropped.
    #[inline(always)]
    fn drops(self, word: u32) -> u32 {
        // No carry: both bytes of each sum are below 128.
        (word & 0x7f7f_7f7f).wrapping_add((STEPS - self.of_128) * 0x0101_0101)
    }

    /// Whether the weight of a query and a key of a head, of those of all batches, is kept.
    #[inline(always)]
    #[must_use]
    pub fn keeps_weight(self, head: u32, query: u32, key: u32) -> bool {
        self.keeps(Self::half(self.block(head, query, key), key), query, key)
    }
}

/// Scores of another functor, and weights that are dropped at random.
///
/// Of each row, weights are left out of the sum of values, and the others multiplied so that the mean stays the same; the sum of exponentials, and its logarithm, are those of
/// all weights. Forward and backward passes with equal fields drop the same weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Dropout<C> {
    /// What becomes of scores.
    pub score: C,
    /// What is kept.
    pub kept: Kept,
}

impl<C> Dropout<C> {
    /// Drops weights with this probability, rounded to a multiple of 1/128 and at most 127/128. `offset` names one of the masks of a seed.
    #[must_use]
    pub fn new(score: C, probability: f32, seed: u64, offset: u32) -> Self {
        let of_128 = (STEPS as f32 * (1.0 - probability.clamp(0.0, 1.0)) + 0.5) as u32;
        let seed = [seed as u32, (seed >> 32) as u32];
        Self { score, kept: Kept { seed, offset, of_128: of_128.max(1) } }
    }
}

impl<C: Score> Score for Dropout<C> {
    const CHANGES: bool = C::CHANGES;
    const DROPS: bool = true;

    #[inline(always)]
    fn band(self) -> Band {
        self.score.band()
    }

    #[inline(always)]
    fn apply(self, score: f32, at: Place) -> f32 {
        self.score.apply(score, at)
    }

    #[inline(always)]
    fn slope(self, score: f32, at: Place) -> f32 {
        self.score.slope(score, at)
    }

    #[inline(always)]
    fn kept(self) -> Kept {
        self.kept
    }
}

/// Calls `f(sixteen, which weights are dropped)` for each sixteen keys of `N`. The thread's first query is one of the first eight after a multiple of 16, its first key an even
/// one of these; heads are not packed. For each of the thread's two queries there is a word of four bytes, as [`Kept::drops`] gives them: those of its keys.
#[inline(always)]
fn each_sixteen<C: Score, const MOST: usize>(
    score: C,
    (problem, work): (&Problem, &Work),
    first: First,
    count: usize,
    mut f: impl FnMut(usize, [u32; 2]),
) {
    let (kept, head) = (score.kept(), problem.head_of_all(work.batch.index, work.head));
    // Whether the first sixteen are the second half of a block.
    let is_odd = first.key / 16 % 2 == 1;
    let block = |number: usize| kept.block(head, first.row, first.key + 32 * number as u32);
    let mut this = block(0);
    each_below::<MOST>(count, |sixteen| {
        let [a, b, c, d] = this;
        let words = if sixteen % 2 == 0 {
            if is_odd { [c, d] } else { [a, b] }
        } else {
            this = block(sixteen / 2 + 1);
            if is_odd { [this[0], this[1]] } else { [c, d] }
        };
        f(sixteen, words.map(|word| kept.drops(word)));
    });
}

/// Sets left operands of products to 0 where weights are dropped: those that [`left_operands`](super::scores::left_operands) gives, with the thread's first query and key as in
/// [`of_queries`].
#[inline(always)]
pub fn drop_operands<C: Score, const F: usize>(
    operands: &mut [[u32; 4]; F],
    score: C,
    of: (&Problem, &Work),
    first: First,
) {
    if !C::DROPS {
        return;
    }
    const { assert!(F <= MOST_SIXTEENS) };
    each_sixteen::<C, MOST_SIXTEENS>(score, of, first, F, |sixteen, [above, below]| {
        let [a, b, c, d] = operands[sixteen];
        operands[sixteen] = [
            a & !spread::<0x9988>(above),
            b & !spread::<0x9988>(below),
            c & !spread::<0xbbaa>(above),
            d & !spread::<0xbbaa>(below),
        ];
    });
}

/// Bytes of a word, each of which is all of its uppermost bit: a digit of `BYTES` for each byte of the result, from the last on, is the number of the byte plus 8.
#[inline(always)]
fn spread<const BYTES: u32>(word: u32) -> u32 {
    #[cfg(target_os = "cuda")]
    {
        let result;
        // SAFETY: arithmetic in registers.
        unsafe {
            core::arch::asm!("prmt.b32 {r}, {w}, 0, {bytes};", r = out(reg32) result, w = in(reg32) word,
                bytes = const BYTES, options(pure, nomem, nostack));
        }
        result
    }
    #[cfg(not(target_os = "cuda"))]
    {
        let byte = |at: u32| word >> (8 * (BYTES >> (4 * at) & 7) + 7) & 1;
        (0..4).map(|at| (byte(at) * 0xff) << (8 * at)).sum()
    }
}

/// Replaces each number of two queries by `f(number, whether its weight is kept)`, where weights are dropped. The thread's first query is one of the first eight after a multiple of
/// 16, its first key an even one of these; heads are not packed.
#[inline(always)]
pub fn of_queries<C: Score>(
    numbers: &mut impl Scores,
    score: C,
    (problem, work): (&Problem, &Work),
    first: First,
    f: impl Fn(f32, bool) -> f32,
) {
    if !C::DROPS {
        return;
    }
    let (kept, head) = (score.kept(), problem.head_of_all(work.batch.index, work.head));
    let (mut block, mut half) = ([0; 4], [0; 2]);
    numbers.map(|index, number| {
        if index % 8 == 0 {
            let key = first.key + 2 * index as u32;
            if index == 0 || (key / 16).is_multiple_of(2) {
                block = kept.block(head, first.row, key);
            }
            half = Kept::half(block, key);
        }
        // Of sixteen keys, eight numbers.
        let (query, key) = (index / 2 % 2 * 8, index / 4 % 2 * 8 + index % 2);
        f(number, kept.keeps(half, query as u32, key as u32))
    });
}

/// A number, or 0 where its weight is dropped.
#[inline(always)]
#[must_use]
pub fn kept_or_zero(number: f32, is_kept: bool) -> f32 {
    if is_kept { number } else { 0.0 }
}

/// Which weights of two keys are kept, as bits in the order of the numbers; all where none is dropped. The thread's first key is one of the first eight after a multiple of 16, its
/// first query an even one of these.
///
/// # Safety
/// All lanes of the warp call this together, and each group of four has the next key.
#[inline(always)]
pub unsafe fn of_keys<C: Score, const EIGHTS: usize>(
    score: C,
    head_of_all: u32,
    (query, key): (u32, u32),
) -> u64 {
    if !C::DROPS {
        return u64::MAX;
    }
    const { assert!(EIGHTS <= MOST_EIGHTS) };
    let kept = score.kept();
    let mut bits = 0;
    each_below::<{ MOST_EIGHTS / 2 }>(EIGHTS / 2, |sixteen| {
        let query = query + 16 * sixteen as u32;
        // Lanes of neighbouring keys need the same two blocks, of a query and of the one beside it: each of them makes one.
        let of = |beside: u32| Kept::half(kept.block(head_of_all, query + beside, key), key);
        let own = of(key % 2);
        // SAFETY: the caller's promise.
        let other = unsafe { of_neighbour(own, || of(1 - key % 2)) };
        let halves = if key.is_multiple_of(2) { [own, other] } else { [other, own] };
        each::<8>(|number| {
            let (query, key) = ((number / 4 * 8) as u32, key % 2 + (number / 2 % 2 * 8) as u32);
            let keeps = kept.keeps(halves[number % 2], query, key);
            bits |= u64::from(keeps) << (8 * sixteen + number);
        });
    });
    bits
}

/// What the lane of the neighbouring key has, four lanes on or back. The host has no lanes, and calls `made` instead.
///
/// # Safety
/// All lanes of the warp call this together.
#[inline(always)]
unsafe fn of_neighbour(own: [u32; 2], made: impl FnOnce() -> [u32; 2]) -> [u32; 2] {
    #[cfg(target_os = "cuda")]
    {
        let _ = made;
        // SAFETY: the caller's promise.
        own.map(|word| unsafe { cuda_std::warp::warp_shuffle_xor(!0, word, 4, 32).0 })
    }
    #[cfg(not(target_os = "cuda"))]
    {
        let _ = own;
        made()
    }
}

/// Whether a weight is kept, of those of [`of_keys`].
#[inline(always)]
#[must_use]
pub const fn keeps(bits: u64, index: usize) -> bool {
    bits >> index & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::super::scores::Tiles;
    use super::super::{Band, Batch};
    use super::*;

    const DROPS: f32 = 0.3;

    #[test]
    fn threads_of_both_passes_see_the_same_mask() {
        let dropout = Dropout::new(Band::ALL, DROPS, 42, 7);
        let problem = Problem { heads: 3, ..Problem::default() };
        let batch = Batch { index: 2, ..Batch::default() };
        let blocks = (0, 0);
        let (list, whole) = (None, blocks);
        let work = Work { batch, head: 1, tile: 0, row: 0, split: 0, blocks, list, whole };
        for lane in 0..32 {
            let (row, column) = (lane / 4, 2 * (lane % 4));
            // A block of keys need not begin at a multiple of 32.
            for first_key in [0, 48, 176] {
                let first = First { row: 32 + row, key: first_key + column };
                let mut found = Tiles::<22>([[1.0; 4]; 22]);
                let keeps = |number, keeps| if keeps { number } else { 0.0 };
                of_queries(&mut found, dropout, (&problem, &work), first, keeps);
                let mut operands = [[!0; 4]; 11];
                drop_operands(&mut operands, dropout, (&problem, &work), first);
                for (eight, tile) in found.0.iter().enumerate() {
                    for (i, number) in tile.iter().enumerate() {
                        let query = first.row + 8 * (i as u32 / 2);
                        let key = first.key + 8 * eight as u32 + i as u32 % 2;
                        assert_eq!(
                            *number > 0.0,
                            dropout.kept.keeps_weight(7, query, key),
                            "{lane} {i}"
                        );
                    }
                }
            }
            for first_key in [0, 16] {
                let (query, key) = (128 + column, first_key + row);
                // SAFETY: the host has no lanes.
                let bits = unsafe { of_keys::<_, 16>(dropout, 7, (query, key)) };
                for index in 0..64 {
                    let query = query + (index / 4 * 8 + index % 2) as u32;
                    let key = key + 8 * (index as u32 / 2 % 2);
                    assert_eq!(
                        keeps(bits, index),
                        dropout.kept.keeps_weight(7, query, key),
                        "{index}"
                    );
                }
            }
        }
    }

    #[test]
    fn as_many_are_kept_as_asked_for() {
        for (probability, of_128) in [(0.0, 128), (0.5, 64), (0.1, 115), (1.0, 1)] {
            let kept = Dropout::new(Band::ALL, probability, 1, 0).kept;
            assert_eq!(kept.of_128, of_128);
            let all = (0..200u32).flat_map(|query| (0..500).map(move |key| (query, key)));
            let count =
                all.filter(|(query, key)| kept.keeps_weight(3, *query, *key)).count() as f64;
            let expected = 1e5 * f64::from(of_128) / 128.0;
            let deviation = (expected * (1.0 - f64::from(of_128) / 128.0)).sqrt();
            assert!((count - expected).abs() <= 4.0 * deviation, "{probability}: {count}");
        }
    }

    #[test]
    fn masks_differ() {
        let mask = |seed, offset, head| {
            let kept = Dropout::new(Band::ALL, 0.5, seed, offset).kept;
            (0..256).filter(|at| kept.keeps_weight(head, at / 16, at % 16)).collect::<Vec<_>>()
        };
        let masks =
            [mask(1, 0, 0), mask(2, 0, 0), mask(1, 1, 0), mask(1, 0, 1), mask(1 << 32, 0, 0)];
        for (i, one) in masks.iter().enumerate() {
            assert!(masks[..i].iter().all(|other| one != other));
        }
    }
}
