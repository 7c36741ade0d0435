//! Transposes and permutations of axes.

use ferrowarp::ops;
use pyo3::prelude::*;

use crate::call::{Call, Outcome};

/// A copy of x with its last two axes exchanged. x has two axes, or three, of which the first counts matrices.
///
/// x: any type of 8 to 64 bits.
#[pyfunction]
#[pyo3(name = "transpose")]
pub fn transpose<'py>(py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("transpose", &[("x", Some(x))])?;
    let axes: &[usize] = match call.input(0).shape().len() {
        2 => &[1, 0],
        3 => &[0, 2, 1],
        n => return Err(call.wrong(format!("`x` has {n} axes, and needs two or three"))),
    };
    let permuted = permuted(py, &call, axes)?;
    call.give(py, permuted)
}

/// A copy of x with its axes in another order, as NumPy's transpose: axis k of the result is axis `axes[k]` of x.
///
/// x: up to three axes, any type of 8 to 64 bits.
#[pyfunction]
pub fn permute<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    axes: Vec<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::new("permute", &[("x", Some(x))])?;
    let n = call.input(0).shape().len();
    if !(1..=3).contains(&n) {
        return Err(call.wrong(format!("`x` has {n} axes, and needs one to three")));
    }
    let mut sorted = axes.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..n) {
        return Err(
            call.wrong(format!("axes are {axes:?}, and have to be 0 to {} in some order", n - 1))
        );
    }
    let permuted = permuted(py, &call, &axes)?;
    call.give(py, permuted)
}

/// The only argument with its axes in that order.
fn permuted(py: Python<'_>, call: &Call, axes: &[usize]) -> PyResult<Outcome> {
    let x = call.input(0);
    x.check_contiguous(call.operation())?;
    // The library permutes three axes: leading ones of length 1 stay where they are.
    let leading = 3 - axes.len();
    let (mut sizes, mut order) = ([1; 3], [0, 1, 2]);
    sizes[leading..].copy_from_slice(x.shape());
    order[leading..].iter_mut().zip(axes).for_each(|(own, axis)| *own = axis + leading);
    let shape: Vec<usize> = axes.iter().map(|axis| x.shape()[*axis]).collect();
    macro_rules! of_size {
        ($ty:ty) => {{
            let mut out = call.output_as::<$ty>(py, x.dtype(), shape)?;
            call.run(py, |on| {
                if x.len() > 0 {
                    ops::transpose::permute(
                        on,
                        &x.values::<$ty>(call.lease())?,
                        &mut out.buffer,
                        sizes,
                        order,
                    )?;
                }
                call.finish(out)
            })
        }};
    }
    match x.dtype().bytes() {
        1 => of_size!(u8),
        2 => of_size!(u16),
        4 => of_size!(u32),
        _ => of_size!(u64),
    }
}
