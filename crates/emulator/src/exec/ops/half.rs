//! Arithmetic of `.f16` and `.bf16`, alone and in pairs.

use crate::exec::frame::{Frame, Lane};
use crate::numeric::half::{self, Bf16, F16, Half};
use crate::program::{LANES, Row32};

macro_rules! compared {
    ($($(#[$doc:meta])* $name:ident, |$bits:ident| $widen:expr, $format:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(pub f32);

        impl Lane for $name {
            type Bits = u32;
            #[inline(always)]
            fn row(frame: &Frame, slot: u32) -> &Row32 {
                frame.row32(slot)
            }
            #[inline(always)]
            fn row_mut(frame: &mut Frame, slot: u32) -> &mut [u32; LANES] {
                &mut frame.rows32[slot as usize]
            }
            #[inline(always)]
            fn from_bits(bits: u32) -> Self {
                let $bits = bits as u16;
                Self($widen)
            }
            #[inline(always)]
            fn to_bits(self) -> u32 {
                half::narrow::<$format>(self.0, crate::numeric::Rounding::NearestEven).into()
            }
        }
    )*};
}

compared! {
    /// An f16 as an f32.
    Single, |bits| F16::widen(bits), F16;
    /// An f16 whose subnormals are zeros, as an f32.
    FlushedHalf, |bits| F16::widen(half::ftz_f16(bits)), F16;
    /// A bf16 as an f32.
    Brain, |bits| Bf16::widen(bits), Bf16;
}
