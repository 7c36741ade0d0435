//! Which tiles a block takes, and in which order.

use super::batch::{Batch, Batches, Slots};
use super::lists::{List, block_at, list_of};
use super::{Lengths, Problem, Score};
use bytemuck::{Pod, Zeroable};

/// The tiles of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Schedule {
    /// Tiles of rows of a packed head; of packed queries the slots for those of all batches ([`Slots`]).
    pub tiles: u32,
    /// Packed heads that are taken together, of all batches: whose keys and values the L2 cache holds.
    pub group: u32,
}

/// One tile, or one split of its keys, which a block takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    #[allow(missing_docs)]
    pub batch: Batch,
    /// The packed head.
    pub head: u32,
    /// Which tile, of those of all heads and batches.
    pub tile: u32,
    /// The first row.
    pub row: u32,
    /// Which split of the keys.
    pub split: u32,
    /// The first block of keys, and the one after the last; of a list, positions there.
    pub blocks: (u32, u32),
    /// The list of its blocks, if there is one.
    pub list: Option<List>,
    /// The first block of those of which every row of the tile sees every key, and the one after the last.
    pub whole: (u32, u32),
}

impl Schedule {
    /// Tiles of all heads, times the splits.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self, problem: &Problem) -> u32 {
        self.tiles * problem.packed_heads() * problem.batches_of_queries() * problem.splits
    }

    /// Work `index` in the order in which it is begun: tiles of `rows` rows, and blocks of `keys` keys.
    #[inline(always)]
    #[must_use]
    pub fn work<C: Score>(
        &self,
        problem: &Problem,
        score: C,
        index: u32,
        (rows, keys): (u32, u32),
        batches: Batches<'_>,
    ) -> Work {
        // Numbers by which is divided are not 0 where there is a tile. A division of which the compiler sees that, too, has no panic.
        let splits = problem.splits.max(1);
        let (split, index) = (index % splits, index / splits);
        let tile_of_all = index;
        let heads = problem.packed_heads().max(1);
        let all = heads * problem.batches_of_queries();
        let of_group = (self.group * self.tiles).max(1);
        let (group, within) = (index / of_group, index % of_group);
        // The last group may have fewer heads.
        let size = self.group.min(all - (group * self.group).min(all)).max(1);
        let (head, tile) = (group * self.group + within % size, within / size);
        let (batch, head) = (head / heads, head % heads);
        // The last rows see the most keys.
        let tile = self.tiles.saturating_sub(1 + tile);
        let (batch, tile) = if problem.has_packed_queries() {
            let of_tile = (rows >> problem.pack).max(1);
            Slots::new(batches.queries, problem.batches, problem.queries, of_tile).find(tile)
        } else {
            (batch, tile)
        };
        let batch = Batch::new(problem, batches, batch);
        let of_batch = batch.queries.len << problem.pack;
        let tile = tile.min(of_batch.div_ceil(rows));
        let row = tile * rows;
        let last = (row + rows).min(of_batch).saturating_sub(1);
        let queries = (row >> problem.pack, last >> problem.pack);
        let (band, lengths) = (score.band(), batch.lengths());
        let (any, all) = (band.any(queries, lengths), band.all(queries, lengths));
        let (first, end) = (any.first / keys, any.end.max(any.first).div_ceil(keys));
        let list = if C::MASKS { list_of(batches.lists, batch.index, head, tile) } else { None };
        let (first, end) = list.map_or((first, end), |list| (0, list.len));
        // A slot without a tile has no keys.
        let end = if row < of_batch { end } else { first };
        let part = |part: u32| {
            first + (u64::from(end - first) * u64::from(part) / u64::from(splits)) as u32
        };
        let whole = (all.first.div_ceil(keys), all.end / keys);
        let blocks = (part(split), part(split + 1));
        Work { batch, head, tile: tile_of_all, row, split, blocks, list, whole }
    }
}

impl Work {
    /// The block of keys at a position, and whether every row of the tile sees every key of it.
    #[inline(always)]
    #[must_use]
    pub fn block<C: Score>(&self, lists: &[u32], position: u32) -> (u32, bool) {
        if C::MASKS {
            return block_at(lists, self.list, position);
        }
        (position, !C::CHANGES && position >= self.whole.0 && position < self.whole.1)
    }

    /// Queries and keys of the batch.
    #[inline(always)]
    #[must_use]
    pub const fn lengths(&self) -> Lengths {
        self.batch.lengths()
    }

    /// Rows of the packed head.
    #[inline(always)]
    #[must_use]
    pub const fn rows(&self, problem: &Problem) -> u32 {
        self.batch.queries.len << problem.pack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::{Band, PACKED_QUERIES};

    #[test]
    fn every_row_and_key_is_taken_once() {
        let problem = Problem {
            batches: 2,
            heads: 12,
            kv_heads: 3,
            pack: 1,
            queries: 100,
            keys: 70,
            splits: 3,
            ..Problem::default()
        };
        let schedule = Schedule { tiles: 200u32.div_ceil(64), group: 5 };
        let mut seen = std::collections::BTreeMap::new();
        let mut tiles = std::collections::BTreeMap::new();
        for index in 0..schedule.len(&problem) {
            let work = schedule.work(&problem, Band::ALL, index, (64, 16), Batches::default());
            let place = (work.batch.index, work.head, work.row);
            // All splits of a tile, and no others, have its number.
            assert_eq!(*tiles.entry(work.tile).or_insert(place), place);
            *seen.entry(place).or_insert(0) += work.blocks.1 - work.blocks.0;
        }
        assert_eq!(seen.len(), 2 * 6 * 4);
        assert!(tiles.into_keys().eq(0..2 * 6 * 4));
        assert!(seen.values().all(|blocks| *blocks == 5));
    }

    #[test]
    fn blocks_are_those_that_a_band_needs() {
        let problem = Problem {
            batches: 1,
            heads: 1,
            kv_heads: 1,
            queries: 256,
            keys: 300,
            splits: 1,
            ..Problem::default()
        };
        let schedule = Schedule { tiles: 2, group: 1 };
        let batches = Batches::default();
        // The last tile comes first: its queries stand at the keys from 172 on.
        let work = schedule.work(&problem, Band::CAUSAL, 0, (128, 32), batches);
        assert_eq!((work.row, work.blocks, work.whole), (128, (0, 10), (0, 5)));
        let window = Band { before: 10, after: 0, prefix: 0 };
        let work = schedule.work(&problem, window, 1, (128, 32), batches);
        assert_eq!((work.row, work.blocks), (0, (1, 6)));
        assert!(work.whole.0 >= work.whole.1);
    }

    #[test]
    fn tiles_of_packed_queries_are_taken_once() {
        let offsets = [0, 100, 100, 101, 370];
        let problem = Problem {
            batches: 4,
            heads: 6,
            kv_heads: 3,
            pack: 1,
            queries: 370,
            keys: 50,
            splits: 1,
            packed: PACKED_QUERIES,
            ..Problem::default()
        };
        let schedule = Schedule { tiles: Slots::len(370, 32, 4), group: 2 };
        let batches = Batches { queries: &offsets, ..Batches::default() };
        let mut rows = std::collections::BTreeMap::new();
        for index in 0..schedule.len(&problem) {
            let work = schedule.work(&problem, Band::ALL, index, (64, 16), batches);
            let len = work.rows(&problem).saturating_sub(work.row).min(64);
            assert_eq!(len > 0, work.blocks == (0, 4), "{work:?}");
            *rows.entry((work.batch.index, work.head)).or_insert(0) += len;
        }
        for (batch, of) in offsets.windows(2).enumerate() {
            for head in 0..3 {
                let found = rows.get(&(batch as u32, head)).copied().unwrap_or(0);
                assert_eq!(found, 2 * (of[1] - of[0]));
            }
        }
    }
}
