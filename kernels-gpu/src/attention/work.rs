//! Which tiles a block takes, and in which order.

use super::{Lengths, Problem, Score};
use bytemuck::{Pod, Zeroable};

/// The tiles of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Schedule {
    /// Tiles of rows of a packed head.
    pub tiles: u32,
    /// Packed heads that are taken together, of all batches: whose keys and values the L2 cache holds.
    pub group: u32,
}

/// One tile, or the part of its keys that a block takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    #[allow(missing_docs)]
    pub batch: u32,
    /// The packed head.
    pub head: u32,
    /// The first row.
    pub row: u32,
    /// Which part of the keys.
    pub split: u32,
    /// Queries and keys of the batch.
    pub lengths: Lengths,
    /// The first block of keys, and the one after the last.
    pub blocks: (u32, u32),
    /// The first block of those of which every row of the tile sees every key, and the one after the last.
    pub whole: (u32, u32),
}

impl Schedule {
    /// Tiles of all heads, and their parts.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self, problem: &Problem) -> u32 {
        self.tiles * problem.packed_heads() * problem.batches * problem.splits
    }

    /// Work `index` in the order in which it is begun: tiles of `rows` rows, and blocks of `keys` keys. `lengths` gives those of a batch.
    #[inline(always)]
    #[must_use]
    pub fn work(
        &self,
        problem: &Problem,
        score: impl Score,
        index: u32,
        (rows, keys): (u32, u32),
        lengths: impl FnOnce(u32) -> Lengths,
    ) -> Work {
        // Numbers by which is divided are not 0 where there is a tile. A division of which the compiler sees that, too, has no panic.
        let splits = problem.splits.max(1);
        let (split, index) = (index % splits, index / splits);
        let heads = problem.packed_heads().max(1);
        let all = heads * problem.batches;
        let of_group = (self.group * self.tiles).max(1);
        let (group, within) = (index / of_group, index % of_group);
        // The last group may have fewer heads.
        let size = self.group.min(all - (group * self.group).min(all)).max(1);
        let (head, tile) = (group * self.group + within % size, within / size);
        let (batch, head) = (head / heads, head % heads);
        // The last rows see the most keys.
        let row = self.tiles.saturating_sub(1 + tile) * rows;
        let last = (row + rows).min(problem.rows()).saturating_sub(1);
        let queries = (row >> problem.pack, last >> problem.pack);
        let (band, lengths) = (score.band(), lengths(batch));
        let (any, all) = (band.any(queries, lengths), band.all(queries, lengths));
        let (first, end) = (any.first / keys, any.end.max(any.first).div_ceil(keys));
        let part = |part: u32| {
            first + (u64::from(end - first) * u64::from(part) / u64::from(splits)) as u32
        };
        let whole = (all.first.div_ceil(keys), all.end / keys);
        let blocks = (part(split), part(split + 1));
        Work { batch, head, row, split, lengths, blocks, whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::Band;

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
        for index in 0..schedule.len(&problem) {
            let lengths = |_| Lengths { queries: 100, keys: 70 };
            let work = schedule.work(&problem, Band::ALL, index, (64, 16), lengths);
            *seen.entry((work.batch, work.head, work.row)).or_insert(0) +=
                work.blocks.1 - work.blocks.0;
        }
        assert_eq!(seen.len(), 2 * 6 * 4);
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
        let lengths = |_| Lengths { queries: 256, keys: 300 };
        // The last tile comes first: its queries stand at the keys from 172 on.
        let work = schedule.work(&problem, Band::CAUSAL, 0, (128, 32), lengths);
        assert_eq!((work.row, work.blocks, work.whole), (128, (0, 10), (0, 5)));
        let window = Band { before: 10, after: 0, prefix: 0 };
        let work = schedule.work(&problem, window, 1, (128, 32), lengths);
        assert_eq!((work.row, work.blocks), (0, (1, 6)));
        assert!(work.whole.0 >= work.whole.1);
    }
}
