//! Where the rows of a batch are: in a batch of its own, or after those of the batches before it.

use super::{Lengths, Problem, RowStrides};

/// What of the batches is known on the device alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batches<'a> {
    /// Keys of each batch; empty where all have those of the tensor.
    pub lengths: &'a [u32],
    /// Of packed queries, where each batch begins, ascending, and where the last one ends; else empty.
    pub queries: &'a [u32],
    /// Of packed keys, the same.
    pub keys: &'a [u32],
    /// [Lists](super::lists) of blocks of keys; empty where all are taken.
    pub lists: &'a [u32],
}

/// The rows of a batch in a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The batch of the tensor: 0 if the tensor is packed.
    pub batch: u32,
    /// The first row there.
    pub first: u32,
    /// How many rows.
    pub len: u32,
}

/// A batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Which batch.
    pub index: u32,
    /// Its queries.
    pub queries: Segment,
    /// Its keys.
    pub keys: Segment,
}

impl Segment {
    /// That of a batch in a tensor of `rows` rows. Offsets past the end, or in another order, give rows that are inside nevertheless.
    #[inline(always)]
    fn new(offsets: &[u32], batch: u32, rows: u32) -> Self {
        match (offsets.get(batch as usize), offsets.get(batch as usize + 1)) {
            (Some(first), Some(end)) => {
                let first = (*first).min(rows);
                Self { batch: 0, first, len: (*end).min(rows).saturating_sub(first) }
            }
            _ => Self { batch, first: 0, len: rows },
        }
    }

    /// Where a row begins.
    #[inline(always)]
    #[must_use]
    pub const fn index(self, strides: RowStrides, head: u32, row: u32) -> usize {
        strides.index(self.batch, head, self.first + row)
    }

    /// The coordinates of a row for the copy engine: of batches, and of rows, in a tensor of `rows` rows.
    ///
    /// The map of a packed tensor has its rows twice, as rows and as batches, with the same stride, and begins that many rows before the tensor. Coordinates
    /// that count a row from the end of its batch are outside of the map behind that end, so that what belongs to the next batch is read as zeros.
    #[inline(always)]
    #[must_use]
    pub const fn coordinates(self, row: u32, rows: u32, is_packed: bool) -> [i32; 2] {
        if is_packed {
            [(self.first + self.len) as i32, (rows - self.len + row) as i32]
        } else {
            [self.batch as i32, row as i32]
        }
    }
}

impl Batch {
    /// Number `index`.
    #[inline(always)]
    #[must_use]
    pub fn new(problem: &Problem, batches: Batches<'_>, index: u32) -> Self {
        let queries = Segment::new(batches.queries, index, problem.queries);
        let mut keys = Segment::new(batches.keys, index, problem.keys);
        if let Some(len) = batches.lengths.get(index as usize) {
            keys.len = keys.len.min(*len);
        }
        Self { index, queries, keys }
    }

    /// How many queries and keys there are.
    #[inline(always)]
    #[must_use]
    pub const fn lengths(&self) -> Lengths {
        Lengths { queries: self.queries.len, keys: self.keys.len }
    }
}

/// Tiles of packed rows. Each batch has places of its own for its tiles: as many as may be needed, wherever its rows begin.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a> {
    offsets: &'a [u32],
    batches: u32,
    /// Rows of all batches, and of a tile.
    rows: u32,
    tile: u32,
}

impl<'a> Slots<'a> {
    /// Of tiles of `tile` of `rows` rows.
    #[inline(always)]
    #[must_use]
    pub const fn new(offsets: &'a [u32], batches: u32, rows: u32, tile: u32) -> Self {
        Self { offsets, batches, rows, tile }
    }

    /// How many places all batches have.
    #[inline(always)]
    #[must_use]
    pub const fn len(rows: u32, tile: u32, batches: u32) -> u32 {
        rows / tile + batches
    }

    /// The first place of a batch whose rows begin at `row`.
    ///
    /// From there to that of the next batch there are at least as many as there are tiles: the quotient of the rows' end is at most one smaller than that of
    /// their beginning and the number of tiles.
    #[inline(always)]
    #[must_use]
    pub const fn first(row: u32, tile: u32, batch: u32) -> u32 {
        row / tile + batch
    }

    /// The batch of a place, and which of the batch's tiles it is: one that there need not be.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, slot: u32) -> (u32, u32) {
        let first = |batch: u32| {
            let row = self.offsets.get(batch as usize).map_or(0, |row| (*row).min(self.rows));
            Self::first(row, self.tile, batch)
        };
        // (A division of which the compiler sees that it is not by 0 has no panic; the caller's tiles have rows.)
        let (mut low, mut high) = (0, self.batches);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if first(middle) <= slot { low = middle } else { high = middle }
        }
        (low, slot.wrapping_sub(first(low)))
    }
}

/// The batch that a row of a packed tensor belongs to, if any.
#[inline(always)]
#[must_use]
pub fn batch_of_row(offsets: &[u32], batches: u32, row: u32) -> Option<u32> {
    let begins = |batch: u32| offsets.get(batch as usize).is_some_and(|first| *first <= row);
    let (mut low, mut high) = (0, batches);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if begins(middle) { low = middle } else { high = middle }
    }
    (begins(low) && !begins(low + 1)).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSETS: [u32; 7] = [0, 5, 5, 200, 201, 201, 456];

    #[test]
    fn every_tile_has_a_place() {
        for tile in [1, 16, 64, 128] {
            let slots = Slots::new(&OFFSETS, 6, 456, tile);
            let mut found = Vec::new();
            for slot in 0..Slots::len(456, tile, 6) {
                let (batch, of_batch) = slots.find(slot);
                let len = OFFSETS[batch as usize + 1] - OFFSETS[batch as usize];
                if of_batch < len.div_ceil(tile) {
                    found.push((batch, of_batch));
                }
            }
            let all = OFFSETS.windows(2).zip(0..).flat_map(|(of, batch)| {
                (0..(of[1] - of[0]).div_ceil(tile)).map(move |index| (batch, index))
            });
            assert!(found.into_iter().eq(all), "tiles of {tile}");
        }
    }

    #[test]
    fn rows_belong_to_batches() {
        let of = |row| batch_of_row(&OFFSETS, 6, row);
        assert_eq!(
            [0, 4, 5, 199, 200, 201, 455, 456].map(of).map(|batch| batch.map_or(9, |b| b)),
            [0, 0, 2, 2, 3, 5, 5, 9]
        );
        assert_eq!(batch_of_row(&[3, 4], 1, 2), None);
    }

    #[test]
    fn offsets_that_are_wrong_stay_inside() {
        let problem = Problem { queries: 10, keys: 20, ..Problem::default() };
        for offsets in [[7, 3], [0, 99], [99, 200]] {
            let batches = Batches { queries: &offsets, ..Batches::default() };
            let Segment { first, len, .. } = Batch::new(&problem, batches, 0).queries;
            assert!(first + len <= 10);
        }
    }

    #[test]
    fn coordinates_end_with_the_batch() {
        // Rows 5 to 8 of 20: the map begins 20 rows before the tensor.
        let segment = Segment { batch: 0, first: 5, len: 4 };
        for row in 0..6 {
            let [batch, at] = segment.coordinates(row, 20, true);
            assert_eq!(batch + at - 20, 5 + row as i32);
            assert_eq!(at < 20, row < 4);
        }
    }
}
