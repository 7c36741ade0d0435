//! How shares of rows are cut into pieces, and that all ranks cut them alike.

use std::fmt::Write as _;
use std::ops::Range;

use crate::communicator::Communicator;
use crate::error::{DistError, DistResult};
use crate::ops::shares::Shares;

/// Rows of a tile of the products, at whose multiples pieces begin, and columns of the widest.
const TILE: [usize; 2] = [128, 256];
/// How often the tiles of a piece fill the multiprocessors that it takes, at least.
const FILLED: usize = 2;
/// The most pieces of a share. More would hide no more than an eighth of it, and each costs a launch and an exchange.
const MOST: usize = 8;

/// The most ranks for which shares are cut into pieces unless the caller asks for it. On four H200s the pieces of 8192³ that went through staging memory took longer beside the
/// products (0.82 and 1.35 ms for the column-parallel and the row-parallel product) than one exchange and one product after the other (0.72 and 0.76). Pieces
/// that are written to their places were not measured there.
const MOST_RANKS: usize = 2;

/// Shares of rows, each cut into as many pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pieces {
    pub(super) rows: Shares,
    /// Of each share. The last ones may be empty.
    pub(super) count: usize,
}

/// What decides how many pieces there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The size that all ranks have alike, beside the rows, and its name.
    pub(super) common: (&'static str, usize),
    /// The columns of this rank's product.
    pub(super) columns: usize,
    /// The multiprocessors that it takes.
    pub(super) multiprocessors: usize,
    /// Pieces; `None` leaves it to the model.
    pub(super) pieces: Option<usize>,
}

impl Pieces {
    /// The pieces that all ranks have. All ranks call it. Waits for them.
    pub(super) fn agreed(
        ranks: &Communicator,
        operation: &'static str,
        rows: &Shares,
        wanted: Wanted,
    ) -> DistResult<Self> {
        rows.check(ranks, operation)?;
        let Wanted { common: (name, size), columns, multiprocessors, pieces } = wanted;
        let pieces = pieces.map_or(0, |pieces| pieces.max(1));
        let own = [&[size, pieces, columns, multiprocessors], rows.lens()].concat();
        let own: Vec<u64> = own.into_iter().map(|size| size as u64).collect();
        let all = ranks.all_gather_host(ranks.gpu(), &own)?;
        let all: Vec<&[u64]> = all.chunks_exact(own.len()).collect();
        check_alike(operation, name, &all)?;
        let least = |which: usize| all.iter().map(|own| own[which] as usize).min().unwrap_or(0);
        let count = match pieces {
            0 if rows.lens().len() <= MOST_RANKS => count(rows, least(2), least(3)),
            pieces => pieces.max(1),
        };
        Ok(Self { rows: rows.clone(), count: if ranks.size() == 1 { 1 } else { count } })
    }

    /// The rows of a piece of a rank's share, counted from the first row of the share.
    pub(super) fn part(&self, rank: u32, piece: usize) -> Range<usize> {
        let (len, step) = (self.rows.len_of(rank), self.step(self.rows.len_of(rank)));
        (piece * step).min(len)..((piece + 1) * step).min(len)
    }

    /// Those rows, counted from the first one of all.
    pub(super) fn place(&self, rank: u32, piece: usize) -> Range<usize> {
        let (start, part) = (self.rows.start_of(rank), self.part(rank, piece));
        start + part.start..start + part.end
    }

    /// The rows of the longest piece.
    pub(super) fn longest(&self) -> usize {
        self.step(self.rows.longest())
    }

    /// The rows of each piece of a share of `len` rows: whole tiles where it has enough.
    fn step(&self, len: usize) -> usize {
        let step = len.div_ceil(self.count);
        if step < TILE[0] { step } else { step.next_multiple_of(TILE[0]).min(len) }
    }
}

/// How many pieces a share is cut into, of products with that many columns, each on that many multiprocessors: of the numbers whose pieces
/// fill them, that by which they make the fewest passes over tiles in all, and of several such ones the greatest.
fn count(rows: &Shares, columns: usize, multiprocessors: usize) -> usize {
    let tiles =
        |pieces| rows.longest().div_ceil(pieces).div_ceil(TILE[0]) * columns.div_ceil(TILE[1]);
    let passes = |pieces: &usize| pieces * tiles(*pieces).div_ceil(multiprocessors.max(1));
    let is_full = |pieces: &usize| tiles(*pieces) >= (FILLED * multiprocessors).max(1);
    (2..=MOST).rev().filter(is_full).min_by_key(passes).unwrap_or(1)
}

/// An error that names the first rank which says something else than rank 0.
fn check_alike(operation: &'static str, name: &'static str, all: &[&[u64]]) -> DistResult<()> {
    /// What depends on the rank: columns and multiprocessors.
    fn alike(own: &[u64]) -> impl Iterator<Item = &u64> {
        own[..2].iter().chain(&own[4..])
    }
    let says = |own: &[u64]| {
        let mut text = format!("{name} = {} and rows {:?}", own[0], &own[4..]);
        if own[1] > 0 {
            let _ = write!(text, " in {} pieces", own[1]);
        }
        text
    };
    match all.iter().position(|own| !alike(own).eq(alike(all[0]))) {
        None => Ok(()),
        Some(rank) => Err(DistError::UnlikeShapes {
            operation,
            rank: rank as u32,
            found: says(all[rank]),
            expected: says(all[0]),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(lens: &[usize], count: usize) -> Pieces {
        Pieces { rows: Shares::given(lens.to_vec()), count }
    }

    #[test]
    fn pieces_cover_each_share_in_whole_tiles() {
        for (lens, count) in
            [(vec![4096, 4096], 3), (vec![1000, 0, 7], 4), (vec![129, 1], 2), (vec![5], 9)]
        {
            let cut = pieces(&lens, count);
            for rank in 0..lens.len() as u32 {
                let mut next = 0;
                for piece in 0..count {
                    let part = cut.part(rank, piece);
                    assert_eq!(part.start, next, "{cut:?}");
                    assert!(part.len() <= cut.longest());
                    let is_large = lens[rank as usize] >= count * TILE[0];
                    assert!(!is_large || part.start.is_multiple_of(TILE[0]), "{cut:?}");
                    assert_eq!(cut.place(rank, piece).start, cut.rows.start_of(rank) + next);
                    next = part.end;
                }
                assert_eq!(next, lens[rank as usize], "{cut:?}");
            }
        }
    }

    /// Tiles of 128 × 256 on 128 multiprocessors.
    #[test]
    fn pieces_fill_the_device() {
        let count = |rows: usize, ranks, columns| count(&Shares::even(rows, ranks), columns, 128);
        // A share of 32 × 32 tiles: halves take 4 passes each, thirds 3, quarters 2.
        assert_eq!(count(8192, 2, 8192), 4);
        // 32 × 16: halves fill it twice, thirds do not.
        assert_eq!(count(8192, 2, 4096), 2);
        assert_eq!(count(8192 - 512, 2, 4096), 1);
        assert_eq!(count(1 << 20, 2, 8192), MOST);
        // 16 × 32 of four ranks: halves take 2 passes each.
        assert_eq!(count(8192, 4, 8192), 2);
        assert_eq!([count(4096, 8, 1024), count(0, 2, 8192), count(8192, 2, 0)], [1; 3]);
    }

    #[test]
    fn the_rank_that_says_something_else_is_named() {
        let alike = [&[8, 0, 3, 132, 4, 4][..], &[8, 0, 9, 132, 4, 4]];
        assert!(check_alike("product", "K", &alike).is_ok());
        let other = [alike[0], alike[1], &[7, 0, 3, 132, 4, 4]];
        let text = check_alike("product", "K", &other).unwrap_err().to_string();
        assert!(text.contains("rank 2 says K = 7 and rows [4, 4]"), "{text}");
        assert!(text.contains("rank 0 K = 8 and rows [4, 4]"), "{text}");
        let rows = [alike[0], &[8, 0, 3, 132, 4, 5]];
        let text = check_alike("product", "K", &rows).unwrap_err().to_string();
        assert!(text.contains("rank 1 says K = 8 and rows [4, 5]"), "{text}");
        let pieces = [&[8, 2, 3, 132, 4, 4][..], &[8, 3, 3, 132, 4, 4]];
        let text = check_alike("product", "K", &pieces).unwrap_err().to_string();
        assert!(text.contains("in 3 pieces"), "{text}");
    }
}
