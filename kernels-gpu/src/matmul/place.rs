//! Which tile of D a block computes.

use super::Problem;

/// Tiles that lie below each other and run at a time: they share their tiles of B in the L2 cache.
const GROUP: u32 = 8;

/// A tile of D: a matrix of the batch, and its first row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The matrix of the batch.
    pub batch: usize,
    /// The first row.
    pub row: usize,
    /// The first column.
    pub column: usize,
}

impl Place {
    /// The tile of block `block`, of `rows` × `columns`: batches outermost, then groups of eight tiles down, then the columns of tiles
    /// in a group.
    #[inline(always)]
    #[must_use]
    pub fn of(block: u32, problem: &Problem, rows: usize, columns: usize) -> Self {
        let (down, across) = (problem.m.div_ceil(rows as u32), problem.n.div_ceil(columns as u32));
        let (batch, tile) = (block / (down * across), block % (down * across));
        let (group, within) = (tile / (GROUP * across), tile % (GROUP * across));
        let height = (down - group * GROUP).min(GROUP);
        let (row, column) = (group * GROUP + within % height, within / height);
        Self { batch: batch as usize, row: row as usize * rows, column: column as usize * columns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tile_has_one_block() {
        for (m, n) in [(1, 1), (128, 256), (1000, 300), (1025, 129), (2100, 900)] {
            let problem = Problem { m, n, batches: 3, ..Problem::default() };
            let blocks = problem.tiles(128, 128) as u32;
            let mut found: Vec<_> = (0..blocks)
                .map(|block| Place::of(block, &problem, 128, 128))
                .map(|place| (place.batch, place.row, place.column))
                .collect();
            found.sort_unstable();
            let columns = || (0..n as usize).step_by(128);
            let rows = || (0..m as usize).step_by(128);
            let expected: Vec<_> = (0..3)
                .flat_map(|batch| {
                    rows().flat_map(move |row| columns().map(move |column| (batch, row, column)))
                })
                .collect();
            assert_eq!(found, expected, "{m} × {n}");
        }
    }
}
