//! Which element of a tile a register of a lane holds.
//!
//! A word is a register of 32 bits (or of 64 for `.f64`) and holds one or more neighbours in `k`.
//! Lanes are in eight groups of four: a group is a row of A, a column of B, a row of C. The wider
//! tiles are made of blocks of eight rows and four words; the layouts are those of the PTX manual.

/// A tile: row-major. B is kept by columns, so that a row of the tile is a column of B.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile<T> {
    /// Elements in a row.
    pub cols: usize,
    /// All elements.
    pub data: Vec<T>,
}

impl<T: Copy> Tile<T> {
    /// A tile of one value.
    pub fn filled(rows: usize, cols: usize, value: T) -> Self {
        Self { cols, data: vec![value; rows * cols] }
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }

    /// An element.
    pub fn get(&self, row: usize, col: usize) -> T {
        self.data[row * self.cols + col]
    }

    /// Sets an element.
    pub fn set(&mut self, row: usize, col: usize, value: T) {
        self.data[row * self.cols + col] = value;
    }

    /// The same elements, changed.
    pub fn map<U>(&self, f: impl Fn(T) -> U) -> Tile<U> {
        Tile { cols: self.cols, data: self.data.iter().map(|own| f(*own)).collect() }
    }
}

/// Row and word of a register of A. Tiles of 16 rows or more have two rows of blocks, one register
/// after the other, then the next words; 32 rows are two tiles of 16.
pub fn a_place(lane: usize, register: usize, (rows, words): (usize, usize)) -> (usize, usize) {
    let (group, within) = (lane / 4, lane % 4);
    if rows == 8 {
        return (group, within + 4 * register);
    }
    let blocks = words / 4;
    let (tile, own) = (register / (2 * blocks), register % (2 * blocks));
    (16 * tile + group + 8 * (own % 2), within + 4 * (own / 2))
}

/// Column and word of a register of B; columns past the first eight follow in further registers.
pub fn b_place(lane: usize, register: usize, words: usize) -> (usize, usize) {
    let blocks = words / 4;
    (lane / 4 + 8 * (register / blocks), lane % 4 + 4 * (register % blocks))
}

/// Row and column of the `index`-th element of C that a lane holds, in a tile of 16 rows or of 8.
pub fn c_place(lane: usize, index: usize, rows: usize) -> (usize, usize) {
    let (group, column) = (lane / 4, 2 * (lane % 4) + index % 2);
    match rows {
        8 => (group, column + 8 * (index / 2)),
        _ => (group + 8 * (index / 2 % 2), column + 8 * (index / 4)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_element_has_one_place() {
        for (rows, words) in [(8, 4), (16, 4), (16, 8), (32, 8), (16, 16)] {
            let registers = rows * words / 32;
            let places: HashSet<_> = (0..32)
                .flat_map(|lane| (0..registers).map(move |r| a_place(lane, r, (rows, words))))
                .collect();
            assert_eq!(places.len(), rows * words);
            assert!(places.iter().all(|(row, word)| *row < rows && *word < words));
        }
        for (columns, words) in [(8, 4), (8, 8), (16, 8), (32, 8)] {
            let registers = columns * words / 32;
            let places: HashSet<_> = (0..32)
                .flat_map(|lane| (0..registers).map(move |r| b_place(lane, r, words)))
                .collect();
            assert_eq!(places.len(), columns * words);
        }
        for (rows, columns) in [(8, 8), (16, 8), (16, 256)] {
            let held = rows * columns / 32;
            let places: HashSet<_> = (0..32)
                .flat_map(|lane| (0..held).map(move |index| c_place(lane, index, rows)))
                .collect();
            assert_eq!(places.len(), rows * columns);
        }
    }

    #[test]
    fn some_places_are_those_of_the_manual() {
        // mma.m16n8k16 of .f16: registers of two.
        assert_eq!(a_place(0, 1, (16, 8)), (8, 0));
        assert_eq!(a_place(5, 2, (16, 8)), (1, 5));
        assert_eq!(b_place(5, 1, 8), (1, 5));
        assert_eq!(c_place(5, 2, 16), (9, 2));
        assert_eq!(c_place(31, 3, 16), (15, 7));
        // wgmma: the next eight columns.
        assert_eq!(c_place(0, 4, 16), (0, 8));
    }
}
