//! Which keys a query sees, and what becomes of its scores.

use bytemuck::{Pod, Zeroable};

use super::{Kept, Lengths};
use crate::divisor::Divisor;

/// Keys, or queries, from one to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    #[allow(missing_docs)]
    pub first: u32,
    #[allow(missing_docs)]
    pub end: u32,
}

/// The keys around its own that a query sees, and those of a prefix that every query sees.
///
/// Queries and keys are aligned at their ends: query `i` of `m` stands at key `i + n - m` of `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Band {
    /// How many keys before its own a query sees.
    pub before: u32,
    /// How many keys after its own.
    pub after: u32,
    /// How many of the first keys every query sees.
    pub prefix: u32,
}

impl Band {
    /// All keys.
    pub const ALL: Self = Self { before: u32::MAX, after: u32::MAX, prefix: 0 };
    /// Its own key, and all before it.
    pub const CAUSAL: Self = Self { before: u32::MAX, after: 0, prefix: 0 };

    /// The keys of the band, without the prefix, of a query.
    #[inline(always)]
    #[must_use]
    pub fn of_query(self, query: u32, lengths: Lengths) -> Keys {
        let own = i64::from(query) + i64::from(lengths.keys) - i64::from(lengths.queries);
        let inside = |key: i64| key.clamp(0, i64::from(lengths.keys)) as u32;
        Keys {
            first: inside(own - i64::from(self.before)),
            end: inside(own + i64::from(self.after) + 1),
        }
    }

    /// The queries that see a key.
    #[inline(always)]
    #[must_use]
    pub fn of_key(self, key: u32, lengths: Lengths) -> Keys {
        if key < self.prefix {
            return Keys { first: 0, end: lengths.queries };
        }
        // The query that stands at the key.
        let own = i64::from(key) + i64::from(lengths.queries) - i64::from(lengths.keys);
        let inside = |query: i64| query.clamp(0, i64::from(lengths.queries)) as u32;
        Keys {
            first: inside(own - i64::from(self.after)),
            end: inside(own + i64::from(self.before) + 1),
        }
    }

    /// Queries outside of which none sees any of the keys from `first` to `last`.
    #[inline(always)]
    #[must_use]
    pub fn any_queries(self, (first, last): (u32, u32), lengths: Lengths) -> Keys {
        let (low, high) = (self.of_key(first, lengths), self.of_key(last, lengths));
        if first < self.prefix { low } else { Keys { first: low.first, end: high.end } }
    }

    /// Queries of which every one sees all keys from `first` to `last`.
    #[inline(always)]
    #[must_use]
    pub fn all_queries(self, (first, last): (u32, u32), lengths: Lengths) -> Keys {
        // Keys of the prefix leave out none.
        let (low, high) =
            (self.of_key(first.max(self.prefix).min(last), lengths), self.of_key(last, lengths));
        Keys { first: high.first, end: low.end }
    }

    /// Keys outside of which none of the queries from `first` to `last` sees any.
    #[inline(always)]
    #[must_use]
    pub fn any(self, (first, last): (u32, u32), lengths: Lengths) -> Keys {
        let (low, high) = (self.of_query(first, lengths), self.of_query(last, lengths));
        let prefix = self.prefix.min(lengths.keys);
        if prefix == 0 {
            return Keys { first: low.first, end: high.end };
        }
        Keys { first: 0, end: high.end.max(prefix) }
    }

    /// Keys of which all queries from `first` to `last` see every one.
    #[inline(always)]
    #[must_use]
    pub fn all(self, (first, last): (u32, u32), lengths: Lengths) -> Keys {
        let (low, high) = (self.of_query(first, lengths), self.of_query(last, lengths));
        let prefix = self.prefix.min(lengths.keys);
        if prefix >= high.first {
            return Keys { first: 0, end: low.end.max(prefix) };
        }
        Keys { first: high.first, end: low.end }
    }
}

/// The place of a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    #[allow(missing_docs)]
    pub batch: u32,
    /// The head of the queries.
    pub head: u32,
    #[allow(missing_docs)]
    pub query: u32,
    #[allow(missing_docs)]
    pub key: u32,
    /// The key at which the query stands; negative where there are more queries than keys.
    pub own: i32,
}

/// A functor of scores: which keys a query sees, and what becomes of the score of a query and a key that it sees.
///
/// Its fields are its captured values. Scores outside of the [`band`](Self::band) are not computed, where that can be seen for a whole
/// tile; [`apply`](Self::apply) sees all others.
///
/// ```
/// use kernels_gpu::attention::{Band, Place, Score};
///
/// /// Keys of the same document, whose length all share, and none after its own.
/// #[derive(Clone, Copy)]
/// pub struct Documents {
///     pub len: u32,
/// }
///
/// impl Score for Documents {
///     const CHANGES: bool = true;
///
///     fn band(self) -> Band {
///         Band { before: self.len - 1, ..Band::CAUSAL }
///     }
///
///     fn apply(self, score: f32, at: Place) -> f32 {
///         if at.key / self.len == at.query / self.len { score } else { f32::NEG_INFINITY }
///     }
/// }
/// ```
pub trait Score: Copy + 'static {
    /// Whether [`apply`](Self::apply) does anything.
    const CHANGES: bool;

    /// Whether [`apply`](Self::apply) leaves keys out, and does nothing else: whether it returns the score or negative infinity depends on the place alone. Then blocks of
    /// keys of which no query of a tile sees any can be skipped by a [list](super::lists), and those of which all see every one are multiplied as if there were no
    /// functor. What scores such a functor is given has no meaning.
    const MASKS: bool = false;

    /// Whether weights are dropped: see [`kept`](Self::kept).
    const DROPS: bool = false;

    /// The keys that queries see.
    fn band(self) -> Band;

    /// The score that counts, of `scale · q·k`. Negative infinity: the query does not see the key.
    #[inline(always)]
    fn apply(self, score: f32, at: Place) -> f32 {
        let _ = at;
        score
    }

    /// The derivative of [`apply`](Self::apply) by the score, for the backward pass: 1 unless the functor says more.
    #[inline(always)]
    fn slope(self, score: f32, at: Place) -> f32 {
        let _ = (score, at);
        1.0
    }

    /// Which weights are kept, where they are dropped. [`Dropout`](super::Dropout) drops those of any functor.
    #[inline(always)]
    fn kept(self) -> Kept {
        Kept::ALL
    }
}

impl Score for Band {
    const CHANGES: bool = false;

    #[inline(always)]
    fn band(self) -> Band {
        self
    }
}

/// `cap · tanh(score / cap)`: scores between `-cap` and `cap` (Gemma 2, 2024).
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct SoftCap {
    /// The keys that queries see.
    pub band: Band,
    /// The cap: positive.
    pub cap: f32,
}

impl Score for SoftCap {
    const CHANGES: bool = true;

    #[inline(always)]
    fn band(self) -> Band {
        self.band
    }

    #[inline(always)]
    fn apply(self, score: f32, _: Place) -> f32 {
        self.cap * cuda_std::intrinsics::fast_tanhf(score / self.cap)
    }

    #[inline(always)]
    fn slope(self, score: f32, _: Place) -> f32 {
        let tangent = cuda_std::intrinsics::fast_tanhf(score / self.cap);
        1.0 - tangent * tangent
    }
}

/// Subtracts `slope · |own - key|`, where the slopes of the heads are a geometric series, `2^(-8 (h + 1) / heads)` (O. Press, N. Smith and M. Lewis, "Train
/// short, test long", 2021).
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Alibi {
    /// The keys that queries see.
    pub band: Band,
    /// Heads of the queries.
    pub heads: u32,
}

impl Score for Alibi {
    const CHANGES: bool = true;

    #[inline(always)]
    fn band(self) -> Band {
        self.band
    }

    #[inline(always)]
    fn apply(self, score: f32, at: Place) -> f32 {
        let slope = cuda_std::intrinsics::exp2f(-8.0 * (at.head + 1) as f32 / self.heads as f32);
        score - slope * (at.own - at.key as i32).unsigned_abs() as f32
    }
}

/// A sparse pattern: the keys of the query's own stride, and the last ones of every other stride (R. Child, S. Gray, A. Radford and I. Sutskever, "Generating long sequences
/// with sparse transformers", 2019: the fixed pattern).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Strided {
    band: Band,
    stride: Divisor,
    /// Which key of a stride is the first of its last ones.
    first_of_last: u32,
}

impl Strided {
    /// Of the keys of `band`: the own stride of `stride` keys, and the `last` keys of the others. Panics if `stride` is 0.
    #[must_use]
    pub const fn new(band: Band, stride: u32, last: u32) -> Self {
        assert!(stride > 0, "a stride has at least one key");
        Self { band, stride: Divisor::new(stride), first_of_last: stride.saturating_sub(last) }
    }
}

impl Score for Strided {
    const CHANGES: bool = true;
    const MASKS: bool = true;

    #[inline(always)]
    fn band(self) -> Band {
        self.band
    }

    #[inline(always)]
    fn apply(self, score: f32, at: Place) -> f32 {
        let (stride, rest) = self.stride.divide(at.key);
        let is_own = at.own >= 0 && self.stride.divide(at.own.cast_unsigned()).0 == stride;
        if is_own || rest >= self.first_of_last { score } else { f32::NEG_INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Lengths = Lengths { queries: 4, keys: 6 };

    #[test]
    fn a_band_is_around_the_own_key() {
        let keys = |band: Band, query| {
            let Keys { first, end } = band.of_query(query, LENGTHS);
            (first, end)
        };
        assert_eq!(keys(Band::ALL, 0), (0, 6));
        assert_eq!((keys(Band::CAUSAL, 0), keys(Band::CAUSAL, 3)), ((0, 3), (0, 6)));
        assert_eq!(keys(Band { before: 1, after: 1, prefix: 0 }, 1), (2, 5));
        let more_queries = Lengths { queries: 6, keys: 2 };
        assert_eq!(Band::CAUSAL.of_query(0, more_queries), Keys { first: 0, end: 0 });
    }

    #[test]
    fn tiles_know_what_all_of_their_rows_see() {
        for (before, after, prefix) in
            [(u32::MAX, 0, 0), (2, 1, 0), (1, 0, 2), (0, 0, 9), (u32::MAX, u32::MAX, 0)]
        {
            let band = Band { before, after, prefix };
            let sees = |query: u32, key: u32| {
                let Keys { first, end } = band.of_query(query, LENGTHS);
                (first..end).contains(&key) || key < prefix
            };
            for (first, last) in [(0, 0), (0, 3), (1, 2), (3, 3)] {
                let (any, all) =
                    (band.any((first, last), LENGTHS), band.all((first, last), LENGTHS));
                check_queries(band, (first, last), sees);
                for key in 0..LENGTHS.keys {
                    let seen = (first..=last).filter(|query| sees(*query, key)).count() as u32;
                    assert!(seen == 0 || (any.first..any.end).contains(&key), "{band:?} {key}");
                    let is_whole = (all.first..all.end).contains(&key);
                    assert!(!is_whole || seen == last - first + 1, "{band:?} {first} {last} {key}");
                }
            }
        }
    }

    /// The same of queries, for keys from one to another.
    fn check_queries(band: Band, (first, last): (u32, u32), sees: impl Fn(u32, u32) -> bool) {
        let (any, all) =
            (band.any_queries((first, last), LENGTHS), band.all_queries((first, last), LENGTHS));
        for query in 0..LENGTHS.queries {
            let seen = (first..=last).filter(|key| sees(query, *key)).count() as u32;
            assert!(seen == 0 || (any.first..any.end).contains(&query), "{band:?} {query}");
            let is_whole = (all.first..all.end).contains(&query);
            assert!(!is_whole || seen == last - first + 1, "{band:?} {first} {last} {query}");
            for key in first..=last {
                let Keys { first, end } = band.of_key(key, LENGTHS);
                assert_eq!(
                    (first..end).contains(&query),
                    sees(query, key),
                    "{band:?} {query} {key}"
                );
            }
        }
    }

    #[test]
    fn strides_leave_keys_out() {
        let mask = Strided::new(Band::ALL, 4, 1);
        let seen = |own: i32| -> Vec<u32> {
            let at = |key| Place { batch: 0, head: 0, query: 0, key, own };
            (0..12).filter(|key| mask.apply(1.0, at(*key)) == 1.0).collect()
        };
        assert_eq!(seen(5), [3, 4, 5, 6, 7, 11]);
        assert_eq!(seen(-1), [3, 7, 11]);
    }

    #[test]
    fn scores_are_capped_and_sloped() {
        let at = Place { batch: 0, head: 1, query: 3, key: 2, own: 5 };
        let capped = SoftCap { band: Band::ALL, cap: 2.0 }.apply(100.0, at);
        assert!((capped - 2.0).abs() < 1e-3);
        assert!(
            (Alibi { band: Band::ALL, heads: 8 }.apply(1.0, at) - (1.0 - 3.0 / 4.0)).abs() < 1e-6
        );
    }
}
