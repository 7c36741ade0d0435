//! Reductions of columns.

use cuda_std::launch::Instance;
use cuda_std::number::{bf16, f16};
use ferrowarp::ops::{Scratch, reduce};
use kernels_gpu::reduce::column_sum;

use super::{Tested, small_values, values};
use crate::support::{assert_same_bits, gpu, poisoned, rng, upload};

/// Rows and columns: narrow, wide, few and many strips, strips that share a counter, one block and many; whole vectors in
/// a row and not; rows for which blocks lie along them, wholly or in part.
const SHAPES: [(usize, usize); 18] = [
    (0, 5),
    (5, 0),
    (1, 1),
    (3, 4),
    (9000, 1),
    (5000, 3),
    (2100, 31),
    (150, 32),
    (700, 33),
    (1300, 100),
    (130, 2500),
    (16, 9001),
    (8, 3000),
    (7, 1025),
    (20, 1028),
    (40, 516),
    (600, 128),
    (3000, 64),
];

fn sums<T: Tested + reduce::Element<Total: Tested>>()
where
    column_sum<T::Number>: Instance,
{
    let mut rng = rng();
    for (rows, cols) in SHAPES {
        let x = small_values::<T>(&mut rng, rows * cols);
        let column = |c: usize| (0..rows).map(move |r| r * cols + c);
        let expected: Vec<f64> =
            (0..cols).map(|c| reference::reduce::sum(column(c).map(|i| x[i].wide()))).collect();
        let (mut out, mut scratch) = (poisoned::<T::Total>(cols), Scratch::new(gpu()).unwrap());
        scratch.reserve(gpu(), reduce::columns_scratch_bytes(rows, cols)).unwrap();
        let reserved = scratch.size_bytes();
        let on_device = upload(&x);
        for _ in 0..2 {
            reduce::column_sums_into(gpu(), &on_device, rows, cols, &mut out, &mut scratch)
                .unwrap();
            let found: Vec<f64> = out.to_vec().unwrap().into_iter().map(Tested::wide).collect();
            assert_eq!(found, expected, "{rows} rows of {cols}");
        }
        assert_eq!(scratch.size_bytes(), reserved);
    }
}

#[test]
fn sums_of_columns() {
    sums::<f32>();
    sums::<i32>();
}

#[test]
fn sums_of_columns_of_other_sizes() {
    sums::<f64>();
    sums::<f16>();
    sums::<bf16>();
}

/// Vectors or not, a column's elements are joined in the same order.
#[test]
fn alignment_changes_no_bit() {
    for (rows, cols) in [(300, 64), (1000, 8), (9, 2000)] {
        let x: Vec<f32> = values(&mut rng(), rows * cols + 3);
        let on_device = upload(&x);
        for start in 1..4 {
            let part = &x[start..start + rows * cols];
            let of = |x: &_| reduce::column_sums(gpu(), x, rows, cols).unwrap().to_vec().unwrap();
            let aligned = upload(part);
            let aligned = of(&aligned.slice(..));
            assert_same_bits(&of(&on_device.slice(start..start + rows * cols)), &aligned);
        }
    }
}

#[test]
fn extremes_of_columns() {
    let mut rng = rng();
    for (rows, cols) in SHAPES {
        let x = values::<u32>(&mut rng, rows * cols);
        let column = |c: usize| (0..rows).map(move |r| r * cols + c);
        let least = |c| column(c).map(|i| x[i]).min().unwrap_or(u32::MAX);
        let greatest = |c| column(c).map(|i| x[i]).max().unwrap_or(u32::MIN);
        let (least, greatest): (Vec<_>, Vec<_>) =
            (0..cols).map(|c| (least(c), greatest(c))).unzip();
        let on_device = upload(&x);
        let found = reduce::column_min(gpu(), &on_device, rows, cols).unwrap().to_vec().unwrap();
        assert_eq!(found, least, "{rows} rows of {cols}");
        let found = reduce::column_max(gpu(), &on_device, rows, cols).unwrap().to_vec().unwrap();
        assert_eq!(found, greatest, "{rows} rows of {cols}");
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1.0f32; 12]);
    let mut scratch = Scratch::new(gpu()).unwrap();
    let error =
        reduce::column_sums_into(gpu(), &x, 3, 4, &mut poisoned(3), &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "reducing a matrix: 4 elements are needed, 3 were given");
}
