//! The scores of a tile of rows and keys, as a thread has them in registers.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::{Place, Problem, Score, Work, factor_before};
use crate::matmul::Value;
use cuda_std::gpu_only;
use cuda_std::matrix::{Accumulator, Columns, Width};
use cuda_std::unroll::build;

/// A thread's scores: those of two rows, eight apart, and of pairs of neighbouring keys. Scores `4 e` and `4 e + 1` are of the first row and of keys
/// `8 e + 2 (lane % 4)` and the next, `4 e + 2` and `4 e + 3` of those keys and the second row.
pub trait Scores {
    /// Keys, in eights.
    const EIGHTS: usize;

    /// The scores at `index`, which is even, and the next one. In a kernel `index` is a constant.
    fn pair(&self, index: usize) -> [f32; 2];

    /// Replaces each score by `f(index, score)`, the indices being constants.
    fn map(&mut self, f: impl FnMut(usize, f32) -> f32);
}

impl<const N: usize> Scores for Accumulator<f32, N>
where
    Columns<N>: Width<f32>,
{
    const EIGHTS: usize = N / 8;

    #[inline(always)]
    fn pair(&self, index: usize) -> [f32; 2] {
        Self::pair(self, index)
    }

    #[inline(always)]
    fn map(&mut self, f: impl FnMut(usize, f32) -> f32) {
        Self::map(self, f);
    }
}

/// The sums of a warp, as `mma` has them: of 16 rows and `E` × 8 columns.
#[derive(Clone, Copy, Debug)]
pub struct Tiles<const E: usize>(pub [[f32; 4]; E]);

impl<const E: usize> Tiles<E> {
    /// All zero.
    #[inline(always)]
    pub fn zeroed() -> Self {
        // SAFETY: numbers, for which zero bits are a value. (Written as a list, it would become a loop in memory.)
        Self(unsafe { core::mem::zeroed() })
    }
}

impl<const E: usize> Scores for Tiles<E> {
    const EIGHTS: usize = E;

    #[inline(always)]
    fn pair(&self, index: usize) -> [f32; 2] {
        let tile = self.0[index / 4];
        [tile[index % 4], tile[index % 4 + 1]]
    }

    #[inline(always)]
    fn map(&mut self, mut f: impl FnMut(usize, f32) -> f32) {
        cuda_std::unrolled!(E, |e| {
            let [a, b, c, d] = self.0[e];
            self.0[e] = [f(4 * e, a), f(4 * e + 1, b), f(4 * e + 2, c), f(4 * e + 3, d)];
        });
    }
}

/// The place of a thread's first score.
#[derive(Clone, Copy, Debug)]
pub struct First {
    /// The row of the packed head. The thread's second row is eight below.
    pub row: u32,
    /// The key.
    pub key: u32,
}

/// Gives keys that a row does not see negative infinity, and others what the functor makes of their scores.
#[gpu_only]
#[inline(always)]
pub fn mask<C: Score>(
    scores: &mut impl Scores,
    score: C,
    problem: &Problem,
    work: &Work,
    first: First,
) {
    let places = [0, 8].map(|below| problem.place_of_row(work.head, first.row + below));
    let (band, lengths) = (score.band(), work.lengths());
    let prefix = band.prefix.min(lengths.keys);
    // Keys relative to the first one of the thread.
    let seen = places.map(|(_, query)| {
        let keys = band.of_query(query, lengths);
        let joins = keys.first <= prefix;
        let end = if joins { keys.end.max(prefix) } else { keys.end };
        let low = if joins { 0 } else { keys.first };
        [low.saturating_sub(first.key), end.saturating_sub(first.key)]
    });
    let prefix = prefix.saturating_sub(first.key);
    scores.map(|index, sum| {
        if !C::CHANGES {
            return sum;
        }
        score.apply(sum * factor_before::<C>(problem), place_of(problem, work, first, index))
    });
    let [above, below] = seen;
    // One comparison instead of three, where all keys before the end are seen, as with a causal mask.
    if above[0] | below[0] == 0 {
        let ends = [unmerged(above[1]), unmerged(below[1])];
        scores.map(|index, score| {
            let sees = key_of(index) < ends[index / 2 % 2];
            if sees { score } else { f32::NEG_INFINITY }
        });
    } else {
        scores.map(|index, score| {
            let ([low, end], key) = (seen[index / 2 % 2], key_of(index));
            let sees = (key >= low && key < end) || key < prefix;
            if sees { score } else { f32::NEG_INFINITY }
        });
    }
}

/// The same number, of which the compiler does not know that: so what is computed from it is computed here, and not kept from a place before.
///
/// Of two branches that share comparisons it would make these before them, and keep all of their results, as bits that it packs and unpacks.
#[gpu_only]
#[inline(always)]
pub fn unmerged(number: u32) -> u32 {
    let result;
    // SAFETY: a copy of a register. (It is not `pure`, so that it stays in its branch.)
    unsafe {
        core::arch::asm!("mov.b32 {r}, {n};", r = out(reg32) result, n = in(reg32) number,
            options(nomem, nostack, preserves_flags));
    }
    result
}

/// The derivatives of what the functor makes of scores; anything if it changes none.
#[gpu_only]
#[inline(always)]
pub fn slopes<C: Score, S: Scores + Copy>(
    scores: &S,
    score: C,
    problem: &Problem,
    work: &Work,
    first: First,
) -> S {
    let mut slopes = *scores;
    if C::CHANGES {
        slopes.map(|index, sum| {
            score.slope(sum * problem.scale, place_of(problem, work, first, index))
        });
    }
    slopes
}

/// The place of a score.
#[inline(always)]
fn place_of(problem: &Problem, work: &Work, first: First, index: usize) -> Place {
    let (head, query) = problem.place_of_row(work.head, first.row + 8 * (index as u32 / 2 % 2));
    let own = query as i32 + work.batch.keys.len as i32 - work.batch.queries.len as i32;
    Place { batch: work.batch.index, head, query, key: first.key + key_of(index), own }
}

/// The key of a score, relative to the first of the thread.
#[inline(always)]
const fn key_of(index: usize) -> u32 {
    (index / 4 * 8 + index % 2) as u32
}

/// Scores as left operands of products, rounded to nearest: `F` fragments of 16 keys.
#[inline(always)]
pub fn left_operands<T: Value<Pair = u32>, const F: usize>(scores: &impl Scores) -> [[u32; 4]; F] {
    build(|sixteen| {
        let pair = |k: usize| T::pair(scores.pair(8 * sixteen + 2 * k));
        [pair(0), pair(1), pair(2), pair(3)]
    })
}
