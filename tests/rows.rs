//! What the tests of operations over rows share: element types, shapes that hurt, and comparisons.

use cuda_std::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::RowValue;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::poisoned;

/// An element type with its precision.
pub trait Element: RowValue {
    /// The largest relative error of rounding.
    const UNIT: f64;
    /// Half of the smallest number.
    const LEAST: f64;

    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

impl Element for f32 {
    const UNIT: f64 = 1.0 / (1 << 24) as f64;
    const LEAST: f64 = 0.0;

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Element for f16 {
    const UNIT: f64 = 1.0 / (1 << 11) as f64;
    const LEAST: f64 = 1.0 / (1 << 25) as f64;

    fn from_f64(value: f64) -> Self {
        f16::from_f64(value)
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

impl Element for bf16 {
    const UNIT: f64 = 1.0 / (1 << 8) as f64;
    const LEAST: f64 = 0.0;

    fn from_f64(value: f64) -> Self {
        bf16::from_f64(value)
    }

    fn to_f64(self) -> f64 {
        self.into()
    }
}

/// Rows and columns: around a vector, the lanes of a warp, a block, eight blocks, and what those hold; aligned
/// rows and others.
pub const SHAPES: [(usize, usize); 30] = [
    (0, 8),
    (5, 0),
    (1, 1),
    (300, 1),
    (257, 2),
    (77, 3),
    (65, 4),
    (33, 7),
    (40, 8),
    (9, 31),
    (70, 32),
    (9, 33),
    (17, 127),
    (18, 128),
    (7, 255),
    (9, 256),
    (5, 257),
    (3, 1000),
    (4, 1024),
    (3, 1025),
    (3, 1032),
    (2, 2048),
    (2, 5120),
    (2, 8192),
    (2, 8191),
    (1, 16_384),
    (1, 16_392),
    (1, 32_768),
    (2, 32_776),
    (1, 40_001),
];

/// Rows that only some forms hold: of one block's and two blocks' shared memory, of the largest clusters, and longer.
pub const LONG: [(usize, usize); 5] =
    [(3, 33_000), (1, 65_544), (1, 131_072), (1, 262_144), (1, 262_152)];

/// What each form sees: lanes, a block, one or several blocks' shared memory, a cluster's registers, a stream of the row.
pub const FORMS: [usize; 6] = [12, 200, 3000, 40_000, 120_000, 262_152];

/// A test of each name that calls the generic function, with `f32`, `f16` and `bf16` in turn.
macro_rules! every_type {
    ($check:ident: $f32:ident $f16:ident $bf16:ident) => {
        #[test]
        fn $f32() {
            $check::<f32>();
        }

        #[test]
        fn $f16() {
            $check::<cuda_std::f16>();
        }

        #[test]
        fn $bf16() {
            $check::<cuda_std::bf16>();
        }
    };
}
pub(crate) use every_type;

/// The rows of what was found, each with what it was made from, and their numbers.
pub fn rows_of<'a, T, U>(
    found: &'a [T],
    from: &'a [U],
    columns: usize,
) -> impl Iterator<Item = (usize, (&'a [T], &'a [U]))> {
    assert_eq!(found.len(), from.len());
    found.chunks(columns.max(1)).zip(from.chunks(columns.max(1))).enumerate()
}

/// `n` random numbers in `-scale..scale`, as the type holds them.
pub fn random<T: Element>(rng: &mut StdRng, n: usize, scale: f64) -> Vec<T> {
    (0..n).map(|_| T::from_f64(rng.random_range(-scale..scale))).collect()
}

/// The values as f64.
pub fn exact<T: Element>(values: &[T]) -> Vec<f64> {
    values.iter().map(|value| value.to_f64()).collect()
}

/// `n` poisoned elements. (Bytes `0xA5` are a small negative number of each type.)
pub fn unwritten<T: Element>(n: usize) -> DeviceBuffer<T> {
    poisoned(n)
}

/// Panics unless `found` is `expected` to `allowed` and the rounding of the type; NaN is expected where it is.
pub fn assert_near<T: Element>(found: T, expected: f64, allowed: f64, what: impl Fn() -> String) {
    let found = found.to_f64();
    if expected.is_nan() || expected.is_infinite() {
        let same = found == expected || found.is_nan() && expected.is_nan();
        assert!(same, "{}: {found} instead of {expected}", what());
        return;
    }
    let allowed = allowed * (1.0 + T::UNIT) + T::UNIT * expected.abs() + T::LEAST;
    let error = (found - expected).abs();
    assert!(error <= allowed, "{}: {found} instead of {expected}, allowed {allowed:e}", what());
}
