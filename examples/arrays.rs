//! Arrays of `ndarray` and matrices of `faer` on the device: the host prepares them, the device multiplies and sorts them, and `faer` solves what is left.
//!
//! `cargo run -p examples --features arrays --example arrays`

use std::error::Error;

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use ferrowarp::ops::matmul::{Matrix, MatrixMut, double_into, double_scratch_bytes};
use ferrowarp::ops::{Scratch, sort};
use ferrowarp::{DeviceBuffer, Gpu};
use ndarray::{Array1, Array2, Axis};

/// Points of a line, and the numbers that describe it.
const POINTS: usize = 2000;
const UNKNOWNS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = Gpu::new()?;

    // A polynomial with known coefficients at many points: what is to be found again.
    let at = Array1::linspace(-1.0, 1.0, POINTS);
    let powers = Array2::from_shape_fn((POINTS, UNKNOWNS), |(i, j)| f64::powi(at[i], j as i32));
    let values = powers.dot(&Array1::from(vec![1.5, -0.5, 2.0])).insert_axis(Axis(1));

    // Least squares: the products of the tall matrices on the device, which takes ndarray's rows as they lie.
    let (a, y) =
        (DeviceBuffer::from_ndarray(&gpu, &powers)?, DeviceBuffer::from_ndarray(&gpu, &values)?);
    let (a, y) = (Matrix::row_major(&a, POINTS, UNKNOWNS)?, Matrix::row_major(&y, POINTS, 1)?);
    let mut square = DeviceBuffer::<f64>::zeroed(&gpu, UNKNOWNS * UNKNOWNS)?;
    let mut right = DeviceBuffer::<f64>::zeroed(&gpu, UNKNOWNS)?;
    let mut scratch = Scratch::new(&gpu)?;
    for (b, d) in [
        (a, MatrixMut::column_major(&mut square, UNKNOWNS, UNKNOWNS)?),
        (y, MatrixMut::column_major(&mut right, UNKNOWNS, 1)?),
    ] {
        scratch.reserve(&gpu, double_scratch_bytes(&gpu, a.transposed(), b, &d)?)?;
        double_into(&gpu, a.transposed(), b, d, (1.0, 0.0), None, &mut scratch)?;
    }

    // The small system on the host: results come back as faer's matrices.
    let square: Mat<f64> = square.to_faer(UNKNOWNS, UNKNOWNS)?;
    let found = square
        .llt(Side::Lower)
        .map_err(|_| "the points do not determine it")?
        .solve(right.to_faer(UNKNOWNS, 1)?);
    println!("coefficients: {:.6} {:.6} {:.6}", found[(0, 0)], found[(1, 0)], found[(2, 0)]);
    for (row, expected) in [1.5, -0.5, 2.0].into_iter().enumerate() {
        assert!((found[(row, 0)] - expected).abs() < 1e-9);
    }

    // Any array: here the values in order, in the shape of a matrix.
    let ordered = sort::sort(
        &gpu,
        &DeviceBuffer::from_ndarray(&gpu, &values)?,
        sort::SortOptions::ASCENDING,
    )?;
    let ordered = ordered.to_ndarray((POINTS / 4, 4))?;
    assert!(ordered.iter().is_sorted());
    println!("the least of {POINTS} values is {:.4}", ordered[[0, 0]]);
    Ok(())
}
