//! Sparse products against sums in f64.

use bytemuck::Pod;
use cuda_std::launch::Instance;
use ferrowarp::GpuError;
use ferrowarp::ops::spmv::{self, Csr, RowLanes};
use ferrowarp::ops::{Scratch, spmv_into};
use kernels_gpu::sparse::spmv::{BLOCK, MAX_ROW_TAIL, TILE};
use kernels_gpu::sparse::{spmv_carry, spmv_plain, spmv_rows, spmv_tiles};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{gpu, poisoned, rng, upload};

/// A value of the matrix's type, and the distance from 1 to the next.
trait Value: Pod + Into<f64> {
    const EPSILON: f64;
    fn of(x: f64) -> Self;
}

impl Value for f32 {
    const EPSILON: f64 = f32::EPSILON as f64;
    fn of(x: f64) -> Self {
        x as f32
    }
}

impl Value for f64 {
    const EPSILON: f64 = f64::EPSILON;
    fn of(x: f64) -> Self {
        x
    }
}

/// A matrix of rows of these lengths, with random columns and values.
struct Matrix {
    width: usize,
    offsets: Vec<u32>,
    columns: Vec<u32>,
}

impl Matrix {
    fn of_rows(rng: &mut StdRng, width: usize, lens: impl IntoIterator<Item = usize>) -> Self {
        let mut offsets = vec![0u32];
        lens.into_iter().for_each(|len| offsets.push(offsets[offsets.len() - 1] + len as u32));
        let entries = offsets[offsets.len() - 1];
        let columns = (0..entries).map(|_| rng.random_range(0..width as u32)).collect();
        Self { width, offsets, columns }
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }
}

/// Each way to multiply, by name.
fn ways<T: Value>(a: &Csr<T>, x: &[T]) -> Vec<(String, Vec<T>)>
where
    spmv_tiles<T>: Instance,
    spmv_carry<T>: Instance,
    spmv_plain<T>: Instance,
    spmv_rows<T, 4>: Instance,
    spmv_rows<T, 8>: Instance,
    spmv_rows<T, 16>: Instance,
    spmv_rows<T, 32>: Instance,
{
    let (x, mut scratch) = (upload(x), Scratch::new(gpu()).unwrap());
    let mut found = Vec::new();
    let mut y = poisoned(a.rows());
    spmv_into(gpu(), a, &x, &mut y, &mut scratch).unwrap();
    found.push(("balanced".to_owned(), y.to_vec().unwrap()));
    let mut again = poisoned(a.rows());
    spmv_into(gpu(), a, &x, &mut again, &mut scratch).unwrap();
    let same = bytemuck::cast_slice::<T, u8>(&found[0].1)
        == bytemuck::cast_slice::<T, u8>(&again.to_vec().unwrap());
    assert!(same, "the balanced form gives the same bits again");
    for lanes in [RowLanes::Four, RowLanes::Eight, RowLanes::Sixteen, RowLanes::Warp] {
        let mut y = poisoned(a.rows());
        spmv::spmv_rows_into(gpu(), lanes, a, &x, &mut y).unwrap();
        found.push((format!("{lanes:?} lanes"), y.to_vec().unwrap()));
    }
    let mut y = poisoned(a.rows());
    spmv::spmv_plain_into(gpu(), a, &x, &mut y).unwrap();
    found.push(("plain".to_owned(), y.to_vec().unwrap()));
    found
}

fn check<T: Value>(rng: &mut StdRng, matrix: &Matrix)
where
    spmv_tiles<T>: Instance,
    spmv_carry<T>: Instance,
    spmv_plain<T>: Instance,
    spmv_rows<T, 4>: Instance,
    spmv_rows<T, 8>: Instance,
    spmv_rows<T, 16>: Instance,
    spmv_rows<T, 32>: Instance,
{
    let mut random =
        |n: usize| -> Vec<T> { (0..n).map(|_| T::of(rng.random_range(-1.0..1.0))).collect() };
    let (values, x) = (random(matrix.columns.len()), random(matrix.width));
    let wide = |x: &[T]| x.iter().map(|&x| x.into()).collect::<Vec<f64>>();
    let expected =
        reference::spmv::spmv(&matrix.offsets, &matrix.columns, &wide(&values), &wide(&x));
    let a = Csr::new(gpu(), matrix.width, &matrix.offsets, &matrix.columns, &values).unwrap();
    for (way, found) in ways(&a, &x) {
        for (row, (found, (sum, size))) in found.into_iter().zip(&expected).enumerate() {
            // Each of `len` additions rounds by half a unit of at most the sum of magnitudes (N. J. Higham,
            // "The Accuracy of Floating Point Summation", 1993); a last rounding.
            let len = (matrix.offsets[row + 1] - matrix.offsets[row]) as f64;
            let bound = (len + 2.0) * T::EPSILON * size;
            let found: f64 = found.into();
            assert!((found - sum).abs() <= bound, "{way}, row {row}: {found} for {sum}");
        }
    }
}

#[test]
fn regular_and_empty_rows() {
    let mut rng = rng();
    let shapes = [(0, 0), (1, 0), (1, 1), (3000, 0), (2 * TILE + 3, 1), (500, 27), (31, 300)];
    // Lanes of their own for rows that meet in few banks; the longest row that is never cut, and one more.
    let powers =
        [(700, 8), (300, 32), (70, 100), (40, 256), (60, MAX_ROW_TAIL), (60, MAX_ROW_TAIL + 1)];
    for (rows, len) in shapes.into_iter().chain(powers) {
        let matrix = Matrix::of_rows(&mut rng, 700, vec![len; rows]);
        check::<f32>(&mut rng, &matrix);
        check::<f64>(&mut rng, &matrix);
    }
}

#[test]
fn skewed_rows() {
    let mut rng = rng();
    // One row over many blocks, alone and among others; rows that end where blocks do; a power law.
    let long = 300 * TILE / 100;
    let cases: Vec<Vec<usize>> = vec![
        vec![long],
        [vec![2; 100], vec![long], vec![0; 100], vec![long, 1, 0, 5]].concat(),
        vec![TILE - 1; 9],
        vec![TILE; 5],
        vec![3 * TILE, 0, 0, 2 * TILE, 7],
        (0..2000).map(|i| 4000 / (1 + i)).collect(),
    ];
    for lens in cases {
        let matrix = Matrix::of_rows(&mut rng, 1009, lens);
        check::<f32>(&mut rng, &matrix);
        check::<f64>(&mut rng, &matrix);
    }
}

#[test]
fn a_row_over_more_blocks_than_one_block_of_carries() {
    let mut rng = rng();
    let matrix = Matrix::of_rows(&mut rng, 50, [3, (BLOCK + 3) * TILE, 4]);
    check::<f64>(&mut rng, &matrix);
}

#[test]
fn coordinates_become_rows() {
    let mut rng = rng();
    let matrix = Matrix::of_rows(&mut rng, 40, (0..300).map(|i| i * 7 % 5));
    let rows: Vec<u32> = matrix
        .offsets
        .windows(2)
        .enumerate()
        .flat_map(|(row, ends)| std::iter::repeat_n(row as u32, (ends[1] - ends[0]) as usize))
        .collect();
    let values = upload(&vec![1.0f32; rows.len()]);
    let (size, columns) = ((matrix.rows(), matrix.width), upload(&matrix.columns));
    let a = Csr::from_sorted_coo(gpu(), size, &upload(&rows), columns, values).unwrap();
    assert_eq!(a.offsets().to_vec().unwrap(), matrix.offsets);
    let (_, y) = ways(&a, &vec![1.0; matrix.width]).swap_remove(0);
    let lens: Vec<f32> = matrix.offsets.windows(2).map(|ends| (ends[1] - ends[0]) as f32).collect();
    assert_eq!(y, lens);
}

#[test]
fn coordinates_in_any_order_become_rows() {
    let mut rng = rng();
    // Some places occur twice, some rows not at all, and some entries are in rows past the last one.
    let (rows, width, entries) = (300, 40, 5000);
    let mut below =
        |limit: u32| -> Vec<u32> { (0..entries).map(|_| rng.random_range(0..limit)).collect() };
    let (entry_rows, columns) = (below(rows + 2), below(width));
    let values: Vec<f64> = below(9).into_iter().map(f64::from).collect();
    let size = (rows as usize, width as usize);
    let (on_device, of_columns) = (upload(&entry_rows), upload(&columns));
    let a = Csr::from_coo(gpu(), size, &on_device, &of_columns, &upload(&values)).unwrap();
    let x: Vec<f64> = (0..width).map(|column| f64::from(column) + 1.0).collect();
    let mut expected = vec![0.0; rows as usize];
    for ((&row, &column), value) in entry_rows.iter().zip(&columns).zip(&values) {
        if row < rows {
            expected[row as usize] += value * x[column as usize];
        }
    }
    // All of them are whole numbers: no sum is rounded.
    for (way, found) in ways(&a, &x) {
        assert_eq!(found, expected, "{way}");
    }
    assert_eq!(on_device.to_vec().unwrap(), entry_rows);
    assert!(Csr::from_coo(gpu(), size, &on_device, &of_columns, &upload(&values[1..])).is_err());
}

#[test]
fn what_is_no_matrix_is_an_error() {
    let make = |offsets: &[u32], columns: &[u32]| {
        Csr::new(gpu(), 3, offsets, columns, &[1.0f32; 2]).map(drop)
    };
    assert!(make(&[0, 1, 2], &[0, 2]).is_ok());
    for offsets in [&[][..], &[1, 2], &[0, 3, 2], &[0, 1]] {
        assert!(matches!(make(offsets, &[0, 2]), Err(GpuError::InvalidArgument { .. })));
    }
    assert!(matches!(make(&[0, 2], &[0, 3]), Err(GpuError::InvalidArgument { .. })));
    assert!(matches!(make(&[0, 2], &[0]), Err(GpuError::SizeMismatch { .. })));
}
