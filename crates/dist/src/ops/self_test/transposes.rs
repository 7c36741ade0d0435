//! Transposes.

use std::fmt::Debug;

use bytemuck::Pod;

use super::data::of_bits;
use super::tester::Tester;
use crate::error::DistResult;
use crate::ops::{Shares, transpose};

/// Rows and columns of a rank.
const SIZES: [(usize, usize); 8] =
    [(0, 3), (5, 0), (1, 1), (31, 2), (32, 32), (33, 17), (4, 101), (64, 16)];

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    for (height, width) in SIZES {
        let columns = tester.splits(width);
        for (which, rows) in tester.splits(height).iter().enumerate() {
            // Each kind of rows with another kind of columns, too.
            for columns in [&columns[which], &columns[(which + 1) % 3]] {
                of_type::<u8>(tester, rows, columns, 1)?;
                of_type::<u16>(tester, rows, columns, 3)?;
                of_type::<f32>(tester, rows, columns, 8)?;
                of_type::<u64>(tester, rows, columns, 2)?;
            }
        }
    }
    Ok(())
}

fn of_type<T: Pod + Debug>(
    tester: &mut Tester<'_>,
    rows: &Shares,
    columns: &Shares,
    pieces: usize,
) -> DistResult<()> {
    let (height, width) = (rows.total(), columns.total());
    let all: Vec<T> = tester.random.values(height * width, of_bits);
    let of_rows = |shares: &Shares, row: usize| {
        Shares::given(shares.lens().iter().map(|len| len * row).collect())
    };
    let own = tester.upload(&all, &of_rows(rows, width))?;
    let expected = reference::transpose::transpose(&all, width, height);
    let expected = tester.share(&expected, &of_rows(columns, height)).to_vec();
    let case = format!(
        "{} of {:?} rows, {:?} columns",
        std::any::type_name::<T>(),
        rows.lens(),
        columns.lens()
    );
    let (ranks, gpu) = (tester.ranks, tester.gpu());
    let found = transpose::transpose(ranks, gpu, &own, rows, columns)?;
    tester.compare("transpose", &case, &found, &expected)?;
    let found = transpose::in_pieces(ranks, gpu, &own, rows, columns, pieces)?;
    tester.compare("transpose", format!("{case}, {pieces} pieces"), &found, &expected)
}
