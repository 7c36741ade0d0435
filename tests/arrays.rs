//! Arrays of `ndarray` and matrices of `faer` to and from device memory. `make arrays` runs them: other builds need not compile `faer`.

use faer::{Mat, MatRef};
use ferrowarp::ops::matmul::{Matrix, MatrixMut, Options, registers_into};
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult, PinnedBuffer};
use ndarray::{Array, Array2, Array3, ArrayView2, Axis, arr0, s};

fn gpu() -> Gpu {
    Gpu::new().expect("a device")
}

fn numbers(rows: usize, columns: usize) -> Array2<f32> {
    Array::from_shape_fn((rows, columns), |(i, j)| (i * 31 + j * 7 % 5) as f32)
}

#[test]
fn arrays_of_any_strides_are_row_major_on_the_device() -> GpuResult<()> {
    let (gpu, x) = (gpu(), numbers(17, 9));
    let whole = DeviceBuffer::from_ndarray(&gpu, &x)?;
    assert_eq!(whole.to_vec()?, x.as_slice().expect("it is row-major"));
    assert_eq!(whole.to_ndarray((17, 9))?, x);
    for part in [x.t(), x.slice(s![3..11;2, 1..8]), x.slice(s![..;-1, ..]), x.slice(s![0..0, ..])] {
        let there = DeviceBuffer::from_ndarray(&gpu, &part)?;
        assert_eq!(there.to_vec()?, part.iter().copied().collect::<Vec<_>>());
        assert_eq!(there.to_ndarray(part.raw_dim())?, part);
    }
    let cube = Array3::from_shape_fn((2, 3, 4), |(i, j, k)| i * 100 + j * 10 + k);
    let turned = cube.view().permuted_axes([2, 0, 1]);
    assert_eq!(DeviceBuffer::from_ndarray(&gpu, &turned)?.to_ndarray((4, 2, 3))?, turned);
    assert_eq!(DeviceBuffer::from_ndarray(&gpu, &arr0(5u8))?.to_ndarray(())?, arr0(5));
    Ok(())
}

/// Page-locked memory is a slice, and a view of one is an array.
#[test]
fn a_view_of_page_locked_memory_goes_as_it_is() -> GpuResult<()> {
    let gpu = gpu();
    let pinned = PinnedBuffer::from_slice(&gpu, &[1u32, 2, 3, 4, 5, 6])?;
    let view = ArrayView2::from_shape((2, 3), &pinned).expect("it fits");
    let sums = view.sum_axis(Axis(0));
    assert_eq!(DeviceBuffer::from_ndarray(&gpu, &view)?.to_vec()?, *pinned);
    assert_eq!(DeviceBuffer::from_ndarray(&gpu, &sums)?.to_vec()?, [5, 7, 9]);
    let view = MatRef::from_column_major_slice(&pinned, 2, 3);
    assert_eq!(DeviceBuffer::from_faer(&gpu, view)?.to_vec()?, *pinned);
    Ok(())
}

#[test]
fn matrices_of_any_strides_are_column_major_on_the_device() -> GpuResult<()> {
    let gpu = gpu();
    let x = Mat::from_fn(17, 9, |i, j| (i * 31 + j) as f64);
    let transposed = x.as_ref().transpose();
    let parts = [
        x.as_ref(),
        transposed,
        x.as_ref().submatrix(3, 1, 8, 5),
        transposed.submatrix(1, 2, 5, 6),
        x.as_ref().submatrix(0, 4, 17, 1),
        x.as_ref().submatrix(0, 0, 0, 3),
        x.as_ref().submatrix(0, 0, 3, 0),
        x.as_ref().reverse_rows(),
    ];
    for part in parts {
        let (rows, columns) = part.shape();
        let there = DeviceBuffer::from_faer(&gpu, part)?;
        let expected: Vec<_> =
            (0..columns).flat_map(|j| (0..rows).map(move |i| part[(i, j)])).collect();
        assert_eq!(there.to_vec()?, expected);
        assert_eq!(there.to_faer(rows, columns)?, part);
    }
    Ok(())
}

#[test]
fn a_shape_of_another_size_is_refused() -> GpuResult<()> {
    let x = DeviceBuffer::from_slice(&gpu(), &[0u8; 6])?;
    let errors = [
        x.to_ndarray((2, 2)).map(drop),
        x.to_ndarray((usize::MAX, 2)).map(drop),
        x.to_ndarray(()).map(drop),
        x.to_faer(3, 3).map(drop),
        x.to_faer(usize::MAX, 4).map(drop),
    ];
    for error in errors {
        let error = error.expect_err("another size");
        assert!(matches!(error.root(), GpuError::SizeMismatch { found: 6, .. }), "{error}");
    }
    Ok(())
}

/// The product of an `ndarray` (row-major) and a `faer` matrix (column-major).
#[test]
fn a_product_takes_both_where_they_are() -> GpuResult<()> {
    let gpu = gpu();
    let (a, b) = (numbers(5, 7), Mat::from_fn(7, 3, |i, j| (i + 2 * j) as f32));
    let (x, y) =
        (DeviceBuffer::from_ndarray(&gpu, &a)?, DeviceBuffer::from_faer(&gpu, b.as_ref())?);
    let mut d = DeviceBuffer::<f32>::zeroed(&gpu, 15)?;
    let (x, y) = (Matrix::row_major(&x, 5, 7)?, Matrix::column_major(&y, 7, 3)?);
    registers_into(&gpu, x, y, MatrixMut::row_major(&mut d, 5, 3)?, Options::new())?;
    // Small integers: every order of the sums is exact.
    let expected =
        Array::from_shape_fn((5, 3), |(i, j)| (0..7).map(|k| a[[i, k]] * b[(k, j)]).sum::<f32>());
    assert_eq!(d.to_ndarray((5, 3))?, expected);
    Ok(())
}
