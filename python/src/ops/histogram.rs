//! Histograms.

use ferrowarp::ops;
use ferrowarp::ops::histogram::Bins;
use pyo3::prelude::*;

use crate::call::Call;
use crate::dtype::with_type;

/// What `bins` says: their number, or their boundaries.
#[derive(FromPyObject)]
pub enum BinsArgument<L> {
    /// Their number.
    Number(u32),
    /// Their boundaries.
    Levels(Vec<L>),
}

/// How many elements of x, which has one axis, fall into each bin (uint32).
///
/// bins: the number of bins of equal width that cover range=(low, high); or a sequence of boundaries in ascending order. Without
/// a range, an integer is the number of its bin. Bins are half open: an element belongs to the bin that begins at or below it and
/// ends above it. Elements outside all bins, and NaN, are not counted.
///
/// x: uint8, uint16, uint32, float32. Boundaries and range are integers, or floats for float32.
#[pyfunction]
#[pyo3(name = "histogram", signature = (x, bins, range = None))]
pub fn histogram<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    bins: &Bound<'py, PyAny>,
    range: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let call = Call::waiting("histogram", &[("x", Some(x))])?;
    let x = call.input(0);
    x.vector("histogram")?;
    /// The counts of samples of `$ty`, whose boundaries are `$level`; `$whole` are the bins without a range.
    macro_rules! count {
        ($ty:ty, $level:ty, $whole:expr) => {{
            let bins: BinsArgument<$level> = bins.extract()?;
            let range: Option<($level, $level)> = range.map(|range| range.extract()).transpose()?;
            if matches!(bins, BinsArgument::Levels(_)) && range.is_some() {
                return Err(call.wrong("boundaries have no range: leave one of the two out"));
            }
            if matches!(bins, BinsArgument::Number(_)) && range.is_none() && $whole.is_none() {
                return Err(call.wrong("bins of floats need range=(low, high)"));
            }
            call.run(py, |on| {
                let bins = match (bins, range) {
                    (BinsArgument::Levels(levels), _) => Bins::<$ty>::ranges(on, &levels)?,
                    (BinsArgument::Number(n), Some((low, high))) => Bins::even(on, low..high, n)?,
                    (BinsArgument::Number(n), None) => {
                        let whole: fn(u32) -> ($level, $level) = $whole.expect("checked above");
                        let (low, high) = whole(n);
                        Bins::even(on, low..high, n)?
                    }
                };
                let counts = ops::histogram::count(on, &x.values::<$ty>(call.lease())?, &bins)?;
                call.result(counts)
            })
        }};
    }
    /// Where an integer is the number of its bin.
    const BY_NUMBER: Option<fn(u32) -> (u64, u64)> = Some(|n| (0, n.into()));
    const NONE: Option<fn(u32) -> (f32, f32)> = None;
    let counts = match x.dtype() {
        crate::dtype::DType::U8 => count!(u8, u64, BY_NUMBER),
        crate::dtype::DType::U16 => count!(u16, u64, BY_NUMBER),
        crate::dtype::DType::U32 => count!(u32, u64, BY_NUMBER),
        crate::dtype::DType::F32 => count!(f32, f32, NONE),
        _ => with_type!("histogram", x.dtype(), [u8 u16 u32 f32], _T => unreachable!()),
    }?;
    call.give(py, counts)
}
