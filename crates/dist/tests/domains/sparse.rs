//! Sparse products of rows and vectors that are divided among ranks, against sums in f64.

use ferrowarp::DeviceBuffer;
use ferrowarp_dist::ops::spmv::MatrixValue;
use ferrowarp_dist::ops::{RowCsr, Shares};
use ferrowarp_dist::{Communicator, DistResult};

use super::samples::Samples;

/// A value of the matrix's type, and the distance from 1 to the next.
trait Value: MatrixValue + Into<f64> + From<f32> {
    const EPSILON: f64;
}

impl Value for f32 {
    const EPSILON: f64 = f32::EPSILON as f64;
}

impl Value for f64 {
    const EPSILON: f64 = f64::EPSILON;
}

/// A matrix that all ranks know.
struct Matrix {
    name: &'static str,
    width: usize,
    offsets: Vec<u32>,
    columns: Vec<u32>,
}

impl Matrix {
    /// Rows of these lengths, with the column that `column` says for each row and entry.
    fn new(
        name: &'static str,
        width: usize,
        lens: impl IntoIterator<Item = usize>,
        mut column: impl FnMut(usize, usize) -> usize,
    ) -> Self {
        let (mut offsets, mut columns) = (vec![0], Vec::new());
        for (row, len) in lens.into_iter().enumerate() {
            columns.extend((0..len).map(|entry| column(row, entry) as u32));
            offsets.push(columns.len() as u32);
        }
        Self { name, width, offsets, columns }
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }
}

pub fn check(ranks: &Communicator, samples: &mut Samples) -> DistResult<usize> {
    for matrix in matrices(samples) {
        product::<f32>(ranks, samples, &matrix)?;
        product::<f64>(ranks, samples, &matrix)?;
    }
    only_what_is_needed_is_exchanged(ranks)?;
    what_is_no_matrix_is_refused(ranks)?;
    Ok(4)
}

fn matrices(samples: &mut Samples) -> Vec<Matrix> {
    let lens: Vec<usize> = (0..157).map(|_| samples.below(9)).collect();
    let skewed = (0..60).map(|row| if row == 31 { 5000 } else { 90 / (1 + row) });
    vec![
        Matrix::new("random", 157, lens.clone(), |_, _| samples.below(157)),
        Matrix::new("wide", 1009, lens.clone(), |_, _| samples.below(1009)),
        Matrix::new("high", 7, lens, |_, _| samples.below(7)),
        Matrix::new("a band", 300, vec![5; 300], |row, entry| (row + 298 + entry) % 300),
        Matrix::new("skewed", 211, skewed, |_, _| samples.below(211)),
        Matrix::new("empty rows", 20, vec![0; 33], |_, _| 0),
        Matrix::new("nothing", 0, [], |_, _| 0),
    ]
}

/// The product with rows and vector divided evenly, and anyhow.
fn product<T: Value>(
    ranks: &Communicator,
    samples: &mut Samples,
    matrix: &Matrix,
) -> DistResult<()> {
    let (values, size) = (samples.units::<T>(matrix.columns.len()), ranks.size());
    let even = [matrix.rows(), matrix.width].map(|len| Shares::even(len, size));
    let anyhow = [matrix.rows(), matrix.width].map(|len| samples.slabs(len, size, 0));
    for [rows, columns] in [even, anyhow] {
        let mut a = share_of(ranks, matrix, &values, &rows, &columns)?;
        // The plan serves any number of products.
        for _ in 0..2 {
            let x = samples.units::<T>(matrix.width);
            let own = DeviceBuffer::from_slice(ranks.gpu(), &x[columns.range(ranks.rank())])?;
            let mut y = DeviceBuffer::from_slice(ranks.gpu(), &vec![T::from(77.0); a.rows()])?;
            a.multiply_into(ranks.gpu(), &own, &mut y)?;
            let mut again = DeviceBuffer::zeroed(ranks.gpu(), a.rows())?;
            a.multiply_into(ranks.gpu(), &own, &mut again)?;
            ranks.synchronize(ranks.gpu())?;
            let (y, again) = (y.to_vec()?, again.to_vec()?);
            assert_eq!(bytemuck::cast_slice::<T, u8>(&y), bytemuck::cast_slice::<T, u8>(&again));
            let what = format!("{}, rows {:?}, seed {}", matrix.name, rows.lens(), samples.seed);
            compare(matrix, &values, &x, (&y, rows.range(ranks.rank()).start), &what);
        }
    }
    Ok(())
}

/// This rank's rows of the matrix.
fn share_of<T: Value>(
    ranks: &Communicator,
    matrix: &Matrix,
    values: &[T],
    rows: &Shares,
    columns: &Shares,
) -> DistResult<RowCsr<T>> {
    let own = rows.range(ranks.rank());
    let offsets = &matrix.offsets[own.start..=own.end];
    let entries = offsets[0] as usize..offsets[own.len()] as usize;
    let offsets: Vec<u32> = offsets.iter().map(|offset| offset - entries.start as u32).collect();
    let of_entries: Vec<u64> = matrix.columns[entries.clone()].iter().map(|&c| c.into()).collect();
    RowCsr::new(ranks, columns, &offsets, &of_entries, &values[entries])
}

/// The bound is the one that the operation documents.
fn compare<T: Value>(
    matrix: &Matrix,
    values: &[T],
    x: &[T],
    (found, first): (&[T], usize),
    what: &str,
) {
    let wide = |x: &[T]| x.iter().map(|&x| x.into()).collect::<Vec<f64>>();
    let expected = reference::spmv::spmv(&matrix.offsets, &matrix.columns, &wide(values), &wide(x));
    for (row, found) in (first..).zip(found) {
        let (sum, size) = expected[row];
        let len = f64::from(matrix.offsets[row + 1] - matrix.offsets[row]);
        let (found, bound): (f64, f64) = ((*found).into(), (len + 3.0) * T::EPSILON * size);
        assert!((found - sum).abs() <= bound, "{what}, row {row}: {found} for {sum}");
    }
}

/// Of a ring, a rank gets one element of the rank before it and two of the one after it, each once, though two rows use one.
fn only_what_is_needed_is_exchanged(ranks: &Communicator) -> DistResult<()> {
    let size = ranks.size() as usize;
    let n = 10 * size;
    let column = |row: usize, entry: usize| [row, row + 1, row + 2, row + n - 1][entry] % n;
    let matrix = Matrix::new("ring", n, vec![4; n], column);
    let slabs = Shares::even(n, ranks.size());
    let a = share_of(ranks, &matrix, &vec![1.0f32; 4 * n], &slabs, &slabs)?;
    let expected = if size == 1 { 0 } else { 3 };
    assert_eq!((a.received_elements(), a.sent_elements()), (expected, expected));
    Ok(())
}

fn what_is_no_matrix_is_refused(ranks: &Communicator) -> DistResult<()> {
    let (gpu, columns) = (ranks.gpu(), Shares::even(3, ranks.size()));
    let refused = |offsets: &[u32], entry_columns: &[u64], says: &str| {
        let made = RowCsr::new(ranks, &columns, offsets, entry_columns, &[1.0f32; 2]);
        let text = made.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(says), "{says}: {text}");
    };
    refused(&[0, 2], &[0, 3], "an entry in column 3, of 3 columns");
    refused(&[0, 1], &[0, 2], "must rise from 0");
    refused(&[], &[0, 2], "must rise from 0");
    refused(&[0, 1], &[0], "2");
    let mut a = RowCsr::new(ranks, &columns, &[0, 1], &[2], &[1.0f32])?;
    let x = DeviceBuffer::zeroed(gpu, columns.range(ranks.rank()).len())?;
    let mut y = DeviceBuffer::zeroed(gpu, 2)?;
    let text = a.multiply_into(gpu, &x, &mut y).unwrap_err().to_string();
    assert!(text.contains("part of the product has 2 elements, and must have 1"), "{text}");
    Ok(())
}
