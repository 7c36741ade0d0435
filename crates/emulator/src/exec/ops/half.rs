//! Arithmetic of `.f16` and `.bf16`, alone and in pairs.

use super::mode::Mode;
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::{Cx, Flow, Frame, Handler, LANES, Lane, Op, Row32, Step};
use crate::numeric::half::{self, Bf16, F16, Half};
use crate::numeric::{Rounding, approx, float};

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

/// An operand, with `.ftz`, which only `.f16` has.
#[inline(always)]
fn operand(mode: Mode, bits: u16) -> u16 {
    if mode.flush() { half::ftz_f16(bits) } else { bits }
}

/// A result, with `.ftz`, `.sat` and `.relu`.
#[inline(always)]
fn result<H: Half>(mode: Mode, bits: u16) -> u16 {
    let bits = operand(mode, bits);
    let bits = if mode.saturate() { half::sat::<H>(bits) } else { bits };
    if mode.relu() { half::relu::<H>(bits) } else { bits }
}

/// A product or sum, with `.ftz`, which only `.f16` has.
#[inline(always)]
fn flushed(mode: Mode, bits: u16, exact: f64) -> u16 {
    const SMALLEST_BITS: u16 = 0x0400;
    const SMALLEST: f64 = 1. / 16384.;
    let tiny = || float::is_tiny(exact, SMALLEST, 11, Rounding::NearestEven);
    match mode.flush() && bits & 0x7fff == SMALLEST_BITS && tiny() {
        true => bits & 0x8000,
        false => bits,
    }
}

#[inline(always)]
fn two<H: Half>(imm: u64, a: u16, b: u16, f: impl Fn(u16, u16) -> u16) -> u16 {
    let mode = Mode(imm);
    result::<H>(mode, f(operand(mode, a), operand(mode, b)))
}

macro_rules! two_operands {
    ($($(#[$doc:meta])* $name:ident: |$imm:ident, $h:ident, $a:ident, $b:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            fn one<$h: Half>($imm: u64, $a: u16, $b: u16) -> u16 {
                $value
            }
            let run = match modifiers.ty(0)? {
                Type::F16 => lanes!(op; u16 = |a: u16, b: u16| one::<F16>(op.imm, a, b)),
                Type::Bf16 => lanes!(op; u16 = |a: u16, b: u16| one::<Bf16>(op.imm, a, b)),
                Type::F16x2 => lanes!(op; u32 = |a: u32, b: u32| half::both2(a, b, |a, b| one::<F16>(op.imm, a, b))),
                Type::Bf16x2 => lanes!(op; u32 = |a: u32, b: u32| half::both2(a, b, |a, b| one::<Bf16>(op.imm, a, b))),
                _ => return None,
            };
            Some(Pick::with(run, Mode::of(modifiers).0))
        }
    )*};
}

two_operands! {
    /// `add`
    add: |imm, H, a, b| two::<H>(imm, a, b, half::add::<H>);
    /// `sub`
    sub: |imm, H, a, b| two::<H>(imm, a, b, half::sub::<H>);
    /// `mul`
    mul: |imm, H, a, b| {
        let exact = |a, b| f64::from(H::widen(a)) * f64::from(H::widen(b));
        two::<H>(imm, a, b, |a, b| flushed(Mode(imm), half::mul::<H>(a, b), exact(a, b)))
    };
    /// `min`
    min: |imm, H, a, b| two::<H>(imm, a, b, |a, b| half::pick::<H>(a, b, ordered(imm, float::min_f32, float::min_nan_f32)));
    /// `max`
    max: |imm, H, a, b| two::<H>(imm, a, b, |a, b| half::pick::<H>(a, b, ordered(imm, float::max_f32, float::max_nan_f32)));
}

/// The form of a minimum or maximum that the modifiers ask for.
fn ordered(
    imm: u64,
    plain: fn(f32, f32) -> f32,
    nan: fn(f32, f32) -> f32,
) -> impl Fn(f32, f32) -> f32 {
    let mode = Mode(imm);
    let pick = if mode.nan() { nan } else { plain };
    move |a, b| if mode.xor_sign() { float::xorsign_abs_f32(a, b, pick) } else { pick(a, b) }
}

/// `fma`
pub fn fma(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn one<H: Half>(imm: u64, a: u16, b: u16, c: u16) -> u16 {
        let mode = Mode(imm);
        let (a, b, c) = (operand(mode, a), operand(mode, b), operand(mode, c));
        let wide = |bits: u16| f64::from(H::widen(bits));
        let exact = wide(a) * wide(b) + wide(c);
        result::<H>(mode, flushed(mode, half::fma::<H>(a, b, c), exact))
    }
    let run = match modifiers.ty(0)? {
        Type::F16 => lanes!(op; u16 = |a: u16, b: u16, c: u16| one::<F16>(op.imm, a, b, c)),
        Type::Bf16 => lanes!(op; u16 = |a: u16, b: u16, c: u16| one::<Bf16>(op.imm, a, b, c)),
        Type::F16x2 => lanes!(op; u32 = |a: u32, b: u32, c: u32| {
            half::both3(a, b, c, |a, b, c| one::<F16>(op.imm, a, b, c))
        }),
        Type::Bf16x2 => lanes!(op; u32 = |a: u32, b: u32, c: u32| {
            half::both3(a, b, c, |a, b, c| one::<Bf16>(op.imm, a, b, c))
        }),
        _ => return None,
    };
    Some(Pick::with(run, Mode::of(modifiers).0))
}

macro_rules! one_operand {
    ($($(#[$doc:meta])* $name:ident: |$imm:ident, $h:ident, $a:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            fn one<$h: Half>($imm: u64, $a: u16) -> u16 {
                $value
            }
            let run = match modifiers.ty(0)? {
                Type::F16 => lanes!(op; u16 = |a: u16| one::<F16>(op.imm, a)),
                Type::Bf16 => lanes!(op; u16 = |a: u16| one::<Bf16>(op.imm, a)),
                Type::F16x2 => lanes!(op; u32 = |a: u32| half::both1(a, |a| one::<F16>(op.imm, a))),
                Type::Bf16x2 => lanes!(op; u32 = |a: u32| half::both1(a, |a| one::<Bf16>(op.imm, a))),
                _ => return None,
            };
            let mode = Mode::of(modifiers);
            let flushes = matches!(modifiers.ty(0)?, Type::F16 | Type::F16x2);
            Some(Pick::with(run, if flushes { mode.0 } else { 0 }))
        }
    )*};
}

one_operand! {
    /// `abs`
    abs: |imm, H, a| result::<H>(Mode(imm), half::abs::<H>(operand(Mode(imm), a)));
    /// `neg`
    neg: |imm, H, a| result::<H>(Mode(imm), half::neg::<H>(operand(Mode(imm), a)));
    /// `ex2.approx`
    ex2: |imm, H, a| result::<H>(Mode(imm), approx::ex2_half::<H>(operand(Mode(imm), a)));
    /// `tanh.approx`
    tanh: |imm, H, a| result::<H>(Mode(imm), approx::tanh_half::<H>(a));
}
