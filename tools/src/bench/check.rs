//! Whether results are right.

use std::fmt::Display;

use bytemuck::Pod;
use thiserror::Error;

use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::memory::DeviceBuffer;

/// A wrong result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The device or its driver.
    #[error(transparent)]
    Gpu(#[from] GpuError),

    /// An element is another than the CPU's.
    #[error("element {index} is {found}; the CPU has {expected}")]
    Element {
        /// Its index.
        index: usize,
        /// What stands there.
        found: String,
        /// What should.
        expected: String,
    },

    /// A number is further from the CPU's than rounding explains.
    #[error("the {what} is {found}; the CPU has {expected}, and rounding explains {tolerance:.1e}")]
    Far {
        /// What number.
        what: &'static str,
        /// What was found.
        found: f64,
        /// What should have been.
        expected: f64,
        /// How far it may be.
        tolerance: f64,
    },

    /// A property does not hold.
    #[error("{what} at element {index}")]
    Broken {
        /// What is wrong, in words: `"keys out of order"`.
        what: &'static str,
        /// Where.
        index: usize,
    },
}

/// How many elements [`samples`] looks at in each of its places.
const RUN: usize = 128;

/// Compares some elements with the CPU's, bit for bit: those at the front, in the middle, at the end, and some between.
///
/// # Errors
/// The first that differs, or what the driver answers.
pub fn samples<T: Pod + PartialEq + Display>(
    out: &DeviceBuffer<T>,
    expected: impl Fn(usize) -> T,
) -> Result<(), Fault> {
    for_samples(out, |index, found| {
        let expected = expected(index);
        let same = bytemuck::bytes_of(&found) == bytemuck::bytes_of(&expected);
        if same { Ok(()) } else { Err(element(index, found, expected)) }
    })
}

/// The fault of one element.
pub fn element(index: usize, found: impl Display, expected: impl Display) -> Fault {
    Fault::Element { index, found: found.to_string(), expected: expected.to_string() }
}

/// Hands the sampled elements and their indices to `look`, until that finds a fault.
///
/// # Errors
/// What `look` finds, or what the driver answers.
pub fn for_samples<T: Pod>(
    out: &DeviceBuffer<T>,
    mut look: impl FnMut(usize, T) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for start in starts(out.len()) {
        let part: GpuResult<Vec<T>> = out.slice(start..out.len().min(start + RUN)).to_vec();
        for (i, found) in part?.into_iter().enumerate() {
            look(start + i, found)?;
        }
    }
    Ok(())
}

/// Where the samples of `n` elements begin.
fn starts(n: usize) -> Vec<usize> {
    const PLACES: usize = 9;
    let last = n.saturating_sub(RUN);
    let mut starts: Vec<_> = (0..PLACES).map(|k| (last as u128 * k as u128 / 8) as usize).collect();
    starts.dedup();
    starts
}

/// Compares a number with the CPU's.
///
/// # Errors
/// A difference of more than `tolerance`, or a NaN.
pub fn near(what: &'static str, found: f64, expected: f64, tolerance: f64) -> Result<(), Fault> {
    let far = Fault::Far { what, found, expected, tolerance };
    if (found - expected).abs() <= tolerance { Ok(()) } else { Err(far) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_reach_both_ends() {
        assert_eq!(starts(0), [0]);
        assert_eq!(starts(100), [0]);
        let many = starts(1 << 40);
        assert_eq!((many[0], many[8]), (0, (1 << 40) - RUN));
    }

    #[test]
    fn a_nan_is_never_near() {
        near("sum", 1.0, 1.5, 0.5).unwrap();
        near("sum", f64::NAN, 1.0, 9.0).unwrap_err();
        let text = near("sum", 1.0, 2.0, 0.5).unwrap_err().to_string();
        assert_eq!(text, "the sum is 1; the CPU has 2, and rounding explains 5.0e-1");
    }
}
