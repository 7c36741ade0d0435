//! A tile of keys, and the tiles of queries that see it.

use crate::attention::backward::BackwardProblem;
use crate::attention::backward::keys::{place_of_tile, tiles_of_keys};
use crate::attention::{Batch, Batches, Keys, Problem, Score};

/// A tile of `KEYS` keys, and the tiles of `M` queries that see them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tile<const KEYS: usize, const M: usize> {
    pub batch: Batch,
    /// The head of the keys, and how many of queries share it.
    pub kv_head: u32,
    pub heads: u32,
    /// Which tile of the head.
    pub index: u32,
    /// The tiles of queries of which some query sees a key of the tile: the first, and the one after the last.
    pub queries: (u32, u32),
    /// Those of which every query sees every key.
    pub whole: (u32, u32),
    /// With which one the block begins; before the first one comes the last.
    start: u32,
}

/// A tile of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub head: u32,
    /// Which tile of the head.
    pub index: u32,
}

impl Place {
    /// Where the copy engine finds the queries, of the batch of a tile of keys: batch, head and row.
    #[inline(always)]
    pub const fn coordinates<const KEYS: usize, const M: usize>(
        &self,
        forward: &Problem,
        tile: &Tile<KEYS, M>,
    ) -> [i32; 3] {
        let (first, is_packed) = (self.index * M as u32, forward.has_packed_queries());
        let [batch, row] = tile.batch.queries.coordinates(first, forward.queries, is_packed);
        [batch, self.head as i32, row]
    }
}

impl<const KEYS: usize, const M: usize> Tile<KEYS, M> {
    /// The tile of a block.
    #[inline(always)]
    pub fn new(
        problem: &BackwardProblem,
        batches: Batches<'_>,
        score: impl Score,
        block: u32,
    ) -> Self {
        let forward = &problem.forward;
        // The first keys, which the most queries see if the mask is causal, come first; in turns the last ones, which are waited for.
        let (keys, rows) = (KEYS as u32, M as u32);
        let tiles = tiles_of_keys(forward, keys);
        let in_turns = problem.in_turns > 0;
        let (kv_head, batch, index) =
            place_of_tile(forward, batches, (block, tiles, keys), in_turns);
        let (band, lengths) = (score.band(), batch.lengths());
        let index = index.min(lengths.keys.div_ceil(keys));
        let key = index * keys;
        let last = (key + keys).min(lengths.keys).saturating_sub(1);
        let any = band.any_queries((key, last), lengths);
        let all = band.all_queries((key, last), lengths);
        // Rows past the last key are 0, and no query sees them.
        let is_whole = key + keys <= lengths.keys;
        let whole = if is_whole { (all.first.div_ceil(rows), all.end / rows) } else { (0, 0) };
        let first = any.first / rows;
        // A place without a tile has no queries.
        let end = if key < lengths.keys { any.end.div_ceil(rows).max(first) } else { first };
        // Where all blocks of a head pass over the same queries, they begin apart, so that they seldom add to the same sums at a time.
        let sees_all = any == Keys { first: 0, end: lengths.queries };
        let apart = if sees_all && !in_turns { key / rows } else { 0 };
        let start = first + apart % (end - first).max(1);
        let heads = forward.heads / forward.kv_heads.max(1);
        Self { batch, kv_head, heads, index, queries: (first, end), whole, start }
    }

    /// Where the copy engine finds the keys: batch, head and row.
    #[inline(always)]
    pub const fn coordinates(&self, forward: &Problem) -> [i32; 3] {
        let (first, is_packed) = (self.index * KEYS as u32, forward.has_packed_keys());
        let [batch, row] = self.batch.keys.coordinates(first, forward.keys, is_packed);
        [batch, self.kv_head as i32, row]
    }

    /// Tiles of queries of all heads that share the keys.
    #[inline(always)]
    pub const fn len(&self) -> u32 {
        (self.queries.1 - self.queries.0) * self.heads
    }

    /// The first tile of queries.
    #[inline(always)]
    pub const fn first(&self) -> Place {
        Place { head: self.kv_head * self.heads, index: self.start }
    }

    /// The one after another.
    #[inline(always)]
    pub const fn after(&self, place: Place) -> Place {
        let next = place.index + 1;
        let index = if next == self.queries.1 { self.queries.0 } else { next };
        Place { head: place.head + (index == self.start) as u32, index }
    }

    /// How many tiles of keys come before this one at a tile of queries, where the last keys come first.
    #[inline(always)]
    pub fn turn(&self, score: impl Score, place: Place) -> u32 {
        let (band, lengths) = (score.band(), self.batch.lengths());
        let (keys, query) = (KEYS as u32, place.index * M as u32);
        let last = (query + M as u32).min(lengths.queries).saturating_sub(1);
        // Tiles that begin in the prefix, which all queries see, and after them those of the keys of the band.
        let of_prefix = band.prefix.min(lengths.keys).div_ceil(keys);
        let first = (band.of_query(query, lengths).first / keys).max(of_prefix);
        let end = band.of_query(last, lengths).end.div_ceil(keys).max(first);
        if self.index < of_prefix {
            end - first + of_prefix - 1 - self.index
        } else {
            (end - 1).saturating_sub(self.index)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Band;

    const M: usize = 64;

    fn problem(queries: u32, keys: u32, in_turns: u32) -> BackwardProblem {
        let forward =
            Problem { batches: 2, heads: 6, kv_heads: 3, queries, keys, ..Problem::default() };
        BackwardProblem { forward, in_turns, ..BackwardProblem::default() }
    }

    /// The tiles of queries of a block, in order.
    fn places<const KEYS: usize>(tile: &Tile<KEYS, M>) -> Vec<Place> {
        let first = tile.first();
        std::iter::successors(Some(first), |place| Some(tile.after(*place)))
            .take(tile.len() as usize)
            .collect()
    }

    #[test]
    fn every_tile_of_queries_is_passed_over_once() {
        passes_over_every_tile::<64>();
        passes_over_every_tile::<128>();
    }

    fn passes_over_every_tile<const KEYS: usize>() {
        for (queries, keys) in [(1000, 700), (64, 1), (130, 1300)] {
            let problem = problem(queries, keys, 0);
            let tiles = keys.div_ceil(KEYS as u32);
            let mut starts = Vec::new();
            for block in 0..6 * tiles {
                let tile = Tile::<KEYS, M>::new(&problem, Batches::default(), Band::ALL, block);
                let mut found = places(&tile);
                starts.push(found[0].index);
                found.sort_unstable_by_key(|place| (place.head, place.index));
                let of_head = queries.div_ceil(M as u32);
                let expected = (2 * tile.kv_head..2 * tile.kv_head + 2)
                    .flat_map(|head| (0..of_head).map(move |index| Place { head, index }));
                assert!(found.iter().copied().eq(expected), "{tile:?} {found:?}");
            }
            let mut apart = starts[..tiles.min(queries.div_ceil(KEYS as u32)) as usize].to_vec();
            apart.dedup();
            assert_eq!(apart.len() as u32, tiles.min(queries.div_ceil(KEYS as u32)));
        }
    }

    #[test]
    fn turns_are_those_of_the_blocks_before() {
        has_turns_of_the_blocks_before::<64>();
        has_turns_of_the_blocks_before::<128>();
    }

    fn has_turns_of_the_blocks_before<const KEYS: usize>() {
        for (before, after, prefix) in
            [(u32::MAX, u32::MAX, 0), (u32::MAX, 0, 0), (200, 90, 0), (100, 0, 300), (0, 0, 9)]
        {
            let band = Band { before, after, prefix };
            for (queries, keys) in [(1000, 1000), (300, 1100), (1100, 300), (65, 129)] {
                let problem = problem(queries, keys, 1);
                let mut added = std::collections::BTreeMap::new();
                for block in 0..6 * keys.div_ceil(KEYS as u32) {
                    let tile = Tile::<KEYS, M>::new(&problem, Batches::default(), band, block);
                    for place in places(&tile) {
                        let turn = tile.turn(band, place);
                        let before =
                            added.entry((tile.batch.index, place.head, place.index)).or_insert(0);
                        assert_eq!(turn, *before, "{band:?} {tile:?} {place:?}");
                        *before += 1;
                    }
                }
            }
        }
    }
}
