//! What each rank gives: small integers, of which every type has exact sums.

use cuda_std::half::{bf16, f16};

use crate::element::{Element, Reduction};

/// A number that can be compared with what the CPU finds.
pub(super) trait Number: Element + PartialEq {
    const IS_SIGNED: bool;
    /// How far from an average the sums of rounded terms may be, for each rank and each unit: floats alone are rounded.
    const EPSILON: f64;

    /// The number; of an integer the lowest bits.
    fn of(value: i128) -> Self;

    fn to_f64(self) -> f64;
}

macro_rules! integers {
    ($($name:ty),*) => {$(
        impl Number for $name {
            const IS_SIGNED: bool = <$name>::MIN != 0;
            const EPSILON: f64 = 0.0;

            fn of(value: i128) -> Self {
                value as $name
            }

            fn to_f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

macro_rules! floats {
    ($($name:ty: $epsilon:expr, $of:expr, $to:expr;)*) => {$(
        impl Number for $name {
            const IS_SIGNED: bool = true;
            const EPSILON: f64 = $epsilon;

            fn of(value: i128) -> Self {
                $of(value as f64)
            }

            fn to_f64(self) -> f64 {
                $to(self)
            }
        }
    )*};
}

integers!(i8, u8, i32, u32, i64, u64);
floats! {
    f16: 9.8e-4, f16::from_f64, f16::to_f64;
    bf16: 7.9e-3, bf16::from_f64, bf16::to_f64;
    f32: 1.2e-7, |value| value as f32, f64::from;
    f64: 2.3e-16, |value| value, |value| value;
}

/// What rank `rank` of `ranks` gives at that index.
pub(super) fn sample<T: Number>(reduction: Reduction, rank: u32, index: usize, ranks: u32) -> i128 {
    let (rank, index, ranks) = (i128::from(rank), index as i128, i128::from(ranks));
    // So that sums stay below 128, which i8 has, and 256, to which bf16 counts.
    let range = (120 / ranks).clamp(1, 16);
    let mixed = (rank * 7 + index * 13 + rank * index) % range;
    match reduction {
        Reduction::Sum | Reduction::Min | Reduction::Max if T::IS_SIGNED => mixed - range / 2,
        Reduction::Sum | Reduction::Min | Reduction::Max => mixed,
        // One rank has 2, the others 1.
        Reduction::Product => 1 + i128::from(rank == index % ranks),
        // A sum that is a multiple of the ranks.
        Reduction::Average => index % range.min(8) + if rank == 0 { ranks } else { 0 },
    }
}

/// What comes of all ranks' samples, as a plain loop finds it.
pub(super) fn reduced<T: Number>(reduction: Reduction, index: usize, ranks: u32) -> T {
    let samples = (0..ranks).map(|rank| sample::<T>(reduction, rank, index, ranks));
    T::of(match reduction {
        Reduction::Sum => samples.sum(),
        Reduction::Product => samples.product(),
        Reduction::Min => samples.min().unwrap_or(0),
        Reduction::Max => samples.max().unwrap_or(0),
        Reduction::Average => samples.sum::<i128>() / i128::from(ranks),
    })
}

/// What rank `rank` gives where nothing is reduced.
pub(super) fn moved(rank: u32, index: usize) -> u64 {
    (u64::from(rank) << 40) ^ (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The share of a rank, of which some are empty and no two neighbours alike.
pub(super) fn share(rank: u32, scale: usize) -> usize {
    [3, 0, 7, 1, 12, 0, 5][rank as usize % 7] * scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_eight_ranks_are_exact_in_every_type() {
        for index in 0..500 {
            for reduction in Reduction::ALL {
                let wide: i64 = reduced(reduction, index, 8);
                assert_eq!(i64::from(reduced::<i8>(reduction, index, 8)), wide);
                assert_eq!(reduced::<bf16>(reduction, index, 8).to_f64(), wide as f64);
                assert_eq!(reduced::<f16>(reduction, index, 8).to_f64(), wide as f64);
            }
        }
    }

    #[test]
    fn samples_differ_between_ranks() {
        let differ = |index| {
            sample::<i32>(Reduction::Sum, 1, index, 4) != sample::<i32>(Reduction::Sum, 2, index, 4)
        };
        assert!((0..100).filter(|index| differ(*index)).count() > 50);
        assert_ne!(moved(1, 5), moved(2, 5));
    }
}
