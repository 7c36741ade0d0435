//! Conversions of 8 bits.

use crate::put_rows;
use cuda_std::number::{E4m3, E4m3x2, E5m2, E5m2x2, F16x2};
use cuda_std::prelude::*;

/// Results of two floats.
pub const FROM_FLOATS: usize = 3;
/// Results of two halves.
pub const FROM_HALVES: usize = 2;
/// Results of two bytes.
pub const WIDENING: usize = 7;

/// The functions of one type.
macro_rules! bytes {
    ($floats:ident, $halves:ident, $widening:ident, $byte:ident, $pair:ident) => {
        #[inline(always)]
        pub fn $floats([x, y]: [f32; 2]) -> [u32; FROM_FLOATS] {
            [
                $pair::saturating(x, y).to_bits().into(),
                $pair::saturating_relu(x, y).to_bits().into(),
                $byte::saturating(x).to_bits().into(),
            ]
        }

        #[inline(always)]
        pub fn $halves(halves: u32) -> [u32; FROM_HALVES] {
            let halves = F16x2::from_bits(halves);
            [
                $pair::from_halves(halves).to_bits().into(),
                $pair::from_halves_relu(halves).to_bits().into(),
            ]
        }

        #[inline(always)]
        pub fn $widening(bits: u16) -> [u32; WIDENING] {
            let pair = $pair::from_bits(bits);
            let ([low, high], [x, y]) = (pair.to_array(), pair.widen());
            [
                pair.to_halves().to_bits(),
                pair.to_halves_relu().to_bits(),
                x.to_bits(),
                y.to_bits(),
                low.to_f16().to_bits().into(),
                high.widen().to_bits(),
                (pair == $pair::new(high, low)).into(),
            ]
        }
    };
}

bytes!(e4m3_from_floats, e4m3_from_halves, e4m3_widening, E4m3, E4m3x2);
bytes!(e5m2_from_floats, e5m2_from_halves, e5m2_widening, E5m2, E5m2x2);

/// Kernels that apply a function to each element.
macro_rules! kernels {
    ($($name:ident: $input:ty => $function:ident;)*) => {$(
        #[kernel]
        pub fn $name(index: ThreadIndex, x: &[$input], mut out: DisjointSlice<u32>) {
            if let Some(&x) = x.get(index.get()) {
                put_rows(index, $function(x), &mut out);
            }
        }
    )*};
}

kernels! {
    floats_to_e4m3: [f32; 2] => e4m3_from_floats;
    floats_to_e5m2: [f32; 2] => e5m2_from_floats;
    halves_to_e4m3: u32 => e4m3_from_halves;
    halves_to_e5m2: u32 => e5m2_from_halves;
    widen_e4m3: u16 => e4m3_widening;
    widen_e5m2: u16 => e5m2_widening;
}
