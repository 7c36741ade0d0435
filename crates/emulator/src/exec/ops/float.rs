//! Arithmetic of `.f32` and `.f64`.

use crate::exec::frame::{Frame, Lane};
use crate::numeric::float;
use crate::program::{LANES, Row32};

/// An f32 whose subnormals are zeros, for `.ftz`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Flushed(pub f32);

impl Lane for Flushed {
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
        Self(float::ftz(f32::from_bits(bits)))
    }
    #[inline(always)]
    fn to_bits(self) -> u32 {
        float::ftz(self.0).to_bits()
    }
}
