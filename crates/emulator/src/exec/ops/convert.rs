//! `cvt`.

use super::mode::Mode;
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::{Cx, Flow, Frame, Handler, Op, Step};
use crate::numeric::convert::{self, Int};
use crate::numeric::half::{self, Bf16, F16, Half};
use crate::numeric::{Rounding, float, narrow};

/// The integer type that an expression is to be built with.
macro_rules! with_int {
    ($ty:expr, $body:ident $(, $more:tt)*) => {
        match $ty {
            Type::U8 => $body!(u8 $(, $more)*),
            Type::S8 => $body!(i8 $(, $more)*),
            Type::U16 => $body!(u16 $(, $more)*),
            Type::S16 => $body!(i16 $(, $more)*),
            Type::U32 => $body!(u32 $(, $more)*),
            Type::S32 => $body!(i32 $(, $more)*),
            Type::U64 => $body!(u64 $(, $more)*),
            Type::S64 => $body!(i64 $(, $more)*),
            _ => return None,
        }
    };
}

macro_rules! wrapped {
    ($from:ty, $to:ty) => {
        lanes!($to = |a: $from| a as $to)
    };
}

macro_rules! clamped {
    ($from:ty, $to:ty) => {
        lanes!($to = |a: $from| i128::from(a).clamp(<$to>::MIN.into(), <$to>::MAX.into()) as $to)
    };
}

macro_rules! to_each {
    ($from:ty, $to:expr, $how:ident) => {
        match $to {
            Type::U8 => $how!($from, u8),
            Type::S8 => $how!($from, i8),
            Type::U16 => $how!($from, u16),
            Type::S16 => $how!($from, i16),
            Type::U32 => $how!($from, u32),
            Type::S32 => $how!($from, i32),
            Type::U64 => $how!($from, u64),
            Type::S64 => $how!($from, i64),
            _ => return None,
        }
    };
}

/// Whether every value of one integer type is one of another.
fn holds(to: Type, from: Type) -> bool {
    match (to.is_signed(), from.is_signed()) {
        (true, false) => to.bits() > from.bits(),
        (false, true) => false,
        _ => to.bits() >= from.bits(),
    }
}

/// From integer to integer.
pub fn int_to_int(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let (to, from) = (modifiers.ty(0)?, modifiers.ty(1)?);
    if modifiers.has("sat") && holds(to, from) {
        return None;
    }
    macro_rules! wrap {
        ($from:ty) => {
            to_each!($from, to, wrapped)
        };
    }
    macro_rules! clamp {
        ($from:ty) => {
            to_each!($from, to, clamped)
        };
    }
    Some(
        match modifiers.has("sat") {
            false => with_int!(from, wrap),
            true => with_int!(from, clamp),
        }
        .into(),
    )
}

/// From integer to floating point.
pub fn int_to_float(modifiers: &Modifiers<'_>) -> Option<Pick> {
    if !is_legal(modifiers, modifiers.ty(0)?, modifiers.ty(1)?) {
        return None;
    }
    macro_rules! to_f32 {
        ($from:ty) => {
            lanes!(f32 = |a: $from| convert::int_to_f32(a.into(), Rounding::NearestEven))
        };
    }
    macro_rules! to_f64 {
        ($from:ty) => {
            lanes!(f64 = |a: $from| convert::int_to_f64(a.into(), Rounding::NearestEven))
        };
    }
    macro_rules! rounded_f32 {
        ($from:ty) => {
            lanes!(op; f32 = |a: $from| {
                Mode(op.imm).result(convert::int_to_f32(a.into(), Mode(op.imm).rounding()))
            })
        };
    }
    macro_rules! rounded_f64 {
        ($from:ty) => {
            lanes!(op; f64 = |a: $from| {
                Mode(op.imm).result_f64(convert::int_to_f64(a.into(), Mode(op.imm).rounding()))
            })
        };
    }
    macro_rules! rounded_half {
        ($from:ty, $format:ty) => {
            lanes!(op; u16 = |a: $from| {
                finish_half::<$format>(Mode(op.imm), convert::int_to_half::<$format>(a.into(), Mode(op.imm).rounding()))
            })
        };
    }
    let mode = Mode::of(modifiers);
    let from = modifiers.ty(1)?;
    let run = match (modifiers.ty(0)?, mode.is_plain()) {
        (Type::F32, true) => with_int!(from, to_f32),
        (Type::F64, true) => with_int!(from, to_f64),
        (Type::F32, false) => with_int!(from, rounded_f32),
        (Type::F64, false) => with_int!(from, rounded_f64),
        (Type::F16, _) => with_int!(from, rounded_half, F16),
        (Type::Bf16, _) => with_int!(from, rounded_half, Bf16),
        _ => return None,
    };
    Some(Pick::with(run, mode.0))
}

/// Whether the modifiers belong to a conversion of these types: `.ftz` needs an f32 among them, and
/// bf16 knows no `.sat`.
fn is_legal(modifiers: &Modifiers<'_>, to: Type, from: Type) -> bool {
    let has = |ty: Type| to == ty || from == ty;
    (!modifiers.has("ftz") || has(Type::F32)) && !(has(Type::Bf16) && modifiers.has("sat"))
}

fn finish_half<H: Half>(mode: Mode, bits: u16) -> u16 {
    let bits = if mode.saturate() { half::sat::<H>(bits) } else { bits };
    let bits = if mode.finite() { half::finite::<H>(bits) } else { bits };
    if mode.relu() { half::relu::<H>(bits) } else { bits }
}

/// Width and sign of an integer type of the host.
macro_rules! int {
    ($ty:ty) => {
        Int { bits: <$ty>::BITS, signed: <$ty>::MIN != 0 }
    };
}

/// From floating point to integer: what does not fit becomes the nearest that does.
pub fn float_to_int(modifiers: &Modifiers<'_>) -> Option<Pick> {
    macro_rules! from_f32 {
        ($to:ty) => {
            lanes!(op; $to = |a: f32| {
                convert::f32_to_int(Mode(op.imm).operand(a), int!($to), Mode(op.imm).rounding()) as $to
            })
        };
    }
    macro_rules! from_f64 {
        ($to:ty) => {
            lanes!(op; $to = |a: f64| convert::f64_to_int(a, int!($to), Mode(op.imm).rounding()) as $to)
        };
    }
    macro_rules! from_half {
        ($to:ty, $format:ty) => {
            lanes!(op; $to = |a: u16| {
                convert::f32_to_int(<$format>::widen(a), int!($to), Mode(op.imm).rounding()) as $to
            })
        };
    }
    let to = modifiers.ty(0)?;
    if !is_legal(modifiers, to, modifiers.ty(1)?) {
        return None;
    }
    let run = match modifiers.ty(1)? {
        Type::F32 => with_int!(to, from_f32),
        Type::F64 => with_int!(to, from_f64),
        Type::F16 => with_int!(to, from_half, F16),
        Type::Bf16 => with_int!(to, from_half, Bf16),
        _ => return None,
    };
    Some(Pick::with(run, Mode::of(modifiers).0))
}

/// From floating point to floating point.
pub fn float_to_float(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let mode = Mode::of(modifiers);
    if !is_legal(modifiers, modifiers.ty(0)?, modifiers.ty(1)?) {
        return None;
    }
    let run = match (modifiers.ty(0)?, modifiers.ty(1)?) {
        (Type::F32, Type::F32) => lanes!(op; f32 = |a: f32| f32_to_f32(Mode(op.imm), a)),
        (Type::F64, Type::F64) => lanes!(op; f64 = |a: f64| f64_to_f64(Mode(op.imm), a)),
        (Type::F64, Type::F32) => lanes!(op; f64 = |a: f32| {
            Mode(op.imm).result_f64(convert::f32_to_f64(flushed(Mode(op.imm), a)))
        }),
        (Type::F32, Type::F64) => lanes!(op; f32 = |a: f64| {
            Mode(op.imm).result(convert::f64_to_f32(a, Mode(op.imm).rounding()))
        }),
        (Type::F32, Type::F16) => {
            lanes!(op; f32 = |a: u16| Mode(op.imm).result(convert::f16_to_f32(a)))
        }
        (Type::F32, Type::Bf16) => {
            lanes!(op; f32 = |a: u16| {
                Mode(op.imm).result(flushed(Mode(op.imm), convert::bf16_to_f32(a)))
            })
        }
        (Type::F64, Type::F16) => {
            lanes!(op; f64 = |a: u16| Mode(op.imm).result_f64(convert::half_to_f64::<F16>(a)))
        }
        (Type::F64, Type::Bf16) => {
            lanes!(op; f64 = |a: u16| Mode(op.imm).result_f64(convert::half_to_f64::<Bf16>(a)))
        }
        (Type::F16, Type::F32) => lanes!(op; u16 = |a: f32| narrowed::<F16>(Mode(op.imm), a)),
        (Type::Bf16, Type::F32) => lanes!(op; u16 = |a: f32| narrowed::<Bf16>(Mode(op.imm), a)),
        (Type::F16, Type::F64) => lanes!(op; u16 = |a: f64| {
            finish_half::<F16>(Mode(op.imm), convert::f64_to_half::<F16>(a, Mode(op.imm).rounding()))
        }),
        (Type::Bf16, Type::F64) => lanes!(op; u16 = |a: f64| {
            finish_half::<Bf16>(Mode(op.imm), convert::f64_to_half::<Bf16>(a, Mode(op.imm).rounding()))
        }),
        (Type::Bf16, Type::F16) => {
            lanes!(op; u16 = |a: u16| narrowed::<Bf16>(Mode(op.imm), F16::widen(a)))
        }
        (Type::F16, Type::Bf16) => {
            lanes!(op; u16 = |a: u16| narrowed::<F16>(Mode(op.imm), Bf16::widen(a)))
        }
        (Type::F16, Type::F16) => lanes!(op; u16 = |a: u16| rounded_half::<F16>(Mode(op.imm), a)),
        (Type::Bf16, Type::Bf16) => {
            lanes!(op; u16 = |a: u16| rounded_half::<Bf16>(Mode(op.imm), a))
        }
        _ => return None,
    };
    Some(Pick::with(run, mode.0))
}

fn f32_to_f32(mode: Mode, a: f32) -> f32 {
    let a = flushed(mode, a);
    mode.result(if mode.integral() { convert::round_f32(a, mode.rounding()) } else { a })
}

fn f64_to_f64(mode: Mode, a: f64) -> f64 {
    mode.result_f64(if mode.integral() { convert::round_f64(a, mode.rounding()) } else { a })
}

/// An operand; `.ftz` makes any NaN the one of PTX beside flushing subnormals.
fn flushed(mode: Mode, a: f32) -> f32 {
    if mode.flush() { float::canonical_f32(mode.operand(a)) } else { a }
}

/// `.ftz` shows in no result here: a subnormal f32 is below half of the smallest half, and the device
/// rounds it up or down where the rounding says so.
fn narrowed<H: Half>(mode: Mode, a: f32) -> u16 {
    finish_half::<H>(mode, half::narrow::<H>(a, mode.rounding()))
}

fn rounded_half<H: Half>(mode: Mode, a: u16) -> u16 {
    let value = if mode.integral() {
        convert::round_f32(H::widen(a), mode.rounding())
    } else {
        H::widen(a)
    };
    finish_half::<H>(mode, half::narrow::<H>(value, Rounding::NearestEven))
}

/// Two floats to a pair of halves; the first is the upper.
pub fn pair(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let run = match modifiers.ty(0)? {
        Type::F16x2 => lanes!(op; u32 = |a: f32, b: f32| {
            half::pack(narrowed::<F16>(Mode(op.imm), b), narrowed::<F16>(Mode(op.imm), a))
        }),
        Type::Bf16x2 => lanes!(op; u32 = |a: f32, b: f32| {
            half::pack(narrowed::<Bf16>(Mode(op.imm), b), narrowed::<Bf16>(Mode(op.imm), a))
        }),
        _ => return None,
    };
    Some(Pick::with(run, Mode::of(modifiers).0))
}

/// `cvt.rna.tf32.f32` and its like.
pub fn tf32(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let run = lanes!(op; u32 = |a: f32| {
        let mode = Mode(op.imm);
        let a = if mode.relu() { convert::relu_f32(a) } else { a };
        let bits = convert::f32_to_tf32(a, mode.rounding());
        // The number before infinity has a fraction of ten ones; the device takes one from NaNs as well.
        if mode.finite() && !f32::from_bits(bits).is_finite() { bits - (1 << 13) } else { bits }
    });
    Some(Pick::with(run, Mode::of(modifiers).0))
}

/// Two floats to a pair of bytes; the first is the upper.
pub fn to_byte_pair(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn pack(low: u8, high: u8) -> u16 {
        u16::from_le_bytes([low, high])
    }
    fn relu(imm: u64, a: f32) -> f32 {
        if Mode(imm).relu() { convert::relu_f32(a) } else { a }
    }
    let run = match (modifiers.ty(0)?, modifiers.ty(1)?) {
        (Type::E4m3x2, Type::F32) => lanes!(op; u16 = |a: f32, b: f32| {
            pack(narrow::f32_to_e4m3(relu(op.imm, b)), narrow::f32_to_e4m3(relu(op.imm, a)))
        }),
        (Type::E5m2x2, Type::F32) => lanes!(op; u16 = |a: f32, b: f32| {
            pack(narrow::f32_to_e5m2(relu(op.imm, b)), narrow::f32_to_e5m2(relu(op.imm, a)))
        }),
        (Type::E4m3x2, Type::F16x2) => lanes!(op; u16 = |a: u32| {
            let value = |bits: u32| relu(op.imm, F16::widen(bits as u16));
            pack(narrow::f32_to_e4m3(value(a)), narrow::f32_to_e4m3(value(a >> 16)))
        }),
        (Type::E5m2x2, Type::F16x2) => lanes!(op; u16 = |a: u32| {
            let value = |bits: u32| relu(op.imm, F16::widen(bits as u16));
            pack(narrow::f32_to_e5m2(value(a)), narrow::f32_to_e5m2(value(a >> 16)))
        }),
        _ => return None,
    };
    Some(Pick::with(run, Mode::of(modifiers).0))
}

/// A pair of bytes to a pair of halves.
pub fn from_byte_pair(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn finish(imm: u64, low: u16, high: u16) -> u32 {
        half::pack(finish_half::<F16>(Mode(imm), low), finish_half::<F16>(Mode(imm), high))
    }
    let run = match modifiers.ty(1)? {
        Type::E4m3x2 => lanes!(op; u32 = |a: u16| {
            let [low, high] = a.to_le_bytes();
            finish(op.imm, narrow::e4m3_to_f16(low), narrow::e4m3_to_f16(high))
        }),
        Type::E5m2x2 => lanes!(op; u32 = |a: u16| {
            let [low, high] = a.to_le_bytes();
            finish(op.imm, narrow::e5m2_to_f16(low), narrow::e5m2_to_f16(high))
        }),
        _ => return None,
    };
    Some(Pick::with(run, Mode::of(modifiers).0))
}

/// `cvt.pack` to halves: the first operand is the upper.
pub fn pack_halves(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)? {
        Type::U16 => lanes!(
            u32 = |a: i32, b: i32| {
                half::pack(b.clamp(0, 0xffff) as u16, a.clamp(0, 0xffff) as u16)
            }
        ),
        _ => lanes!(
            u32 = |a: i32, b: i32| {
                half::pack(b.clamp(-0x8000, 0x7fff) as u16, a.clamp(-0x8000, 0x7fff) as u16)
            }
        ),
    }))
}

/// `cvt.pack` to less than halves: the results are below what the third operand holds.
pub fn pack_small(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let (width, signed) = modifiers.words().find_map(|word| match word {
        "u8" => Some((8, false)),
        "s8" => Some((8, true)),
        "u4" => Some((4, false)),
        "s4" => Some((4, true)),
        "u2" => Some((2, false)),
        "s2" => Some((2, true)),
        _ => None,
    })?;
    let run = lanes!(op; u32 = |a: i32, b: i32, c: u32| {
        let (width, signed) = (op.imm as u32 & 15, op.imm >> 4 != 0);
        let (least, most) = match signed {
            true => (-1 << (width - 1), (1 << (width - 1)) - 1),
            false => (0, (1 << width) - 1),
        };
        let field = |value: i32| value.clamp(least, most) as u32 & ((1 << width) - 1);
        c << (2 * width) | field(a) << width | field(b)
    });
    Some(Pick::with(run, width | u64::from(signed) << 4))
}
