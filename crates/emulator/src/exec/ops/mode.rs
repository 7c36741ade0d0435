//! Modifiers of floating-point instructions, packed into an operation's immediate.

use crate::isa::Modifiers;
use crate::numeric::{Rounding, float};

/// Rounding, `.ftz`, `.sat`, `.relu` and their like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub u64);

const ROUNDINGS: [Rounding; 5] =
    [Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up, Rounding::NearestAway];
const FLUSH: u64 = 1 << 3;
const SATURATE: u64 = 1 << 4;
const RELU: u64 = 1 << 5;
const INTEGRAL: u64 = 1 << 6;
const NAN: u64 = 1 << 7;
const XOR_SIGN: u64 = 1 << 8;
const FINITE: u64 = 1 << 9;

impl Mode {
    /// What the modifiers say.
    pub fn of(modifiers: &Modifiers<'_>) -> Self {
        let rounding =
            match modifiers.one_of(&["rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"]) {
                Some("rz" | "rzi") => 1,
                Some("rm" | "rmi") => 2,
                Some("rp" | "rpi") => 3,
                Some("rna") => 4,
                _ => 0,
            };
        let integral = modifiers.one_of(&["rni", "rzi", "rmi", "rpi"]).is_some();
        let flag = |held: bool, bit: u64| if held { bit } else { 0 };
        Self(
            rounding
                | flag(modifiers.has("ftz"), FLUSH)
                | flag(modifiers.has("sat"), SATURATE)
                | flag(modifiers.has("relu"), RELU)
                | flag(integral, INTEGRAL)
                | flag(modifiers.has("NaN"), NAN)
                | flag(modifiers.has("xorsign"), XOR_SIGN)
                | flag(modifiers.has("satfinite"), FINITE),
        )
    }

    /// To nearest even, and nothing else.
    pub fn is_plain(self) -> bool {
        self.0 == 0
    }

    /// How results are rounded.
    #[inline(always)]
    pub fn rounding(self) -> Rounding {
        ROUNDINGS[(self.0 & 7) as usize % ROUNDINGS.len()]
    }

    /// `.rni` and its like: to an integral value.
    #[inline(always)]
    pub fn integral(self) -> bool {
        self.0 & INTEGRAL != 0
    }

    /// `.ftz`
    #[inline(always)]
    pub fn flush(self) -> bool {
        self.0 & FLUSH != 0
    }

    /// `.sat`
    #[inline(always)]
    pub fn saturate(self) -> bool {
        self.0 & SATURATE != 0
    }

    /// `.satfinite`
    #[inline(always)]
    pub fn finite(self) -> bool {
        self.0 & FINITE != 0
    }

    /// `.relu`
    #[inline(always)]
    pub fn relu(self) -> bool {
        self.0 & RELU != 0
    }

    /// `.NaN`
    #[inline(always)]
    pub fn nan(self) -> bool {
        self.0 & NAN != 0
    }

    /// `.xorsign.abs`
    #[inline(always)]
    pub fn xor_sign(self) -> bool {
        self.0 & XOR_SIGN != 0
    }

    /// An operand of `.f32`.
    #[inline(always)]
    pub fn operand(self, value: f32) -> f32 {
        if self.flush() { float::ftz(value) } else { value }
    }

    /// A result of `.f32`.
    #[inline(always)]
    pub fn result(self, value: f32) -> f32 {
        let value = if self.flush() { float::ftz(value) } else { value };
        if self.saturate() { float::sat_f32(value) } else { value }
    }

    /// A rounded result of `.f32`, whose exact value is that.
    #[inline(always)]
    pub fn rounded(self, value: f32, exact: impl FnOnce() -> f64) -> f32 {
        let value = match self.flush() {
            true => float::ftz_rounded(value, exact, self.rounding()),
            false => value,
        };
        if self.saturate() { float::sat_f32(value) } else { value }
    }

    /// A result of `.f64`.
    #[inline(always)]
    pub fn result_f64(self, value: f64) -> f64 {
        if self.saturate() { float::sat_f64(value) } else { value }
    }
}
