//! How a product is divided among blocks.

/// The tiles of a matrix, in an order for blocks that take one after the other: neighbours share rows and columns of tiles, so that blocks that run
/// together read what the L2 cache has.
///
/// ```
/// use cuda_std::matrix::TileGrid;
///
/// let tiles = TileGrid { rows: 3, columns: 2, group: 2 };
/// // Two rows of tiles together, down their columns; then what is left.
/// let places: Vec<_> = (0..tiles.len()).map(|index| tiles.place(index)).collect();
/// assert_eq!(places, [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TileGrid {
    /// Rows of tiles.
    pub rows: u32,
    /// Columns of tiles.
    pub columns: u32,
    /// Rows of tiles that are taken together.
    pub group: u32,
}

impl TileGrid {
    /// Tiles.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.rows * self.columns
    }

    /// Whether there are none.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row and the column of tile `index` of the order. Of an index past the end, or a group of no rows, it is one of no meaning; nothing panics, since a kernel that has
    /// calls has no asynchronous multiplications.
    #[inline(always)]
    #[must_use]
    pub const fn place(&self, index: u32) -> (u32, u32) {
        let (group, inside) = divide(index, self.group * self.columns);
        let first = group * self.group;
        let left = self.rows.wrapping_sub(first);
        let height = if left < self.group { left } else { self.group };
        let (column, row) = divide(inside, height);
        (first + row, column)
    }
}

/// Quotient and remainder, 0 for a divisor of 0.
#[inline(always)]
const fn divide(a: u32, b: u32) -> (u32, u32) {
    match (a.checked_div(b), a.checked_rem(b)) {
        (Some(quotient), Some(remainder)) => (quotient, remainder),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_has_one_place() {
        for (rows, columns, group) in [(1, 1, 1), (5, 7, 2), (8, 3, 16), (7, 4, 3)] {
            let tiles = TileGrid { rows, columns, group };
            let mut places: Vec<_> = (0..tiles.len()).map(|index| tiles.place(index)).collect();
            places.sort_unstable();
            let all = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            assert_eq!(places, all.collect::<Vec<_>>(), "{tiles:?}");
        }
    }

    #[test]
    fn nothing_panics_past_the_end() {
        let tiles = TileGrid { rows: 3, columns: 2, group: 0 };
        assert_eq!(tiles.place(5), (0, 0));
        let _ = TileGrid { group: 2, ..tiles }.place(u32::MAX / 4);
    }
}
